//! The words that are shown, and what each means for a person who looks.

use std::fmt;

use serde::{Serialize, Serializer};

/// What a word means at a glance. `Good` is green.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tone {
    /// It does what it should.
    Good,
    /// On its way, or waiting for something outside.
    Waiting,
    /// Somebody should look.
    Bad,
    /// Off, or nothing is known.
    Off,
}

macro_rules! words {
    ($(#[$about:meta])* $name:ident { $($(#[$says:meta])* $variant:ident = $code:literal is $tone:ident),+ $(,)? }) => {
        $(#[$about])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum $name {
            $($(#[$says])* $variant),+
        }

        impl $name {
            /// All of them.
            pub const ALL: &'static [Self] = &[$(Self::$variant),+];

            /// The stable name.
            pub fn code(self) -> &'static str {
                match self {
                    $(Self::$variant => $code),+
                }
            }

            /// What it means at a glance.
            pub fn tone(self) -> Tone {
                match self {
                    $(Self::$variant => Tone::$tone),+
                }
            }
        }

        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(self.code())
            }
        }
    };
}

words!(
    /// A subscription's status as it is shown.
    ShownStatus {
        /// On the way to a consumer.
        Connecting = "connecting" is Waiting,
        /// The broker has confirmed our consumer.
        Listening = "listening" is Good,
        /// Another consumer of the queue is the active one.
        Standby = "standby" is Good,
        /// Airflow does not have the DAG, or cannot run it yet.
        WaitingForDag = "waiting_for_dag" is Waiting,
        /// The DAG is paused.
        PausedDag = "paused_dag" is Waiting,
        /// The target is paused.
        PausedTarget = "paused_target" is Waiting,
        /// The target refuses message after message.
        Failing = "failing" is Bad,
        /// No consumer, or nothing can be started.
        Error = "error" is Bad,
        /// It is written down in a way that cannot be taken.
        Invalid = "invalid" is Bad,
        /// Nothing consumes.
        Disconnected = "disconnected" is Off,
        /// The watcher wrote a word that this program does not know.
        Unknown = "unknown" is Off,
    }
);

words!(
    /// A connection's status as it is shown.
    ShownConnection {
        /// A consumer is attached over it.
        Connected = "connected" is Good,
        /// It cannot be had, or what it carries is denied.
        Error = "error" is Bad,
        /// It is in doubt, and left in place for now.
        Degraded = "degraded" is Bad,
        /// Nothing is known now.
        Unknown = "unknown" is Off,
    }
);

words!(
    /// How the watcher is.
    WatcherState {
        /// It runs and its cycles end in time.
        Running = "running" is Good,
        /// A process holds the lock and has not said who it is.
        Starting = "starting" is Waiting,
        /// It is there, and no cycle has ended in time, or none can end: its process is stopped.
        Stalled = "stalled" is Bad,
        /// Nobody holds the lock.
        Dead = "dead" is Bad,
    }
);

words!(
    /// What the kernel says of the process that holds the lock.
    Process {
        /// It runs, or waits for something to do.
        Running = "running" is Good,
        /// The kernel keeps it until a disk has answered.
        Waiting = "waiting for a disk" is Waiting,
        /// It was stopped (SIGSTOP, or a debugger) and does nothing until it is told to go on.
        Stopped = "stopped" is Bad,
        /// It has ended, and its parent has not asked how.
        Zombie = "a zombie" is Bad,
        /// It is of another PID namespace, or did not say its number.
        NotVisible = "not visible from here" is Off,
    }
);

words!(
    /// Why something else is shown than what the watcher says now.
    Reason {
        /// People have switched it off.
        Disabled = "disabled" is Off,
        /// Its declaration was refused.
        Refused = "refused" is Bad,
        /// The watcher is dead.
        WatcherDead = "watcher_dead" is Bad,
        /// The watcher is stalled.
        WatcherStalled = "watcher_stalled" is Bad,
        /// The watcher has only just begun.
        WatcherStarting = "watcher_starting" is Waiting,
    }
);

impl fmt::Display for Process {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.code())
    }
}

impl ShownStatus {
    /// The word that the watcher wrote.
    pub(super) fn read(code: &str) -> Self {
        Self::ALL.iter().copied().find(|status| status.code() == code).unwrap_or(Self::Unknown)
    }
}

impl ShownConnection {
    /// The word that the watcher wrote.
    pub(super) fn read(code: &str) -> Self {
        Self::ALL.iter().copied().find(|status| status.code() == code).unwrap_or(Self::Unknown)
    }
}
