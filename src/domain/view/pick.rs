//! Which subscription a person means, and whether it can be switched on or off.

use super::rows::SubscriptionRow;
use crate::domain::ids::SubscriptionId;

/// Why no single subscription is meant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NotPicked {
    /// None has that number or name.
    Unknown,
    /// Several have that name.
    Several(Vec<SubscriptionId>),
    /// The one that had it is deleted.
    Deleted {
        /// Its number.
        id: SubscriptionId,
        /// When it was deleted.
        at_ms: i64,
    },
}

/// Finds a subscription by its number, or by `DAG`, `DAG/QUEUE` or `DAG/QUEUE/CONNECTION`. A number wins over a DAG of that name; deleted
/// ones are meant only where no other is.
///
/// # Errors
/// Why it is not one.
pub fn pick<'a>(text: &str, rows: &'a [SubscriptionRow]) -> Result<&'a SubscriptionRow, NotPicked> {
    let number = text.parse().ok().map(SubscriptionId);
    if let Some(row) = rows.iter().find(|row| Some(row.id) == number) {
        return match row.deleted_at_ms {
            None => Ok(row),
            Some(at_ms) => Err(NotPicked::Deleted { id: row.id, at_ms }),
        };
    }
    let named: Vec<&SubscriptionRow> = rows.iter().filter(|row| is_named(row, text)).collect();
    let alive: Vec<&SubscriptionRow> = named.iter().copied().filter(|row| row.deleted_at_ms.is_none()).collect();
    match (alive.as_slice(), named.as_slice()) {
        ([row], _) => Ok(row),
        ([], [SubscriptionRow { id, deleted_at_ms: Some(at_ms), .. }, ..]) => {
            Err(NotPicked::Deleted { id: *id, at_ms: *at_ms })
        }
        ([], _) => Err(NotPicked::Unknown),
        (several, _) => Err(NotPicked::Several(several.iter().map(|row| row.id).collect())),
    }
}

/// Queues and connections may have a `/` in their names, so the whole text is compared, never cut.
fn is_named(row: &SubscriptionRow, text: &str) -> bool {
    let Some(rest) = text.strip_prefix(row.dag_id.as_str()) else { return false };
    if rest.is_empty() {
        return true;
    }
    let Some(rest) = rest.strip_prefix('/').and_then(|rest| rest.strip_prefix(row.queue.as_str())) else {
        return false;
    };
    rest.is_empty() || rest.strip_prefix('/') == Some(row.conn_id.as_str())
}

/// Whether switching a subscription means anything.
///
/// # Errors
/// A sentence that says why not.
pub fn may_switch(row: &SubscriptionRow) -> Result<(), String> {
    match &row.invalid {
        None => Ok(()),
        Some(sentence) => Err(format!(
            "subscription {} is invalid and does not run, so there is nothing to switch; correct what its declaration says \
             first: {sentence}",
            row.id
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::ids::{ConnId, DagId, QueueName};

    fn row(id: i64, dag: &str, queue: &str, conn: &str, deleted_at_ms: Option<i64>) -> SubscriptionRow {
        SubscriptionRow {
            id: SubscriptionId(id),
            dag_id: DagId::new(dag),
            queue: QueueName::new(queue),
            conn_id: ConnId::new(conn),
            source: "dag_file".into(),
            origin: "a.py:1:1".into(),
            options: serde_json::Map::new(),
            enabled: true,
            invalid: None,
            absent_cycles: 0,
            deleted_at_ms,
            status: None,
            last_error: None,
            consumer_tag: None,
            status_at_ms: None,
        }
    }

    fn rows() -> Vec<SubscriptionRow> {
        vec![
            row(1, "one", "q", "c", None),
            row(2, "two", "q", "c", None),
            row(3, "two", "q", "other", None),
            row(4, "two", "r/s", "c/d", None),
            row(5, "gone", "q", "c", Some(99)),
            row(6, "back", "q", "c", Some(98)),
            row(7, "back", "r", "c", None),
            row(8, "3", "q", "c", None),
            row(9, "77", "q", "c", None),
            row(10, "slash", "r", "s/c", None),
            row(11, "slash", "r/s", "c", None),
        ]
    }

    #[test]
    fn number_or_name_means_one_subscription() {
        let rows = rows();
        for (text, id) in [
            ("1", 1),
            ("one", 1),
            ("one/q", 1),
            ("one/q/c", 1),
            ("two/q/c", 2),
            ("two/q/other", 3),
            ("two/r/s", 4),
            ("two/r/s/c/d", 4),
            ("back", 7),
            ("3", 3),
            ("3/q", 8),
            ("77", 9),
        ] {
            assert_eq!(pick(text, &rows).map(|row| row.id.0), Ok(id), "{text}");
        }
    }

    #[test]
    fn several_are_told_and_nothing_else_is_taken_for_one() {
        let rows = rows();
        let several = |ids: &[i64]| Err(NotPicked::Several(ids.iter().copied().map(SubscriptionId).collect()));
        let pick = |text| pick(text, &rows).map(|row| row.id);
        assert_eq!(pick("two"), several(&[2, 3, 4]));
        assert_eq!(pick("two/q"), several(&[2, 3]));
        assert_eq!(pick("slash/r/s/c"), several(&[10, 11]));
        for text in ["", "/", "on", "one/", "one/q/", "one/q/c/", "two/r", "12", "-1", "one/c"] {
            assert_eq!(pick(text), Err(NotPicked::Unknown), "{text}");
        }
        let deleted = |id, at_ms| Err(NotPicked::Deleted { id: SubscriptionId(id), at_ms });
        assert_eq!(pick("5"), deleted(5, 99));
        assert_eq!(pick("gone/q"), deleted(5, 99));
        assert_eq!(pick("back/q"), deleted(6, 98));
    }

    #[test]
    fn invalid_one_cannot_be_switched() {
        let mut row = row(4, "d", "q", "c", None);
        assert_eq!(may_switch(&row), Ok(()));
        row.invalid = Some("a.py:1:1: refused".into());
        let sentence = may_switch(&row).err().unwrap_or_default();
        assert!(
            sentence.contains("subscription 4 is invalid") && sentence.ends_with("a.py:1:1: refused"),
            "{sentence}"
        );
    }
}
