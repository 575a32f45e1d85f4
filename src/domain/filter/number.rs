//! Numbers as Python compares them: integers of any length, floats and AMQP decimals, each with its exact value.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::fmt;

/// The most digits an integer may have. Source: `sys.get_int_max_str_digits()` of CPython 3.11 and later.
pub const MAX_DIGITS: usize = 4300;

/// Digits that certainly fit into 128 bits.
const SURE_DIGITS: usize = 38;

/// A number.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Number<'a> {
    /// An integer of up to 128 bits.
    Int(i128),
    /// Any other integer, as its digits, with `-` where it is negative.
    Big(Cow<'a, str>),
    /// A float.
    Float(f64),
    /// `value / 10^scale`, which no float needs to equal.
    Decimal {
        /// The digits behind the point.
        scale: u8,
        /// All digits, with their sign.
        value: i64,
    },
}

impl<'a> Number<'a> {
    /// The integer of these digits, which may have a `-` and have no zeros in front.
    pub(super) fn of_digits(text: &'a str) -> Self {
        match text.parse() {
            Ok(int) if text.len() <= SURE_DIGITS => Self::Int(int),
            Ok(_) | Err(_) => Self::Big(Cow::Borrowed(text)),
        }
    }

    /// The same number without a copy of its digits.
    pub(super) fn view(&self) -> Number<'_> {
        match self {
            Self::Int(int) => Number::Int(*int),
            Self::Big(digits) => Number::Big(Cow::Borrowed(digits)),
            Self::Float(float) => Number::Float(*float),
            Self::Decimal { scale, value } => Number::Decimal { scale: *scale, value: *value },
        }
    }

    pub(super) fn into_owned(self) -> Number<'static> {
        match self {
            Self::Int(int) => Number::Int(int),
            Self::Big(digits) => Number::Big(Cow::Owned(digits.into_owned())),
            Self::Float(float) => Number::Float(float),
            Self::Decimal { scale, value } => Number::Decimal { scale, value },
        }
    }

    /// Which is larger, by exact value; `None` where one is not a number (NaN).
    pub(super) fn compare(&self, other: &Number<'_>) -> Option<Ordering> {
        match (self, other) {
            (Number::Int(a), Number::Int(b)) => Some(a.cmp(b)),
            (Number::Float(a), Number::Float(b)) => a.partial_cmp(b),
            (Number::Int(a), Number::Float(b)) => int_and_float(*a, *b),
            (Number::Float(a), Number::Int(b)) => int_and_float(*b, *a).map(Ordering::reverse),
            (_, Number::Float(b)) if !b.is_finite() => 0.0.partial_cmp(b),
            (Number::Float(a), _) if !a.is_finite() => a.partial_cmp(&0.0),
            (Number::Int(_) | Number::Big(_) | Number::Float(_) | Number::Decimal { .. }, _) => {
                Some(Digits::of(self).cmp(&Digits::of(other)))
            }
        }
    }
}

impl fmt::Display for Number<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Int(int) => int.fmt(f),
            Self::Big(digits) => f.write_str(digits),
            Self::Float(float) => write!(f, "{float:?}"),
            Self::Decimal { scale, value } => {
                let digits = Digits::decimal(*scale, *value);
                let point = if digits.fraction.is_empty() { "" } else { "." };
                let whole = if digits.whole.is_empty() { "0" } else { &digits.whole };
                let sign = if digits.negative { "-" } else { "" };
                write!(f, "{sign}{whole}{point}{}", digits.fraction)
            }
        }
    }
}

/// 2^127 as a float: the first that a 128-bit integer cannot reach.
const LIMIT: f64 = 170_141_183_460_469_231_731_687_303_715_884_105_728.0;

fn int_and_float(int: i128, float: f64) -> Option<Ordering> {
    if float.is_nan() {
        return None;
    }
    if float >= LIMIT {
        return Some(Ordering::Less);
    }
    if float < -LIMIT {
        return Some(Ordering::Greater);
    }
    #[expect(clippy::cast_possible_truncation, reason = "a whole number within ±2^127, as just checked")]
    let whole = float.trunc() as i128;
    let rest = 0.0.partial_cmp(&float.fract());
    rest.map(|rest| int.cmp(&whole).then(rest))
}

/// Every digit of a finite number, without zeros at either end.
struct Digits {
    negative: bool,
    whole: String,
    fraction: String,
}

impl Digits {
    fn of(number: &Number<'_>) -> Self {
        match number {
            Number::Int(int) => Self::parts(&int.to_string(), ""),
            Number::Big(digits) => Self::parts(digits, ""),
            // No float has more digits behind its point, and all that are printed are exact.
            Number::Float(float) => {
                let text = format!("{float:.1074}");
                let (whole, fraction) = text.split_once('.').unwrap_or((&text, ""));
                Self::parts(whole, fraction)
            }
            Number::Decimal { scale, value } => Self::decimal(*scale, *value),
        }
    }

    fn decimal(scale: u8, value: i64) -> Self {
        let scale = usize::from(scale);
        let digits = format!("{:0>width$}", value.unsigned_abs(), width = scale + 1);
        let (whole, fraction) = digits.split_at(digits.len() - scale);
        let size = Self::parts(whole, fraction);
        Self { negative: value < 0, ..size }
    }

    fn parts(whole: &str, fraction: &str) -> Self {
        let unsigned = whole.trim_start_matches('-');
        let (digits, fraction) = (unsigned.trim_start_matches('0'), fraction.trim_end_matches('0'));
        let negative = unsigned.len() < whole.len() && !(digits.is_empty() && fraction.is_empty());
        Self { negative, whole: digits.to_owned(), fraction: fraction.to_owned() }
    }

    fn cmp(&self, other: &Self) -> Ordering {
        let size = || {
            let length = self.whole.len().cmp(&other.whole.len());
            length.then_with(|| self.whole.cmp(&other.whole)).then_with(|| self.fraction.cmp(&other.fraction))
        };
        match (self.negative, other.negative) {
            (false, false) => size(),
            (true, true) => size().reverse(),
            (true, false) => Ordering::Less,
            (false, true) => Ordering::Greater,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn big(text: &str) -> Number<'_> {
        Number::of_digits(text)
    }

    #[test]
    fn integers_and_floats_compare_by_exact_value() {
        use Ordering::{Equal, Greater, Less};
        let long = "123456789012345678901234567890123456789012345";
        let power = "1".to_owned() + &"0".repeat(40);
        let cases = [
            (Number::Int(1), Number::Float(1.0), Some(Equal)),
            (Number::Int(9_007_199_254_740_993), Number::Float(9_007_199_254_740_992.0), Some(Greater)),
            (Number::Int(-1), Number::Float(-1.5), Some(Greater)),
            (Number::Int(i128::MAX), Number::Float(LIMIT), Some(Less)),
            (Number::Int(i128::MIN), Number::Float(-LIMIT), Some(Equal)),
            (Number::Int(0), Number::Float(f64::NAN), None),
            (Number::Int(i128::MAX), Number::Float(f64::INFINITY), Some(Less)),
            (big(long), Number::Float(f64::NEG_INFINITY), Some(Greater)),
            (big(long), Number::Float(f64::NAN), None),
            (big(long), big(long), Some(Equal)),
            (big(&power), Number::Float(1e40), Some(Less)),
            (big("10000000000000000303786028427003666890752"), Number::Float(1e40), Some(Equal)),
            (big("-99999999999999999999999999999999999999999"), Number::Int(i128::MIN), Some(Less)),
            (Number::Float(0.0), Number::Float(-0.0), Some(Equal)),
            (Number::Decimal { scale: 0, value: 0 }, Number::Float(-0.0), Some(Equal)),
            (Number::Decimal { scale: 2, value: 150 }, Number::Float(1.5), Some(Equal)),
            (Number::Decimal { scale: 1, value: 1 }, Number::Float(0.1), Some(Less)),
            (Number::Decimal { scale: 255, value: 7 }, Number::Int(0), Some(Greater)),
            (Number::Decimal { scale: 1, value: -15 }, Number::Float(-1.5), Some(Equal)),
            (Number::Decimal { scale: 255, value: -7 }, Number::Int(0), Some(Less)),
            (Number::Decimal { scale: 1, value: 70 }, Number::Int(7), Some(Equal)),
        ];
        for (a, b, expected) in cases {
            assert_eq!(a.compare(&b), expected, "{a} and {b}");
            assert_eq!(b.compare(&a), expected.map(Ordering::reverse), "{b} and {a}");
        }
    }

    #[test]
    fn numbers_are_shown_as_they_are_written() {
        let shown = |number: Number<'_>| number.to_string();
        assert_eq!(shown(Number::Decimal { scale: 2, value: 5 }), "0.05");
        assert_eq!(shown(Number::Decimal { scale: 1, value: -15 }), "-1.5");
        assert_eq!(shown(Number::Decimal { scale: 0, value: 50 }), "50");
        assert_eq!(shown(Number::Float(1.0)), "1.0");
        assert_eq!(shown(big("-12")), "-12");
    }
}
