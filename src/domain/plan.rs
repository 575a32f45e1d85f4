//! What the control flow does next, given the subscriptions that are recorded and the consumers that run.
//!
//! A subscription wishes to run or has a reason not to. One consumer serves a queue of a connection. What is observed of it has
//! three values, absent, running and unknown, and nothing is done about a consumer of which nothing is known: it is looked at
//! again once it is. Planning again once a plan was carried out does nothing.

use std::collections::{BTreeMap, HashMap, HashSet};

use super::ids::{ConnId, DagId, QueueName, SubscriptionId};
use super::subscription::Subscription;

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
    /// The subscription.
    pub subscription: Subscription,
    /// Why it is not to run; `None`: it is.
    pub withheld: Option<Withheld>,
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
    /// Its queue is served for another DAG.
    QueueTaken {
        /// Which queue.
        queue: QueueName,
        /// Which DAG.
        by: DagId,
    },
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
            Self::QueueTaken { .. } => "queue_taken",
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
            Self::QueueTaken { queue, by } => Some(format!(
                "queue '{queue}' is served for DAG '{by}' already, and this version serves a queue for one DAG; give each DAG \
                 a queue of its own"
            )),
            Self::NoCredentials => Some("no Airflow credentials".to_owned()),
        }
    }
}

/// What is known of a consumer that is not absent.
#[derive(Clone, Debug, PartialEq)]
pub enum Observed {
    /// It serves this subscription.
    Running(Subscription),
    /// It is on its way out, or nothing is known.
    Unknown,
}

/// What to do.
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    /// Start a consumer for the subscription.
    Start(Subscription),
    /// Hand the subscription's new options to the consumer that runs: it stays attached.
    Change(Subscription),
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
    /// Its subscription is recorded no more.
    Removed,
    /// Its subscription is not to run.
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
/// `wishes` are all that is recorded, from a read that succeeded; `observed` has an entry for each consumer that is not absent.
pub fn plan(wishes: &[Wish], observed: &HashMap<Place, Observed>) -> Vec<Action> {
    let mut actions = Vec::new();
    let mut places: BTreeMap<Place, Vec<&Subscription>> = BTreeMap::new();
    for wish in wishes {
        match &wish.withheld {
            None => places.entry(Place::of(&wish.subscription)).or_default().push(&wish.subscription),
            Some(why) => actions.push(Action::Withhold { id: wish.subscription.id, why: why.clone() }),
        }
    }
    let mut stops: Vec<Action> = observed
        .iter()
        .filter_map(|(place, seen)| match seen {
            Observed::Running(serves) if !wants(&places, place, serves.id) => {
                Some(Action::Stop { place: place.clone(), reason: stop_reason(wishes, serves.id) })
            }
            Observed::Running(_) | Observed::Unknown => None,
        })
        .collect();
    stops.sort_by(|a, b| place_of(a).cmp(&place_of(b)));
    actions.extend(stops);
    for (place, wanted) in &places {
        actions.extend(serve(wanted, observed.get(place)));
    }
    actions
}

fn wants(places: &BTreeMap<Place, Vec<&Subscription>>, place: &Place, id: SubscriptionId) -> bool {
    places.get(place).is_some_and(|wanted| wanted.iter().any(|subscription| subscription.id == id))
}

fn stop_reason(wishes: &[Wish], id: SubscriptionId) -> StopReason {
    let withheld = wishes.iter().find(|wish| wish.subscription.id == id).and_then(|wish| wish.withheld.clone());
    withheld.map_or(StopReason::Removed, StopReason::Withheld)
}

fn place_of(action: &Action) -> Option<&Place> {
    match action {
        Action::Stop { place, .. } => Some(place),
        Action::Start(_) | Action::Change(_) | Action::Withhold { .. } => None,
    }
}

/// What to do about one queue: whoever is served keeps it, else the first recorded gets it.
fn serve(wanted: &[&Subscription], seen: Option<&Observed>) -> Vec<Action> {
    let running = match seen {
        Some(Observed::Running(running)) => wanted.iter().find(|subscription| subscription.id == running.id),
        Some(Observed::Unknown) | None => None,
    };
    let Some(served) = running.or_else(|| wanted.iter().min_by_key(|subscription| subscription.id)) else {
        return Vec::new();
    };
    let mut actions = Vec::new();
    match seen {
        None => actions.push(Action::Start((*served).clone())),
        Some(Observed::Running(running)) if running.id == served.id && running != *served => {
            actions.push(Action::Change((*served).clone()));
        }
        // It goes, or is going: its successor starts once it has left.
        Some(Observed::Running(_) | Observed::Unknown) => {}
    }
    let taken = |subscription: &&&Subscription| subscription.id != served.id;
    actions.extend(wanted.iter().filter(taken).map(|subscription| Action::Withhold {
        id: subscription.id,
        why: Withheld::QueueTaken { queue: served.queue.clone(), by: served.dag_id.clone() },
    }));
    actions
}

/// The connections that some subscription wishes to use, in order.
pub fn connections(wishes: &[Wish]) -> Vec<ConnId> {
    let wished = wishes.iter().filter(|wish| wish.withheld.is_none()).map(|wish| wish.subscription.conn_id.clone());
    let mut connections: Vec<ConnId> = wished.collect::<HashSet<_>>().into_iter().collect();
    connections.sort();
    connections
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::options::{OnPaused, Options};

    fn subscription(id: i64, dag: &str, queue: &str) -> Subscription {
        Subscription {
            id: SubscriptionId(id),
            dag_id: DagId::new(dag),
            queue: QueueName::new(queue),
            conn_id: ConnId::new("c"),
            options: Options::default(),
        }
    }

    fn wish(subscription: &Subscription) -> Wish {
        Wish { subscription: subscription.clone(), withheld: None }
    }

    fn withheld(subscription: &Subscription, why: Withheld) -> Wish {
        Wish { subscription: subscription.clone(), withheld: Some(why) }
    }

    fn running(subscriptions: &[&Subscription]) -> HashMap<Place, Observed> {
        subscriptions.iter().map(|s| (Place::of(s), Observed::Running((*s).clone()))).collect()
    }

    #[test]
    fn what_is_wished_is_started_once() {
        let (a, b) = (subscription(1, "a", "q1"), subscription(2, "b", "q2"));
        let wishes = [wish(&a), wish(&b)];
        assert_eq!(plan(&wishes, &HashMap::new()), [Action::Start(a.clone()), Action::Start(b.clone())]);
        assert_eq!(plan(&wishes, &running(&[&a, &b])), [], "planning again does nothing");
    }

    #[test]
    fn what_is_recorded_no_more_or_withheld_is_let_go_with_its_reason() {
        let a = subscription(1, "a", "q1");
        let stop = |reason| Action::Stop { place: Place::of(&a), reason };
        assert_eq!(plan(&[], &running(&[&a])), [stop(StopReason::Removed)]);
        for why in [Withheld::Disabled, Withheld::Invalid("a.py:1:1: …".into()), Withheld::NotHandled("cooldown")] {
            let planned = plan(&[withheld(&a, why.clone())], &running(&[&a]));
            let say = Action::Withhold { id: a.id, why: why.clone() };
            assert_eq!(planned, [say, stop(StopReason::Withheld(why))]);
        }
    }

    #[test]
    fn a_change_of_options_leaves_the_consumer_attached() {
        let a = subscription(1, "a", "q1");
        let mut changed = a.clone();
        changed.options.on_paused = OnPaused::Run;
        assert_eq!(plan(&[wish(&changed)], &running(&[&a])), [Action::Change(changed.clone())]);
        assert_eq!(plan(&[wish(&changed)], &running(&[&changed])), []);
    }

    #[test]
    fn nothing_is_done_about_a_consumer_of_which_nothing_is_known() {
        let a = subscription(1, "a", "q1");
        let unknown = HashMap::from([(Place::of(&a), Observed::Unknown)]);
        assert_eq!(plan(&[wish(&a)], &unknown), []);
        assert_eq!(plan(&[], &unknown), []);
    }

    #[test]
    fn a_queue_is_served_for_one_dag_and_whoever_runs_keeps_it() {
        let (a, b) = (subscription(1, "a", "q"), subscription(2, "b", "q"));
        let taken = |id, by: &str| Action::Withhold {
            id: SubscriptionId(id),
            why: Withheld::QueueTaken { queue: QueueName::new("q"), by: DagId::new(by) },
        };
        let wishes = [wish(&a), wish(&b)];
        assert_eq!(plan(&wishes, &HashMap::new()), [Action::Start(a.clone()), taken(2, "a")]);
        assert_eq!(plan(&wishes, &running(&[&b])), [taken(1, "b")]);
    }

    #[test]
    fn a_successor_starts_once_the_other_has_left() {
        let (a, b) = (subscription(1, "a", "q"), subscription(2, "b", "q"));
        let wishes = [withheld(&a, Withheld::Disabled), wish(&b)];
        let say = Action::Withhold { id: a.id, why: Withheld::Disabled };
        let stop = Action::Stop { place: Place::of(&a), reason: StopReason::Withheld(Withheld::Disabled) };
        assert_eq!(plan(&wishes, &running(&[&a])), [say.clone(), stop]);
        let leaving = HashMap::from([(Place::of(&a), Observed::Unknown)]);
        assert_eq!(plan(&wishes, &leaving), std::slice::from_ref(&say));
        assert_eq!(plan(&wishes, &HashMap::new()), [say, Action::Start(b)]);
    }

    #[test]
    fn connections_of_what_is_wished_are_named_once() {
        let (a, b, mut c) = (subscription(1, "a", "q1"), subscription(2, "b", "q2"), subscription(3, "c", "q3"));
        c.conn_id = ConnId::new("a");
        let off = withheld(&subscription(4, "d", "q4"), Withheld::Disabled);
        assert_eq!(connections(&[wish(&a), wish(&b), wish(&c), off]), [ConnId::new("a"), ConnId::new("c")]);
    }
}
