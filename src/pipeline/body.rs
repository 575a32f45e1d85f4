//! From a delivery to a conf that may be sent, or the answer that stands in its place.

use serde_json::{Map, Value};

use super::context::Context;
use crate::domain::conf;
use crate::domain::content::{Content, content};
use crate::domain::envelope::Envelope;
use crate::domain::ids::{RunId, SubscriptionId};
use crate::domain::key::{DeliveryKey, KeyKind};
use crate::domain::payload::{Body, DEDUP_KEY, immediate_conf};

/// Why there is no conf. Neither says anything of the target, which was not asked.
pub(super) enum NoConf {
    /// The body is too large, or no Airflow could take the conf.
    Unfit(String),
    /// The file cannot be written now.
    Later(String),
}

/// The conf of an immediate run; a body that is too large for it is written to its file first, where that is asked for.
///
/// # Errors
/// See [`NoConf`].
pub(super) async fn conf<R>(
    context: &Context<R>,
    envelope: &Envelope,
    subscription: SubscriptionId,
    (run, key): (&RunId, &DeliveryKey),
) -> Result<Map<String, Value>, NoConf> {
    let mut made = match content(envelope, context.body_limits()) {
        Content::Inline(unpacked) => immediate_conf(envelope, subscription, Body::Inline(&unpacked)),
        Content::Refused(reason) => return Err(NoConf::Unfit(reason.to_string())),
        Content::File => match context.keep_body(run, envelope.body.clone()).await {
            Ok(file) => immediate_conf(envelope, subscription, Body::File(&file)),
            Err(error) => {
                let reason = format!("cannot write the body to a file in the state directory: {error}");
                return Err(NoConf::Later(reason));
            }
        },
    };
    if key.kind() == KeyKind::DedupKey {
        made.insert(DEDUP_KEY.to_owned(), Value::String(key.text().to_owned()));
    }
    conf::validate(&made).map_err(|problem| NoConf::Unfit(problem.to_string()))?;
    Ok(made)
}
