//! The routing table of a queue: every known row that names it, each with its filter, and what they say of a message.
//!
//! Made by the control flow, read by the data flow for each delivery; swapped as a whole. What the verdicts together mean is
//! decided in [`super::routing`].

use std::rc::Rc;
use std::time::Duration;

use super::content::{BodyLimits, Content, content};
use super::dedup::Identity;
use super::envelope::Envelope;
use super::filter::{self, Filter, FilterProblem, Filters, Message, Reason};
use super::ids::SubscriptionId;
use super::key::DeliveryKey;
use super::routing::{Row, Standing, Verdict};
use super::subscription::Subscription;

/// A row of the state file as its queue sees it.
#[derive(Clone, Debug, PartialEq)]
pub struct Route {
    /// The subscription.
    pub subscription: Rc<Subscription>,
    /// What it is to the queue now.
    pub standing: Standing,
    /// `None`: not known.
    filter: Option<Filter>,
    identity: Identity,
}

impl Route {
    /// A row whose filter is known.
    ///
    /// # Errors
    /// Its filter is none.
    pub fn new(subscription: Rc<Subscription>, standing: Standing) -> Result<Self, FilterProblem> {
        let filter_data = subscription.options.filter_data.as_ref().unwrap_or(&serde_json::Value::Null);
        let filter = Filter::parse(filter_data)?;
        let identity = Identity::of(&subscription.options);
        Ok(Self { subscription, standing, filter: Some(filter), identity })
    }

    /// A row that cannot be acted on: what it would take is not known.
    pub fn invalid(subscription: Rc<Subscription>) -> Self {
        Self { subscription, standing: Standing::Invalid, filter: None, identity: Identity::default() }
    }

    /// What it starts, as rows of the ledger name it.
    pub fn target(&self) -> String {
        format!("dag:{}", self.subscription.dag_id)
    }

    /// The key of a message's row for this subscription; `None` where that is the message's own.
    pub fn key_of(&self, envelope: &Envelope, own: &DeliveryKey, limits: BodyLimits) -> Option<DeliveryKey> {
        self.identity.key_of(envelope, own, limits)
    }
}

/// All known rows of a queue, in the order of their numbers. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Table(Rc<Inner>);

#[derive(Debug)]
struct Inner {
    routes: Vec<Rc<Route>>,
    filters: Filters,
    reads_body: bool,
}

impl PartialEq for Table {
    fn eq(&self, other: &Self) -> bool {
        Rc::ptr_eq(&self.0, &other.0) || self.0.routes == other.0.routes
    }
}

/// What the rows of a queue say of a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdicts {
    /// One for each row.
    pub rows: Vec<Row>,
    /// What the first filter of a row that takes part failed with: its stable name and its text.
    pub error: Option<String>,
    /// What each filter said itself, for people; `None` where a row's filter is not known.
    pub said: Vec<Option<filter::Verdict>>,
}

impl Table {
    /// Puts rows together.
    pub fn new(mut routes: Vec<Rc<Route>>) -> Self {
        routes.sort_by_key(|route| route.subscription.id);
        let known = || routes.iter().filter_map(|route| route.filter.as_ref());
        let reads_body = known().any(Filter::reads_body);
        let filters = Filters::new(known().cloned());
        Self(Rc::new(Inner { routes, filters, reads_body }))
    }

    /// Every row.
    pub fn routes(&self) -> &[Rc<Route>] {
        &self.0.routes
    }

    /// The rows whose matches are started.
    pub fn taking_part(&self) -> impl Iterator<Item = &Rc<Route>> {
        self.0.routes.iter().filter(|route| route.standing.takes_part())
    }

    /// Whether a row that takes part may reject a message.
    pub fn has_filter(&self) -> bool {
        self.taking_part().any(|route| route.filter.as_ref().is_none_or(|filter| !filter.is_empty()))
    }

    /// How long a delivery may stay unsettled: the shortest time that a subscription that takes part has of its own, or
    /// `configured` for those that have none.
    pub fn ack_deadline(&self, configured: Duration) -> Duration {
        let own = |route: &Rc<Route>| route.subscription.options.ack_deadline_override;
        let each =
            self.taking_part().map(|route| own(route).map_or(configured, |secs| Duration::from_secs(secs.into())));
        each.min().unwrap_or(configured)
    }

    /// The row of a subscription.
    pub fn get(&self, id: SubscriptionId) -> Option<&Rc<Route>> {
        self.0.routes.iter().find(|route| route.subscription.id == id)
    }

    /// Whether this subscription's matches are started.
    pub fn takes_part(&self, id: SubscriptionId) -> bool {
        self.get(id).is_some_and(|route| route.standing.takes_part())
    }

    /// Asks every filter. The body is unpacked only where the headers do not decide.
    pub fn judge(&self, envelope: &Envelope, limits: BodyLimits) -> Verdicts {
        let mut said = self.ask(envelope, limits).into_iter();
        let mut error = None;
        let rows = self.0.routes.iter().map(|route| {
            let verdict = route.filter.as_ref().and_then(|_| said.next());
            if let (Some(filter::Verdict::Error(reason)), true, None) = (&verdict, route.standing.takes_part(), &error)
            {
                error = Some(format!("{}: {reason}", reason.code()));
            }
            (row(route, verdict.as_ref()), verdict)
        });
        let (rows, said) = rows.unzip();
        Verdicts { rows, error, said }
    }

    fn ask(&self, envelope: &Envelope, limits: BodyLimits) -> Vec<filter::Verdict> {
        let ask = |body| self.0.filters.evaluate(&Message { headers: &envelope.headers, body });
        if !self.0.reads_body {
            return ask(filter::Content::Unreadable("no filter reads it"));
        }
        let by_headers = ask(filter::Content::Unreadable("not unpacked yet"));
        let is_open = |verdict: &filter::Verdict| matches!(verdict, filter::Verdict::Error(Reason::Unreadable(_)));
        if !by_headers.iter().any(is_open) {
            return by_headers;
        }
        match content(envelope, limits) {
            Content::Inline(unpacked) => ask(filter::Content::Bytes(&unpacked.body)),
            Content::File => ask(filter::Content::Unreadable("it is over consume.max_body_bytes")),
            Content::Refused(too_large) => ask(filter::Content::Unreadable(&too_large.to_string())),
        }
    }
}

fn row(route: &Route, verdict: Option<&filter::Verdict>) -> Row {
    let options = &route.subscription.options;
    Row {
        subscription: route.subscription.id,
        standing: route.standing,
        ack_unmatched: options.ack_unmatched && route.filter.is_some(),
        on_unreadable: options.on_unreadable,
        verdict: verdict.map(|verdict| match verdict {
            filter::Verdict::Match => Verdict::Match,
            filter::Verdict::Miss(_) => Verdict::Miss,
            filter::Verdict::Error(_) => Verdict::Error,
        }),
    }
}
