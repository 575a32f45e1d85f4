//! The decision tables of binding and of ownership, row by row.

use super::*;

fn bind(rows: &[Row], arrival: &Arrival<'_>) -> Binding {
    super::bind(rows, Seen::over(rows, arrival.content, 0), arrival)
}

fn row(n: u32, state: State, outcome: Option<Outcome>, epoch: i64) -> Row {
    Row {
        n,
        state,
        outcome,
        run_id: None,
        epoch: Epoch(epoch),
        is_first_delivery: true,
        content: "c".into(),
        replays: 0,
        settled_before_end_ms: None,
    }
}

fn settled(n: u32, before_end_ms: Option<i64>) -> Row {
    Row { settled_before_end_ms: before_end_ms, ..row(n, State::Settled, Some(Outcome::Started), 1) }
}

fn arrival(redelivered: bool, key_kind: KeyKind) -> Arrival<'static> {
    Arrival { redelivered, refused_times: None, epoch: Epoch(2), key_kind, content: "c" }
}

fn new(n: u32) -> Binding {
    Binding::New { n, id_collision: false }
}

#[test]
fn a_first_delivery_gets_a_row_of_its_own_whatever_is_there() {
    use State::*;
    for kind in [KeyKind::MessageId, KeyKind::Fingerprint] {
        assert_eq!(bind(&[], &arrival(false, kind)), new(1));
        for state in [Received, Sent, Decided, VerbSent, Settled] {
            assert_eq!(bind(&[row(1, state, None, 1)], &arrival(false, kind)), new(2));
        }
    }
}

#[test]
fn a_redelivery_takes_up_the_row_where_it_was_left() {
    use State::*;
    let started = Some(Outcome::Started);
    let again = Binding::SettleAgain { n: 1, outcome: Outcome::Started };
    for (state, outcome, want) in [
        (Received, None, Binding::Start { n: 1 }),
        (Sent, None, Binding::LookUp { n: 1 }),
        (Decided, started, again.clone()),
        (VerbSent, started, again),
        (VerbSent, Some(Outcome::Dlq), Binding::SettleAgain { n: 1, outcome: Outcome::Dlq }),
        (Settled, started, new(2)),
    ] {
        assert_eq!(bind(&[row(1, state, outcome, 1)], &arrival(true, KeyKind::Fingerprint)), want, "{state:?}");
    }
}

#[test]
fn a_redelivery_prefers_what_is_least_done() {
    use State::*;
    let done = Some(Outcome::Started);
    let mut rows =
        vec![row(1, VerbSent, done, 1), row(2, Decided, done, 1), row(3, Sent, None, 1), row(4, Received, None, 1)];
    for want in [4, 3, 2] {
        let got = bind(&rows, &arrival(true, KeyKind::Fingerprint));
        let n = match got {
            Binding::New { n, .. }
            | Binding::Start { n }
            | Binding::LookUp { n }
            | Binding::Replay { n }
            | Binding::SettleAgain { n, .. } => n,
        };
        assert_eq!(n, want);
        rows.retain(|row| row.n != want);
    }
}

#[test]
fn a_verb_that_was_sent_is_not_taken_up_where_twins_are_known() {
    let done = Some(Outcome::Started);
    let sent = row(1, State::VerbSent, done, 1);
    let again = Binding::SettleAgain { n: 1, outcome: Outcome::Started };
    let double = Row { is_first_delivery: false, ..row(2, State::Settled, done, 1) };
    let twin = row(2, State::Settled, done, 1);
    for (rows, kind, want) in [
        (vec![sent.clone()], KeyKind::Fingerprint, again.clone()),
        (vec![sent.clone(), double], KeyKind::Fingerprint, again.clone()),
        (vec![sent.clone(), twin.clone()], KeyKind::Fingerprint, new(3)),
        (vec![sent, twin], KeyKind::MessageId, again),
    ] {
        assert_eq!(bind(&rows, &arrival(true, kind)), want);
    }
}

#[test]
fn a_row_held_in_this_epoch_is_not_taken_twice() {
    let held = row(1, State::Sent, None, 2);
    assert_eq!(bind(&[held], &arrival(true, KeyKind::Fingerprint)), new(2));
    let released = row(1, State::Sent, None, RELEASED.0);
    assert_eq!(bind(&[released], &arrival(true, KeyKind::Fingerprint)), Binding::LookUp { n: 1 });
}

#[test]
fn a_broker_killed_just_after_the_settlement_is_not_believed() {
    let again = Binding::SettleAgain { n: 1, outcome: Outcome::Started };
    for (before_end, kind, want) in [
        (Some(4_999), KeyKind::MessageId, again),
        (Some(5_000), KeyKind::MessageId, new(2)),
        (None, KeyKind::MessageId, new(2)),
        (Some(1), KeyKind::Fingerprint, new(2)),
    ] {
        assert_eq!(bind(&[settled(1, before_end)], &arrival(true, kind)), want);
    }
}

#[test]
fn another_content_under_one_message_id_is_told() {
    let other = Arrival { content: "d", ..arrival(false, KeyKind::MessageId) };
    assert_eq!(bind(&[settled(1, None)], &other), Binding::New { n: 2, id_collision: true });
    let fingerprint = Arrival { key_kind: KeyKind::Fingerprint, ..other };
    assert_eq!(bind(&[settled(1, None)], &fingerprint), new(2));
}

#[test]
fn ownership_of_a_run_that_is_already_there() {
    use ConfOrigin::*;
    use KeyKind::*;
    for (sent_before, redelivered, key_kind, conf, want) in [
        (false, false, MessageId, Same, Owner::Ours),
        (false, false, MessageId, Silent, Owner::Other),
        (true, false, MessageId, Silent, Owner::Ours),
        (false, true, MessageId, Silent, Owner::Ours),
        (true, true, MessageId, Different, Owner::Other),
        (false, false, Fingerprint, Same, Owner::Other),
        (true, false, Fingerprint, Same, Owner::Ours),
        (false, true, Fingerprint, Same, Owner::Other),
        (true, true, Fingerprint, Same, Owner::Ours),
        (false, true, Fingerprint, Silent, Owner::Other),
        (true, true, Fingerprint, Different, Owner::Other),
        (false, false, Fingerprint, Silent, Owner::Other),
    ] {
        let clash = Clash { sent_before, redelivered, key_kind, conf };
        assert_eq!(owner(clash), want, "{clash:?}");
    }
}

#[test]
fn a_fingerprint_that_others_counted_goes_on_from_the_time() {
    assert_eq!(number_after_clash(1, KeyKind::MessageId, 1_700_000_000_999), 2);
    assert_eq!(number_after_clash(1, KeyKind::Fingerprint, 1_700_000_000_999), 1_700_000_000);
    assert_eq!(number_after_clash(1_700_000_000, KeyKind::Fingerprint, 1_700_000_000_999), 1_700_000_001);
    assert_eq!(number_after_clash(7, KeyKind::Fingerprint, -1), 8, "a clock before 1970");
}

#[test]
fn names_of_states_read_back() {
    use State::*;
    for state in [Received, Sent, Decided, VerbSent, Settled] {
        for outcome in [Outcome::Started, Outcome::Duplicate, Outcome::Dropped, Outcome::Dlq] {
            assert_eq!(state_from_code(state_code(state, Some(outcome))), Some(state));
            assert_eq!(Outcome::from_code(outcome.code()), Some(outcome));
        }
    }
    assert_eq!(state_from_code("nonsense"), None);
}

#[test]
fn a_refused_message_that_was_put_back_takes_up_its_row() {
    use State::*;
    let dlq = |n, state, replays| Row { replays, ..row(n, state, Some(Outcome::Dlq), 1) };
    let started = |n, state| row(n, state, Some(Outcome::Started), 1);
    let back =
        |redelivered, times| Arrival { refused_times: Some(times), ..arrival(redelivered, KeyKind::Fingerprint) };
    let replay = |n| Binding::Replay { n };
    let again = |outcome| Binding::SettleAgain { n: 1, outcome };
    for (rows, arrival, want) in [
        (vec![dlq(1, Settled, 0)], back(false, 1), replay(1)),
        (vec![dlq(1, VerbSent, 0)], back(false, 1), replay(1)),
        (vec![Row { epoch: Epoch(2), ..dlq(1, VerbSent, 0) }], back(false, 1), new(2)),
        (vec![dlq(1, Settled, 3)], back(false, 1), replay(1)),
        (vec![dlq(1, Settled, 0)], arrival(false, KeyKind::MessageId), new(2)),
        (vec![dlq(1, Settled, 0)], back(true, 1), replay(1)),
        // Its second rejection did not arrive: the broker counts one.
        (vec![dlq(1, VerbSent, 1)], back(true, 1), again(Outcome::Dlq)),
        (vec![dlq(1, VerbSent, 1)], back(true, 2), replay(1)),
        (vec![Row { replays: 1, ..row(1, Sent, None, 1) }], back(true, 1), Binding::LookUp { n: 1 }),
        // Of a twin, which comes back itself.
        (vec![row(1, Sent, None, 1), dlq(2, Settled, 0)], back(false, 1), replay(2)),
        (vec![started(1, Settled)], back(false, 1), new(2)),
    ] {
        assert_eq!(bind(&rows, &arrival), want, "{rows:?}");
    }
    assert_eq!(started_before(&[started(1, Settled)]), Some(again(Outcome::Started)));
    assert_eq!(started_before(&[started(1, VerbSent), dlq(2, Settled, 0)]), Some(again(Outcome::Started)));
    assert_eq!(started_before(&[row(1, Sent, None, 1)]), None);
}

#[test]
fn numbers_of_removed_rows_are_not_given_out_again() {
    let seen = Seen::over(&[settled(1, None)], "c", 4);
    assert_eq!(super::bind(&[], seen, &arrival(false, KeyKind::Fingerprint)), new(5));
    assert_eq!(super::bind(&[], Seen::over(&[], "c", 0), &arrival(true, KeyKind::Fingerprint)), new(1));
}
