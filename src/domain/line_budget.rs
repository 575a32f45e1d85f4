//! How many lines a second one subscription may write, so that a flood of messages is not a flood of lines.

/// Lines a second; what is beyond is counted and said once.
pub const LINES_A_SECOND: u32 = 20;

const WINDOW_MS: i64 = 1_000;

/// Counts lines in windows of one second.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LineBudget {
    window_start_ms: i64,
    written: u32,
    left_out: u32,
}

impl LineBudget {
    /// Whether a line may be written now.
    pub fn admit(&mut self, now_ms: i64) -> bool {
        if !(0..WINDOW_MS).contains(&(now_ms - self.window_start_ms)) {
            (self.window_start_ms, self.written) = (now_ms, 0);
        }
        let admitted = self.written < LINES_A_SECOND;
        self.written += u32::from(admitted);
        self.left_out += u32::from(!admitted);
        admitted
    }

    /// How many lines were left out since the last call; 0 until the second they belong to is over.
    pub fn take_left_out(&mut self, now_ms: i64) -> u32 {
        if (0..WINDOW_MS).contains(&(now_ms - self.window_start_ms)) {
            return 0;
        }
        std::mem::take(&mut self.left_out)
    }

    /// Whether lines were left out since the last report.
    pub fn leaves_out(&self) -> bool {
        self.left_out > 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn twenty_lines_a_second_and_the_rest_is_counted() {
        let mut budget = LineBudget::default();
        assert_eq!((0..51).filter(|_| budget.admit(1_000)).count(), 20);
        assert_eq!(budget.take_left_out(1_999), 0, "the second is not over");
        assert!(budget.leaves_out());
        assert_eq!(budget.take_left_out(2_000), 31);
        assert_eq!(budget.take_left_out(2_001), 0);
    }

    #[test]
    fn a_clock_that_jumps_back_does_not_silence_anything() {
        let mut budget = LineBudget::default();
        assert_eq!((0..50).filter(|_| budget.admit(1_000_000)).count(), 20);
        assert!(budget.admit(0));
    }
}
