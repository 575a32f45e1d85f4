//! What a subscription's and a connection's status say, as stable names.

/// A subscription's status.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SubscriptionStatus {
    /// On the way to a consumer.
    Connecting,
    /// The broker has confirmed our consumer.
    Listening,
    /// The target refuses message after message.
    Failing,
    /// No consumer, or nothing can be started: see the last error.
    Error,
    /// Stopped on purpose.
    Disconnected,
}

impl SubscriptionStatus {
    /// The stable name.
    pub fn code(self) -> &'static str {
        match self {
            Self::Connecting => "connecting",
            Self::Listening => "listening",
            Self::Failing => "failing",
            Self::Error => "error",
            Self::Disconnected => "disconnected",
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
    /// Nothing is known yet.
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
