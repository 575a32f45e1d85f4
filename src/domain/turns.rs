//! Whose turn it is where places are few: those who wait take turns by what they belong to, not by when they came.
//!
//! Serves the data flow: requests to Airflow by subscription, and the runs that one subscription may have under way.
//!
//! Invariants (tests below): never more places are taken than there are; no place stays free while somebody waits; between
//! two turns of one line every other line that waits has its turn; within a line the first who came is the first to go.

use std::collections::VecDeque;

/// Somebody who waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Ticket(u64);

/// Places, and who waits for one: a line for each `K`.
#[derive(Debug)]
pub struct Turns<K> {
    most: usize,
    taken: usize,
    /// Lines that are not empty, the next one first.
    lines: VecDeque<(K, VecDeque<Ticket>)>,
    last: u64,
}

impl<K: Copy + PartialEq> Turns<K> {
    /// So many places.
    pub fn new(most: usize) -> Self {
        Self { most, taken: 0, lines: VecDeque::new(), last: 0 }
    }

    /// So many places from now on. Those that are taken stay taken.
    pub fn set_most(&mut self, most: usize) {
        self.most = most;
    }

    /// How many more may be taken now, if nobody waited.
    pub fn free(&self) -> usize {
        self.most.saturating_sub(self.taken)
    }

    /// Takes a place at once, if one is free and nobody waits for it.
    pub fn try_take(&mut self) -> bool {
        let takes = self.lines.is_empty() && self.free() > 0;
        self.taken += usize::from(takes);
        takes
    }

    /// Joins the line of `of`.
    pub fn wait(&mut self, of: K) -> Ticket {
        self.last += 1;
        let ticket = Ticket(self.last);
        match self.lines.iter_mut().find(|(line, _)| *line == of) {
            Some((_, line)) => line.push_back(ticket),
            None => self.lines.push_back((of, VecDeque::from([ticket]))),
        }
        ticket
    }

    /// Waits no more. Does nothing if it has had its turn.
    pub fn leave(&mut self, ticket: Ticket) {
        for (_, line) in &mut self.lines {
            line.retain(|waiting| *waiting != ticket);
        }
        self.lines.retain(|(_, line)| !line.is_empty());
    }

    /// A place is free again.
    pub fn give_back(&mut self) {
        self.taken = self.taken.saturating_sub(1);
    }

    /// Takes a free place for who is next.
    pub fn next_turn(&mut self) -> Option<Ticket> {
        if self.free() == 0 {
            return None;
        }
        let (of, mut line) = self.lines.pop_front()?;
        let ticket = line.pop_front()?;
        if !line.is_empty() {
            self.lines.push_back((of, line));
        }
        self.taken += 1;
        Some(ticket)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_thousand_of_one_line_delay_another_line_by_one_turn() {
        let mut turns = Turns::new(1);
        assert!(turns.try_take());
        let many: Vec<_> = (0..1000).map(|_| turns.wait('a')).collect();
        let one = turns.wait('b');
        let mut next = || {
            turns.give_back();
            turns.next_turn()
        };
        assert_eq!([next(), next(), next()], [Some(many[0]), Some(one), Some(many[1])]);
    }

    #[test]
    fn nobody_overtakes_who_waits_and_who_leaves_takes_no_turn() {
        let mut turns = Turns::new(1);
        assert!(turns.try_take());
        let (first, second) = (turns.wait('a'), turns.wait('a'));
        turns.give_back();
        assert!(!turns.try_take(), "two wait for it");
        turns.leave(first);
        assert_eq!((turns.next_turn(), turns.next_turn()), (Some(second), None));
        turns.give_back();
        assert!(turns.try_take());
    }

    #[test]
    fn fewer_places_count_from_the_next_turn_on() {
        let mut turns = Turns::new(2);
        assert!(turns.try_take() && turns.try_take());
        turns.set_most(1);
        let waiting = turns.wait('a');
        turns.give_back();
        assert_eq!((turns.free(), turns.next_turn()), (0, None));
        turns.give_back();
        assert_eq!(turns.next_turn(), Some(waiting));
    }

    proptest! {
        #[test]
        fn every_line_has_its_turn_before_any_has_two(steps in prop::collection::vec((0_u8..4, 0_u8..4), 0..200), most in 1_usize..5) {
            let (mut turns, mut waiting, mut taken) = (Turns::new(most), HashMap::new(), 0_usize);
            // For each line that waits: how many turns the others had since it came to wait, by line.
            let mut passed: HashMap<u8, HashMap<u8, u32>> = HashMap::new();
            for (what, of) in steps {
                match what {
                    0 | 1 => {
                        if turns.try_take() {
                            taken += 1;
                        } else {
                            waiting.insert(turns.wait(of), of);
                            passed.entry(of).or_default();
                        }
                    }
                    2 => {
                        if let Some(ticket) = waiting.iter().filter(|(_, line)| **line == of).map(|(ticket, _)| *ticket).min() {
                            turns.leave(ticket);
                            waiting.remove(&ticket);
                            if !waiting.values().any(|line| *line == of) {
                                passed.remove(&of);
                            }
                        }
                    }
                    _ => {
                        if taken > 0 {
                            turns.give_back();
                            taken -= 1;
                        }
                    }
                }
                while let Some(ticket) = turns.next_turn() {
                    taken += 1;
                    let line = waiting.remove(&ticket).expect("it waited");
                    passed.remove(&line);
                    if waiting.values().any(|other| *other == line) {
                        passed.insert(line, HashMap::new());
                    }
                    for turns_of in passed.values_mut() {
                        let had = turns_of.entry(line).or_default();
                        *had += 1;
                        prop_assert!(*had <= 1, "a line had two turns while another one waited");
                    }
                }
                prop_assert!(taken <= most);
                prop_assert!(waiting.is_empty() || taken == most, "a place is free while somebody waits");
            }
        }
    }
}
