//! Everything a subscription may be told besides its names.

use super::reader::{Reader, Slot};
use super::{Literal, values};
use crate::domain::declaration::{Origin, RefusalReason};
use crate::domain::ids::DagId;
use crate::domain::options::{
    AckOn, CooldownEdge, OnBudget, OnIdCollision, OnMissing, OnPaused, OnUnreadable, Options,
};

/// What the name of a DAG's queue of timers begins with. Source: airflow-provider-rmq 2.6.0.
const PENDING_PREFIX: &str = "rmq_watcher.pending.";

/// The longest id whose queue's name AMQP 0-9-1 can carry.
const PENDING_MAX_BYTES: usize = 255 - PENDING_PREFIX.len();

macro_rules! choice {
    ($reader:ident, $name:literal, $type:ident) => {
        $reader
            .option($name, |value: &Literal| values::choice(value, $type::parse, $type::CODES))
            .given()
            .unwrap_or_default()
    };
}

/// Reads every option but the exchange. Where a fault is noted the rest of it means nothing.
pub(super) fn read(reader: &mut Reader<'_>, dag_id: Option<&DagId>, whole: &Origin) -> Options {
    let cooldown = reader.value("cooldown", values::cooldown);
    let edge = reader.option("cooldown_edge", |value| values::choice(value, CooldownEdge::parse, CooldownEdge::CODES));
    let cooldown_key = reader.option("cooldown_key", values::key);
    if matches!(cooldown, Slot::Absent | Slot::Given(0)) && !reader.may_hide {
        let alone = [("cooldown_edge", !edge.is_absent()), ("cooldown_key", !cooldown_key.is_absent())];
        for (name, _) in alone.into_iter().filter(|(_, is_given)| *is_given) {
            reader.fault_of(name, whole, RefusalReason::WithoutCooldown);
        }
    }
    let (cooldown, cooldown_edge) = (cooldown.given().unwrap_or_default(), edge.given().unwrap_or_default());
    let length = dag_id.map_or(0, |dag_id| dag_id.as_str().len());
    if cooldown > 0 && cooldown_edge == CooldownEdge::Trailing && length > PENDING_MAX_BYTES {
        let reason = RefusalReason::DagIdTooLong { prefix: PENDING_PREFIX, length, limit: PENDING_MAX_BYTES };
        reader.fault_of("cooldown", whole, reason);
    }
    Options {
        filter_data: reader.option("filter_data", values::filter).given(),
        ack_unmatched: reader.value("ack_unmatched", values::boolean).given().unwrap_or_default(),
        cooldown,
        exchange: None,
        max_concurrent_runs: reader.option("max_concurrent_runs", values::max_concurrent_runs).given(),
        on_paused: choice!(reader, "on_paused", OnPaused),
        on_missing: choice!(reader, "on_missing", OnMissing),
        on_unreadable: choice!(reader, "on_unreadable", OnUnreadable),
        on_budget: choice!(reader, "on_budget", OnBudget),
        on_id_collision: choice!(reader, "on_id_collision", OnIdCollision),
        dedup_key: reader.option("dedup_key", values::key).given(),
        cooldown_edge,
        cooldown_key: cooldown_key.given(),
        ack_deadline_override: reader.option("ack_deadline_override", values::ack_deadline_override).given(),
        inputs: reader.option("inputs", values::object).given(),
        ack_on: choice!(reader, "ack_on", AckOn),
    }
}
