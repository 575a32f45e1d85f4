//! How long to wait before the next try: doubling, capped, spread so that many who fail together do not come back together.
//!
//! Pure: the caller counts tries, draws the seed and sleeps. Serves attaching consumers and holding deliveries.

use std::time::Duration;

use super::fault::BrokerFaultKind;

/// How a kind of trouble is waited out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Schedule {
    /// The pause after the first failure.
    pub base: Duration,
    /// The longest pause, before jitter.
    pub cap: Duration,
}

/// For trouble that passes by itself: 1 s doubling to 60 s.
pub const WEATHER: Schedule = Schedule { base: Duration::from_secs(1), cap: Duration::from_secs(60) };

/// For trouble that somebody has to mend: 5 s doubling to 60 s. Slower at first, since the next try will hardly differ and
/// failed logins are counted against us; never slower than a minute, so that a mended setting is noticed soon.
pub const CONFIGURATION: Schedule = Schedule { base: Duration::from_secs(5), cap: Duration::from_secs(60) };

/// The schedule for a broker fault.
pub fn schedule(kind: BrokerFaultKind) -> Schedule {
    if kind.is_configuration() { CONFIGURATION } else { WEATHER }
}

/// The pause after failure number `attempt` (0 = the first): `base` doubled `attempt` times, at most `cap`, then spread evenly
/// over ±20 %. The longest pause is therefore `1.2 * cap`. Equal seeds give equal pauses.
pub fn backoff(attempt: u32, base: Duration, cap: Duration, jitter_seed: u64) -> Duration {
    let factor = 1_u32.checked_shl(attempt).unwrap_or(u32::MAX).max(1);
    let pause = base.saturating_mul(factor).min(cap);
    pause.saturating_mul(800 + per_mille_of_400(jitter_seed)) / 1000
}

/// 0 to 400, evenly, from any seed: the mixing step of `SplitMix64`, so that neighbouring seeds differ.
fn per_mille_of_400(seed: u64) -> u32 {
    let mut z = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^= z >> 31;
    u32::try_from(z % 401).expect("less than 401")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn nominal(attempt: u32, schedule: Schedule) -> Duration {
        // The seed whose jitter is nil is looked for once, so the doubling can be read off exactly.
        let seed = (0..).find(|s| per_mille_of_400(*s) == 200).unwrap_or(0);
        backoff(attempt, schedule.base, schedule.cap, seed)
    }

    #[test]
    fn weather_doubles_from_one_second_to_sixty() {
        let secs: Vec<u64> = (0..9).map(|n| nominal(n, WEATHER).as_secs()).collect();
        assert_eq!(secs, [1, 2, 4, 8, 16, 32, 60, 60, 60]);
    }

    #[test]
    fn configuration_doubles_from_five_seconds_to_sixty() {
        let secs: Vec<u64> = (0..6).map(|n| nominal(n, CONFIGURATION).as_secs()).collect();
        assert_eq!(secs, [5, 10, 20, 40, 60, 60]);
    }

    #[test]
    fn a_wrong_setting_is_retried_slowly_and_weather_fast() {
        assert_eq!(schedule(BrokerFaultKind::LoginRefused), CONFIGURATION);
        assert_eq!(schedule(BrokerFaultKind::Unreachable), WEATHER);
    }

    #[test]
    fn neighbouring_seeds_spread_over_the_whole_range() {
        let pauses: Vec<u128> = (0..200).map(|seed| backoff(0, WEATHER.base, WEATHER.cap, seed).as_millis()).collect();
        assert!(pauses.iter().any(|p| *p < 840), "none of 200 was short");
        assert!(pauses.iter().any(|p| *p > 1160), "none of 200 was long");
    }

    proptest! {
        #[test]
        fn backoff_stays_within_a_fifth_of_the_nominal_pause(attempt: u32, base_ms in 1_u64..100_000, cap_ms in 1_u64..10_000_000, seed: u64) {
            let (base, cap) = (Duration::from_millis(base_ms), Duration::from_millis(cap_ms));
            let pause = backoff(attempt, base, cap, seed);
            let doubled = u128::from(base_ms) << attempt.min(40);
            let wanted = doubled.min(u128::from(cap_ms)) * 1_000_000;
            prop_assert!(pause.as_nanos() * 10 >= wanted * 8 - 10);
            prop_assert!(pause.as_nanos() * 10 <= wanted * 12);
        }

        #[test]
        fn backoff_never_shrinks_for_one_seed(attempt in 0_u32..80, seed: u64) {
            let now = backoff(attempt, WEATHER.base, WEATHER.cap, seed);
            let later = backoff(attempt + 1, WEATHER.base, WEATHER.cap, seed);
            prop_assert!(now <= later);
        }
    }
}
