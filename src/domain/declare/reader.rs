//! The arguments by their names, and every fault that is found in them.

use super::values::Read;
use super::{ARGUMENTS, Argument, Literal};
use crate::domain::declaration::{Origin, RefusalReason};
use crate::domain::nearest::nearest;

/// What is wrong with one argument.
pub(super) struct Fault {
    pub(super) origin: Origin,
    pub(super) parameter: String,
    pub(super) reason: RefusalReason,
}

/// What became of one argument.
pub(super) enum Slot<T> {
    /// It is not given, or `None` says so.
    Absent,
    /// It is given and cannot be taken; the fault is noted.
    Faulty,
    /// What it says.
    Given(T),
}

impl<T> Slot<T> {
    pub(super) fn given(self) -> Option<T> {
        match self {
            Self::Given(value) => Some(value),
            Self::Absent | Self::Faulty => None,
        }
    }

    pub(super) fn is_absent(&self) -> bool {
        matches!(self, Self::Absent)
    }
}

pub(super) struct Reader<'a> {
    arguments: &'a [Argument],
    pub(super) faults: Vec<Fault>,
    /// Whether arguments may be given under a name that cannot be seen.
    pub(super) may_hide: bool,
}

impl<'a> Reader<'a> {
    /// Notes what is wrong with the names of the arguments.
    pub(super) fn new(arguments: &'a [Argument]) -> Self {
        let mut reader = Self { arguments, faults: Vec::new(), may_hide: false };
        for (at, argument) in arguments.iter().enumerate() {
            let name = argument.name.as_str();
            let is_unpacked = matches!(argument.value, Err(RefusalReason::Unpacked));
            let reason = if is_unpacked {
                RefusalReason::Unpacked
            } else if !ARGUMENTS.contains(&name) {
                RefusalReason::UnknownArgument { meant: nearest(name, ARGUMENTS) }
            } else if arguments[..at].iter().any(|before| before.name == name) {
                RefusalReason::GivenTwice
            } else {
                continue;
            };
            reader.may_hide |= reason != RefusalReason::GivenTwice;
            reader.fault(argument, reason);
        }
        reader
    }

    fn fault(&mut self, argument: &Argument, reason: RefusalReason) {
        let (origin, parameter) = (argument.origin.clone(), argument.name.clone());
        self.faults.push(Fault { origin, parameter, reason });
    }

    /// Notes a fault of an argument, or of the whole where the argument is not given.
    pub(super) fn fault_of(&mut self, name: &'static str, whole: &Origin, reason: RefusalReason) {
        let origin = self.arguments.iter().find(|argument| argument.name == name).map(|argument| &argument.origin);
        let origin = origin.unwrap_or(whole).clone();
        self.faults.push(Fault { origin, parameter: name.to_owned(), reason });
    }

    /// Reads an argument whatever it is, `None` included.
    pub(super) fn required<T>(&mut self, argument: &Argument, parse: impl FnOnce(&Literal) -> Read<T>) -> Slot<T> {
        match argument.value.as_ref().map_err(Clone::clone).and_then(parse) {
            Ok(value) => Slot::Given(value),
            Err(reason) => {
                self.fault(argument, reason);
                Slot::Faulty
            }
        }
    }

    /// Reads an argument for which `None` is a value like any other.
    pub(super) fn value<T>(&mut self, name: &'static str, parse: impl FnOnce(&Literal) -> Read<T>) -> Slot<T> {
        let arguments = self.arguments;
        let mut named = arguments.iter().filter(|argument| argument.name == name);
        match (named.next(), named.next()) {
            (None, _) => Slot::Absent,
            (Some(argument), None) => self.required(argument, parse),
            (Some(_), Some(_)) => Slot::Faulty,
        }
    }

    /// Reads an argument for which `None` says that it is not used.
    pub(super) fn option<T>(&mut self, name: &'static str, parse: impl FnOnce(&Literal) -> Read<T>) -> Slot<T> {
        let parse = |value: &Literal| if *value == Literal::None { Ok(None) } else { parse(value).map(Some) };
        match self.value(name, parse) {
            Slot::Given(Some(value)) => Slot::Given(value),
            Slot::Given(None) | Slot::Absent => Slot::Absent,
            Slot::Faulty => Slot::Faulty,
        }
    }
}
