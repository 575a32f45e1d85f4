//! Every state of a DAG under every option.

use super::super::dag_state::DagRecord;
use super::super::outcome::{FoundDag, Part};
use super::*;

const STATES: [DagState; 6] =
    [DagState::Unknown, DagState::Missing, DagState::Stale, DagState::ImportErrors, DagState::Paused, DagState::Ready];
const PAUSED: [OnPaused; 3] = [OnPaused::Drop, OnPaused::Hold, OnPaused::Run];
const MISSING: [OnMissing; 2] = [OnMissing::Hold, OnMissing::Ack];

fn options(on_paused: OnPaused, on_missing: OnMissing) -> Options {
    Options { on_paused, on_missing, ..Options::default() }
}

fn view(state: DagState, seen_unpaused: bool, missing_for_good: bool) -> DagView {
    DagView { state, seen_unpaused, missing_for_good, failure: None }
}

/// Every option with every view.
fn all() -> impl Iterator<Item = (Options, DagView)> {
    let options = PAUSED.into_iter().flat_map(|paused| MISSING.map(|missing| options(paused, missing)));
    options.flat_map(|options| {
        STATES.into_iter().flat_map(move |state| {
            let options = options.clone();
            [(false, false), (true, false), (false, true), (true, true)]
                .map(move |(seen, good)| (options.clone(), view(state, seen, good && state == DagState::Missing)))
        })
    })
}

fn found(is_paused: bool) -> DagLookup {
    DagLookup::Found(FoundDag { is_paused, is_active: true, has_import_errors: false })
}

#[test]
fn a_gate_is_open_for_ready_dags_and_where_the_options_say_so() {
    for (options, view) in all() {
        let open = gate(&options, &view) == Gate::Open;
        let wanted = match view.state {
            DagState::Ready => true,
            DagState::Paused => match options.on_paused {
                OnPaused::Drop => view.seen_unpaused,
                OnPaused::Hold => false,
                OnPaused::Run => true,
            },
            DagState::Missing => options.on_missing == OnMissing::Ack && view.missing_for_good,
            DagState::Unknown | DagState::Stale | DagState::ImportErrors => false,
        };
        assert_eq!(open, wanted, "{options:?} {view:?}");
    }
}

#[test]
fn a_closed_gate_shows_whether_the_dag_is_waited_for_or_paused() {
    for (options, view) in all() {
        let Gate::Closed(closed) = gate(&options, &view) else { continue };
        let paused = view.state == DagState::Paused;
        assert_eq!(closed.attachment(false) == Attachment::PausedDag, paused, "{view:?}");
        assert_eq!(closed.attachment(false) == Attachment::WaitingForDag, !paused, "{view:?}");
        let said = closed.sentence(&DagId::new("d"), &view);
        assert_eq!(said.is_some(), closed != Closed::NotKnown);
        assert!(said.is_none_or(|said| said.contains("'d'")));
    }
    let view = DagView { failure: Some("503".to_owned()), ..DagView::default() };
    assert!(Closed::NotKnown.sentence(&DagId::new("d"), &view).is_some_and(|said| said.ends_with(": 503")));
}

#[test]
fn a_delivery_is_held_while_the_gate_is_closed_and_never_dropped_unasked() {
    for (options, view) in all() {
        match (gate(&options, &view), deliver(&options, &view)) {
            (Gate::Closed(gate), Deliver::Hold(delivery)) => assert_eq!(gate, delivery),
            (Gate::Open, Deliver::Start) => assert!(
                view.state == DagState::Ready || (view.state == DagState::Paused && options.on_paused == OnPaused::Run)
            ),
            (Gate::Open, Deliver::AskAgain) => assert!(
                view.state == DagState::Missing
                    || (view.state == DagState::Paused && options.on_paused == OnPaused::Drop)
            ),
            other => panic!("{other:?} for {options:?} {view:?}"),
        }
    }
}

#[test]
fn only_an_answer_that_shows_the_state_drops() {
    let answers = [found(true), found(false), DagLookup::Absent, DagLookup::Unknown("503".to_owned())];
    for (options, view) in all() {
        for answer in &answers {
            let judged = judge(&options, &view, answer);
            let wanted = match (deliver(&options, &view), view.state, answer) {
                (_, _, DagLookup::Unknown(_)) => None,
                (Deliver::AskAgain, DagState::Paused, DagLookup::Found(f)) if f.is_paused => Some(Dropped::Paused),
                (Deliver::AskAgain, DagState::Missing, DagLookup::Absent) => Some(Dropped::Missing),
                _ => None,
            };
            assert_eq!(matches!(judged, Judgement::Drop(_)), wanted.is_some(), "{options:?} {view:?} {answer:?}");
            if let Judgement::Drop(reason) = judged {
                assert_eq!(Some(reason), wanted);
            }
            if matches!(answer, DagLookup::Unknown(_)) {
                assert_eq!(judge(&options, &view, answer), Judgement::Unsure("503".to_owned()));
            }
        }
    }
}

#[test]
fn what_a_fresh_answer_changes_is_judged_by_the_change() {
    let options = Options::default();
    let mut record = DagRecord::new(true);
    record.heard(&found(true), Part::Healthy, 0);
    let mut now_ms = 0;
    let mut judged = |answer: DagLookup| {
        now_ms += 5_000;
        record.heard(&answer, Part::Healthy, now_ms);
        judge(&options, &record.view(), &answer)
    };
    assert_eq!(judged(found(true)), Judgement::Drop(Dropped::Paused));
    assert_eq!(judged(found(false)), Judgement::Start);
    assert_eq!(judged(found(true)), Judgement::Drop(Dropped::Paused));
    assert!(matches!(judged(DagLookup::Absent), Judgement::Unsure(_)), "a first 404 of a paused DAG drops nothing");
    assert_eq!(judged(DagLookup::Absent), Judgement::Hold(Closed::Missing));
    assert_eq!(judged(found(true)), Judgement::Hold(Closed::NeverUnpaused), "a new DAG of that name");
}
