//! Numbers: integers of 64 bits and doubles, mixed by promotion.

use std::cmp::Ordering;

use serde_json::Value;

use crate::EvalErrorKind;
use crate::syntax::Operator;

/// A JSON number, ready for arithmetic.
#[derive(Debug, Clone, Copy)]
pub(super) enum Number {
    /// Between the smallest signed and the largest unsigned integer of 64 bits.
    Int(i128),
    Double(f64),
}

/// Why there is no result.
#[derive(Debug, PartialEq)]
pub(super) struct Undefined(pub EvalErrorKind, pub &'static str);

const OVERFLOW: Undefined =
    Undefined(EvalErrorKind::Overflow, "the result does not fit in an integer of 64 bits; convert with `double(…)`");
const INFINITE: Undefined = Undefined(EvalErrorKind::Overflow, "the result is too large for a number");
const BY_ZERO: Undefined =
    Undefined(EvalErrorKind::DivisionByZero, "division by zero; guard it, as in `n != 0 ? total / n : 0`");
const REMAINDER: Undefined = Undefined(EvalErrorKind::Type, "`%` takes two integers; convert with `int(…)`");
const NOT_ARITHMETIC: Undefined = Undefined(EvalErrorKind::Type, "not an arithmetic operator");

impl Number {
    pub fn of(number: &serde_json::Number) -> Self {
        let signed = number.as_i64().map(i128::from);
        match signed.or_else(|| number.as_u64().map(i128::from)) {
            Some(int) => Number::Int(int),
            None => Number::Double(number.as_f64().unwrap_or(f64::NAN)),
        }
    }

    /// The number as a value; integers beyond 64 bits and infinities are not values.
    pub fn into_value(self) -> Result<Value, Undefined> {
        match self {
            Number::Int(int) => i64::try_from(int)
                .map(Value::from)
                .or_else(|_| u64::try_from(int).map(Value::from))
                .map_err(|_| OVERFLOW),
            Number::Double(double) => serde_json::Number::from_f64(double).map(Value::Number).ok_or(INFINITE),
        }
    }

    pub fn to_double(self) -> f64 {
        match self {
            Number::Int(int) => int as f64,
            Number::Double(double) => double,
        }
    }

    /// Order by value, exact also where a double cannot hold the integer.
    pub fn order(self, other: Number) -> Option<Ordering> {
        match (self, other) {
            (Number::Int(a), Number::Int(b)) => Some(a.cmp(&b)),
            (Number::Double(a), Number::Double(b)) => a.partial_cmp(&b),
            (Number::Int(a), Number::Double(b)) => order_mixed(a, b),
            (Number::Double(a), Number::Int(b)) => order_mixed(b, a).map(Ordering::reverse),
        }
    }

    /// `self operator other`. Two integers give an integer, all else gives a double.
    pub fn apply(self, operator: Operator, other: Number) -> Result<Value, Undefined> {
        match (self, other) {
            (Number::Int(a), Number::Int(b)) => integers(operator, a, b)?.into_value(),
            _ => doubles(operator, self.to_double(), other.to_double())?.into_value(),
        }
    }
}

fn order_mixed(int: i128, double: f64) -> Option<Ordering> {
    if double.is_nan() {
        return None;
    }
    // The cast keeps the integral part and saturates, far beyond any integer of 64 bits.
    let whole = double.trunc() as i128;
    let by_fraction = 0.0_f64.partial_cmp(&double.fract())?;
    Some(int.cmp(&whole).then(by_fraction))
}

fn integers(operator: Operator, a: i128, b: i128) -> Result<Number, Undefined> {
    let result = match operator {
        Operator::Add => a.checked_add(b),
        Operator::Subtract => a.checked_sub(b),
        Operator::Multiply => a.checked_mul(b),
        Operator::Divide | Operator::Remainder if b == 0 => return Err(BY_ZERO),
        Operator::Divide => a.checked_div(b),
        Operator::Remainder => a.checked_rem(b),
        _ => return Err(NOT_ARITHMETIC),
    };
    let result = result.ok_or(OVERFLOW)?;
    // Integers are signed; only what was larger from the start may stay larger.
    let signed = i64::try_from(result).is_ok();
    let large = a.max(b) > i128::from(i64::MAX);
    if signed || large { Ok(Number::Int(result)) } else { Err(OVERFLOW) }
}

fn doubles(operator: Operator, a: f64, b: f64) -> Result<Number, Undefined> {
    let result = match operator {
        Operator::Add => a + b,
        Operator::Subtract => a - b,
        Operator::Multiply => a * b,
        // JSON has no infinity to answer with.
        Operator::Divide if b == 0.0 => return Err(BY_ZERO),
        Operator::Divide => a / b,
        Operator::Remainder => return Err(REMAINDER),
        _ => return Err(NOT_ARITHMETIC),
    };
    Ok(Number::Double(result))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_and_doubles_are_ordered_exactly() {
        let large = Number::Int((1 << 53) + 1);
        assert_eq!(large.order(Number::Double(9_007_199_254_740_992.0)), Some(Ordering::Greater));
        assert_eq!(Number::Int(1).order(Number::Double(1.5)), Some(Ordering::Less));
        assert_eq!(Number::Int(-1).order(Number::Double(-1.5)), Some(Ordering::Greater));
        assert_eq!(Number::Double(1e300).order(Number::Int(7)), Some(Ordering::Greater));
        assert_eq!(Number::Int(7).order(Number::Double(-1e300)), Some(Ordering::Greater));
    }
}
