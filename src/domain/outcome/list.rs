//! Airflow's list of DAGs, put together from its pages.
//!
//! Serves the control flow. Invariant: a list is complete only when every page was read, each fits the others, and as many
//! DAGs were seen as Airflow counts; absence from any other list proves nothing.

use std::collections::BTreeMap;

use serde_json::Value;

use super::lookup::{Read, dag_flags, read};
use super::reply::strange;
use super::{Dialect, Exchange, FoundDag};
use crate::domain::ids::DagId;

/// Pages that are read at most. Airflow gives up to 100 DAGs on each.
const MAX_PAGES: u32 = 1_000;

/// What is known of Airflow's DAGs from its list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DagList {
    dags: BTreeMap<DagId, FoundDag>,
    total: Option<usize>,
    entries: usize,
    pages: u32,
    /// Why it is not, and will not be, complete.
    flaw: Option<String>,
}

impl DagList {
    /// Where the next page begins; `None` once there is none to read.
    pub fn next_offset(&self) -> Option<usize> {
        let ended = self.flaw.is_some() || self.total.is_some_and(|total| self.entries >= total);
        (!ended).then_some(self.entries)
    }

    /// Takes in the page that begins at [`DagList::next_offset`].
    pub fn take(&mut self, exchange: &Exchange, dialect: Dialect) {
        self.pages += 1;
        let page = match read(exchange) {
            Read::Json(reply, json) if reply.status == 200 => json,
            Read::Json(reply, _) => return self.fail(strange(reply)),
            Read::Nothing(reason) => return self.fail(reason),
        };
        let total = page.get("total_entries").and_then(Value::as_u64).and_then(|total| usize::try_from(total).ok());
        let (Some(total), Some(entries)) = (total, page.get("dags").and_then(Value::as_array)) else {
            return self.fail("Airflow's answer is no list of DAGs".to_owned());
        };
        for entry in entries {
            let id = entry.get("dag_id").and_then(Value::as_str).map(DagId::new);
            match (id, dag_flags(entry, dialect)) {
                (Some(id), Some(found)) if self.dags.insert(id.clone(), found.clone()).is_none() => {}
                (Some(_), Some(_)) => self.fail("Airflow's list of DAGs changed while it was read".to_owned()),
                (Some(id), None) => self.fail(format!("Airflow's list does not describe DAG '{id}'")),
                (None, _) => self.fail("Airflow's list holds something that is no DAG".to_owned()),
            }
        }
        self.entries += entries.len();
        let fits = self.total.is_none_or(|before| before == total)
            && self.entries <= total
            && (!entries.is_empty() || self.entries == total);
        self.total = Some(total);
        if !fits {
            self.fail("Airflow's list of DAGs changed while it was read".to_owned());
        } else if self.pages >= MAX_PAGES && self.entries < total {
            self.fail(format!("Airflow's list of DAGs is longer than {MAX_PAGES} pages"));
        }
    }

    /// Notes that it cannot be completed. The first reason stays.
    pub fn fail(&mut self, reason: String) {
        self.flaw.get_or_insert(reason);
    }

    /// Why absence from this list proves nothing; `None` where it is complete.
    pub fn flaw(&self) -> Option<&str> {
        self.flaw.as_deref()
    }

    /// What it says of a DAG.
    pub fn get(&self, dag: &DagId) -> Option<&FoundDag> {
        self.dags.get(dag)
    }

    /// How many requests it took.
    pub fn pages(&self) -> usize {
        usize::try_from(self.pages).unwrap_or(usize::MAX)
    }

    /// How many DAGs Airflow counts, as far as it said.
    pub fn total(&self) -> Option<usize> {
        self.total
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::Reply;
    use super::*;

    fn entry(id: usize) -> Value {
        json!({"dag_id": format!("d{id}"), "is_paused": id % 2 == 0, "is_stale": false, "has_import_errors": false})
    }

    fn page(ids: std::ops::Range<usize>, total: usize) -> Exchange {
        let body = json!({"dags": ids.map(entry).collect::<Vec<_>>(), "total_entries": total}).to_string();
        Exchange::Replied(Reply::plain(200, Some("application/json"), &body))
    }

    fn list(pages: &[Exchange]) -> DagList {
        let mut list = DagList::default();
        for page in pages {
            assert!(list.next_offset().is_some(), "a page too many: {list:?}");
            list.take(page, Dialect::V2);
        }
        list
    }

    #[test]
    fn a_list_is_complete_with_the_last_page() {
        let list = list(&[page(0..100, 120), page(100..120, 120)]);
        assert_eq!((list.next_offset(), list.flaw(), list.total()), (None, None, Some(120)));
        assert!(list.get(&DagId::new("d2")).is_some_and(|found| found.is_paused && found.is_active));
        assert_eq!(list.get(&DagId::new("d120")), None);
        let none = super::tests::list(&[page(0..0, 0)]);
        assert_eq!((none.next_offset(), none.flaw()), (None, None));
        let small_pages = super::tests::list(&[page(0..20, 30)]);
        assert_eq!(
            (small_pages.next_offset(), small_pages.flaw()),
            (Some(20), None),
            "Airflow may give less than asked"
        );
    }

    #[test]
    fn a_list_that_changes_or_breaks_off_keeps_what_it_saw_and_is_incomplete() {
        let failed = Exchange::AnswerLost("timed out".to_owned());
        let refused = Exchange::Replied(Reply::plain(403, Some("application/json"), r#"{"detail":"Forbidden"}"#));
        for second in [
            failed,
            refused,
            page(100..120, 121),
            page(99..119, 120),
            page(0..0, 120),
            page(100..121, 120),
            Exchange::Replied(Reply::plain(200, Some("text/html"), "<html>")),
            Exchange::Replied(Reply::plain(200, Some("application/json"), r#"{"dags":[]}"#)),
            Exchange::Replied(Reply::plain(
                200,
                Some("application/json"),
                r#"{"dags":[{"dag_id":"x"}],"total_entries":120}"#,
            )),
        ] {
            let list = list(&[page(0..100, 120), second.clone()]);
            assert!(list.flaw().is_some(), "{second:?}");
            assert_eq!(list.next_offset(), None, "{second:?}");
            assert!(list.get(&DagId::new("d99")).is_some());
        }
    }

    #[test]
    fn a_list_without_end_is_given_up() {
        let mut list = DagList::default();
        let mut at = 0;
        while list.next_offset().is_some() {
            list.take(&page(at..at + 1, usize::MAX), Dialect::V2);
            at += 1;
        }
        assert_eq!(at, 1_000);
        assert!(list.flaw().is_some());
    }
}
