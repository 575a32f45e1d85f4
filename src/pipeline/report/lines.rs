//! Lines about single messages: what a second leaves out is counted and said.

use super::Report;
use crate::domain::fault::BrokerFault;
use crate::domain::ids::RunId;
use crate::domain::not_ready::warns;
use crate::domain::settlement::SUBSCRIPTION_REMOVED;
use crate::domain::subscription::Subscription;
use crate::telemetry::events;

impl Report {
    /// A message that no filter could read was dead-lettered.
    pub(in crate::pipeline) fn unreadable(&self, reason: &str, now_ms: i64) {
        if !self.admits(now_ms) {
            return;
        }
        let Subscription { dag_id, queue, .. } = &*self.subscription;
        tracing::warn!(
            event = events::MESSAGE_REFUSED,
            "RMQ Watcher: the filter of DAG '{dag_id}' cannot read a message: {reason}; it was kept whole in the state file and \
             dead-lettered from queue '{queue}' (on_unreadable)"
        );
    }

    /// A copy stands for a message that had hardly any returns left.
    pub(in crate::pipeline) fn copied(&self, number: u32, left: &str, now_ms: i64) {
        if !self.admits(now_ms) {
            return;
        }
        let Subscription { dag_id, queue, .. } = &*self.subscription;
        tracing::info!(
            event = events::MESSAGE_COPIED,
            "RMQ Watcher: a message of queue '{queue}' for DAG '{dag_id}' had {left}; copy {number} of it is at the end of the queue, \
             and it was acknowledged"
        );
    }

    /// A copy could not be published. Said once for each new text.
    pub(in crate::pipeline) fn not_copied(&self, fault: &BrokerFault) {
        if self.is_news(&fault.text) {
            let Subscription { dag_id, queue, .. } = &*self.subscription;
            tracing::warn!(
                event = events::COPY_FAILED,
                reason = fault.kind.code(),
                "RMQ Watcher: a message of queue '{queue}' for DAG '{dag_id}' has hardly any returns left and cannot be copied: {fault}"
            );
        }
    }

    /// A message is kept since the broker ends it if it comes back once more.
    pub(in crate::pipeline) fn last_return(&self, now_ms: i64) {
        if !self.admits(now_ms) {
            return;
        }
        let Subscription { dag_id, queue, .. } = &*self.subscription;
        tracing::warn!(
            event = events::MESSAGE_LAST_RETURN,
            "RMQ Watcher: a message of queue '{queue}' for DAG '{dag_id}' has no return to its queue left: the broker ends it if the \
             watcher stops before its run is started; it is kept whole in the state file"
        );
    }

    /// The target answered that it is not ready, so many times in a row now.
    pub(in crate::pipeline) fn not_ready(&self, reason: &str, answers: u32) {
        let Subscription { dag_id, queue, .. } = &*self.subscription;
        let line = format!(
            "RMQ Watcher: DAG '{dag_id}' is not ready for messages of queue '{queue}', which are held (answer {answers} in a \
             row): {reason}"
        );
        if warns(answers) {
            tracing::warn!(event = events::TARGET_NOT_READY, answers, "{line}");
        } else {
            tracing::info!(event = events::TARGET_NOT_READY, answers, "{line}");
        }
    }

    /// Whether a line about a single message may be written now; what is left out is counted.
    pub(super) fn admits(&self, now_ms: i64) -> bool {
        let mut lines = self.lines.get();
        let admitted = lines.admit(now_ms);
        self.lines.set(lines);
        admitted
    }

    pub(in crate::pipeline) fn started(&self, run: &RunId, now_ms: i64) {
        let mut starts = self.starts.get();
        if starts.admit(now_ms) {
            let Subscription { dag_id, queue, .. } = &*self.subscription;
            tracing::info!(
                event = events::RUN_STARTED,
                "RMQ Watcher: started DAG '{dag_id}' run {run} from queue '{queue}'"
            );
        }
        self.starts.set(starts);
    }

    pub(in crate::pipeline) fn duplicate(&self, run: &RunId, now_ms: i64) {
        if !self.admits(now_ms) {
            return;
        }
        let Subscription { dag_id, .. } = &*self.subscription;
        tracing::info!(
            event = events::RUN_DUPLICATE,
            "RMQ Watcher: DAG '{dag_id}' run {run} was started for this message already; acknowledged as a duplicate"
        );
    }

    pub(in crate::pipeline) fn dropped(&self, run: &RunId, reason: &str, now_ms: i64) {
        if !self.admits(now_ms) {
            return;
        }
        let Subscription { dag_id, queue, .. } = &*self.subscription;
        tracing::warn!(
            event = events::MESSAGE_DROPPED,
            reason,
            "RMQ Watcher: DAG '{dag_id}' is {reason}: the message of run {run} was acknowledged and dropped from queue '{queue}'"
        );
    }

    /// The subscription went before the run was asked for, and another one got the message.
    pub(in crate::pipeline) fn removed(&self, run: &RunId, now_ms: i64) {
        if !self.admits(now_ms) {
            return;
        }
        let Subscription { dag_id, queue, .. } = &*self.subscription;
        tracing::warn!(
            event = events::MESSAGE_DROPPED,
            reason = SUBSCRIPTION_REMOVED,
            "RMQ Watcher: the subscription of DAG '{dag_id}' to queue '{queue}' went before run {run} was asked for; another \
             subscription has started on the message"
        );
    }

    pub(in crate::pipeline) fn refused(&self, run: &RunId, reason: &str, now_ms: i64) {
        if !self.admits(now_ms) {
            return;
        }
        let Subscription { dag_id, queue, .. } = &*self.subscription;
        tracing::warn!(
            event = events::MESSAGE_REFUSED,
            "RMQ Watcher: DAG '{dag_id}' cannot take the message of run {run}: {reason}; it was kept whole in the \
             state file and dead-lettered from queue '{queue}'"
        );
    }

    pub(in crate::pipeline) fn id_collision(&self, run: &RunId, now_ms: i64) {
        if !self.admits(now_ms) {
            return;
        }
        let Subscription { dag_id, queue, .. } = &*self.subscription;
        tracing::warn!(
            event = events::ID_COLLISION,
            "RMQ Watcher: id_collision: two messages of queue '{queue}' with different contents share the message id of run \
             {run} of DAG '{dag_id}'; they are one run, because the producer says they are one message"
        );
    }

    pub(in crate::pipeline) fn panicked(&self) {
        let Subscription { dag_id, queue, .. } = &*self.subscription;
        tracing::error!(
            event = events::DELIVERY_PANICKED,
            "RMQ Watcher: a message of queue '{queue}' for DAG '{dag_id}' met a defect of this program and was given back"
        );
    }

    /// Says how many lines were left out, once the second they belong to is over.
    pub(in crate::pipeline) fn say_left_out(&self, now_ms: i64) {
        let mut starts = self.starts.get();
        let left_out = starts.take_left_out(now_ms);
        self.starts.set(starts);
        if left_out > 0 {
            let Subscription { dag_id, queue, .. } = &*self.subscription;
            tracing::info!(
                event = events::RUNS_STARTED,
                "RMQ Watcher: started {left_out} more runs of DAG '{dag_id}' from queue '{queue}'"
            );
        }
        let mut lines = self.lines.get();
        let left_out = lines.take_left_out(now_ms);
        self.lines.set(lines);
        if left_out > 0 {
            let Subscription { dag_id, queue, .. } = &*self.subscription;
            tracing::warn!(
                event = events::LINES_LEFT_OUT,
                "RMQ Watcher: left out {left_out} more lines about messages of queue '{queue}' for DAG '{dag_id}'"
            );
        }
    }

    /// Whether lines were left out that nobody has been told of.
    pub(in crate::pipeline) fn leaves_out(&self) -> bool {
        self.starts.get().leaves_out() || self.lines.get().leaves_out()
    }
}
