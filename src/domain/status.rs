//! What a subscription's and a connection's status say, as stable names.

use super::attempt::Trouble;

/// A subscription's status.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SubscriptionStatus {
    /// On the way to a consumer.
    Connecting,
    /// The broker has confirmed our consumer.
    Listening,
    /// Messages wait in RabbitMQ until Airflow has the DAG and can run it.
    WaitingForDag,
    /// Messages wait in RabbitMQ until the DAG is unpaused.
    PausedDag,
    /// Airflow says that the target cannot take runs yet: messages are held, or wait in RabbitMQ.
    PausedTarget,
    /// The target refuses message after message.
    Failing,
    /// No consumer, or nothing can be started: see the last error.
    Error,
    /// Its declaration was refused, or says something that this version cannot act on.
    Invalid,
    /// Stopped on purpose.
    Disconnected,
}

impl SubscriptionStatus {
    /// The stable name.
    pub fn code(self) -> &'static str {
        match self {
            Self::Connecting => "connecting",
            Self::Listening => "listening",
            Self::WaitingForDag => "waiting_for_dag",
            Self::PausedDag => "paused_dag",
            Self::PausedTarget => "paused_target",
            Self::Failing => "failing",
            Self::Error => "error",
            Self::Invalid => "invalid",
            Self::Disconnected => "disconnected",
        }
    }
}

/// How far a consumer has come, as its worker knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Attachment {
    /// On the way for the first time, or after a stop.
    Connecting,
    /// The broker has confirmed the tag that is held now.
    Listening,
    /// Not consuming, because Airflow does not have the DAG or cannot run it.
    WaitingForDag,
    /// Not consuming, because the DAG is paused.
    PausedDag,
    /// Not consuming, because Airflow was asked for the DAG and gave no answer that can be used.
    Unanswered,
    /// The last attach failed, or the consumer was lost.
    Failed,
    /// Stopped on purpose.
    Stopped,
}

/// A subscription's status. Never green without a tag that is held, and never green while nothing can be started.
pub fn subscription_status(attachment: Attachment, trouble: Option<Trouble>) -> SubscriptionStatus {
    match (attachment, trouble) {
        (Attachment::Connecting, _) => SubscriptionStatus::Connecting,
        (Attachment::WaitingForDag, _) => SubscriptionStatus::WaitingForDag,
        (Attachment::PausedDag, _) => SubscriptionStatus::PausedDag,
        (Attachment::Failed | Attachment::Unanswered, _) => SubscriptionStatus::Error,
        (Attachment::Stopped, _) => SubscriptionStatus::Disconnected,
        (Attachment::Listening, None) => SubscriptionStatus::Listening,
        (Attachment::Listening, Some(Trouble::Failing)) => SubscriptionStatus::Failing,
        (Attachment::Listening, Some(Trouble::Target)) => SubscriptionStatus::PausedTarget,
        (Attachment::Listening, Some(Trouble::Unavailable | Trouble::Access | Trouble::Store)) => {
            SubscriptionStatus::Error
        }
    }
}

/// A connection's status.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConnectionStatus {
    /// A consumer is attached over it.
    Connected,
    /// It cannot be had: see the last error.
    Error,
    /// Nothing is known: none was asked for yet, or none is attached over it any more.
    Unknown,
}

impl ConnectionStatus {
    /// The stable name.
    pub fn code(self) -> &'static str {
        match self {
            Self::Connected => "connected",
            Self::Error => "error",
            Self::Unknown => "unknown",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_held_tag_without_trouble_is_green() {
        let troubles =
            [Trouble::Unavailable, Trouble::Access, Trouble::Target, Trouble::Failing, Trouble::Store].map(Some);
        for attachment in [
            Attachment::Connecting,
            Attachment::Listening,
            Attachment::WaitingForDag,
            Attachment::PausedDag,
            Attachment::Unanswered,
            Attachment::Failed,
            Attachment::Stopped,
        ] {
            for trouble in troubles.into_iter().chain([None]) {
                let green = subscription_status(attachment, trouble) == SubscriptionStatus::Listening;
                assert_eq!(
                    green,
                    attachment == Attachment::Listening && trouble.is_none(),
                    "{attachment:?} {trouble:?}"
                );
            }
        }
    }
}
