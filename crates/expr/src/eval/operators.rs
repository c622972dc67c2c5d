//! Evaluates `!`, `-`, `&&`, `||`, comparison, membership and arithmetic.

use std::borrow::Cow;
use std::cmp::Ordering;

use serde_json::Value;

use super::number::{ArithmeticError, Number};
use super::value::{equal, object_key, order};
use super::{CowValue, EvalResult, Evaluator, RuntimeError, type_name};
use crate::EvalErrorKind;
use crate::syntax::{Node, Operator};

impl<'v> Evaluator<'v, '_> {
    pub(super) fn not(&mut self, offset: usize, odd: bool, operand: &'v Node) -> EvalResult<CowValue<'v>> {
        match self.eval(operand)?.as_ref() {
            Value::Bool(boolean) => Ok(Cow::Owned(Value::Bool(boolean ^ odd))),
            other => {
                let found = type_name(other);
                Err(RuntimeError::wrong_type(offset, format!("`!` takes a boolean, got {found}")))
            }
        }
    }

    pub(super) fn negate(&mut self, offset: usize, odd: bool, operand: &'v Node) -> EvalResult<CowValue<'v>> {
        let value = self.eval(operand)?;
        let Value::Number(number) = value.as_ref() else {
            let found = type_name(&value);
            return Err(RuntimeError::wrong_type(offset, format!("`-` takes a number, got {found}")));
        };
        if !odd {
            return Ok(value);
        }
        let negative = match Number::from_json(number) {
            Number::Int(_) => Number::Int(0).apply(Operator::Subtract, Number::from_json(number)),
            Number::Double(double) => Number::Double(-double).into_value(),
        };
        negative.map(Cow::Owned).map_err(|error| error.into_error(offset))
    }

    /// Evaluates `&&` and `||`. One false operand decides `&&`, and one true operand decides `||`.
    ///
    /// As in CEL, errors of the other operands are ignored if one operand decides the result. The order of the operands
    /// does not matter. An exceeded budget is always an error.
    pub(super) fn logical(&mut self, operands: &'v [Node], decisive: bool) -> EvalResult<CowValue<'v>> {
        let mut first_error = None;
        for operand in operands {
            match self.eval_bool(operand) {
                Ok(result) if result == decisive => return Ok(Cow::Owned(Value::Bool(decisive))),
                Ok(_) => {}
                Err(error) if error.kind == EvalErrorKind::Budget => return Err(error),
                Err(error) => first_error = first_error.or(Some(error)),
            }
        }
        match first_error {
            Some(error) => Err(error),
            None => Ok(Cow::Owned(Value::Bool(!decisive))),
        }
    }

    pub(super) fn binary_chain(
        &mut self,
        offset: usize,
        first: &'v Node,
        rest: &'v [(Operator, Node)],
    ) -> EvalResult<CowValue<'v>> {
        let mut left = self.eval(first)?;
        for (operator, node) in rest {
            let right = self.eval(node)?;
            self.charge(offset, 1)?;
            left = self.binary(node.offset, *operator, left, right)?;
        }
        Ok(left)
    }

    fn binary(
        &mut self,
        offset: usize,
        operator: Operator,
        left: CowValue<'v>,
        right: CowValue<'v>,
    ) -> EvalResult<CowValue<'v>> {
        let result = match operator {
            Operator::Equal => self.equal(offset, &left, &right)?,
            Operator::NotEqual => !self.equal(offset, &left, &right)?,
            Operator::In => self.is_member(offset, &left, &right)?,
            Operator::Less => self.order(offset, operator, &left, &right)?.is_lt(),
            Operator::LessOrEqual => self.order(offset, operator, &left, &right)?.is_le(),
            Operator::Greater => self.order(offset, operator, &left, &right)?.is_gt(),
            Operator::GreaterOrEqual => self.order(offset, operator, &left, &right)?.is_ge(),
            Operator::Add => return self.add(offset, left, right),
            _ => return arithmetic(offset, operator, &left, &right),
        };
        Ok(Cow::Owned(Value::Bool(result)))
    }

    pub(super) fn equal(&mut self, offset: usize, left: &Value, right: &Value) -> EvalResult<bool> {
        equal(left, right, &mut self.context.budget).map_err(|error| error.into_error(offset))
    }

    fn order(&mut self, offset: usize, operator: Operator, left: &Value, right: &Value) -> EvalResult<Ordering> {
        let order = order(left, right, &mut self.context.budget).map_err(|error| error.into_error(offset))?;
        order.ok_or_else(|| not_comparable(offset, operator.symbol(), left, right))
    }

    fn is_member(&mut self, offset: usize, item: &Value, container: &Value) -> EvalResult<bool> {
        match container {
            Value::Array(items) => {
                for candidate in items {
                    if self.equal(offset, item, candidate)? {
                        return Ok(true);
                    }
                }
                Ok(false)
            }
            Value::Object(fields) => Ok(object_key(item).is_some_and(|key| fields.contains_key(key.as_ref()))),
            other => {
                let found = type_name(other);
                Err(RuntimeError::wrong_type(
                    offset,
                    format!("`in` takes a list or a map on its right side, got {found}"),
                ))
            }
        }
    }

    /// Evaluates `+`: adds numbers, concatenates strings and lists.
    fn add(&mut self, offset: usize, left: CowValue<'v>, right: CowValue<'v>) -> EvalResult<CowValue<'v>> {
        match (left.as_ref(), right.as_ref()) {
            (Value::String(a), Value::String(b)) => {
                let length = a.len() + b.len();
                self.charge_output(offset, length)?;
                self.charge_scan(offset, length)?;
                let mut text = String::with_capacity(length);
                text.extend([a.as_str(), b.as_str()]);
                Ok(Cow::Owned(Value::String(text)))
            }
            (Value::Array(a), Value::Array(b)) => {
                let (a, b) = (a.len(), b.len());
                self.charge(offset, u32::try_from((a + b) / 8).unwrap_or(u32::MAX))?;
                self.concatenate(offset, left, right)
            }
            _ => arithmetic(offset, Operator::Add, &left, &right),
        }
    }

    fn concatenate(&mut self, offset: usize, left: CowValue<'v>, right: CowValue<'v>) -> EvalResult<CowValue<'v>> {
        let mut list = self.owned_value(offset, left)?;
        if let (Value::Array(items), Value::Array(more)) = (&mut list, self.owned_value(offset, right)?) {
            items.extend(more);
        }
        Ok(Cow::Owned(list))
    }
}

/// The error for two values that cannot be ordered.
pub(super) fn not_comparable(offset: usize, operator: &str, left: &Value, right: &Value) -> RuntimeError {
    let (left, right) = (type_name(left), type_name(right));
    RuntimeError::wrong_type(
        offset,
        format!("`{operator}` takes two numbers, two strings or two booleans, got {left} and {right}"),
    )
}

fn arithmetic<'v>(offset: usize, operator: Operator, left: &Value, right: &Value) -> EvalResult<CowValue<'v>> {
    let (Value::Number(a), Value::Number(b)) = (left, right) else {
        return Err(type_mismatch(offset, operator, left, right));
    };
    let result = Number::from_json(a).apply(operator, Number::from_json(b));
    result.map(Cow::Owned).map_err(|error| error.into_error(offset))
}

fn type_mismatch(offset: usize, operator: Operator, left: &Value, right: &Value) -> RuntimeError {
    let remedy = match operator {
        Operator::Add if left.is_string() || right.is_string() => "; convert with `string(…)`",
        Operator::Add => "; it takes two numbers, two strings or two lists",
        _ => "; it takes two numbers",
    };
    let (symbol, left, right) = (operator.symbol(), type_name(left), type_name(right));
    RuntimeError::wrong_type(offset, format!("`{symbol}` cannot combine {left} and {right}{remedy}"))
}

impl ArithmeticError {
    pub(super) fn into_error(self, offset: usize) -> RuntimeError {
        RuntimeError::new(self.0, offset, self.1)
    }
}
