//! What can be wrong between us and a broker, told apart by what a person would do about it.

use std::fmt;

/// Why a connection, a channel or a consumer could not be had, or was lost.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BrokerFault {
    /// What kind of trouble.
    pub kind: BrokerFaultKind,
    /// One sentence: what, where (host, port, vhost or queue, never a password) and, for configuration, what to do.
    pub text: String,
}

/// The kinds of [`BrokerFault`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum BrokerFaultKind {
    /// The Airflow connection cannot be found or read.
    ConnectionUnknown,
    /// Name not found, refused, unreachable, reset, or the link died: weather.
    Unreachable,
    /// No answer within the time allowed: weather.
    TimedOut,
    /// Untrusted certificate, plain port, missing client certificate, unreadable key file.
    Tls,
    /// Wrong user or password (403 at login).
    LoginRefused,
    /// No such vhost, or no right to it (530).
    VhostRefused,
    /// No such queue (404).
    QueueMissing,
    /// No right to this queue (403 on a channel).
    AccessRefused,
    /// Declared otherwise than asked, or an ack deadline passed (406).
    PreconditionFailed,
    /// Somebody else consumes exclusively (405 on declare, 403 on consume with "exclusive" in the broker's text).
    ResourceLocked,
    /// The broker cancelled our consumer: queue deleted or its leader moved.
    Cancelled,
    /// The broker closed the connection or the channel for another reason.
    Closed,
}

impl BrokerFaultKind {
    /// The stable name in rows and log fields.
    pub fn code(self) -> &'static str {
        match self {
            Self::ConnectionUnknown => "connection_unknown",
            Self::Unreachable => "unreachable",
            Self::TimedOut => "timed_out",
            Self::Tls => "tls",
            Self::LoginRefused => "login_refused",
            Self::VhostRefused => "vhost_refused",
            Self::QueueMissing => "queue_missing",
            Self::AccessRefused => "access_refused",
            Self::PreconditionFailed => "precondition_failed",
            Self::ResourceLocked => "resource_locked",
            Self::Cancelled => "cancelled",
            Self::Closed => "closed",
        }
    }

    /// Whether somebody has to change a setting before a retry can work. Such faults are retried slowly and said loudly.
    pub fn is_configuration(self) -> bool {
        match self {
            Self::ConnectionUnknown
            | Self::Tls
            | Self::LoginRefused
            | Self::VhostRefused
            | Self::QueueMissing
            | Self::AccessRefused
            | Self::PreconditionFailed
            | Self::ResourceLocked => true,
            Self::Unreachable | Self::TimedOut | Self::Cancelled | Self::Closed => false,
        }
    }
}

impl fmt::Display for BrokerFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl std::error::Error for BrokerFault {}
