//! Whether a subscription may consume, and what becomes of a delivery, given what Airflow says of the DAG.
//!
//! Messages for a DAG that cannot take runs wait in RabbitMQ, where no budget is spent on them. Nothing is dropped but by a
//! wish that is written down or the seed's rule for paused DAGs, and then on a fresh answer only.
//!
//! Invariants (tests below): nothing opens before Airflow has said something; a drop needs an answer to a question asked for
//! this delivery; a DAG that was never seen unpaused loses nothing.

use super::dag_state::{DagState, DagView};
use super::ids::DagId;
use super::options::{OnMissing, OnPaused, Options};
use super::outcome::DagLookup;
use super::status::Attachment;

/// Whether to consume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gate {
    /// Consume.
    Open,
    /// Do not: messages wait in RabbitMQ.
    Closed(Closed),
}

/// Why a gate is closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Closed {
    /// Airflow has not answered yet.
    NotKnown,
    /// Airflow does not have the DAG.
    Missing,
    /// Airflow does not find the DAG's file any more.
    Stale,
    /// The DAG's file fails to import.
    ImportErrors,
    /// The DAG is paused and was never seen otherwise: Airflow creates DAGs paused.
    NeverUnpaused,
    /// The DAG is paused, and its messages are to wait for it.
    Paused,
}

impl Closed {
    /// The stable name in log fields.
    pub fn code(self) -> &'static str {
        match self {
            Self::NotKnown => "dag_not_known",
            Self::Missing => "dag_missing",
            Self::Stale => "dag_stale",
            Self::ImportErrors => "dag_import_errors",
            Self::NeverUnpaused => "dag_never_unpaused",
            Self::Paused => "dag_paused",
        }
    }

    /// How this shows in the subscription's status. `is_refused`: Airflow was asked and did not say; somebody may have to act.
    pub fn attachment(self, is_refused: bool) -> Attachment {
        match self {
            Self::NotKnown if is_refused => Attachment::Unanswered,
            Self::NotKnown | Self::Missing | Self::Stale | Self::ImportErrors => Attachment::WaitingForDag,
            Self::NeverUnpaused | Self::Paused => Attachment::PausedDag,
        }
    }

    /// One clause for people; `None` where there is nothing to tell but that Airflow's first answer is on its way.
    pub fn sentence(self, dag: &DagId, view: &DagView) -> Option<String> {
        Some(match (self, &view.failure) {
            (Self::NotKnown, None) => return None,
            (Self::NotKnown, Some(failure)) => {
                format!("Airflow has not said yet whether it has DAG '{dag}': {failure}")
            }
            (Self::Missing, _) => format!("Airflow does not have DAG '{dag}'"),
            (Self::Stale, _) => format!("Airflow does not find DAG '{dag}' in its DAG folder any more"),
            (Self::ImportErrors, _) => format!("the file of DAG '{dag}' fails to import in Airflow"),
            (Self::NeverUnpaused, _) => format!("DAG '{dag}' is paused and was never seen unpaused"),
            (Self::Paused, _) => format!("DAG '{dag}' is paused"),
        })
    }
}

/// Whether to consume.
pub fn gate(options: &Options, view: &DagView) -> Gate {
    match view.state {
        DagState::Unknown => Gate::Closed(Closed::NotKnown),
        DagState::Missing if options.on_missing == OnMissing::Ack && view.missing_for_good => Gate::Open,
        DagState::Missing => Gate::Closed(Closed::Missing),
        DagState::Stale => Gate::Closed(Closed::Stale),
        DagState::ImportErrors => Gate::Closed(Closed::ImportErrors),
        DagState::Paused => match options.on_paused {
            OnPaused::Drop if view.seen_unpaused => Gate::Open,
            OnPaused::Drop => Gate::Closed(Closed::NeverUnpaused),
            OnPaused::Hold => Gate::Closed(Closed::Paused),
            OnPaused::Run => Gate::Open,
        },
        DagState::Ready => Gate::Open,
    }
}

/// What becomes of a delivery, before a run is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Deliver {
    /// Ask for the run.
    Start,
    /// It would be dropped: ask Airflow for the DAG first, then [`judge`].
    AskAgain,
    /// Keep it until the gate opens.
    Hold(Closed),
}

/// What becomes of a delivery.
pub fn deliver(options: &Options, view: &DagView) -> Deliver {
    match gate(options, view) {
        Gate::Closed(closed) => Deliver::Hold(closed),
        Gate::Open => match view.state {
            DagState::Missing => Deliver::AskAgain,
            DagState::Paused if options.on_paused == OnPaused::Drop => Deliver::AskAgain,
            DagState::Unknown | DagState::Stale | DagState::ImportErrors | DagState::Paused | DagState::Ready => {
                Deliver::Start
            }
        },
    }
}

/// Why a message is dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dropped {
    /// Its DAG is paused.
    Paused,
    /// Its DAG has been missing for good.
    Missing,
}

impl Dropped {
    /// The reason in the ledger and in log fields.
    pub fn code(self) -> &'static str {
        match self {
            Self::Paused => "paused",
            Self::Missing => "missing",
        }
    }
}

/// What a fresh answer about the DAG means for the delivery it was asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Judgement {
    /// Ask for the run.
    Start,
    /// Acknowledge it without a run.
    Drop(Dropped),
    /// Keep it: the gate is closing.
    Hold(Closed),
    /// Keep it: Airflow's answer says too little.
    Unsure(String),
}

/// Judges by an answer to a question that was asked for this delivery; `view` includes that answer.
pub fn judge(options: &Options, view: &DagView, answer: &DagLookup) -> Judgement {
    if let DagLookup::Unknown(reason) = answer {
        return Judgement::Unsure(reason.clone());
    }
    match (deliver(options, view), view.state, answer) {
        (Deliver::Start, _, _) => Judgement::Start,
        (Deliver::Hold(closed), _, _) => Judgement::Hold(closed),
        (Deliver::AskAgain, DagState::Paused, DagLookup::Found(found)) if found.is_paused => {
            Judgement::Drop(Dropped::Paused)
        }
        (Deliver::AskAgain, DagState::Missing, DagLookup::Absent) => Judgement::Drop(Dropped::Missing),
        (Deliver::AskAgain, _, _) => {
            Judgement::Unsure("Airflow's answers about the DAG contradict each other".to_owned())
        }
    }
}

#[cfg(test)]
#[path = "gate_tests.rs"]
mod tests;
