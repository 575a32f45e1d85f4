//! Run ids: what a DAG run is called, given the message behind it.
//!
//! Pure and stable: the id decides whether Airflow sees a message for the first time, so a change here would start
//! runs a second time. The vectors in the tests are frozen.

use std::fmt::Write as _;

use sha2::{Digest, Sha256};

use super::ids::{QueueName, RunId};
use super::key::DeliveryKey;

/// The longest run id we send. Airflow takes 250 characters, and the task then dies of a log file name that is too long
/// (249 and more, tried on 2.11 and 3.3).
pub const MAX_LEN: usize = 200;

/// How much of an unclean or long id is kept in front of its digest.
const KEPT_LEN: usize = 167;

/// The id of the `n`-th run (from 1) for one key of one queue: `rmq__{queue}__{key}`, from the second on with `_{n}`.
pub fn run_id(queue: &QueueName, key: &DeliveryKey, n: u32) -> RunId {
    let mut raw = format!("rmq__{queue}__{}", key.text());
    if n > 1 {
        let _ = write!(raw, "_{n}");
    }
    RunId::new(clean(&raw))
}

/// The id of the run that a refused message starts when it was put back into its queue for the `replay`-th time: that of its number, with
/// `_r{replay}` behind.
pub fn replay_run_id(queue: &QueueName, key: &DeliveryKey, n: u32, replay: u32) -> RunId {
    let mut raw = format!("rmq__{queue}__{}", key.text());
    if n > 1 {
        let _ = write!(raw, "_{n}");
    }
    let _ = write!(raw, "_r{replay}");
    RunId::new(clean(&raw))
}

/// So many replays of one message are told apart from what is no run id of it.
const MOST_REPLAYS: u32 = 64;

/// After how many replays the `n`-th row of a key has this run id; `None` where it is no run id of that row. Rows of equal ids
/// share the run id of the first.
pub fn replays_behind(queue: &QueueName, key: &DeliveryKey, n: u32, found: &RunId) -> Option<u32> {
    let numbers = if key.kind().is_an_id() && n != 1 { vec![1, n] } else { vec![n] };
    let of = |n| {
        if run_id(queue, key, n) == *found {
            return Some(0);
        }
        (1..=MOST_REPLAYS).find(|replay| replay_run_id(queue, key, n, *replay) == *found)
    };
    numbers.into_iter().find_map(of)
}

/// The text itself where Airflow takes it as it is and it has at most [`MAX_LEN`] characters; else its first 167
/// characters, cleaned, then `_` and 32 hex digits of the SHA-256 of the whole.
///
/// Source: Airflow's `[scheduler] allowed_run_id_pattern` (`^[A-Za-z0-9_.~:+-]+$`), and its refusal of `..`.
fn clean(raw: &str) -> String {
    if raw.len() <= MAX_LEN && raw.chars().all(is_allowed) && !raw.contains("..") {
        return raw.to_owned();
    }
    let kept: String = raw.chars().take(KEPT_LEN).map(|c| if is_allowed(c) { c } else { '_' }).collect();
    let mut id = kept.replace("..", "__");
    id.push('_');
    id.push_str(&hex_digest(raw.as_bytes()));
    id
}

fn is_allowed(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '~' | ':' | '+' | '-')
}

/// The first 32 hex digits of the SHA-256 of `bytes`.
pub(super) fn hex_digest(bytes: &[u8]) -> String {
    hex32(&Sha256::digest(bytes))
}

/// The first 16 bytes as 32 hex digits.
pub(super) fn hex32(digest: &[u8]) -> String {
    digest.iter().take(16).fold(String::with_capacity(32), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::key::KeyKind;

    fn id(queue: &str, message_id: &str, n: u32) -> String {
        let key = DeliveryKey::new(KeyKind::MessageId, message_id);
        run_id(&QueueName::new(queue), &key, n).as_str().to_owned()
    }

    #[test]
    fn golden_vectors_stay_as_they_are() {
        assert_eq!(id("q0", "abc", 1), "rmq__q0__abc");
        assert_eq!(id("q0", "abc", 2), "rmq__q0__abc_2");
        assert_eq!(id("q0", "m 1/2", 1), "rmq__q0__m_1_2_5d8457e337e9d900e9dd84804151f3e0");
        assert_eq!(id("orders.eu", "a~b:c+d-e", 1), "rmq__orders.eu__a~b:c+d-e");
    }

    #[test]
    fn golden_vectors_of_replays_stay_as_they_are() {
        let id = |key: &str, n, replay| {
            let key = DeliveryKey::new(KeyKind::MessageId, key);
            replay_run_id(&QueueName::new("q0"), &key, n, replay).as_str().to_owned()
        };
        assert_eq!(id("abc", 1, 1), "rmq__q0__abc_r1");
        assert_eq!(id("abc", 2, 12), "rmq__q0__abc_2_r12");
        assert!(id("m 1/2", 1, 1).starts_with("rmq__q0__m_1_2_r1_"));
    }

    #[test]
    fn a_run_id_tells_how_often_its_message_was_replayed() {
        let (queue, key) = (QueueName::new("q"), DeliveryKey::new(KeyKind::MessageId, "m 1"));
        let after = |n, id: &RunId| replays_behind(&queue, &key, n, id);
        for n in [1, 3] {
            assert_eq!(after(n, &run_id(&queue, &key, n)), Some(0));
            assert_eq!(after(n, &run_id(&queue, &key, 1)), Some(0), "equal ids share the first run");
            assert_eq!(after(n, &replay_run_id(&queue, &key, 1, 7)), Some(7));
            assert_eq!(after(n, &replay_run_id(&queue, &key, 1, MOST_REPLAYS + 1)), None);
        }
        assert_eq!(after(1, &RunId::new("rmq__other__m")), None);
        let fingerprint = DeliveryKey::new(KeyKind::Fingerprint, "f");
        assert_eq!(replays_behind(&queue, &fingerprint, 2, &run_id(&queue, &fingerprint, 1)), None, "another row's");
    }

    #[test]
    fn two_dots_in_a_row_are_unclean() {
        let got = id("q..x", "1", 1);
        assert!(got.starts_with("rmq__q__x__1_"), "{got}");
        assert!(!got.contains(".."));
        assert!(!id("q", "...", 1).contains(".."));
    }

    #[test]
    fn long_ids_are_cut_to_the_limit_and_stay_apart() {
        let (a, b) = ("x".repeat(300) + "a", "x".repeat(300) + "b");
        assert_eq!(id("q", &a, 1).len(), MAX_LEN);
        assert_ne!(id("q", &a, 1), id("q", &b, 1));
        assert_eq!(id("q", &"x".repeat(192), 1).len(), MAX_LEN, "200 characters pass unchanged");
        assert!(id("q", &"x".repeat(192), 1).ends_with('x'));
        assert_eq!(id("q", &"x".repeat(193), 1).len(), MAX_LEN);
    }

    #[test]
    fn every_id_is_one_that_airflow_takes() {
        for message_id in ["", " ", "é", "a/b", "\u{0}", "..", "🦀", &"é".repeat(250)] {
            let got = id("q", message_id, 3);
            assert!(
                !got.is_empty() && got.len() <= MAX_LEN && got.chars().all(is_allowed) && !got.contains(".."),
                "{got}"
            );
        }
    }
}
