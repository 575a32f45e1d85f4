//! What is wanted of the rows, as the plan and the routing table take it.

use std::rc::Rc;

use crate::domain::plan::{Wish, Withheld};
use crate::domain::routing::Standing;
use crate::domain::subscription::Subscription;
use crate::domain::sync::Row;
use crate::domain::table::Route;

/// What is wanted of a recorded subscription.
pub(super) fn wish(row: &Row, can_start: bool) -> Wish {
    let subscription = subscription(row);
    let invalid = |why| Wish { route: Rc::new(Route::invalid(Rc::clone(&subscription))), withheld: Some(why) };
    let standing = match (row.enabled, row.absent_cycles) {
        (false, _) => Standing::Disabled,
        (true, 0) => Standing::Listening,
        (true, _) => Standing::InGrace,
    };
    if let Some(sentence) = &row.invalid {
        return invalid(Withheld::Invalid(sentence.clone()));
    }
    let route = match Route::new(Rc::clone(&subscription), standing) {
        Ok(route) => route,
        Err(problem) => return invalid(Withheld::Invalid(problem.to_string())),
    };
    let withheld = if !row.enabled {
        Some(Withheld::Disabled)
    } else if let Some(option) = row.options.not_handled() {
        return invalid(Withheld::NotHandled(option));
    } else {
        (!can_start).then_some(Withheld::NoCredentials)
    };
    Wish { route: Rc::new(route), withheld }
}

/// What is remembered of a subscription that was deleted: it forbids, and takes nothing.
pub(super) fn tombstone(row: &Row) -> Rc<Route> {
    let subscription = subscription(row);
    let route = Route::new(Rc::clone(&subscription), Standing::Tombstoned);
    Rc::new(route.unwrap_or_else(|_| Route::invalid(subscription)))
}

fn subscription(row: &Row) -> Rc<Subscription> {
    Rc::new(Subscription {
        id: row.id,
        dag_id: row.key.dag_id.clone(),
        queue: row.key.queue.clone(),
        conn_id: row.key.conn_id.clone(),
        options: row.options.clone(),
    })
}
