//! The log lines of a scan and of what it changed, as `domain` words them.

use crate::domain::sync::{Change, Said};
use crate::domain::trust::Judgement;
use crate::store::sync::Written;
use crate::telemetry::events;

/// Says that a scan is not believed, or that it is believed at last. Nothing where there is nothing against it.
pub(super) fn say_judgement(judged: &Judgement) {
    let Some(reason) = &judged.reason else { return };
    if judged.trusted {
        tracing::warn!(event = events::SCAN_BELIEVED, reason = reason.code(), "RMQ Watcher: {judged}");
    } else {
        tracing::error!(event = events::SCAN_DISTRUSTED, reason = reason.code(), "RMQ Watcher: {judged}");
    }
}

/// Says what was changed, or that the state file did not take it. What was not done any more is not said.
pub(super) fn say_written(change: &Change, written: &Written) {
    match (written, &change.said) {
        (Written::Done, Some(said)) => say(said),
        (Written::Refused(error), said) => {
            let what = said.as_ref().map_or_else(|| format!("{:?}", change.act), ToString::to_string);
            tracing::error!(
                event = events::SUBSCRIPTION_NOT_WRITTEN,
                "RMQ Watcher: the state file did not take that {what}: {error}; other subscriptions are not affected"
            );
        }
        (Written::Done, None) | (Written::Stale, _) => {}
    }
}

/// Says one thing about one subscription.
pub(super) fn say(said: &Said) {
    match said {
        Said::Added { .. } => tracing::info!(event = events::SUBSCRIPTION_ADDED, "RMQ Watcher: {said}"),
        Said::Changed { .. } => tracing::info!(event = events::SUBSCRIPTION_CHANGED, "RMQ Watcher: {said}"),
        Said::Mended { .. } => tracing::info!(event = events::SUBSCRIPTION_MENDED, "RMQ Watcher: {said}"),
        Said::Missed { .. } => tracing::warn!(event = events::SUBSCRIPTION_MISSED, "RMQ Watcher: {said}"),
        Said::Returned { .. } => tracing::info!(event = events::SUBSCRIPTION_RETURNED, "RMQ Watcher: {said}"),
        Said::Deleted { .. } => tracing::warn!(event = events::SUBSCRIPTION_DELETED, "RMQ Watcher: {said}"),
        Said::Revived { .. } => tracing::warn!(event = events::SUBSCRIPTION_REVIVED, "RMQ Watcher: {said}"),
        Said::Conflict { .. } => tracing::warn!(event = events::SUBSCRIPTION_CONFLICTED, "RMQ Watcher: {said}"),
    }
}
