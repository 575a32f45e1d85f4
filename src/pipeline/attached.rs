//! Consumers that are held now, by connection: counted where a tag is confirmed and where it goes.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use crate::domain::ids::{ConnId, ConsumerTag};

/// How many consumers each connection carries now.
#[derive(Clone, Debug, Default)]
pub struct Attached(Rc<RefCell<BTreeMap<ConnId, u32>>>);

/// A tag that is held. Its consumer counts until this is dropped.
pub(super) struct HeldTag {
    tag: ConsumerTag,
    conn_id: ConnId,
    attached: Attached,
}

impl Attached {
    /// How many consumers are held over a connection.
    pub fn count(&self, conn_id: &ConnId) -> u32 {
        self.0.borrow().get(conn_id).copied().unwrap_or(0)
    }

    /// The connections over which any is held, in order.
    pub fn connections(&self) -> Vec<ConnId> {
        self.0.borrow().keys().cloned().collect()
    }

    pub(super) fn hold(&self, conn_id: &ConnId, tag: &ConsumerTag) -> HeldTag {
        *self.0.borrow_mut().entry(conn_id.clone()).or_default() += 1;
        HeldTag { tag: tag.clone(), conn_id: conn_id.clone(), attached: self.clone() }
    }
}

impl HeldTag {
    pub(super) fn tag(&self) -> &ConsumerTag {
        &self.tag
    }
}

impl Drop for HeldTag {
    fn drop(&mut self) {
        let mut counts = self.attached.0.borrow_mut();
        if let Some(count) = counts.get_mut(&self.conn_id) {
            *count -= 1;
            if *count == 0 {
                counts.remove(&self.conn_id);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_consumer_counts_as_long_as_its_tag_is_held() {
        let (attached, one, two) = (Attached::default(), ConnId::new("one"), ConnId::new("two"));
        let hold = |conn_id| attached.hold(conn_id, &ConsumerTag::new("tag"));
        let (first, second, other) = (hold(&one), hold(&one), hold(&two));
        assert_eq!((attached.count(&one), attached.count(&two)), (2, 1));
        drop((first, other));
        assert_eq!((attached.count(&one), attached.count(&two)), (1, 0));
        assert_eq!(attached.connections(), std::slice::from_ref(&one));
        drop(second);
        assert!(attached.count(&one) == 0 && attached.connections().is_empty());
    }
}
