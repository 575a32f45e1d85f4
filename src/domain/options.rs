//! What a subscription may be told besides its queue: typed, with one default each, and one JSON form for the state file.
//!
//! A value that cannot be read never becomes a default here: it refuses the subscription before there are options
//! ([`super::declare`]).

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The options of one subscription. Fields at their default are left out of the JSON form.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Options {
    /// The filter as it is written; `None` matches every message.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub filter_data: Option<Value>,
    /// Acknowledge, and so drop, what the filter rejects.
    #[serde(skip_serializing_if = "is_default")]
    pub ack_unmatched: bool,
    /// Seconds between two runs; 0: every message starts one.
    #[serde(skip_serializing_if = "is_default")]
    pub cooldown: u32,
    /// The exchange whose messages reach the subscription's own queue.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exchange: Option<Exchange>,
    /// Runs of this subscription that may be under way at once, 1–16; `None`: no bound of ours.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_concurrent_runs: Option<u8>,
    /// What becomes of messages for a paused DAG.
    #[serde(skip_serializing_if = "is_default")]
    pub on_paused: OnPaused,
    /// What becomes of messages for a DAG that Airflow does not have.
    #[serde(skip_serializing_if = "is_default")]
    pub on_missing: OnMissing,
    /// What becomes of a message that the filter cannot read.
    #[serde(skip_serializing_if = "is_default")]
    pub on_unreadable: OnUnreadable,
    /// What becomes of a message whose delivery budget runs out.
    #[serde(skip_serializing_if = "is_default")]
    pub on_budget: OnBudget,
    /// What two different messages with one message id are.
    #[serde(skip_serializing_if = "is_default")]
    pub on_id_collision: OnIdCollision,
    /// Where the key that makes a message the same is found: `message_id`, `header:NAME` or `body:PATH`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dedup_key: Option<String>,
    /// Whether the run comes at the beginning or at the end of a window.
    #[serde(skip_serializing_if = "is_default")]
    pub cooldown_edge: CooldownEdge,
    /// Where the key that gives a message a window of its own is found, as in `dedup_key`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cooldown_key: Option<String>,
    /// Seconds a delivery may stay unsettled, in place of `consume.ack_deadline_secs`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ack_deadline_override: Option<u32>,
    /// Fixed inputs that are handed to the run, a JSON object.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub inputs: Option<Value>,
    /// When a delivery is acknowledged.
    #[serde(skip_serializing_if = "is_default")]
    pub ack_on: AckOn,
}

/// A topic exchange and the routing keys that are bound, without repetition, in the order written.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Exchange {
    /// Its name.
    pub name: String,
    /// At least one.
    pub routing_keys: Vec<String>,
}

macro_rules! choice {
    ($(#[$about:meta])* $name:ident { $($(#[$says:meta])* $variant:ident = $code:literal),+ $(,)? }) => {
        $(#[$about])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
        pub enum $name {
            $($(#[$says])* #[serde(rename = $code)] $variant),+
        }

        impl $name {
            /// Every name there is, the default first.
            pub const CODES: &'static [&'static str] = &[$($code),+];

            /// The value of that name.
            pub fn parse(code: &str) -> Option<Self> {
                match code {
                    $($code => Some(Self::$variant),)+
                    _ => None,
                }
            }

            /// The stable name.
            pub fn code(self) -> &'static str {
                match self {
                    $(Self::$variant => $code),+
                }
            }
        }
    };
}

choice!(
    /// What becomes of messages for a paused DAG.
    OnPaused {
        /// Acknowledged without a run, with a WARNING; only once the DAG was seen unpaused.
        #[default]
        Drop = "drop",
        /// They wait in their queue.
        Hold = "hold",
        /// The run is made and Airflow starts it when the DAG is unpaused.
        Run = "run",
    }
);
choice!(
    /// What becomes of messages for a DAG that Airflow does not have.
    OnMissing {
        /// They wait in their queue.
        #[default]
        Hold = "hold",
        /// Acknowledged without a run after ten minutes, recorded as a configuration error.
        Ack = "ack",
    }
);
choice!(
    /// What becomes of a message that the filter cannot read.
    OnUnreadable {
        /// Given back after a growing pause.
        #[default]
        Return = "return",
        /// Dead-lettered.
        DeadLetter = "dead_letter",
    }
);
choice!(
    /// What becomes of a message whose delivery budget runs out.
    OnBudget {
        /// A copy goes to the same queue, and the original is acknowledged.
        #[default]
        Copy = "copy",
        /// It is kept and given back once, at the deadline.
        Hold = "hold",
        /// Dead-lettered.
        DeadLetter = "dead_letter",
    }
);
choice!(
    /// What two different messages with one message id are.
    OnIdCollision {
        /// One message: the second is a duplicate, with a WARNING.
        #[default]
        Merge = "merge",
        /// Two messages: the second run id gets a digest.
        Run = "run",
    }
);
choice!(
    /// When the run of a window comes.
    CooldownEdge {
        /// At its end.
        #[default]
        Trailing = "trailing",
        /// At its beginning.
        Leading = "leading",
    }
);
choice!(
    /// When a delivery is acknowledged.
    AckOn {
        /// Once the run was started.
        #[default]
        Started = "started",
        /// Once the run has ended.
        Finished = "finished",
    }
);

impl Options {
    /// The first option that is set and that this version cannot act on: such a subscription must not run.
    pub fn not_handled(&self) -> Option<&'static str> {
        let default = Self::default();
        let set = [
            ("cooldown", self.cooldown != 0),
            ("exchange", self.exchange.is_some()),
            ("cooldown_edge", self.cooldown_edge != default.cooldown_edge),
            ("cooldown_key", self.cooldown_key.is_some()),
            ("inputs", self.inputs.is_some()),
            ("ack_on", self.ack_on != default.ack_on),
        ];
        set.iter().find(|(_, is_set)| *is_set).map(|(name, _)| *name)
    }
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_set_leaves_no_trace_in_the_json_form() {
        assert_eq!(serde_json::to_string(&Options::default()).unwrap(), "{}");
        let options = Options {
            filter_data: Some(serde_json::json!({"filter_headers": {"a": 1}})),
            on_paused: OnPaused::Hold,
            exchange: Some(Exchange { name: "e".into(), routing_keys: vec!["a.b".into()] }),
            ..Options::default()
        };
        let json = serde_json::to_string(&options).unwrap();
        assert_eq!(
            json,
            r#"{"filter_data":{"filter_headers":{"a":1}},"exchange":{"name":"e","routing_keys":["a.b"]},"on_paused":"hold"}"#
        );
        assert_eq!(serde_json::from_str::<Options>(&json).unwrap(), options);
    }

    #[test]
    fn choices_have_the_names_that_are_written() {
        assert_eq!(OnPaused::CODES, ["drop", "hold", "run"]);
        assert_eq!(OnPaused::parse("run"), Some(OnPaused::Run));
        assert_eq!(OnMissing::parse("run"), None);
        assert_eq!(OnBudget::default().code(), "copy");
    }

    #[test]
    fn what_this_version_cannot_act_on_is_named() {
        assert_eq!(Options { on_paused: OnPaused::Run, ..Options::default() }.not_handled(), None);
        assert_eq!(Options { cooldown: 5, ..Options::default() }.not_handled(), Some("cooldown"));
    }
}
