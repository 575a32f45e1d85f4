//! Which values of a body are asked for, so that one pass over its text picks all of them and keeps nothing else.

use super::path::{Part, Path};
use super::value::{Extent, Json, Unclear};

/// The paths of one or more filters, put together.
#[derive(Clone, Debug, Default)]
pub(super) struct Selection {
    pub(super) root: Wanted,
    /// Where the value of each path is kept.
    slot_of: Vec<usize>,
    slots: usize,
}

/// One place of a body: whether its value is wanted, and what is wanted below it.
#[derive(Clone, Debug, Default)]
pub(super) struct Wanted {
    pub(super) value: Option<(usize, Extent)>,
    pub(super) below: Vec<(Part, Wanted)>,
}

/// What stands at a path.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Slot<'a> {
    /// Nothing.
    Absent,
    /// This value.
    Found(Json<'a>),
    /// A key above it stands twice, so that it is open which of two values is meant.
    Hidden(Unclear),
}

impl Selection {
    /// Adds a path; its number is how many were added before.
    pub(super) fn add(&mut self, path: &Path, extent: Extent) {
        let mut wanted = &mut self.root;
        for part in path.parts() {
            let at = wanted.below.iter().position(|(known, _)| known == part).unwrap_or_else(|| {
                wanted.below.push((part.clone(), Wanted::default()));
                wanted.below.len() - 1
            });
            wanted = &mut wanted.below[at].1;
        }
        let (slot, known) = *wanted.value.get_or_insert((self.slots, extent));
        wanted.value = Some((slot, known.merge(extent)));
        self.slots = self.slots.max(slot + 1);
        self.slot_of.push(slot);
    }

    pub(super) fn no_values<'a>(&self) -> Vec<Slot<'a>> {
        vec![Slot::Absent; self.slots]
    }

    /// The slot of a path, by its number.
    pub(super) fn slot(&self, path: usize) -> usize {
        self.slot_of[path]
    }
}

impl Wanted {
    /// Which of the parts below is this key of an object.
    pub(super) fn key(&self, key: &str) -> Option<usize> {
        self.below.iter().position(|(part, _)| *part.key == *key)
    }

    /// Which of the parts below is this place of a list.
    pub(super) fn place(&self, place: usize) -> Option<usize> {
        self.below.iter().position(|(part, _)| part.place == Some(place))
    }

    /// Makes this value and all below it unclear.
    pub(super) fn cloud(&self, unclear: Unclear, slots: &mut [Slot<'_>]) {
        if let Some((slot, _)) = self.value {
            slots[slot] = Slot::Found(Json::Unclear(unclear));
        }
        self.below.iter().for_each(|(_, wanted)| wanted.hide(unclear, slots));
    }

    fn hide(&self, unclear: Unclear, slots: &mut [Slot<'_>]) {
        if let Some((slot, _)) = self.value {
            slots[slot] = Slot::Hidden(unclear);
        }
        self.below.iter().for_each(|(_, wanted)| wanted.hide(unclear, slots));
    }
}
