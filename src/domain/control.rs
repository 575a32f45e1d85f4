//! What may be asked of a running watcher from beside it, and what it answers: the words of the control socket.
//!
//! One JSON object each; [`crate::control`] carries them. A name that was released stays as it is, since the two sides may be
//! of different versions.

use serde::{Deserialize, Serialize};

use super::ids::SubscriptionId;

/// What is asked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "request", rename_all = "snake_case", deny_unknown_fields)]
pub enum Request {
    /// Whether the control flow is there.
    Ping,
    /// Scan, sync and apply now, without waiting for the interval.
    Wake,
    /// Switch a subscription on or off, and apply it now.
    SetEnabled {
        /// Which.
        id: SubscriptionId,
        /// What it becomes.
        enabled: bool,
    },
}

/// What is answered.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "answer", rename_all = "snake_case")]
pub enum Answer {
    /// To [`Request::Ping`].
    Pong {
        /// The watcher's process.
        pid: u32,
        /// Its version.
        version: String,
    },
    /// It was done, and it is in force.
    Done,
    /// It was not done, and nothing was changed.
    Refused {
        /// A sentence that says what is wrong and what to do.
        sentence: String,
    },
    /// Nobody knows whether it was or will be done: look before it is asked again.
    Unknown {
        /// A sentence that says why.
        sentence: String,
    },
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]
mod tests {
    use super::*;

    #[test]
    fn requests_and_answers_have_the_words_that_are_written() {
        let enable = Request::SetEnabled { id: SubscriptionId(7), enabled: true };
        let requests = [
            (Request::Ping, r#"{"request":"ping"}"#),
            (Request::Wake, r#"{"request":"wake"}"#),
            (enable, r#"{"request":"set_enabled","id":7,"enabled":true}"#),
        ];
        for (request, text) in requests {
            assert_eq!(serde_json::to_string(&request).unwrap(), text);
            assert_eq!(serde_json::from_str::<Request>(text).unwrap(), request);
        }
        let answers = [
            (Answer::Pong { pid: 12, version: "1.0".into() }, r#"{"answer":"pong","pid":12,"version":"1.0"}"#),
            (Answer::Done, r#"{"answer":"done"}"#),
            (Answer::Refused { sentence: "no".into() }, r#"{"answer":"refused","sentence":"no"}"#),
            (Answer::Unknown { sentence: "?".into() }, r#"{"answer":"unknown","sentence":"?"}"#),
        ];
        for (answer, text) in answers {
            assert_eq!(serde_json::to_string(&answer).unwrap(), text);
            assert_eq!(serde_json::from_str::<Answer>(text).unwrap(), answer);
        }
    }

    #[test]
    fn what_is_not_understood_is_no_request() {
        for text in [
            "",
            "{}",
            "[]",
            r#"{"request":"stop"}"#,
            r#"{"request":"set_enabled","id":"7","enabled":true}"#,
            r#"{"request":"set_enabled","id":7}"#,
            r#"{"request":"set_enabled","id":7,"enabled":true,"force":true}"#,
        ] {
            assert!(serde_json::from_str::<Request>(text).is_err(), "{text}");
        }
    }
}
