//! How to ask Airflow about several DAGs: one by one, or by its list; and how soon to ask again.

use std::time::Duration;

/// How to ask.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reading {
    /// One request for each DAG.
    Each,
    /// The list of all DAGs, then one request for each that is not in it.
    List,
}

/// So many are asked for one by one whatever Airflow holds: each answer is fresh, small and certain.
pub const FEW: usize = 8;

/// DAGs on one page of the list.
const PAGE: usize = 100;

/// How often a DAG that is waited for is asked for, unless that makes too many requests.
pub const ASK_EVERY: Duration = Duration::from_secs(5);

/// How to ask for `wanted` DAGs, given how many Airflow was last said to hold.
pub fn reading(wanted: usize, total: Option<usize>) -> Reading {
    let pages = total.map_or(1, |total| total.div_ceil(PAGE));
    if wanted <= FEW || wanted <= pages { Reading::Each } else { Reading::List }
}

/// The pause before the same is asked again that took so many requests: at most [`FEW`] in [`ASK_EVERY`] on average.
pub fn pause(requests: usize) -> Duration {
    let fives = requests.div_ceil(FEW).max(1);
    ASK_EVERY.saturating_mul(u32::try_from(fives).unwrap_or(u32::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_are_asked_for_one_by_one_and_many_by_the_list() {
        for (wanted, total, how) in [
            (1, None, Reading::Each),
            (8, Some(5_000), Reading::Each),
            (9, None, Reading::List),
            (9, Some(300), Reading::List),
            (9, Some(801), Reading::Each),
            (500, Some(500), Reading::List),
        ] {
            assert_eq!(reading(wanted, total), how, "{wanted} of {total:?}");
        }
    }

    #[test]
    fn many_requests_are_spread() {
        for (requests, secs) in [(0, 5), (1, 5), (8, 5), (9, 10), (500, 315)] {
            assert_eq!(pause(requests), Duration::from_secs(secs), "{requests}");
        }
    }
}
