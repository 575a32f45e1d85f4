//! The status row.

use super::Report;
use crate::domain::status::{Attachment, SubscriptionStatus, subscription_status};
use crate::pipeline::context::Context;

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
        let error = closed.or(error);
        let (status, error) = match (subscription_status(attachment, self.trouble.get()), self.unmatched.get()) {
            (SubscriptionStatus::Listening, Some(unmatched)) => {
                let text = format!(
                    "blocked_by_unmatched ({unmatched}): no more messages that no filter accepts can be parked"
                );
                (SubscriptionStatus::Error, Some(text))
            }
            (status, _) => (status, error),
        };
        let (id, tag, now_ms) = (self.subscription.id, self.tag.borrow().clone(), context.now_ms());
        context.store.set_subscription_status(id, status, error, tag, now_ms).await;
    }
}
