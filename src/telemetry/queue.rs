//! The bounded queue between whoever logs and the writer thread, as a plain value: no lock, no thread, no clock.
//!
//! Invariants: pushing never waits and never grows the queue past its bounds; every line that did not fit, or that was taken
//! out and could not be written, is in [`LineQueue::lost`] until it has been said.

use std::collections::VecDeque;

/// Lines that may wait at most. A burst of a second at the full rate of log lines fits many times over.
const MAX_LINES: usize = 8192;
/// Bytes that may wait at most: what a stalled reader may cost in memory.
const MAX_BYTES: usize = 4 * 1024 * 1024;

/// Lines waiting to be written, oldest first.
#[derive(Debug, Default)]
pub(super) struct LineQueue {
    lines: VecDeque<Vec<u8>>,
    bytes: usize,
    lost: u64,
}

impl LineQueue {
    /// Takes a line in, or counts it as lost.
    pub(super) fn push(&mut self, line: Vec<u8>) {
        if self.lines.len() >= MAX_LINES || self.bytes + line.len() > MAX_BYTES {
            self.lost += 1;
            return;
        }
        self.bytes += line.len();
        self.lines.push_back(line);
    }

    /// The oldest line.
    pub(super) fn pop(&mut self) -> Option<Vec<u8>> {
        let line = self.lines.pop_front()?;
        self.bytes -= line.len();
        Some(line)
    }

    /// Counts a line that was taken out and could not be written.
    pub(super) fn count_lost(&mut self) {
        self.lost += 1;
    }

    /// How many lines were lost and not said yet.
    pub(super) fn lost(&self) -> u64 {
        self.lost
    }

    /// The loss of `count` lines has been written into the log.
    pub(super) fn loss_was_said(&mut self, count: u64) {
        self.lost = self.lost.saturating_sub(count);
    }

    /// Nothing waits.
    pub(super) fn is_empty(&self) -> bool {
        self.lines.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queue_full_of_lines_counts_the_rest() {
        let mut queue = LineQueue::default();
        for n in 0..MAX_LINES + 3 {
            queue.push(n.to_string().into_bytes());
        }
        assert_eq!(queue.lost(), 3);
        assert_eq!(queue.pop(), Some(b"0".to_vec()));
        queue.push(b"again".to_vec());
        assert_eq!(queue.lost(), 3);
        queue.loss_was_said(2);
        assert_eq!(queue.lost(), 1);
    }

    #[test]
    fn queue_full_of_bytes_counts_the_rest() {
        let mut queue = LineQueue::default();
        for _ in 0..2000 {
            queue.push(vec![b'x'; 4096]);
        }
        assert_eq!(queue.lost(), 2000 - 1024);
        while queue.pop().is_some() {}
        assert!(queue.is_empty());
        queue.push(vec![b'x'; 4096]);
        assert_eq!(queue.lost(), 2000 - 1024);
    }
}
