//! Why a subscription is refused: one sentence each that says what is wrong and what to do.

use std::fmt;

use super::Origin;
use crate::domain::filter::FilterProblem;
use crate::domain::ids::SubscriptionId;
use crate::domain::subscription::Invalid;

/// Why a subscription was refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RefusalReason {
    /// The value is not written out; `found` says what stands there instead ("a call", "an f-string").
    NotLiteral {
        /// What stands there, with its article.
        found: &'static str,
    },
    /// A name that the text alone does not give one certain value.
    NotConstant {
        /// The name, with its dots.
        name: String,
        /// Why, as a clause.
        because: String,
    },
    /// The value is larger, or takes more work, than any honest one.
    TooLarge,
    /// Python itself fails here.
    FailsInPython {
        /// At what.
        what: &'static str,
    },
    /// The value is written out and of the wrong type.
    WrongType {
        /// What it has to be, with its article.
        expected: &'static str,
        /// What stands there, with its article.
        found: &'static str,
    },
    /// The value is of the right type and beyond what is possible.
    OutOfRange {
        /// What it has to be, with its article.
        expected: &'static str,
        /// What it is, as it is written.
        found: String,
    },
    /// The value is none of a few names.
    NotAChoice {
        /// Those there are.
        choices: &'static [&'static str],
        /// What it is.
        found: String,
    },
    /// A list without entries.
    Empty,
    /// What is wrong with one entry of a list.
    Entry {
        /// Its place, counted from 1.
        number: usize,
        /// What is wrong with it.
        reason: Box<RefusalReason>,
    },
    /// A part of the value has no form in JSON.
    NotJson {
        /// The keys and places that lead to it; empty for the value itself.
        path: String,
        /// What stands there, with its article.
        found: &'static str,
    },
    /// It is no filter.
    Filter(FilterProblem),
    /// `*args` or `**options` hide arguments.
    Unpacked,
    /// There is no argument of this name, or not so many by position.
    UnknownArgument {
        /// The argument that may be meant.
        meant: Option<&'static str>,
    },
    /// The argument is given twice.
    GivenTwice,
    /// No DAG is named, where a name has to be written.
    NoDagId,
    /// Neither queue nor exchange is named.
    NoQueue,
    /// More than one of `queue`, `queues` and `exchange`.
    TwoSources {
        /// The one that was given first.
        first: &'static str,
    },
    /// RabbitMQ or Airflow could not hold the name.
    Invalid(Invalid),
    /// An exchange of the watcher's own.
    ReservedExchange,
    /// An exchange without any routing key.
    NoRoutingKeys,
    /// A part of a routing key that holds a `.` of its own.
    Dotted {
        /// The part.
        found: String,
    },
    /// An argument that belongs to `exchange` and stands without it.
    WithoutExchange,
    /// An argument that belongs to `cooldown` and stands without it.
    WithoutCooldown,
    /// The watcher's own queue for this DAG would have a name that is too long.
    DagIdTooLong {
        /// What the queue's name begins with.
        prefix: &'static str,
        /// How long the DAG's id is, in bytes.
        length: usize,
        /// How long it may be, in bytes.
        limit: usize,
    },
    /// `@rmq_trigger` stands below `@dag`.
    DecoratorOrder,
    /// There is no `@dag` of Airflow on the decorated function or class.
    NotOverDag,
    /// `@rmq_trigger` without its parentheses.
    NotCalled,
    /// `rmq_trigger` is used otherwise than as a decorator or called with a DAG.
    NotADecorator,
    /// What `rmq_trigger(…)` is called with is no DAG that can be seen.
    TargetUnknown {
        /// What it is, with its article.
        found: &'static str,
    },
    /// A decorator below `@dag` may change the name that becomes the DAG's id.
    NameHidden,
    /// A decorator called `rmq_trigger` whose import does not show that it is the watcher's.
    UnknownImport,
    /// The same queue, connection and DAG are declared elsewhere already.
    Duplicate {
        /// The declaration that runs.
        first: Origin,
    },
    /// A row that was made by hand has the same queue, connection and DAG.
    MadeByHand {
        /// That row.
        id: SubscriptionId,
    },
    /// The DAG has an exchange already.
    SecondExchange {
        /// The declaration that runs.
        first: Origin,
    },
}

impl RefusalReason {
    /// The stable name in rows and log fields.
    pub fn code(&self) -> &'static str {
        match self {
            Self::NotLiteral { .. } => "not_literal",
            Self::NotConstant { .. } => "not_constant",
            Self::TooLarge => "too_large",
            Self::FailsInPython { .. } => "fails_in_python",
            Self::WrongType { .. } => "wrong_type",
            Self::OutOfRange { .. } => "out_of_range",
            Self::NotAChoice { .. } => "not_a_choice",
            Self::Empty => "empty",
            Self::Entry { reason, .. } => reason.code(),
            Self::NotJson { .. } => "not_json",
            Self::Filter(_) => "filter",
            Self::Unpacked => "unpacked",
            Self::UnknownArgument { .. } => "unknown_argument",
            Self::GivenTwice => "given_twice",
            Self::NoDagId => "no_dag_id",
            Self::NoQueue => "no_queue",
            Self::TwoSources { .. } => "two_sources",
            Self::Invalid(_) => "invalid",
            Self::ReservedExchange => "reserved_exchange",
            Self::NoRoutingKeys => "no_routing_keys",
            Self::Dotted { .. } => "dotted",
            Self::WithoutExchange => "without_exchange",
            Self::WithoutCooldown => "without_cooldown",
            Self::DagIdTooLong { .. } => "dag_id_too_long",
            Self::DecoratorOrder => "decorator_order",
            Self::NotOverDag => "not_over_dag",
            Self::NotCalled => "not_called",
            Self::NotADecorator => "not_a_decorator",
            Self::TargetUnknown { .. } => "target_unknown",
            Self::NameHidden => "name_hidden",
            Self::UnknownImport => "unknown_import",
            Self::Duplicate { .. } => "duplicate",
            Self::MadeByHand { .. } => "made_by_hand",
            Self::SecondExchange { .. } => "second_exchange",
        }
    }
}

impl fmt::Display for RefusalReason {
    #[expect(clippy::too_many_lines, reason = "one sentence for each reason")]
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotLiteral { found } => write!(
                f,
                "the file is read and never executed, so the value has to be written out here, and this is {found}"
            ),
            Self::NotConstant { name, because } => write!(
                f,
                "the file is read and never executed, and `{name}` is no constant to it: {because}"
            ),
            Self::TooLarge => f.write_str("the value is too large to be meant, or takes too long to find out; write it out"),
            Self::FailsInPython { what } => write!(f, "Python itself fails here: {what}"),
            Self::WrongType { expected, found } => write!(f, "this has to be {expected}, and it is {found}"),
            Self::OutOfRange { expected, found } => write!(f, "this has to be {expected}, and it is {found}"),
            Self::NotAChoice { choices, found } => {
                let choices: Vec<String> = choices.iter().map(|choice| format!("{choice:?}")).collect();
                write!(f, "this has to be one of {}, and it is {found}", choices.join(", "))
            }
            Self::Empty => f.write_str("the list has no entries; name at least one, or leave the argument out"),
            Self::Entry { number, reason } => write!(f, "entry {number}: {reason}"),
            Self::NotJson { path, found } if path.is_empty() => {
                write!(f, "this is {found}, and only what JSON can hold is possible")
            }
            Self::NotJson { path, found } => {
                write!(f, "{path} is {found}, and only what JSON can hold is possible")
            }
            Self::Filter(problem) => problem.fmt(f),
            Self::Unpacked => f.write_str(
                "the file is read and never executed, so every argument has to be written out; `*` and `**` hide them",
            ),
            Self::UnknownArgument { meant: Some(meant) } => {
                write!(f, "there is no such argument; did you mean `{meant}`?")
            }
            Self::UnknownArgument { meant: None } => {
                f.write_str("there is no such argument; docs/configuration.md lists them all")
            }
            Self::GivenTwice => f.write_str("the argument is given twice"),
            Self::NoDagId => f.write_str("no DAG is named; write `dag_id: …`"),
            Self::NoQueue => f.write_str(
                "nothing says where messages come from; write `queue=\"…\"`, `queues=[…]` or `exchange=\"…\"`",
            ),
            Self::TwoSources { first } => write!(
                f,
                "only one of `queue`, `queues` and `exchange` is possible, and `{first}` is given too; stack a second \
                 decorator for the other"
            ),
            Self::Invalid(invalid) => invalid.fmt(f),
            Self::ReservedExchange => {
                f.write_str("exchanges whose names begin with `rmq_watcher.` are the watcher's own; name another")
            }
            Self::NoRoutingKeys => {
                f.write_str("an exchange needs routing keys; write `routing_keys=[…]` or `routing_key_ids=[…]`")
            }
            Self::Dotted { found } => write!(
                f,
                "{found:?} holds a `.`, and it is one of the two parts that a `.` joins; write the whole key in \
                 `routing_keys`"
            ),
            Self::WithoutExchange => f.write_str("this means something only together with `exchange=\"…\"`"),
            Self::WithoutCooldown => f.write_str("this means something only together with a `cooldown` above 0"),
            Self::DagIdTooLong { prefix, length, limit } => write!(
                f,
                "this needs a queue called `{prefix}` and the DAG's id; the id may have {limit} bytes, and it has {length}"
            ),
            Self::DecoratorOrder => {
                f.write_str("`@rmq_trigger` has to stand above `@dag`, as the outermost decorator")
            }
            Self::NotOverDag => f.write_str(
                "no `@dag` imported from `airflow.sdk`, `airflow.decorators` or `airflow.models.dag` stands below it",
            ),
            Self::NotCalled => f.write_str("the decorator has no arguments; write `@rmq_trigger(queue=\"…\")`"),
            Self::NotADecorator => f.write_str(
                "only `@rmq_trigger(…)` above `@dag` and `rmq_trigger(…)(dag)` can be read, and here it is used otherwise",
            ),
            Self::TargetUnknown { found } => write!(
                f,
                "the DAG it is meant for has to be seen in this file, as `with DAG(\"…\") as dag`, and this is {found}"
            ),
            Self::NameHidden => f.write_str(
                "what stands below `@dag` may change the name that becomes the DAG's id; write `@dag(dag_id=\"…\")`",
            ),
            Self::UnknownImport => f.write_str(
                "the file does not import this `rmq_trigger` from `airflow_rmq_watcher` or `airflow_provider_rmq.watcher.decorators`",
            ),
            Self::Duplicate { first } => {
                write!(f, "the same subscription is declared at {first} already")
            }
            Self::MadeByHand { id } => {
                write!(f, "subscription {id}, which was made by hand, has the same queue, connection and DAG")
            }
            Self::SecondExchange { first } => write!(
                f,
                "the DAG has one queue for exchanges, and the `exchange` at {first} uses it; write the routing keys of both \
                 there, or use a DAG for each exchange"
            ),
        }
    }
}
