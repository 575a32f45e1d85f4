//! Which Airflow answered last: what follows from its version must not wait for it at the next start.

use rusqlite::{OptionalExtension as _, params};

use super::{Store, StoreError};
use crate::domain::outcome::Dialect;

impl Store {
    /// Remembers the API of the Airflow that answered.
    pub async fn airflow_answered(&self, dialect: Dialect, now_ms: i64) {
        self.tell("to record which Airflow answered", move |connection| {
            let sql = "INSERT OR REPLACE INTO airflow (id, api, answered_at_ms) VALUES (1, ?1, ?2)";
            connection.prepare_cached(sql)?.execute(params![dialect.code(), now_ms]).map(drop)
        })
        .await;
    }

    /// The API of the Airflow that answered last; `None` where none ever did.
    ///
    /// # Errors
    /// It is not known.
    pub async fn load_airflow(&self) -> Result<Option<Dialect>, StoreError> {
        self.call("to read which Airflow answered", |connection| {
            let api: Option<String> =
                connection.prepare_cached("SELECT api FROM airflow")?.query_row([], |row| row.get(0)).optional()?;
            Ok(api.as_deref().and_then(Dialect::parse))
        })
        .await
    }
}
