//! The status row.

use super::Report;
use crate::domain::status::{Attachment, SubscriptionStatus, subscription_status};
use crate::pipeline::context::Context;
use crate::pipeline::targets::Down;

impl Report {
    /// While the gate is closed, that is what the row says, whatever else happens to single deliveries.
    pub(super) async fn write<R>(&self, context: &Context<R>, attachment: Attachment, error: Option<String>) {
        self.attachment.set(attachment);
        if !self.orders.borrow().table.takes_part(self.subscription.id) {
            return;
        }
        let waits = matches!(attachment, Attachment::WaitingForDag | Attachment::PausedDag | Attachment::Unanswered);
        let closed = self.closed.borrow().as_ref().filter(|_| waits).and_then(|(_, sentence)| sentence.clone());
        self.error.replace(error.clone());
        let down = self.down.borrow().clone();
        let (down_for, is_for_long, why) = match down {
            Some(Down { trouble, reason, is_for_long }) => (Some(trouble), is_for_long, Some(reason)),
            None => (None, false, None),
        };
        let status = subscription_status(attachment, self.trouble.get().or(down_for));
        let is_troubled = attachment == Attachment::Listening;
        let error = closed.or(error).or(why.filter(|_| is_troubled));
        let held_back = self.held_back.borrow().clone();
        let (status, error) = match (status, self.unmatched.get()) {
            (SubscriptionStatus::Listening | SubscriptionStatus::Connecting | SubscriptionStatus::Error, _)
                if held_back.is_some() =>
            {
                (SubscriptionStatus::Error, held_back)
            }
            (SubscriptionStatus::Listening, Some(0)) => {
                let text = "no more messages can be parked that wait for other subscriptions of the queue".to_owned();
                (SubscriptionStatus::Error, Some(text))
            }
            (SubscriptionStatus::Listening, Some(unmatched)) => {
                let text = format!(
                    "blocked_by_unmatched ({unmatched}): no more messages that no filter accepts can be parked"
                );
                (SubscriptionStatus::Error, Some(text))
            }
            // No status is green without a tag that is held.
            (SubscriptionStatus::Listening, None) if self.tag.borrow().is_none() => {
                (SubscriptionStatus::Connecting, error)
            }
            (SubscriptionStatus::PausedTarget, _) if is_for_long => {
                (SubscriptionStatus::Error, error.map(|text| format!("not ready for long: {text}")))
            }
            (status, _) => (status, error),
        };
        let behind = self.behind.borrow().clone();
        let error = match (error, behind) {
            (Some(error), Some(behind)) => Some(format!("{error}; {behind}")),
            (error, behind) => error.or(behind),
        };
        let (id, tag, now_ms) = (self.subscription.id, self.tag.borrow().clone(), context.now_ms());
        context.store.set_subscription_status(id, status, error, tag, now_ms).await;
    }
}
