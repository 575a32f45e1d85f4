//! What Python makes of two constants and an operator, and of a text with `%`.

use ruff_python_ast::{Operator, UnaryOp};

use super::evaluate::{MAX_SIZE, Value, size};
use crate::domain::declaration::RefusalReason;
use crate::domain::declare::Literal;

fn fails(what: &'static str) -> RefusalReason {
    RefusalReason::FailsInPython { what }
}

/// The value of a number, a bool being one.
fn whole(value: &Literal) -> Option<i128> {
    if let Literal::Int(number) = value {
        Some(*number)
    } else if let Literal::Bool(flag) = value {
        Some(i128::from(*flag))
    } else {
        None
    }
}

#[expect(clippy::cast_precision_loss, reason = "as Python does it")]
fn real(value: &Literal) -> Option<f64> {
    if let Literal::Float(number) = value { Some(*number) } else { whole(value).map(|number| number as f64) }
}

/// The value of `operator operand`.
pub(super) fn unary(operator: UnaryOp, operand: &Literal) -> Value {
    let number = whole(operand);
    let real = real(operand);
    match (operator, number, real) {
        (UnaryOp::Not, ..) => Ok(Literal::Bool(!is_true(operand))),
        (UnaryOp::USub, Some(number), _) => Ok(Literal::Int(number.checked_neg().ok_or(RefusalReason::TooLarge)?)),
        (UnaryOp::USub, None, Some(number)) => Ok(Literal::Float(-number)),
        (UnaryOp::UAdd, Some(number), _) => Ok(Literal::Int(number)),
        (UnaryOp::UAdd, None, Some(number)) => Ok(Literal::Float(number)),
        (UnaryOp::Invert, Some(number), _) => Ok(Literal::Int(!number)),
        (UnaryOp::USub | UnaryOp::UAdd | UnaryOp::Invert, ..) => Err(fails("this operator does not take this value")),
    }
}

fn is_true(value: &Literal) -> bool {
    match value {
        Literal::None => false,
        Literal::Bool(flag) => *flag,
        Literal::Int(number) => *number != 0,
        Literal::Float(number) => *number != 0.0,
        Literal::Str(text) => !text.is_empty(),
        Literal::List(entries) | Literal::Tuple(entries) => !entries.is_empty(),
        Literal::Dict(pairs) => !pairs.is_empty(),
        Literal::Bytes | Literal::Set => true,
    }
}

/// The value of `left operator right`.
pub(super) fn binary(left: Literal, operator: Operator, right: Literal) -> Value {
    match (operator, left, right) {
        (Operator::Add, Literal::Str(left), Literal::Str(right)) => text(left + &right),
        (Operator::Add, Literal::List(left), Literal::List(right)) => Ok(Literal::List(joined(left, right))),
        (Operator::Add, Literal::Tuple(left), Literal::Tuple(right)) => Ok(Literal::Tuple(joined(left, right))),
        (Operator::BitOr, Literal::Dict(left), Literal::Dict(right)) => Ok(Literal::Dict(joined(left, right))),
        (Operator::Mod, Literal::Str(form), right) => text(percent(&form, &right)?),
        (Operator::Mult, left, right) if is_sequence(&left) => repeat(left, &right),
        (Operator::Mult, left, right) if is_sequence(&right) => repeat(right, &left),
        (operator, left, right) => match (whole(&left), whole(&right)) {
            (Some(left), Some(right)) => integers(left, operator, right),
            _ => match (real(&left), real(&right)) {
                (Some(left), Some(right)) => reals(left, operator, right),
                _ => Err(fails("this operator does not take these two values")),
            },
        },
    }
}

fn joined<T>(mut left: Vec<T>, right: Vec<T>) -> Vec<T> {
    left.extend(right);
    left
}

fn text(text: String) -> Value {
    if text.len() > MAX_SIZE { Err(RefusalReason::TooLarge) } else { Ok(Literal::Str(text)) }
}

fn is_sequence(value: &Literal) -> bool {
    matches!(value, Literal::Str(_) | Literal::List(_) | Literal::Tuple(_))
}

/// A text, list or tuple so many times.
fn repeat(sequence: Literal, count: &Literal) -> Value {
    let count = whole(count).ok_or(fails("this operator does not take these two values"))?;
    let count = usize::try_from(count.max(0)).unwrap_or(usize::MAX);
    if size(&sequence).saturating_mul(count) > MAX_SIZE {
        return Err(RefusalReason::TooLarge);
    }
    let many = |entries: Vec<Literal>| -> Vec<Literal> {
        let length = entries.len() * count;
        entries.into_iter().cycle().take(length).collect()
    };
    if let Literal::Str(text) = sequence {
        Ok(Literal::Str(text.repeat(count)))
    } else if let Literal::List(entries) = sequence {
        Ok(Literal::List(many(entries)))
    } else if let Literal::Tuple(entries) = sequence {
        Ok(Literal::Tuple(many(entries)))
    } else {
        Err(fails("this operator does not take these two values"))
    }
}

#[expect(clippy::wildcard_enum_match_arm, reason = "operators that no declaration needs")]
fn integers(left: i128, operator: Operator, right: i128) -> Value {
    let number = match operator {
        Operator::Add => left.checked_add(right),
        Operator::Sub => left.checked_sub(right),
        Operator::Mult => left.checked_mul(right),
        Operator::FloorDiv | Operator::Mod | Operator::Div if right == 0 => return Err(fails("division by zero")),
        Operator::FloorDiv => left.checked_div(right).map(|down| down - i128::from(is_rounded_up(left, right))),
        Operator::Mod => {
            left.checked_rem(right).map(|rest| if is_rounded_up(left, right) { rest + right } else { rest })
        }
        Operator::Pow if right >= 0 => u32::try_from(right).ok().and_then(|right| left.checked_pow(right)),
        Operator::Div => {
            return match (real(&Literal::Int(left)), real(&Literal::Int(right))) {
                (Some(left), Some(right)) => Ok(Literal::Float(left / right)),
                _ => Err(RefusalReason::TooLarge),
            };
        }
        _ => return Err(RefusalReason::NotLiteral { found: "a calculation of another kind" }),
    };
    number.map(Literal::Int).ok_or(RefusalReason::TooLarge)
}

/// Whether division towards zero is above the division of Python, which goes down.
fn is_rounded_up(left: i128, right: i128) -> bool {
    left.checked_rem(right).is_some_and(|rest| rest != 0 && (rest < 0) != (right < 0))
}

#[expect(clippy::wildcard_enum_match_arm, reason = "operators that no declaration needs")]
fn reals(left: f64, operator: Operator, right: f64) -> Value {
    match operator {
        Operator::Add => Ok(Literal::Float(left + right)),
        Operator::Sub => Ok(Literal::Float(left - right)),
        Operator::Mult => Ok(Literal::Float(left * right)),
        Operator::Div if right == 0.0 => Err(fails("division by zero")),
        Operator::Div => Ok(Literal::Float(left / right)),
        _ => Err(RefusalReason::NotLiteral { found: "a calculation of another kind" }),
    }
}

/// `"…%s…" % value`: only `%s`, `%d` and `%%`, each without further signs.
fn percent(form: &str, value: &Literal) -> Result<String, RefusalReason> {
    let mut values = match value {
        Literal::Tuple(values) => values.iter(),
        Literal::Dict(_) => return Err(RefusalReason::NotLiteral { found: "a `%` format with names" }),
        Literal::None
        | Literal::Bool(_)
        | Literal::Int(_)
        | Literal::Float(_)
        | Literal::Str(_)
        | Literal::Bytes
        | Literal::List(_)
        | Literal::Set => std::slice::from_ref(value).iter(),
    };
    let mut made = String::new();
    let mut characters = form.chars();
    while let Some(character) = characters.next() {
        if character != '%' {
            made.push(character);
            continue;
        }
        let sign = characters.next();
        if sign == Some('%') {
            made.push('%');
            continue;
        }
        let too_few = fails("there are fewer values than signs in the text");
        match sign {
            Some('s') => made.push_str(&shown(values.next().ok_or(too_few)?)?),
            Some('d') => {
                let value = values.next().ok_or(too_few)?;
                let number = whole(value).ok_or(fails("`%d` takes a whole number"))?;
                made.push_str(&number.to_string());
            }
            Some(_) => return Err(RefusalReason::NotLiteral { found: "a `%` format other than `%s` and `%d`" }),
            None => return Err(fails("the text ends in a single `%`")),
        }
        if made.len() > MAX_SIZE {
            return Err(RefusalReason::TooLarge);
        }
    }
    if values.next().is_some() { Err(fails("there are more values than signs in the text")) } else { Ok(made) }
}

/// A value as `str()` shows it.
pub(super) fn shown(value: &Literal) -> Result<String, RefusalReason> {
    match value {
        Literal::Str(text) => Ok(text.clone()),
        Literal::Int(number) => Ok(number.to_string()),
        Literal::Bool(true) => Ok("True".to_owned()),
        Literal::Bool(false) => Ok("False".to_owned()),
        Literal::None => Ok("None".to_owned()),
        // Beyond this range Python writes exponents in its own way.
        Literal::Float(number) if *number == 0.0 || (1e-4..1e16).contains(&number.abs()) => Ok(format!("{number:?}")),
        Literal::Float(_) => Err(RefusalReason::NotLiteral { found: "a text with a very large or very small number" }),
        Literal::Bytes | Literal::List(_) | Literal::Tuple(_) | Literal::Set | Literal::Dict(_) => {
            Err(RefusalReason::NotLiteral { found: "a text that shows more than a string or a number" })
        }
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]
mod tests {
    use super::*;

    #[test]
    fn division_goes_down_as_in_python() {
        for (left, right, quotient, rest) in
            [(7, 2, 3, 1), (-7, 2, -4, 1), (7, -2, -4, -1), (-7, -2, 3, -1), (6, 3, 2, 0)]
        {
            assert_eq!(integers(left, Operator::FloorDiv, right).unwrap(), Literal::Int(quotient), "{left} // {right}");
            assert_eq!(integers(left, Operator::Mod, right).unwrap(), Literal::Int(rest), "{left} % {right}");
        }
        assert!(integers(1, Operator::FloorDiv, 0).is_err());
        assert!(integers(i128::MIN, Operator::FloorDiv, -1).is_err());
    }

    #[test]
    fn results_are_bounded() {
        let big = Literal::Int(1 << 100);
        let long = Literal::Str("x".repeat(1000));
        for (left, operator, right) in [
            (big.clone(), Operator::Mult, big.clone()),
            (big.clone(), Operator::Pow, big),
            (long.clone(), Operator::Mult, Literal::Int(1000)),
            (long, Operator::Mult, Literal::Int(i128::MAX)),
        ] {
            assert_eq!(binary(left, operator, right), Err(RefusalReason::TooLarge));
        }
        assert_eq!(
            binary(Literal::Int(-3), Operator::Mult, Literal::Str("x".to_owned())),
            Ok(Literal::Str(String::new()))
        );
    }

    #[test]
    fn percent_fills_in_texts_and_whole_numbers() {
        let values = Literal::Tuple(vec![Literal::Str("a".to_owned()), Literal::Int(5)]);
        assert_eq!(percent("%s-%d%%", &values).unwrap(), "a-5%");
        assert_eq!(percent("%s", &Literal::None).unwrap(), "None");
        for form in ["%s", "%s%s%s", "%s%x", "%s%", "%5s%d"] {
            assert!(percent(form, &values).is_err(), "{form}");
        }
    }
}
