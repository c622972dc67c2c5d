//! `!`, `-`, `&&`, `||`, comparison, membership and arithmetic.

use std::borrow::Cow;
use std::cmp::Ordering;

use serde_json::Value;

use super::number::{Number, Undefined};
use super::value::{equal, key_text, order};
use super::{Fault, Machine, Outcome, Val, type_name};
use crate::EvalErrorKind;
use crate::syntax::{Node, Operator};

impl<'v> Machine<'v, '_> {
    pub(super) fn not(&mut self, at: usize, odd: bool, of: &'v Node) -> Outcome<Val<'v>> {
        match self.eval(of)?.as_ref() {
            Value::Bool(truth) => Ok(Cow::Owned(Value::Bool(truth ^ odd))),
            other => {
                let found = type_name(other);
                Err(Fault::wrong_type(at, format!("`!` takes true or false, not {found}")))
            }
        }
    }

    pub(super) fn negate(&mut self, at: usize, odd: bool, of: &'v Node) -> Outcome<Val<'v>> {
        let value = self.eval(of)?;
        let Value::Number(number) = value.as_ref() else {
            let found = type_name(&value);
            return Err(Fault::wrong_type(at, format!("`-` takes a number, not {found}")));
        };
        if !odd {
            return Ok(value);
        }
        let negative = match Number::of(number) {
            Number::Int(_) => Number::Int(0).apply(Operator::Subtract, Number::of(number)),
            Number::Double(double) => Number::Double(-double).into_value(),
        };
        negative.map(Cow::Owned).map_err(|undefined| undefined.at(at))
    }

    /// `&&` (decided by false) and `||` (decided by true).
    ///
    /// As in CEL, a deciding part outweighs the error of another, whatever their order; only a
    /// spent budget is final.
    pub(super) fn logic(&mut self, parts: &'v [Node], decisive: bool) -> Outcome<Val<'v>> {
        let mut first_fault = None;
        for part in parts {
            match self.truth(part) {
                Ok(truth) if truth == decisive => return Ok(Cow::Owned(Value::Bool(decisive))),
                Ok(_) => {}
                Err(fault) if fault.kind == EvalErrorKind::Budget => return Err(fault),
                Err(fault) => first_fault = first_fault.or(Some(fault)),
            }
        }
        match first_fault {
            Some(fault) => Err(fault),
            None => Ok(Cow::Owned(Value::Bool(!decisive))),
        }
    }

    pub(super) fn chain(&mut self, at: usize, first: &'v Node, rest: &'v [(Operator, Node)]) -> Outcome<Val<'v>> {
        let mut left = self.eval(first)?;
        for (operator, node) in rest {
            let right = self.eval(node)?;
            self.spend(at, 1)?;
            left = self.binary(node.at, *operator, left, right)?;
        }
        Ok(left)
    }

    fn binary(&mut self, at: usize, operator: Operator, left: Val<'v>, right: Val<'v>) -> Outcome<Val<'v>> {
        let truth = match operator {
            Operator::Equal => self.equal(at, &left, &right)?,
            Operator::NotEqual => !self.equal(at, &left, &right)?,
            Operator::In => self.contained(at, &left, &right)?,
            Operator::Less => self.order(at, operator, &left, &right)?.is_lt(),
            Operator::LessOrEqual => self.order(at, operator, &left, &right)?.is_le(),
            Operator::Greater => self.order(at, operator, &left, &right)?.is_gt(),
            Operator::GreaterOrEqual => self.order(at, operator, &left, &right)?.is_ge(),
            Operator::Add => return self.add(at, left, right),
            _ => return arithmetic(at, operator, &left, &right),
        };
        Ok(Cow::Owned(Value::Bool(truth)))
    }

    pub(super) fn equal(&mut self, at: usize, left: &Value, right: &Value) -> Outcome<bool> {
        equal(left, right, &mut self.session.meter).map_err(|error| error.at(at))
    }

    fn order(&mut self, at: usize, operator: Operator, left: &Value, right: &Value) -> Outcome<Ordering> {
        let order = order(left, right, &mut self.session.meter).map_err(|error| error.at(at))?;
        order.ok_or_else(|| unordered(at, operator.symbol(), left, right))
    }

    fn contained(&mut self, at: usize, item: &Value, container: &Value) -> Outcome<bool> {
        match container {
            Value::Array(items) => {
                for candidate in items {
                    if self.equal(at, item, candidate)? {
                        return Ok(true);
                    }
                }
                Ok(false)
            }
            Value::Object(fields) => Ok(key_text(item).is_some_and(|key| fields.contains_key(key.as_ref()))),
            other => {
                let found = type_name(other);
                Err(Fault::wrong_type(at, format!("`in` looks into a list or a map, not into {found}")))
            }
        }
    }

    /// `+`: numbers are added, strings and lists are joined.
    fn add(&mut self, at: usize, left: Val<'v>, right: Val<'v>) -> Outcome<Val<'v>> {
        match (left.as_ref(), right.as_ref()) {
            (Value::String(a), Value::String(b)) => {
                let length = a.len() + b.len();
                self.produce(at, length)?;
                self.scan(at, length)?;
                let mut text = String::with_capacity(length);
                text.extend([a.as_str(), b.as_str()]);
                Ok(Cow::Owned(Value::String(text)))
            }
            (Value::Array(a), Value::Array(b)) => {
                let (a, b) = (a.len(), b.len());
                self.spend(at, u32::try_from((a + b) / 8).unwrap_or(u32::MAX))?;
                self.concatenate(at, left, right)
            }
            _ => arithmetic(at, Operator::Add, &left, &right),
        }
    }

    fn concatenate(&mut self, at: usize, left: Val<'v>, right: Val<'v>) -> Outcome<Val<'v>> {
        let mut list = self.own(at, left)?;
        if let (Value::Array(items), Value::Array(more)) = (&mut list, self.own(at, right)?) {
            items.extend(more);
        }
        Ok(Cow::Owned(list))
    }
}

/// The complaint about two values that have no order.
pub(super) fn unordered(at: usize, operator: &str, left: &Value, right: &Value) -> Fault {
    let (left, right) = (type_name(left), type_name(right));
    Fault::wrong_type(
        at,
        format!("`{operator}` cannot order {left} and {right}; it takes two numbers, two strings or two booleans"),
    )
}

fn arithmetic<'v>(at: usize, operator: Operator, left: &Value, right: &Value) -> Outcome<Val<'v>> {
    let (Value::Number(a), Value::Number(b)) = (left, right) else {
        return Err(mismatch(at, operator, left, right));
    };
    let result = Number::of(a).apply(operator, Number::of(b));
    result.map(Cow::Owned).map_err(|undefined| undefined.at(at))
}

fn mismatch(at: usize, operator: Operator, left: &Value, right: &Value) -> Fault {
    let remedy = match operator {
        Operator::Add if left.is_string() || right.is_string() => "; convert with `string(…)`",
        Operator::Add => "; it takes two numbers, two strings or two lists",
        _ => "; it takes two numbers",
    };
    let (symbol, left, right) = (operator.symbol(), type_name(left), type_name(right));
    Fault::wrong_type(at, format!("`{symbol}` cannot combine {left} and {right}{remedy}"))
}

impl Undefined {
    pub(super) fn at(self, at: usize) -> Fault {
        Fault::new(self.0, at, self.1)
    }
}
