//! What Airflow's command line said about connections, and for how long it counts.
//!
//! Invariant: a failed question never replaces an answer; only Airflow's own "not found" does.

use std::collections::HashMap;
use std::time::Duration;

use tokio::time::Instant;

use super::cli::CliError;
use crate::config::connections::AirflowConnection;
use crate::domain::ids::ConnId;

/// How long an answer counts.
pub(super) const KEEP_ANSWER: Duration = Duration::from_secs(15 * 60);
/// How long a failure counts: each question costs 2 to 3 s of CPU, and a connect may be tried every few seconds.
pub(super) const KEEP_FAILURE: Duration = Duration::from_secs(60);
/// An answer younger than this is not asked for again after a refused login: it would be the same.
pub(super) const REFUSED_KEEP: Duration = Duration::from_secs(15);

type Answer = Result<AirflowConnection, CliError>;

#[derive(Default)]
pub(super) struct AnswerCache(HashMap<ConnId, Entry>);

struct Entry {
    answer: Answer,
    asked_at: Instant,
    keep: Duration,
}

impl AnswerCache {
    /// An answer that still counts.
    pub(super) fn fresh(&self, conn: &ConnId, now: Instant) -> Option<Answer> {
        let entry = self.0.get(conn)?;
        let age = now.saturating_duration_since(entry.asked_at);
        (age < entry.keep).then(|| entry.answer.clone())
    }

    /// Takes a new answer and returns what counts now.
    pub(super) fn store(&mut self, conn: &ConnId, answer: Answer, now: Instant) -> Answer {
        let keep = if answer.is_ok() { KEEP_ANSWER } else { KEEP_FAILURE };
        let answer = match (answer, self.0.get(conn).map(|entry| &entry.answer)) {
            (Err(CliError::NotFound), _) => Err(CliError::NotFound),
            (Err(_), Some(Ok(before))) => Ok(before.clone()),
            (answer, _) => answer,
        };
        let entry = Entry { answer: answer.clone(), asked_at: now, keep };
        self.0.insert(conn.clone(), entry);
        answer
    }

    /// The broker refused a login with this answer.
    pub(super) fn refuse(&mut self, conn: &ConnId) {
        if let Some(entry) = self.0.get_mut(conn) {
            entry.keep = entry.keep.min(REFUSED_KEEP);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(host: &str) -> AirflowConnection {
        AirflowConnection { host: Some(host.to_owned()), ..AirflowConnection::default() }
    }

    #[test]
    fn fresh_ends_after_its_time_and_sooner_after_a_refusal() {
        let (conn, start) = (ConnId::new("c"), Instant::now());
        let mut cache = AnswerCache::default();
        assert_eq!(cache.fresh(&conn, start), None);
        cache.store(&conn, Ok(named("a")), start).expect("stored");
        assert!(cache.fresh(&conn, start + KEEP_ANSWER / 2).is_some());
        assert!(cache.fresh(&conn, start + KEEP_ANSWER).is_none());
        cache.refuse(&conn);
        assert!(cache.fresh(&conn, start + REFUSED_KEEP / 2).is_some());
        assert!(cache.fresh(&conn, start + REFUSED_KEEP).is_none());
    }

    #[test]
    fn store_keeps_an_answer_over_a_failure_but_not_over_not_found() {
        let (conn, now) = (ConnId::new("c"), Instant::now());
        let mut cache = AnswerCache::default();
        assert_eq!(cache.store(&conn, Err(CliError::Unreadable), now), Err(CliError::Unreadable));
        assert_eq!(cache.store(&conn, Ok(named("a")), now), Ok(named("a")));
        assert_eq!(cache.store(&conn, Err(CliError::Unreadable), now), Ok(named("a")));
        assert!(cache.fresh(&conn, now + KEEP_FAILURE).is_none(), "a failure is asked again soon");
        assert_eq!(cache.store(&conn, Err(CliError::NotFound), now), Err(CliError::NotFound));
    }
}
