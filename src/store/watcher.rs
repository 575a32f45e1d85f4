//! The watcher's own row: who runs on this file, and when its last cycle ended. A reader tells a dead watcher by it.

use rusqlite::params;

use super::Store;

/// Who runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Started {
    /// Its host.
    pub hostname: String,
    /// Its process.
    pub pid: u32,
    /// Its version.
    pub version: String,
    /// The interval of its cycles, in milliseconds.
    pub interval_ms: i64,
    /// The budget of one cycle, in milliseconds.
    pub budget_ms: i64,
}

/// A cycle that has ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CycleEnded {
    /// The interval in force, in milliseconds.
    pub interval_ms: i64,
    /// The budget in force, in milliseconds.
    pub budget_ms: i64,
    /// Why it could not do all of its work.
    pub last_error: Option<String>,
    /// Counters since the start, a JSON object.
    pub counters: String,
}

impl Store {
    /// Takes the row: the watcher before us is no more.
    pub async fn watcher_started(&self, started: Started, now_ms: i64) {
        self.tell("to record the start of the watcher", move |connection| {
            let Started { hostname, pid, version, interval_ms, budget_ms } = &started;
            let sql = "INSERT OR REPLACE INTO watchers (id, hostname, pid, version, started_at_ms, last_cycle_at_ms, interval_ms, \
                       budget_ms, last_error, counters, stopped_at_ms) VALUES (1, ?1, ?2, ?3, ?4, NULL, ?5, ?6, NULL, '{}', NULL)";
            let values = params![hostname, pid, version, now_ms, interval_ms, budget_ms];
            connection.prepare_cached(sql)?.execute(values).map(drop)
        })
        .await;
    }

    /// Records the end of a cycle.
    pub async fn cycle_ended(&self, cycle: CycleEnded, now_ms: i64) {
        self.tell("to record the end of a cycle", move |connection| {
            let CycleEnded { interval_ms, budget_ms, last_error, counters } = &cycle;
            let sql = "UPDATE watchers SET last_cycle_at_ms = ?1, interval_ms = ?2, budget_ms = ?3, last_error = ?4, counters = ?5";
            let values = params![now_ms, interval_ms, budget_ms, last_error, counters];
            connection.prepare_cached(sql)?.execute(values).map(drop)
        })
        .await;
    }

    /// Records an orderly stop.
    pub async fn watcher_stopped(&self, now_ms: i64) {
        self.tell("to record the stop of the watcher", move |connection| {
            connection.prepare_cached("UPDATE watchers SET stopped_at_ms = ?1")?.execute([now_ms]).map(drop)
        })
        .await;
    }
}
