//! What is declared and read, and would all the same not be run by this version: for `scan` and `check`.

use std::collections::HashMap;
use std::rc::Rc;

use crate::domain::declaration::Declaration;
use crate::domain::ids::SubscriptionId;
use crate::domain::plan::{Action, Wish, Withheld, plan};
use crate::domain::subscription::Subscription;

/// As the control flow would decide if all that is declared were recorded and nothing else.
pub(super) fn withheld(declarations: &[Declaration]) -> Vec<(&Declaration, Withheld)> {
    let wishes: Vec<Wish> = (0..).zip(declarations).map(|(id, declaration)| as_wish(id, declaration)).collect();
    let mut found: Vec<(i64, Withheld)> = plan(&wishes, &HashMap::new())
        .into_iter()
        .filter_map(|action| match action {
            Action::Withhold { id, why } => Some((id.0, why)),
            Action::Start(_) | Action::Change(_) | Action::Stop { .. } => None,
        })
        .collect();
    found.sort_by_key(|(id, _)| *id);
    let declaration = |id: i64| usize::try_from(id).ok().and_then(|at| declarations.get(at));
    found.into_iter().filter_map(|(id, why)| declaration(id).map(|declaration| (declaration, why))).collect()
}

/// One line for people.
pub(super) fn sentence(declaration: &Declaration, why: &Withheld) -> String {
    let Declaration { dag_id, origin, .. } = declaration;
    format!("{origin}: subscription of DAG '{dag_id}' would not run: {}", why.sentence().unwrap_or_default())
}

fn as_wish(id: i64, declaration: &Declaration) -> Wish {
    let Declaration { dag_id, queue, conn_id, options, .. } = declaration.clone();
    let withheld = options.not_handled().map(Withheld::NotHandled);
    let subscription = Subscription { id: SubscriptionId(id), dag_id, queue, conn_id, options };
    Wish { subscription: Rc::new(subscription), withheld }
}
