//! Arithmetic on 64-bit integers and doubles. Mixed operands are promoted to double.

use std::cmp::Ordering;

use serde_json::Value;

use crate::EvalErrorKind;
use crate::syntax::Operator;

/// A JSON number as an integer or a double.
#[derive(Debug, Clone, Copy)]
pub(super) enum Number {
    /// An integer between `i64::MIN` and `u64::MAX`.
    Int(i128),
    Double(f64),
}

/// The reason why an operation has no result.
#[derive(Debug, PartialEq)]
pub(super) struct ArithmeticError(pub EvalErrorKind, pub &'static str);

const OVERFLOW: ArithmeticError =
    ArithmeticError(EvalErrorKind::Overflow, "the result does not fit in a 64-bit integer; convert with `double(…)`");
const INFINITE: ArithmeticError = ArithmeticError(EvalErrorKind::Overflow, "the result is too large for a double");
const BY_ZERO: ArithmeticError =
    ArithmeticError(EvalErrorKind::DivisionByZero, "division by zero; guard it, as in `n != 0 ? total / n : 0`");
const REMAINDER: ArithmeticError =
    ArithmeticError(EvalErrorKind::Type, "`%` takes two integers; convert with `int(…)`");
const NOT_ARITHMETIC: ArithmeticError = ArithmeticError(EvalErrorKind::Type, "not an arithmetic operator");

impl Number {
    pub(super) fn from_json(number: &serde_json::Number) -> Self {
        let signed = number.as_i64().map(i128::from);
        match signed.or_else(|| number.as_u64().map(i128::from)) {
            Some(int) => Number::Int(int),
            None => Number::Double(number.as_f64().unwrap_or(f64::NAN)),
        }
    }

    /// Converts the number to JSON. Fails for integers beyond 64 bits and for infinities.
    pub(super) fn into_value(self) -> Result<Value, ArithmeticError> {
        match self {
            Number::Int(int) => i64::try_from(int)
                .map(Value::from)
                .or_else(|_| u64::try_from(int).map(Value::from))
                .map_err(|_| OVERFLOW),
            Number::Double(double) => serde_json::Number::from_f64(double).map(Value::Number).ok_or(INFINITE),
        }
    }

    pub(super) fn to_double(self) -> f64 {
        match self {
            Number::Int(int) => int as f64,
            Number::Double(double) => double,
        }
    }

    /// Compares by value. The comparison is exact even if a double cannot represent the integer.
    pub(super) fn order(self, other: Number) -> Option<Ordering> {
        match (self, other) {
            (Number::Int(a), Number::Int(b)) => Some(a.cmp(&b)),
            (Number::Double(a), Number::Double(b)) => a.partial_cmp(&b),
            (Number::Int(a), Number::Double(b)) => order_mixed(a, b),
            (Number::Double(a), Number::Int(b)) => order_mixed(b, a).map(Ordering::reverse),
        }
    }

    /// Computes `self operator other`. The result of two integers is an integer, any other result is a double.
    pub(super) fn apply(self, operator: Operator, other: Number) -> Result<Value, ArithmeticError> {
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
    // The cast turns values beyond the `i128` range into the nearest `i128`, which is still outside the range of 64-bit
    // integers.
    let whole = double.trunc() as i128;
    let by_fraction = 0.0_f64.partial_cmp(&double.fract())?;
    Some(int.cmp(&whole).then(by_fraction))
}

fn integers(operator: Operator, a: i128, b: i128) -> Result<Number, ArithmeticError> {
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
    // Integers are signed 64-bit numbers, but an input may contain larger ones. A result outside the range of `i64` is
    // allowed only if an operand is above `i64::MAX`.
    let signed = i64::try_from(result).is_ok();
    let large = a.max(b) > i128::from(i64::MAX);
    if signed || large { Ok(Number::Int(result)) } else { Err(OVERFLOW) }
}

fn doubles(operator: Operator, a: f64, b: f64) -> Result<Number, ArithmeticError> {
    let result = match operator {
        Operator::Add => a + b,
        Operator::Subtract => a - b,
        Operator::Multiply => a * b,
        // The result would be infinite, and JSON cannot represent infinity.
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
    fn integer_and_double_are_compared_without_rounding() {
        let large = Number::Int((1 << 53) + 1);
        assert_eq!(large.order(Number::Double(9_007_199_254_740_992.0)), Some(Ordering::Greater));
        assert_eq!(Number::Int(1).order(Number::Double(1.5)), Some(Ordering::Less));
        assert_eq!(Number::Int(-1).order(Number::Double(-1.5)), Some(Ordering::Greater));
        assert_eq!(Number::Double(1e300).order(Number::Int(7)), Some(Ordering::Greater));
        assert_eq!(Number::Int(7).order(Number::Double(-1e300)), Some(Ordering::Greater));
    }
}
