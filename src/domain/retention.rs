//! How long rows of the ledger are kept, and what of them outlives them.
//!
//! Only settled rows go. What must not be forgotten of a fingerprint's row is its number: a later message that looks the same, or the
//! same one that a broker brings back after all, must not be given it again. Its run is in Airflow, and would be taken for the new
//! message's own where the answer to the request is lost. One number for each target of a queue, the highest that was removed,
//! is enough for that, and no list of keys grows with it: a key that is not known begins above it. Keys by somebody's word (a message
//! id, a `dedup_key`) have one run id for all their numbers, and Airflow knows it.

use super::key::KeyKind;

/// Whatever the bounds, a settled row stays so long: a broker that is killed brings back what was settled moments before
/// ([`super::ledger::UNSETTLED_BY_KILL_MS`]), and comes back itself within it.
pub const KEPT_AT_LEAST_MS: i64 = 60_000;

/// Bounds of the ledger.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retention {
    /// Settled rows older than this go.
    pub keep_ms: i64,
    /// Of more rows than this the oldest settled ones go.
    pub keep_rows: i64,
    /// Of refused messages that take more bytes than this together the oldest go; their rows stay.
    pub keep_bytes: i64,
}

impl Default for Retention {
    fn default() -> Self {
        Self { keep_ms: 30 * 86_400_000, keep_rows: 200_000, keep_bytes: 256 * 1024 * 1024 }
    }
}

/// A row as its age and place show it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Aged {
    /// Its id; ids rise with time.
    pub id: i64,
    /// When it was made.
    pub created_at_ms: i64,
    /// When it was settled; `None` while it is not, or while an original of a copied message may still come.
    pub settled_at_ms: Option<i64>,
}

/// What becomes of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keeping {
    /// It goes.
    Remove,
    /// It stays; rows after it may go.
    Keep,
    /// It stays, and so does every row after it.
    KeepAllAfter,
}

impl Retention {
    /// Decides about one row, the oldest first. `newest`: the highest id there is; that row always stays, so that ids go on rising.
    pub fn of(&self, row: Aged, newest: i64, now_ms: i64) -> Keeping {
        let is_too_many = row.id <= newest.saturating_sub(self.keep_rows);
        let oldest_kept_ms = now_ms.saturating_sub(self.keep_ms);
        if row.id >= newest || !is_too_many && row.created_at_ms >= oldest_kept_ms {
            return Keeping::KeepAllAfter;
        }
        match row.settled_at_ms {
            Some(at) if at > now_ms.saturating_sub(KEPT_AT_LEAST_MS) => Keeping::Keep,
            Some(at) if is_too_many || at < oldest_kept_ms => Keeping::Remove,
            Some(_) | None => Keeping::Keep,
        }
    }
}

/// The number that is remembered of a removed row: `None` where none need be.
pub fn remembered(kind: KeyKind, n: u32) -> Option<u32> {
    (!kind.is_an_id()).then_some(n)
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEPT: Retention = Retention { keep_ms: 100_000, keep_rows: 10, keep_bytes: 0 };

    fn of(id: i64, created_at_ms: i64, settled_at_ms: Option<i64>) -> Keeping {
        KEPT.of(Aged { id, created_at_ms, settled_at_ms }, 100, 500_000)
    }

    #[test]
    fn settled_rows_go_by_age_and_by_number_and_others_never() {
        for (id, created, settled, want) in [
            (90, 430_000, Some(440_000), Keeping::Remove),
            (90, 430_000, Some(440_001), Keeping::Keep),
            (91, 430_000, Some(440_000), Keeping::KeepAllAfter),
            (91, 399_999, Some(399_999), Keeping::Remove),
            (91, 399_999, Some(400_000), Keeping::Keep),
            (91, 400_000, Some(400_000), Keeping::KeepAllAfter),
            (1, 0, None, Keeping::Keep),
            (100, 0, Some(0), Keeping::KeepAllAfter),
        ] {
            assert_eq!(of(id, created, settled), want, "{id} {created} {settled:?}");
        }
    }

    #[test]
    fn numbers_of_fingerprints_alone_are_remembered() {
        assert_eq!(remembered(KeyKind::Fingerprint, 7), Some(7));
        assert_eq!(remembered(KeyKind::MessageId, 7), None);
        assert_eq!(remembered(KeyKind::DedupKey, 7), None);
    }
}
