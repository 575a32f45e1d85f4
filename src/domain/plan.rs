//! What the control flow does next, given the subscriptions that are recorded and the consumers that run.
//!
//! A subscription wishes to run or has a reason not to. One consumer serves a queue of a connection for all of them, by a
//! table of every row that names it; it is there while at least one of them is to run. What is observed of it has three values,
//! absent, running and unknown, and nothing is done about a consumer of which nothing is known: it is looked at again once it
//! is. Planning again once a plan was carried out does nothing.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::rc::Rc;

use super::ids::{ConnId, QueueName, SubscriptionId};
use super::subscription::Subscription;
use super::table::{Route, Table};

/// Where a consumer is attached: one queue of one connection.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Place {
    /// The connection.
    pub conn_id: ConnId,
    /// The queue.
    pub queue: QueueName,
}

impl Place {
    /// Where a subscription's messages are.
    pub fn of(subscription: &Subscription) -> Self {
        Self { conn_id: subscription.conn_id.clone(), queue: subscription.queue.clone() }
    }
}

/// A recorded subscription and what is wanted of it.
#[derive(Clone, Debug, PartialEq)]
pub struct Wish {
    /// Its row in the table of its queue.
    pub route: Rc<Route>,
    /// Why it is not to run; `None`: it is.
    pub withheld: Option<Withheld>,
}

impl Wish {
    /// The subscription.
    pub fn subscription(&self) -> &Rc<Subscription> {
        &self.route.subscription
    }
}

/// Why a recorded subscription does not run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Withheld {
    /// Somebody switched it off.
    Disabled,
    /// Its declaration was refused, with this sentence.
    Invalid(String),
    /// It has an option that this version cannot act on.
    NotHandled(&'static str),
    /// There are no credentials to start anything with.
    NoCredentials,
}

impl Withheld {
    /// The stable name in rows and log fields.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Disabled => "disabled",
            Self::Invalid(_) => "invalid",
            Self::NotHandled(_) => "not_handled",
            Self::NoCredentials => "no_credentials",
        }
    }

    /// Why, for people; `None` where somebody wanted it so.
    pub fn sentence(&self) -> Option<String> {
        match self {
            Self::Disabled => None,
            Self::Invalid(sentence) => Some(sentence.clone()),
            Self::NotHandled(option) => Some(format!(
                "this version of the watcher cannot act on `{option}`; leave it out or update the watcher"
            )),
            Self::NoCredentials => Some("no Airflow credentials".to_owned()),
        }
    }
}

/// What is known of a consumer that is not absent.
#[derive(Clone, Debug, PartialEq)]
pub enum Observed {
    /// It works by this table.
    Running(Table),
    /// It is on its way out, or nothing is known.
    Unknown,
}

/// What to do.
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    /// Start a consumer.
    Start {
        /// Where.
        place: Place,
        /// What it works by.
        table: Table,
    },
    /// Hand a new table to the consumer that runs: it stays attached.
    Change {
        /// Which.
        place: Place,
        /// What it works by from now on.
        table: Table,
    },
    /// Let the consumer go.
    Stop {
        /// Which.
        place: Place,
        /// Why.
        reason: StopReason,
    },
    /// The subscription does not run: say why.
    Withhold {
        /// Which.
        id: SubscriptionId,
        /// Why.
        why: Withheld,
    },
}

/// Why a consumer goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StopReason {
    /// None of its subscriptions is recorded any more.
    Removed,
    /// None of its subscriptions is to run: why the first one is not.
    Withheld(Withheld),
}

impl StopReason {
    /// The stable name in log fields.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Removed => "removed",
            Self::Withheld(why) => why.code(),
        }
    }
}

/// Plans.
///
/// `wishes` are all that is recorded, `tombstones` the rows of what was deleted, from a read that succeeded; `observed` has an
/// entry for each consumer that is not absent.
pub fn plan(wishes: &[Wish], tombstones: &[Rc<Route>], observed: &HashMap<Place, Observed>) -> Vec<Action> {
    let withheld = wishes.iter().filter_map(|wish| {
        let why = wish.withheld.clone()?;
        Some(Action::Withhold { id: wish.subscription().id, why })
    });
    let mut actions: Vec<Action> = withheld.collect();
    let wanted = tables(wishes, tombstones);
    let mut stops: Vec<_> = observed
        .iter()
        .filter_map(|(place, seen)| match seen {
            Observed::Running(_) if !wanted.contains_key(place) => Some(place),
            Observed::Running(_) | Observed::Unknown => None,
        })
        .collect();
    stops.sort();
    actions.extend(
        stops.into_iter().map(|place| Action::Stop { place: place.clone(), reason: stop_reason(wishes, place) }),
    );
    actions.extend(wanted.into_iter().filter_map(|(place, table)| match observed.get(&place) {
        None => Some(Action::Start { place, table }),
        Some(Observed::Running(running)) if *running != table => Some(Action::Change { place, table }),
        Some(Observed::Running(_) | Observed::Unknown) => None,
    }));
    actions
}

/// The table of every queue for which somebody is to run.
fn tables(wishes: &[Wish], tombstones: &[Rc<Route>]) -> BTreeMap<Place, Table> {
    let mut routes: BTreeMap<Place, Vec<Rc<Route>>> = BTreeMap::new();
    for wish in wishes.iter().filter(|wish| wish.withheld.is_none()) {
        routes.entry(Place::of(wish.subscription())).or_default().push(Rc::clone(&wish.route));
    }
    let others = wishes.iter().filter(|wish| wish.withheld.is_some()).map(|wish| &wish.route);
    for route in others.chain(tombstones) {
        if let Some(routes) = routes.get_mut(&Place::of(&route.subscription)) {
            routes.push(Rc::clone(route));
        }
    }
    routes.into_iter().map(|(place, routes)| (place, Table::new(routes))).collect()
}

fn stop_reason(wishes: &[Wish], place: &Place) -> StopReason {
    let first =
        wishes.iter().filter(|wish| Place::of(wish.subscription()) == *place).min_by_key(|wish| wish.subscription().id);
    first.and_then(|wish| wish.withheld.clone()).map_or(StopReason::Removed, StopReason::Withheld)
}

/// The connections that some subscription wishes to use, in order.
pub fn connections(wishes: &[Wish]) -> Vec<ConnId> {
    let wished = wishes.iter().filter(|wish| wish.withheld.is_none()).map(|wish| wish.subscription().conn_id.clone());
    let mut connections: Vec<ConnId> = wished.collect::<HashSet<_>>().into_iter().collect();
    connections.sort();
    connections
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::domain::ids::DagId;
    use crate::domain::options::{OnPaused, Options};
    use crate::domain::routing::Standing;

    fn subscription(id: i64, dag: &str, queue: &str) -> Subscription {
        Subscription {
            id: SubscriptionId(id),
            dag_id: DagId::new(dag),
            queue: QueueName::new(queue),
            conn_id: ConnId::new("c"),
            options: Options::default(),
        }
    }

    fn route(subscription: Subscription, standing: Standing) -> Rc<Route> {
        Rc::new(Route::new(Rc::new(subscription), standing).expect("no filter is a filter"))
    }

    fn wish(id: i64, dag: &str, queue: &str) -> Wish {
        Wish { route: route(subscription(id, dag, queue), Standing::Listening), withheld: None }
    }

    fn withheld(id: i64, dag: &str, queue: &str, why: Withheld) -> Wish {
        Wish { route: route(subscription(id, dag, queue), Standing::Disabled), withheld: Some(why) }
    }

    fn place(wish: &Wish) -> Place {
        Place::of(wish.subscription())
    }

    fn table(wishes: &[&Wish]) -> Table {
        Table::new(wishes.iter().map(|wish| Rc::clone(&wish.route)).collect())
    }

    fn running(tables: &[&[&Wish]]) -> HashMap<Place, Observed> {
        tables.iter().map(|wishes| (place(wishes[0]), Observed::Running(table(wishes)))).collect()
    }

    fn start(wishes: &[&Wish]) -> Action {
        Action::Start { place: place(wishes[0]), table: table(wishes) }
    }

    #[test]
    fn what_is_wished_is_started_once_with_one_consumer_for_a_queue() {
        let (a, b, c) = (wish(1, "a", "q1"), wish(2, "b", "q2"), wish(3, "c", "q1"));
        let wishes = [a.clone(), b.clone(), c.clone()];
        assert_eq!(plan(&wishes, &[], &HashMap::new()), [start(&[&a, &c]), start(&[&b])]);
        assert_eq!(plan(&wishes, &[], &running(&[&[&a, &c], &[&b]])), [], "planning again does nothing");
    }

    #[test]
    fn what_is_recorded_no_more_or_withheld_is_let_go_with_its_reason() {
        let a = wish(1, "a", "q1");
        let stop = |reason| Action::Stop { place: place(&a), reason };
        assert_eq!(plan(&[], &[], &running(&[&[&a]])), [stop(StopReason::Removed)]);
        for why in [Withheld::Disabled, Withheld::Invalid("a.py:1:1: …".into()), Withheld::NotHandled("cooldown")] {
            let planned = plan(&[withheld(1, "a", "q1", why.clone())], &[], &running(&[&[&a]]));
            let say = Action::Withhold { id: SubscriptionId(1), why: why.clone() };
            assert_eq!(planned, [say, stop(StopReason::Withheld(why))]);
        }
    }

    #[test]
    fn a_change_of_the_table_leaves_the_consumer_attached() {
        let (a, b) = (wish(1, "a", "q"), wish(2, "b", "q"));
        let mut changed = subscription(1, "a", "q");
        changed.options.on_paused = OnPaused::Run;
        let changed = Wish { route: route(changed, Standing::Listening), withheld: None };
        let change = |wishes: &[&Wish]| Action::Change { place: place(&a), table: table(wishes) };
        assert_eq!(plan(std::slice::from_ref(&changed), &[], &running(&[&[&a]])), [change(&[&changed])]);
        assert_eq!(plan(std::slice::from_ref(&changed), &[], &running(&[&[&changed]])), []);
        assert_eq!(plan(&[a.clone(), b.clone()], &[], &running(&[&[&a]])), [change(&[&a, &b])]);
        let off = withheld(1, "a", "q", Withheld::Disabled);
        let say = Action::Withhold { id: SubscriptionId(1), why: Withheld::Disabled };
        assert_eq!(plan(&[off.clone(), b.clone()], &[], &running(&[&[&a, &b]])), [say, change(&[&off, &b])]);
    }

    #[test]
    fn rows_that_do_not_run_stand_in_the_table_and_make_no_consumer() {
        let (a, off) = (wish(1, "a", "q"), withheld(2, "b", "q", Withheld::Disabled));
        let gone = route(subscription(3, "c", "q"), Standing::Tombstoned);
        let elsewhere = route(subscription(4, "d", "other"), Standing::Tombstoned);
        let say = Action::Withhold { id: SubscriptionId(2), why: Withheld::Disabled };
        let whole = Table::new(vec![a.route.clone(), off.route.clone(), gone.clone()]);
        let planned = plan(&[a.clone(), off.clone()], &[gone.clone(), elsewhere.clone()], &HashMap::new());
        assert_eq!(planned, [say.clone(), Action::Start { place: place(&a), table: whole }]);
        assert_eq!(plan(std::slice::from_ref(&off), &[gone, elsewhere], &HashMap::new()), [say]);
    }

    #[test]
    fn nothing_is_done_about_a_consumer_of_which_nothing_is_known() {
        let a = wish(1, "a", "q1");
        let unknown = HashMap::from([(place(&a), Observed::Unknown)]);
        assert_eq!(plan(std::slice::from_ref(&a), &[], &unknown), []);
        assert_eq!(plan(&[], &[], &unknown), []);
    }

    #[test]
    fn connections_of_what_is_wished_are_named_once() {
        let (a, b) = (wish(1, "a", "q1"), wish(2, "b", "q2"));
        let mut c = subscription(3, "c", "q3");
        c.conn_id = ConnId::new("a");
        let c = Wish { route: route(c, Standing::Listening), withheld: None };
        let off = withheld(4, "d", "q4", Withheld::Disabled);
        assert_eq!(connections(&[a, b, c, off]), [ConnId::new("a"), ConnId::new("c")]);
    }

    fn any_wish() -> impl Strategy<Value = (u8, bool, bool)> {
        (0..3_u8, any::<bool>(), any::<bool>())
    }

    fn wishes(of: &[(u8, bool, bool)]) -> Vec<Wish> {
        let one = |(id, (queue, is_off, runs_paused)): (i64, &(u8, bool, bool))| {
            let mut subscription = subscription(id, &format!("d{id}"), &format!("q{queue}"));
            subscription.options.on_paused = if *runs_paused { OnPaused::Run } else { OnPaused::Drop };
            let standing = if *is_off { Standing::Disabled } else { Standing::Listening };
            Wish { route: route(subscription, standing), withheld: is_off.then_some(Withheld::Disabled) }
        };
        (1..).zip(of).map(one).collect()
    }

    proptest! {
        #[test]
        fn planning_twice_changes_nothing(before in prop::collection::vec(any_wish(), 0..5), now in prop::collection::vec(any_wish(), 0..5)) {
            let mut observed = HashMap::new();
            for list in [before, now] {
                let wishes = wishes(&list);
                for action in plan(&wishes, &[], &observed) {
                    match action {
                        Action::Start { place, table } | Action::Change { place, table } => {
                            observed.insert(place, Observed::Running(table));
                        }
                        Action::Stop { place, .. } => prop_assert!(observed.remove(&place).is_some()),
                        Action::Withhold { .. } => {}
                    }
                }
                let again = plan(&wishes, &[], &observed);
                prop_assert!(again.iter().all(|action| matches!(action, Action::Withhold { .. })), "{:?}", again);
                let places: HashSet<Place> = wishes.iter().filter(|wish| wish.withheld.is_none()).map(place).collect();
                prop_assert_eq!(observed.keys().cloned().collect::<HashSet<_>>(), places);
            }
        }
    }
}
