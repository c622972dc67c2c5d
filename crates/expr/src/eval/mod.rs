//! Evaluates a syntax tree over a scope.
//!
//! The crate does not use the interpreter of the `cel` crate. That interpreter has no cost limit, fails on missing
//! keys, and does not allow an int and a double in one operation. It also converts the whole scope to another type on
//! each evaluation. This evaluator works on `serde_json::Value`. Values are passed as `Cow`: a path borrows from the
//! scope, and only new values are allocated.
//!
//! Not here: parsing (`syntax`), and writing a value into a text (`template`, `escape`).

mod comprehension;
mod functions;
mod number;
mod operators;
mod path;
mod value;

use std::borrow::Cow;

use regex::Regex;
use serde_json::{Map, Value};

use crate::limits::{Budget, BudgetExceeded, EvalLimits};
use crate::syntax::{Node, NodeKind};
use crate::{EvalErrorKind, Scope};

pub(crate) use value::type_name;

/// The maximum number of warnings of one evaluation.
const MAX_WARNINGS: usize = 32;

/// A value that is borrowed from the scope or the tree where possible.
pub(crate) type CowValue<'v> = Cow<'v, Value>;

/// An evaluation error at a byte offset of the source.
#[derive(Debug)]
pub(crate) struct RuntimeError {
    pub kind: EvalErrorKind,
    pub offset: usize,
    pub message: String,
}

pub(crate) type EvalResult<T> = Result<T, RuntimeError>;

impl RuntimeError {
    pub(crate) fn new(kind: EvalErrorKind, offset: usize, message: impl Into<String>) -> Self {
        Self { kind, offset, message: message.into() }
    }

    /// An error for a value of an unsupported type.
    pub(crate) fn wrong_type(offset: usize, message: impl Into<String>) -> Self {
        Self::new(EvalErrorKind::Type, offset, message)
    }
}

impl BudgetExceeded {
    pub(crate) fn into_error(self, offset: usize) -> RuntimeError {
        RuntimeError::new(EvalErrorKind::Budget, offset, self.0)
    }
}

/// The remaining budget and the warnings. All expressions of one template share them.
#[derive(Debug)]
pub(crate) struct EvalContext {
    pub budget: Budget,
    warnings: Vec<String>,
}

impl EvalContext {
    pub(crate) fn new(limits: EvalLimits) -> Self {
        Self { budget: Budget::new(limits), warnings: Vec::new() }
    }

    /// Adds a warning unless an equal one exists.
    pub(crate) fn warn(&mut self, text: String) {
        if self.warnings.len() < MAX_WARNINGS && !self.warnings.contains(&text) {
            self.warnings.push(text);
        }
    }

    pub(crate) fn into_warnings(self) -> Vec<String> {
        self.warnings
    }
}

/// Evaluates `tree` over `scope`.
pub(crate) fn evaluate<'v>(tree: &'v Node, scope: &Scope<'v>, context: &mut EvalContext) -> EvalResult<CowValue<'v>> {
    let limit = context.budget.limits().depth;
    if tree.depth > limit {
        let message = format!("the expression must be at most {limit} levels deep; split it");
        return Err(RuntimeError::new(EvalErrorKind::Budget, tree.offset, message));
    }
    let mut evaluator = Evaluator { scope, context, locals: Vec::new(), patterns: Vec::new() };
    evaluator.eval(tree)
}

/// The state of one evaluation.
struct Evaluator<'v, 's> {
    scope: &'s Scope<'v>,
    context: &'s mut EvalContext,
    /// The variables of the enclosing comprehensions, innermost last.
    locals: Vec<(&'v str, CowValue<'v>)>,
    /// A cache of dynamic patterns, so that a comprehension does not recompile a pattern for each item.
    patterns: Vec<(String, Regex)>,
}

impl<'v> Evaluator<'v, '_> {
    // INVARIANT: the recursion is at most as deep as the tree, and the parser limits the depth of the tree.
    fn eval(&mut self, node: &'v Node) -> EvalResult<CowValue<'v>> {
        let offset = node.offset;
        self.charge(offset, 1)?;
        match &node.kind {
            NodeKind::Literal(value) => Ok(Cow::Borrowed(value)),
            NodeKind::Ident(_) => self.path(node, &[]),
            NodeKind::Path { root, segments } => self.path(root, segments),
            NodeKind::List(items) => self.list_literal(items),
            NodeKind::Map(entries) => self.map_literal(entries),
            NodeKind::Not { odd, operand } => self.not(offset, *odd, operand),
            NodeKind::Negate { odd, operand } => self.negate(offset, *odd, operand),
            NodeKind::And(operands) => self.logical(operands, false),
            NodeKind::Or(operands) => self.logical(operands, true),
            NodeKind::BinaryChain { first, rest } => self.binary_chain(offset, first, rest),
            NodeKind::Conditional { branches, otherwise } => self.conditional(branches, otherwise),
            NodeKind::Has { operand, field } => self.has(operand, field),
            NodeKind::Comprehension(comprehension) => self.comprehension(offset, comprehension),
            NodeKind::Call { function, args } => self.call(offset, *function, args),
            NodeKind::Matches { text, pattern } => self.matches(offset, text, pattern),
        }
    }

    fn list_literal(&mut self, items: &'v [Node]) -> EvalResult<CowValue<'v>> {
        let mut list = Vec::with_capacity(items.len());
        for item in items {
            let value = self.eval(item)?;
            list.push(self.owned_value(item.offset, value)?);
        }
        Ok(Cow::Owned(Value::Array(list)))
    }

    fn map_literal(&mut self, entries: &'v [(Node, Node)]) -> EvalResult<CowValue<'v>> {
        let mut map = Map::with_capacity(entries.len());
        for (key, value) in entries {
            let name = self.eval(key)?;
            let name = value::object_key(&name).ok_or_else(|| {
                let found = type_name(&name);
                RuntimeError::wrong_type(key.offset, format!("a map key must be a string, got {found}"))
            })?;
            self.charge_output(key.offset, name.len())?;
            if map.contains_key(name.as_ref()) {
                let message = format!("duplicate map key `{name}`");
                return Err(RuntimeError::wrong_type(key.offset, message));
            }
            let content = self.eval(value)?;
            map.insert(name.into_owned(), self.owned_value(value.offset, content)?);
        }
        Ok(Cow::Owned(Value::Object(map)))
    }

    fn conditional(&mut self, branches: &'v [(Node, Node)], otherwise: &'v Node) -> EvalResult<CowValue<'v>> {
        for (condition, value) in branches {
            if self.eval_bool(condition)? {
                return self.eval(value);
            }
        }
        self.eval(otherwise)
    }

    /// Evaluates a condition, which must be a boolean.
    fn eval_bool(&mut self, node: &'v Node) -> EvalResult<bool> {
        match self.eval(node)?.as_ref() {
            Value::Bool(boolean) => Ok(*boolean),
            other => {
                let found = type_name(other);
                let message = format!("a condition must be a boolean, got {found}; compare it, as in `… != null`");
                Err(RuntimeError::wrong_type(node.offset, message))
            }
        }
    }

    /// Returns an owned value. Charges the size of the copy to the output limit if `value` is borrowed.
    fn owned_value(&mut self, offset: usize, value: CowValue<'v>) -> EvalResult<Value> {
        match value {
            Cow::Owned(value) => Ok(value),
            Cow::Borrowed(value) => {
                value::charge_size(value, &mut self.context.budget).map_err(|error| error.into_error(offset))?;
                Ok(value.clone())
            }
        }
    }

    /// Returns a new value and charges its size, `bytes`, to the output limit.
    fn new_value(&mut self, offset: usize, value: impl Into<Value>, bytes: usize) -> EvalResult<CowValue<'v>> {
        self.charge_output(offset, bytes)?;
        Ok(Cow::Owned(value.into()))
    }

    fn charge(&mut self, offset: usize, cost: u32) -> EvalResult<()> {
        self.context.budget.charge(cost).map_err(|error| error.into_error(offset))
    }

    fn charge_scan(&mut self, offset: usize, bytes: usize) -> EvalResult<()> {
        self.context.budget.charge_scan(bytes).map_err(|error| error.into_error(offset))
    }

    fn charge_output(&mut self, offset: usize, bytes: usize) -> EvalResult<()> {
        self.context.budget.charge_output(bytes).map_err(|error| error.into_error(offset))
    }
}
