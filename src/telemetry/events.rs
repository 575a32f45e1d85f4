//! The names of all log events: `noun.past-verb`, stable, one constant each. `docs/log-lines.md` holds the same list, with
//! the line and its meaning; `tests/process` compares the two.
//!
//! Use: `tracing::info!(event = events::LOOP_STOPPED, "…")`. A name is never changed without a changelog entry. All of them
//! stand here, also those that one adapter alone writes, so that a person who reads a log finds every name in one place.

use crate::config::log::LogLevel;

macro_rules! events {
    ($($(#[$doc:meta])* $name:ident = $text:literal @ $($level:ident)|+;)*) => {
        $($(#[$doc])* pub const $name: &str = $text;)*

        /// Every event with the levels it is logged at, the mildest first.
        pub const ALL: &[(&str, &[LogLevel])] = &[$(($text, &[$(LogLevel::$level),+])),*];
    };
}

events! {
    /// INFO, launcher: the watcher process was started.
    WATCHER_LAUNCHED = "watcher.launched" @ Info;
    /// INFO, launcher: an ancestor has a watcher already; no second one is started.
    LAUNCH_SKIPPED = "launch.skipped" @ Info;
    /// ERROR, launcher: the command leaves its process (`-D`), so no watcher can belong to it.
    LAUNCH_REFUSED = "launch.refused" @ Error;
    /// ERROR, launcher: the watcher could not be started; the command starts all the same.
    LAUNCH_FAILED = "launch.failed" @ Error;
    /// ERROR, launcher: the kernel has not answered within 2 s whether the watcher's program runs.
    LAUNCH_UNCONFIRMED = "launch.unconfirmed" @ Error;
    /// ERROR, launcher: the command itself could not be started.
    COMMAND_FAILED = "command.failed" @ Error;

    /// ERROR: started without the scheduler's PID; exit code 2.
    START_REFUSED = "start.refused" @ Error;
    /// ERROR: the scheduler was gone before the watcher could watch it; exit code 0.
    START_ABANDONED = "start.abandoned" @ Error;
    /// ERROR: the kernel refused the parent-death signal; the checks each second remain.
    PDEATHSIG_REFUSED = "pdeathsig.refused" @ Error;
    /// INFO: preparation is done and the loop begins.
    PROCESS_STARTED = "process.started" @ Info;
    /// WARNING: the service manager could not be told (stand-alone only).
    NOTIFY_FAILED = "notify.failed" @ Warn;

    /// INFO: a stop signal came.
    STOP_REQUESTED = "stop.requested" @ Info;
    /// ERROR: the scheduler is gone and told nobody.
    PARENT_EXITED = "parent.exited" @ Error;
    /// INFO: a stop signal came during preparation; exit at once.
    PREPARATION_INTERRUPTED = "preparation.interrupted" @ Info;
    /// ERROR: the scheduler exited during preparation; exit at once.
    PREPARATION_ABANDONED = "preparation.abandoned" @ Error;
    /// INFO: the loop returned after a stop.
    LOOP_STOPPED = "loop.stopped" @ Info;
    /// ERROR: the loop did not return within 45 s of the stop; the process leaves without it.
    LOOP_ABANDONED = "loop.abandoned" @ Error;
    /// ERROR: the loop failed, panicked or ended unasked; exit code 1.
    LOOP_FAILED = "loop.failed" @ Error;
    /// ERROR: setting the process up failed; exit code 1.
    PROCESS_FAILED = "process.failed" @ Error;
    /// ERROR: a thread or task panicked; the message and the place are in the line.
    THREAD_PANICKED = "thread.panicked" @ Error;

    /// INFO: a connection to RabbitMQ was opened.
    BROKER_CONNECTED = "broker.connected" @ Info;
    /// WARNING: the management API of a connection cannot be asked. Once for each new reason.
    MANAGEMENT_FAILED = "management.failed" @ Warn;
    /// INFO: the management API of a connection answers again.
    MANAGEMENT_RECOVERED = "management.recovered" @ Info;
    /// WARNING: a connection's settings are doubtful. Said once for each change.
    CONNECTION_DOUBTED = "connection.doubted" @ Warn;
    /// WARNING: the configuration file or Airflow could not be read; what was known before is used.
    CONNECTION_KEPT = "connection.kept" @ Warn;
    /// INFO: Airflow's version was found, or found changed.
    AIRFLOW_VERSION_FOUND = "airflow.version_found" @ Info;
    /// DEBUG: a login gave us a new token or session, or the user and password go with every call.
    AIRFLOW_LOGGED_IN = "airflow.logged_in" @ Debug;
    /// INFO: the session cookie is not accepted and Basic is; every call then costs Airflow a password hash.
    AIRFLOW_BASIC_CHOSEN = "airflow.basic_chosen" @ Info;

    /// INFO: the broker has confirmed a consumer.
    CONSUMER_ATTACHED = "consumer.attached" @ Info;
    /// WARNING, or ERROR where somebody has to act: a consumer could not be attached, or was lost. Once for each new text.
    CONSUMER_FAILED = "consumer.failed" @ Warn | Error;
    /// WARNING: deliveries are held because their target cannot be started. Once for each new reason.
    DELIVERY_HELD = "delivery.held" @ Warn;
    /// INFO, every tenth in a row a WARNING: Airflow answered that it cannot start the DAG yet.
    TARGET_NOT_READY = "target.not_ready" @ Info | Warn;
    /// INFO, or WARNING where a running DAG is gone: messages wait in RabbitMQ for their DAG. Once for each change.
    GATE_CLOSED = "gate.closed" @ Info | Warn;
    /// INFO: the DAG can take runs, and its messages are consumed.
    GATE_OPENED = "gate.opened" @ Info;
    /// WARNING: Airflow did not say how its DAGs are. Once for each new reason.
    DAGS_UNREAD = "dags.unread" @ Warn;
    /// WARNING: a message was acknowledged without a run, as `on_paused` or `on_missing` says.
    MESSAGE_DROPPED = "message.dropped" @ Warn;
    /// INFO: the target of held deliveries is started again.
    SUBSCRIPTION_RECOVERED = "subscription.recovered" @ Info;
    /// INFO: a DAG run was started. At most 20 a second for one subscription.
    RUN_STARTED = "run.started" @ Info;
    /// INFO: how many started runs were left out of the log.
    RUNS_STARTED = "runs.started" @ Info;
    /// WARNING: how many other lines about single messages were left out of the log.
    LINES_LEFT_OUT = "lines.left_out" @ Warn;
    /// INFO: the run of a message was there already.
    RUN_DUPLICATE = "run.duplicate" @ Info;
    /// WARNING: a message that its DAG can never take was kept and dead-lettered.
    MESSAGE_REFUSED = "message.refused" @ Warn;
    /// INFO: a message had hardly any returns to its queue left, and a copy of it took its place.
    MESSAGE_COPIED = "message.copied" @ Info;
    /// WARNING: such a message could not be copied. Once for each new reason.
    COPY_FAILED = "copy.failed" @ Warn;
    /// WARNING: a message has no return to its queue left; it is kept whole in the state file.
    MESSAGE_LAST_RETURN = "message.last_return" @ Warn;
    /// WARNING: a message says that it is a copy of ours and is not; once for a consumer.
    COPY_DOUBTED = "copy.doubted" @ Warn;
    /// ERROR: a queue is not consumed, since a message in it may not come back once more.
    QUEUE_HELD_BACK = "queue.held_back" @ Error;
    /// WARNING: so many messages in a row were accepted by no filter; at powers of ten from 100.
    FILTER_MISSED = "filter.missed" @ Warn;
    /// WARNING: so many messages were acknowledged without a run, as `ack_unmatched` says; at powers of ten from 100.
    FILTER_DROPPED = "filter.dropped" @ Warn;
    /// WARNING: a filter could not be evaluated; the first time of a series and at powers of ten from 100.
    FILTER_FAILED = "filter.failed" @ Warn;
    /// WARNING: two messages of different contents share a message id.
    ID_COLLISION = "message.id_collision" @ Warn;
    /// ERROR: a delivery was to be settled a second time, a defect of this program; nothing was sent.
    DELIVERY_SETTLED_TWICE = "delivery.settled_twice" @ Error;
    /// ERROR: a delivery met a defect of this program; it was given back.
    DELIVERY_PANICKED = "delivery.panicked" @ Error;
    /// ERROR: a consumer met a defect of this program; the next cycle starts it again.
    WORKER_PANICKED = "worker.panicked" @ Error;
    /// ERROR: a scan is no statement about the code, so nothing was taken from it.
    SCAN_DISTRUSTED = "scan.distrusted" @ Error;
    /// WARNING: a scan that was distrusted for three cycles is believed.
    SCAN_BELIEVED = "scan.believed" @ Warn;
    /// INFO: after a scan that was not believed there is one that is.
    SCAN_RECOVERED = "scan.recovered" @ Info;
    /// WARNING: a DAG file or directory could not be read.
    FILE_UNREADABLE = "file.unreadable" @ Warn;
    /// WARNING: changes of DAG files are not noticed at once, everywhere or in part.
    WATCH_LIMITED = "watch.limited" @ Warn;
    /// ERROR: a subscription is written down and does not run.
    SUBSCRIPTION_REFUSED = "subscription.refused" @ Error;
    /// INFO: a subscription is declared for the first time.
    SUBSCRIPTION_ADDED = "subscription.added" @ Info;
    /// INFO: the options of a subscription changed.
    SUBSCRIPTION_CHANGED = "subscription.changed" @ Info;
    /// INFO: a subscription that was refused can be read again.
    SUBSCRIPTION_MENDED = "subscription.mended" @ Info;
    /// WARNING: a subscription was not in a scan that is believed; with the attempts left.
    SUBSCRIPTION_MISSED = "subscription.missed" @ Warn;
    /// INFO: a subscription that was missed is there again.
    SUBSCRIPTION_RETURNED = "subscription.returned" @ Info;
    /// WARNING: a subscription was missed too often and is deleted.
    SUBSCRIPTION_DELETED = "subscription.deleted" @ Warn;
    /// WARNING: a deleted subscription is declared again; with its flag as it was.
    SUBSCRIPTION_REVIVED = "subscription.revived" @ Warn;
    /// WARNING: a declaration has the key of a subscription made by hand, which stays as it is.
    SUBSCRIPTION_CONFLICTED = "subscription.conflicted" @ Warn;
    /// ERROR: the state file does not take one subscription.
    SUBSCRIPTION_NOT_WRITTEN = "subscription.not_written" @ Error;
    /// ERROR: a subscription is recorded and cannot be run.
    SUBSCRIPTION_WITHHELD = "subscription.withheld" @ Error;
    /// INFO: a subscription was switched on or off by hand.
    SUBSCRIPTION_SWITCHED = "subscription.switched" @ Info;
    /// INFO: a consumer is asked to leave, since its subscription is not to run any more.
    CONSUMER_LET_GO = "consumer.let_go" @ Info;
    /// ERROR: a step of a cycle takes too long.
    CYCLE_STEP_TIMED_OUT = "cycle.step_timed_out" @ Error;
    /// ERROR: a step of a cycle is still under way from an earlier one.
    CYCLE_STEP_SKIPPED = "cycle.step_skipped" @ Error;
    /// ERROR: a cycle ran out of its budget.
    CYCLE_TIMED_OUT = "cycle.timed_out" @ Error;
    /// ERROR: a cycle met a defect of this program.
    CYCLE_PANICKED = "cycle.panicked" @ Error;
    /// INFO: the stop came during a cycle.
    CYCLE_INTERRUPTED = "cycle.interrupted" @ Info;
    /// INFO: the interval or the budget of cycles changed.
    SETTINGS_CHANGED = "settings.changed" @ Info;
    /// WARNING: a Variable holds a value that cannot be used.
    VARIABLE_REFUSED = "variable.refused" @ Warn;
    /// WARNING: a Variable could not be read; the value in force stays.
    VARIABLE_UNREAD = "variable.unread" @ Warn;
    /// WARNING: a sync was taken back, since a newer scan is believed.
    SYNC_SUPERSEDED = "sync.superseded" @ Warn;
    /// ERROR: the state file did not take the subscriptions.
    SYNC_FAILED = "sync.failed" @ Error;
    /// ERROR: a setting is wrong; one line for each.
    CONFIG_INVALID = "config.invalid" @ Error;
    /// WARNING: a setting was set aside for a default.
    CONFIG_WARNED = "config.warned" @ Warn;
    /// WARNING: at the start, Airflow does not answer or refuses us; once for each new reason.
    AIRFLOW_NOT_READY = "airflow.not_ready" @ Warn;
    /// ERROR: there are no Airflow credentials, so nothing is attached.
    CREDENTIALS_MISSING = "credentials.missing" @ Error;
    /// WARNING: another watcher holds the state directory; said each minute.
    STATE_LOCKED = "state.locked" @ Warn;
    /// ERROR: the state directory cannot be used now; said each minute.
    STATE_UNUSABLE = "state.unusable" @ Error;
    /// INFO: the state directory is ours now.
    STATE_TAKEN = "state.taken" @ Info;
    /// WARNING: the state directory goes with its container.
    STATE_EPHEMERAL = "state.ephemeral" @ Warn;
    /// WARNING: the state file refused a record that nothing waits for.
    STORE_WRITE_FAILED = "store.write_failed" @ Warn;
    /// ERROR: the state file was broken; it was moved aside and a new one begun.
    STORE_MOVED_ASIDE = "store.moved_aside" @ Error;
    /// WARNING: old rows cannot be removed from the state file.
    STORE_NOT_PRUNED = "store.not_pruned" @ Warn;
    /// WARNING: old files of bodies cannot be removed.
    BODIES_NOT_PRUNED = "bodies.not_pruned" @ Warn;
    /// WARNING: there is no control socket; the watcher goes on without it.
    CONTROL_UNAVAILABLE = "control.unavailable" @ Warn;
    /// DEBUG: a process asks on the control socket.
    CONTROL_CONNECTED = "control.connected" @ Debug;
    /// WARNING: a process of another user asked on the control socket.
    CONTROL_REFUSED = "control.refused" @ Warn;
    /// WARNING: what the new state file was begun with.
    STORE_RESTORED = "store.restored" @ Warn;
    /// WARNING: a backup of the subscriptions could not be written.
    STORE_BACKUP_FAILED = "store.backup_failed" @ Warn;

    /// WARNING: standard output did not take this many lines.
    LOG_DROPPED = "log.dropped" @ Warn;
    /// ERROR: the log could not be written out within 2 s of the exit.
    LOG_ABANDONED = "log.abandoned" @ Error;
}
