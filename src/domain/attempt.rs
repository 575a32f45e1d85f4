//! One row's way from "asked for nothing" to an outcome: which request comes next, given the answers so far.
//!
//! Pure: [`Attempt::step`] takes an input and returns the next command. The pipeline carries commands out.
//!
//! Invariants (tests below): a run is asked for again only after a look-up said it is absent, or after an answer that
//! proves nothing was started; nothing ends as [`Outcome::Dlq`] while its target is failing; every answer leads somewhere.

use std::time::Duration;

use serde_json::Value;

use super::envelope::Envelope;
use super::fields::without_nul;
use super::key::{DeliveryKey, KeyKind};
use super::ledger::{Clash, ConfOrigin, Outcome, Owner, owner};
use super::outcome::{RunLookup, TriggerAnswer};
use super::payload::DEDUP_KEY;
use super::settlement::Progress;

/// What the attempt asks of the pipeline.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Command {
    /// Ask for the run.
    Trigger,
    /// Look the run up by its id.
    LookUp,
    /// Take the next number: a new run id, recorded before it is asked for; then [`Input::Begin`] again.
    TakeNextNumber,
    /// Hold the delivery, then [`Input::Begin`] again.
    Hold(Hold),
    /// Done.
    Finish {
        /// How it ended.
        outcome: Outcome,
        /// Why, for people; empty where the outcome says it all.
        reason: String,
    },
}

/// Why and how a delivery is held.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Hold {
    /// What kind of trouble.
    pub trouble: Trouble,
    /// One sentence.
    pub reason: String,
    /// Airflow's own wish (`Retry-After`); the pause is never shorter.
    pub at_least: Option<Duration>,
    /// How often this delivery was held, this time included: the exponent of the pause.
    pub tries: u32,
}

/// What stands in the way of a held delivery.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Trouble {
    /// Airflow does not answer, or not usefully.
    Unavailable,
    /// Our access is refused, or something that is not Airflow answers.
    Access,
    /// The DAG cannot take runs now.
    Target,
    /// The target refused message after message: held rather than dead-lettered.
    Failing,
    /// The state file cannot be written.
    Store,
}

impl Trouble {
    /// The stable name in log fields and rows.
    pub fn code(self) -> &'static str {
        match self {
            Self::Unavailable => "airflow_unavailable",
            Self::Access => "airflow_access",
            Self::Target => "target_fault",
            Self::Failing => "target_failing",
            Self::Store => "state_file",
        }
    }
}

/// What happened since the last command.
#[derive(Clone, Debug, PartialEq)]
pub enum Input {
    /// Go: the first step, and the step after a hold or after a new number.
    Begin,
    /// The answer to [`Command::Trigger`].
    Answer(TriggerAnswer),
    /// In place of an answer: the message cannot be made into a run, whatever its target says of other messages.
    Unfit(String),
    /// In place of an answer: nothing can be asked for now, and the target has no part in that.
    NotNow(String),
    /// The answer to [`Command::LookUp`], with what the found run's conf says of its origin.
    LookedUp(RunLookup, ConfOrigin),
}

/// What is known of the target from its other messages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TargetView {
    /// Five or more different messages were refused in a row without a success between them.
    pub is_failing: bool,
    /// At least 95 % of at least twenty others of this target passed lately: this message alone fails.
    pub others_pass: bool,
}

/// The state of one row's attempt.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Attempt {
    key_kind: KeyKind,
    redelivered: bool,
    sent_before: bool,
    must_look_up: bool,
    tries: u32,
    server_errors: u32,
    first_server_error_ms: Option<i64>,
    /// This attempt's own request may be under way still: an absent run proves nothing yet.
    in_doubt: Option<String>,
    /// Airflow fails on this message alone: dead-lettered unless a look-up finds the run.
    suspect: Option<String>,
}

/// So many server errors over so long make a message suspect (see [`TargetView::others_pass`]).
pub const SUSPECT_TRIES: u32 = 8;
/// See [`SUSPECT_TRIES`].
pub const SUSPECT_FOR_MS: i64 = 600_000;

impl Attempt {
    /// An attempt for a new row, or for one that nothing was asked for yet.
    pub fn fresh(key_kind: KeyKind, redelivered: bool) -> Self {
        Self {
            key_kind,
            redelivered,
            sent_before: false,
            must_look_up: false,
            tries: 0,
            server_errors: 0,
            first_server_error_ms: None,
            in_doubt: None,
            suspect: None,
        }
    }

    /// An attempt for a row whose request may have been carried out already.
    pub fn resumed(key_kind: KeyKind, redelivered: bool) -> Self {
        Self { sent_before: true, must_look_up: true, ..Self::fresh(key_kind, redelivered) }
    }

    /// An attempt for a copy whose row nothing was asked for yet, as far as this watcher knows: a run that is there under its id is its
    /// own, since another watcher may have had the copy.
    pub fn of_copy(key_kind: KeyKind) -> Self {
        Self { sent_before: true, ..Self::fresh(key_kind, true) }
    }

    /// How far the match behind it is, as long as it has not finished.
    pub fn progress(&self) -> Progress {
        if self.must_look_up { Progress::InDoubt } else { Progress::Unsent }
    }

    /// The next command. `now_ms`: the wall clock in milliseconds.
    pub fn step(&mut self, input: Input, target: TargetView, now_ms: i64) -> Command {
        match input {
            Input::Begin if self.must_look_up => Command::LookUp,
            Input::Begin => Command::Trigger,
            Input::Answer(answer) => self.answered(answer, target, now_ms),
            Input::Unfit(reason) => finish(Outcome::Dlq, reason),
            Input::NotNow(reason) => self.hold(Trouble::Store, reason, None),
            Input::LookedUp(lookup, conf) => self.looked_up(lookup, conf),
        }
    }

    fn answered(&mut self, answer: TriggerAnswer, target: TargetView, now_ms: i64) -> Command {
        match answer {
            TriggerAnswer::Created => finish(Outcome::Started, ""),
            TriggerAnswer::Conflict(_) => Command::LookUp,
            TriggerAnswer::Ambiguous(reason) => {
                self.sent_before = true;
                self.must_look_up = true;
                self.in_doubt = Some(reason);
                Command::LookUp
            }
            TriggerAnswer::Refused(reason) if target.is_failing => self.hold(Trouble::Failing, reason, None),
            TriggerAnswer::Refused(reason) => finish(Outcome::Dlq, reason),
            TriggerAnswer::TargetFault(reason) => self.hold(Trouble::Target, reason, None),
            TriggerAnswer::AccessFault(reason) => self.hold(Trouble::Access, reason, None),
            TriggerAnswer::Unavailable { reason, retry_after, server_error } => {
                if server_error {
                    // A failing server may have created the run before it failed.
                    self.sent_before = true;
                    self.must_look_up = true;
                    if self.is_suspect(target, now_ms) {
                        self.suspect = Some(format!("Airflow failed on this message alone: {reason}"));
                        return Command::LookUp;
                    }
                }
                self.hold(Trouble::Unavailable, reason, retry_after)
            }
        }
    }

    fn looked_up(&mut self, lookup: RunLookup, conf: ConfOrigin) -> Command {
        match lookup {
            RunLookup::Found(_) => {
                let (sent_before, redelivered, key_kind) = (self.sent_before, self.redelivered, self.key_kind);
                match owner(Clash { sent_before, redelivered, key_kind, conf }) {
                    Owner::Ours if sent_before => finish(Outcome::Started, "found after the answer was lost"),
                    Owner::Ours => finish(Outcome::Duplicate, "the run was there already"),
                    Owner::Other => {
                        self.sent_before = false;
                        self.must_look_up = false;
                        Command::TakeNextNumber
                    }
                }
            }
            RunLookup::Absent if self.must_look_up => {
                self.must_look_up = false;
                if let Some(reason) = self.suspect.take() {
                    return finish(Outcome::Dlq, reason);
                }
                match self.in_doubt.take() {
                    Some(reason) => self.hold(Trouble::Unavailable, reason, None),
                    None => Command::Trigger,
                }
            }
            // The id was refused as taken, yet there is no such run: two runs of one logical date.
            RunLookup::Absent => {
                let reason =
                    "Airflow says the run is there already, but does not find it: another run may have the same \
                              logical date"
                        .to_owned();
                self.hold(Trouble::Unavailable, reason, None)
            }
            RunLookup::Unknown(reason) => {
                self.must_look_up = true;
                self.hold(Trouble::Unavailable, reason, None)
            }
        }
    }

    fn is_suspect(&mut self, target: TargetView, now_ms: i64) -> bool {
        self.server_errors += 1;
        let since = *self.first_server_error_ms.get_or_insert(now_ms);
        target.others_pass && self.server_errors >= SUSPECT_TRIES && now_ms - since >= SUSPECT_FOR_MS
    }

    fn hold(&mut self, trouble: Trouble, reason: String, at_least: Option<Duration>) -> Command {
        self.tries += 1;
        Command::Hold(Hold { trouble, reason, at_least, tries: self.tries })
    }
}

fn finish(outcome: Outcome, reason: impl Into<String>) -> Command {
    Command::Finish { outcome, reason: reason.into() }
}

/// What a found run's conf says of where it came from, compared with the delivery in hand and the key it goes by.
///
/// By a `dedup_key` messages with different ids are one. A conf without that key is of a run that was started by another one,
/// whose text may be the same.
pub fn conf_origin(conf: &Value, envelope: &Envelope, key: &DeliveryKey) -> ConfOrigin {
    let text = |key: &str| conf.get(key).and_then(Value::as_str);
    let Some(queue) = text("queue") else { return ConfOrigin::Silent };
    let message_id = envelope.properties.message_id.as_deref().map(without_nul);
    let other_key = match key.kind() {
        KeyKind::DedupKey => text(DEDUP_KEY) != Some(key.text()),
        // A run of another message, which had the text of our id in its place.
        KeyKind::MessageId | KeyKind::Fingerprint if text(DEDUP_KEY).is_some() => {
            text("message_id") != message_id.as_deref()
        }
        KeyKind::MessageId | KeyKind::Fingerprint => {
            text("message_id").is_some_and(|id| Some(id) != message_id.as_deref())
        }
    };
    let differs = queue != envelope.queue.as_str()
        || text("conn_id").is_some_and(|conn| conn != envelope.conn_id.as_str())
        || other_key;
    if differs { ConfOrigin::Different } else { ConfOrigin::Same }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::domain::envelope::tests_support::envelope;
    use crate::domain::outcome::FoundRun;

    const VIEW: TargetView = TargetView { is_failing: false, others_pass: false };

    fn found() -> RunLookup {
        RunLookup::Found(FoundRun { state: "queued".into(), conf: json!({}) })
    }

    fn unavailable(server_error: bool) -> Input {
        Input::Answer(TriggerAnswer::Unavailable { reason: "503".into(), retry_after: None, server_error })
    }

    fn answer(attempt: &mut Attempt, answer: TriggerAnswer) -> Command {
        attempt.step(Input::Answer(answer), VIEW, 0)
    }

    #[test]
    fn a_message_that_cannot_be_made_into_a_run_ends_whatever_its_target_does() {
        let failing = TargetView { is_failing: true, others_pass: false };
        let mut attempt = Attempt::fresh(KeyKind::MessageId, false);
        assert_eq!(attempt.step(Input::Begin, failing, 0), Command::Trigger);
        let unfit = attempt.step(Input::Unfit("too large".into()), failing, 0);
        assert_eq!(unfit, finish(Outcome::Dlq, "too large"));
    }

    #[test]
    fn the_plain_way_is_one_request() {
        let mut a = Attempt::fresh(KeyKind::MessageId, false);
        assert_eq!(a.step(Input::Begin, VIEW, 0), Command::Trigger);
        assert_eq!(answer(&mut a, TriggerAnswer::Created), finish(Outcome::Started, ""));
    }

    #[test]
    fn a_resumed_row_looks_before_it_asks() {
        let mut a = Attempt::resumed(KeyKind::Fingerprint, true);
        assert_eq!(a.step(Input::Begin, VIEW, 0), Command::LookUp);
        let got = a.step(Input::LookedUp(found(), ConfOrigin::Same), VIEW, 0);
        assert!(matches!(got, Command::Finish { outcome: Outcome::Started, .. }));
        let mut a = Attempt::resumed(KeyKind::Fingerprint, true);
        a.step(Input::Begin, VIEW, 0);
        assert_eq!(a.step(Input::LookedUp(RunLookup::Absent, ConfOrigin::Silent), VIEW, 0), Command::Trigger);
    }

    #[test]
    fn a_lost_answer_is_looked_up_and_asked_again_only_when_absent() {
        let mut a = Attempt::fresh(KeyKind::Fingerprint, false);
        assert_eq!(a.progress(), Progress::Unsent);
        assert_eq!(answer(&mut a, TriggerAnswer::Ambiguous("timeout".into())), Command::LookUp);
        assert_eq!(a.progress(), Progress::InDoubt);
        let unknown = Input::LookedUp(RunLookup::Unknown("503".into()), ConfOrigin::Silent);
        assert!(matches!(a.step(unknown, VIEW, 0), Command::Hold(Hold { tries: 1, .. })));
        assert_eq!(a.step(Input::Begin, VIEW, 0), Command::LookUp, "after the hold it looks again");
        let absent = Input::LookedUp(RunLookup::Absent, ConfOrigin::Silent);
        assert!(matches!(a.step(absent, VIEW, 0), Command::Hold(Hold { tries: 2, .. })), "it may be under way still");
        assert_eq!(a.step(Input::Begin, VIEW, 0), Command::Trigger);
        assert_eq!(answer(&mut a, TriggerAnswer::Conflict(String::new())), Command::LookUp);
        let got = a.step(Input::LookedUp(found(), ConfOrigin::Same), VIEW, 0);
        assert!(matches!(got, Command::Finish { outcome: Outcome::Started, .. }), "ours: it was sent before");
    }

    #[test]
    fn a_conflict_is_a_duplicate_a_twin_or_a_date_clash() {
        let conflict = || TriggerAnswer::Conflict(String::new());
        let mut a = Attempt::fresh(KeyKind::MessageId, false);
        answer(&mut a, conflict());
        let got = a.step(Input::LookedUp(found(), ConfOrigin::Same), VIEW, 0);
        assert!(matches!(got, Command::Finish { outcome: Outcome::Duplicate, .. }));
        let mut a = Attempt::fresh(KeyKind::Fingerprint, false);
        answer(&mut a, conflict());
        assert_eq!(a.step(Input::LookedUp(found(), ConfOrigin::Same), VIEW, 0), Command::TakeNextNumber);
        assert_eq!(a.step(Input::Begin, VIEW, 0), Command::Trigger);
        let mut a = Attempt::fresh(KeyKind::MessageId, false);
        answer(&mut a, conflict());
        let got = a.step(Input::LookedUp(RunLookup::Absent, ConfOrigin::Silent), VIEW, 0);
        assert!(matches!(got, Command::Hold(Hold { trouble: Trouble::Unavailable, .. })));
        assert_eq!(a.step(Input::Begin, VIEW, 0), Command::Trigger, "the date has moved on by then");
    }

    #[test]
    fn a_refusal_is_dead_lettered_unless_the_target_refuses_everything() {
        let refused = || Input::Answer(TriggerAnswer::Refused("bad param".into()));
        let mut a = Attempt::fresh(KeyKind::MessageId, false);
        assert_eq!(a.step(refused(), VIEW, 0), finish(Outcome::Dlq, "bad param"));
        let failing = TargetView { is_failing: true, ..VIEW };
        let mut a = Attempt::fresh(KeyKind::MessageId, false);
        assert!(matches!(a.step(refused(), failing, 0), Command::Hold(Hold { trouble: Trouble::Failing, .. })));
    }

    #[test]
    fn troubles_are_held_with_growing_tries() {
        let mut a = Attempt::fresh(KeyKind::MessageId, false);
        for (n, (given, trouble)) in [
            (TriggerAnswer::AccessFault("403".into()), Trouble::Access),
            (TriggerAnswer::TargetFault("404".into()), Trouble::Target),
        ]
        .into_iter()
        .enumerate()
        {
            let Command::Hold(hold) = answer(&mut a, given) else { panic!("not held") };
            assert_eq!((hold.trouble, hold.tries), (trouble, u32::try_from(n).expect("small") + 1));
            assert_eq!(a.step(Input::Begin, VIEW, 0), Command::Trigger, "nothing was started: ask again");
        }
        a.step(unavailable(true), VIEW, 0);
        assert_eq!(a.step(Input::Begin, VIEW, 0), Command::LookUp, "a failing server may have started it");
        let mut a = Attempt::fresh(KeyKind::MessageId, false);
        a.step(unavailable(false), VIEW, 0);
        assert_eq!(a.step(Input::Begin, VIEW, 0), Command::Trigger);
    }

    #[test]
    fn a_message_that_alone_makes_airflow_fail_is_dead_lettered_at_last() {
        let alone = TargetView { others_pass: true, ..VIEW };
        let mut a = Attempt::fresh(KeyKind::MessageId, false);
        for try_no in 1..SUSPECT_TRIES {
            assert!(matches!(a.step(unavailable(true), alone, i64::from(try_no)), Command::Hold(_)));
        }
        assert!(matches!(a.clone().step(unavailable(true), alone, SUSPECT_FOR_MS), Command::Hold(_)), "too soon");
        assert!(matches!(a.clone().step(unavailable(true), VIEW, SUSPECT_FOR_MS + 1), Command::Hold(_)), "all fail");
        assert_eq!(
            a.step(unavailable(true), alone, SUSPECT_FOR_MS + 1),
            Command::LookUp,
            "the last try may have worked"
        );
        let got = a.clone().step(Input::LookedUp(found(), ConfOrigin::Same), alone, SUSPECT_FOR_MS + 1);
        assert!(matches!(got, Command::Finish { outcome: Outcome::Started, .. }));
        let got = a.step(Input::LookedUp(RunLookup::Absent, ConfOrigin::Silent), alone, SUSPECT_FOR_MS + 1);
        assert!(matches!(got, Command::Finish { outcome: Outcome::Dlq, .. }));
    }

    #[test]
    fn the_conf_of_a_run_tells_whose_it_is() {
        let mut e = envelope("q");
        e.properties.message_id = Some("m".into());
        for (conf, want) in [
            (json!({"queue": "q", "conn_id": "rmq_default", "message_id": "m"}), ConfOrigin::Same),
            (json!({"queue": "q"}), ConfOrigin::Same),
            (json!({"queue": "q2"}), ConfOrigin::Different),
            (json!({"queue": "q", "conn_id": "other"}), ConfOrigin::Different),
            (json!({"queue": "q", "message_id": "m2"}), ConfOrigin::Different),
            (json!({"queue": "q", "message_id": null}), ConfOrigin::Same),
            (json!({}), ConfOrigin::Silent),
            (json!(null), ConfOrigin::Silent),
            (json!({"queue": 5}), ConfOrigin::Silent),
        ] {
            assert_eq!(conf_origin(&conf, &e, &DeliveryKey::of(&e)), want, "{conf}");
        }
        e.properties.message_id = Some("a\0b".into());
        let body = crate::domain::encoding::unpack(None, &e.body, e.body.len()).expect("nothing to unpack");
        let body = crate::domain::payload::Body::Inline(&body);
        let own = crate::domain::payload::immediate_conf(&e, crate::domain::ids::SubscriptionId(1), body);
        let own = Value::Object(own);
        assert_eq!(conf_origin(&own, &e, &DeliveryKey::of(&e)), ConfOrigin::Same, "what we write is what we read");
    }

    #[test]
    fn by_a_dedup_key_messages_of_other_ids_are_one_and_runs_without_it_are_not() {
        let mut e = envelope("q");
        e.properties.message_id = Some("m2".into());
        let key = DeliveryKey::new(KeyKind::DedupKey, "o7");
        for (conf, want) in [
            (json!({"queue": "q", "conn_id": "rmq_default", "message_id": "m1", "dedup_key": "o7"}), ConfOrigin::Same),
            (json!({"queue": "q", "dedup_key": "o8"}), ConfOrigin::Different),
            (json!({"queue": "q", "message_id": "o7"}), ConfOrigin::Different),
            (json!({"queue": "other", "dedup_key": "o7"}), ConfOrigin::Different),
            (json!({"queue": "q", "conn_id": "other", "dedup_key": "o7"}), ConfOrigin::Different),
            (json!({}), ConfOrigin::Silent),
        ] {
            assert_eq!(conf_origin(&conf, &e, &key), want, "{conf}");
        }
    }
}
