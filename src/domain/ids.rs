//! Names and numbers that must not be mixed up, each a type of its own.

use std::fmt;

use serde::{Deserialize, Serialize};

macro_rules! text_id {
    ($($(#[$doc:meta])* $name:ident),* $(,)?) => {$(
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(String);

        impl $name {
            /// Wraps the text as it is; what may stand in it is checked where it enters the program.
            pub fn new(text: impl Into<String>) -> Self {
                Self(text.into())
            }

            /// The text itself.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{:?}", self.0)
            }
        }
    )*};
}

text_id! {
    /// An Airflow connection id, such as `rmq_default`.
    ConnId,
    /// A RabbitMQ queue name.
    QueueName,
    /// An Airflow DAG id.
    DagId,
    /// An Airflow `dag_run_id`, already in the form that Airflow accepts.
    RunId,
    /// The tag a consumer is registered under at the broker: `rmq_watcher.{hostname}.{pid}.{sub_id}.{nonce}`.
    ConsumerTag,
}

macro_rules! number_id {
    ($($(#[$doc:meta])* $name:ident($int:ty)),* $(,)?) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(pub $int);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }
    )*};
}

number_id! {
    /// A subscription's row id in the state file; goes into `conf.subscription_id`.
    SubscriptionId(i64),
    /// One life of one AMQP channel. Taken from the state file at every channel open, rising across restarts.
    Epoch(i64),
    /// A delivery's tag. Means something only together with the [`Epoch`] it was handed out in.
    DeliveryTag(u64),
}
