//! From a tree and a scope to a value.
//!
//! An evaluator of our own over `serde_json::Value`, because the `cel` crate's interpreter has no
//! step budget, errors on missing keys, does not mix int and double, and converts the whole scope
//! into its own values on each evaluation. Values travel as `Cow`: a path borrows from the scope,
//! and only what is new is made.
//!
//! Not here: parsing (`syntax`), and what becomes of a value in a text (`template`, `escape`).

mod functions;
mod loops;
mod number;
mod operators;
mod path;
mod value;

use std::borrow::Cow;

use regex::Regex;
use serde_json::{Map, Value};

use crate::limits::{Exhausted, Limits, Meter};
use crate::syntax::{Kind, Node};
use crate::{EvalErrorKind, Scope};

pub(crate) use value::type_name;

/// Most warnings kept of one evaluation.
const MAX_WARNINGS: usize = 32;

/// A value, borrowed from the scope or the tree where possible.
pub(crate) type Val<'v> = Cow<'v, Value>;

/// Why an evaluation stopped, at a byte offset of its source.
#[derive(Debug)]
pub(crate) struct Fault {
    pub kind: EvalErrorKind,
    pub at: usize,
    pub message: String,
}

pub(crate) type Outcome<T> = Result<T, Fault>;

impl Fault {
    pub fn new(kind: EvalErrorKind, at: usize, message: impl Into<String>) -> Self {
        Self { kind, at, message: message.into() }
    }

    pub fn wrong_type(at: usize, message: impl Into<String>) -> Self {
        Self::new(EvalErrorKind::Type, at, message)
    }
}

impl Exhausted {
    pub fn at(self, at: usize) -> Fault {
        Fault::new(EvalErrorKind::Budget, at, self.0)
    }
}

/// What evaluations of one rendering share: the budget and the warnings.
#[derive(Debug)]
pub(crate) struct Session {
    pub meter: Meter,
    warnings: Vec<String>,
}

impl Session {
    pub fn new(limits: Limits) -> Self {
        Self { meter: Meter::new(limits), warnings: Vec::new() }
    }

    /// Keeps a warning, each text once.
    pub fn warn(&mut self, text: String) {
        if self.warnings.len() < MAX_WARNINGS && !self.warnings.contains(&text) {
            self.warnings.push(text);
        }
    }

    pub fn into_warnings(self) -> Vec<String> {
        self.warnings
    }
}

/// Evaluates `tree` over `scope`.
pub(crate) fn run<'v>(tree: &'v Node, scope: &Scope<'v>, session: &mut Session) -> Outcome<Val<'v>> {
    let limit = session.meter.limits().depth;
    if tree.depth > limit {
        let message = format!("the expression is more than {limit} levels deep; split it");
        return Err(Fault::new(EvalErrorKind::Budget, tree.at, message));
    }
    let mut machine = Machine { scope, session, locals: Vec::new(), patterns: Vec::new() };
    machine.eval(tree)
}

/// The state of one evaluation.
struct Machine<'v, 's> {
    scope: &'s Scope<'v>,
    session: &'s mut Session,
    /// Variables of the loops around the current node, the innermost last.
    locals: Vec<(&'v str, Val<'v>)>,
    /// Patterns made at run time, so that a loop compiles each once.
    patterns: Vec<(String, Regex)>,
}

impl<'v> Machine<'v, '_> {
    // INVARIANT: recursion is bounded by the depth of the tree, which the parser bounds.
    fn eval(&mut self, node: &'v Node) -> Outcome<Val<'v>> {
        let at = node.at;
        self.spend(at, 1)?;
        match &node.kind {
            Kind::Literal(value) => Ok(Cow::Borrowed(value)),
            Kind::Name(_) => self.path(node, &[]),
            Kind::Path { root, steps } => self.path(root, steps),
            Kind::List(items) => self.list(items),
            Kind::Map(entries) => self.map(entries),
            Kind::Not { odd, of } => self.not(at, *odd, of),
            Kind::Negate { odd, of } => self.negate(at, *odd, of),
            Kind::And(parts) => self.logic(parts, false),
            Kind::Or(parts) => self.logic(parts, true),
            Kind::Chain { first, rest } => self.chain(at, first, rest),
            Kind::Choice { arms, otherwise } => self.choice(arms, otherwise),
            Kind::Has { of, field } => self.has(of, field),
            Kind::Loop(parts) => self.looping(at, parts),
            Kind::Call { function, args } => self.call(at, *function, args),
            Kind::Matches { text, pattern } => self.matches(at, text, pattern),
        }
    }

    fn list(&mut self, items: &'v [Node]) -> Outcome<Val<'v>> {
        let mut list = Vec::with_capacity(items.len());
        for item in items {
            let value = self.eval(item)?;
            list.push(self.own(item.at, value)?);
        }
        Ok(Cow::Owned(Value::Array(list)))
    }

    fn map(&mut self, entries: &'v [(Node, Node)]) -> Outcome<Val<'v>> {
        let mut map = Map::with_capacity(entries.len());
        for (key, value) in entries {
            let name = self.eval(key)?;
            let name = value::key_text(&name).ok_or_else(|| {
                let found = type_name(&name);
                Fault::wrong_type(key.at, format!("a map key is a string, not {found}"))
            })?;
            self.produce(key.at, name.len())?;
            if map.contains_key(name.as_ref()) {
                let message = format!("the key `{name}` stands twice in the map");
                return Err(Fault::wrong_type(key.at, message));
            }
            let content = self.eval(value)?;
            map.insert(name.into_owned(), self.own(value.at, content)?);
        }
        Ok(Cow::Owned(Value::Object(map)))
    }

    fn choice(&mut self, arms: &'v [(Node, Node)], otherwise: &'v Node) -> Outcome<Val<'v>> {
        for (condition, value) in arms {
            if self.truth(condition)? {
                return self.eval(value);
            }
        }
        self.eval(otherwise)
    }

    /// A value that must be true or false.
    fn truth(&mut self, node: &'v Node) -> Outcome<bool> {
        match self.eval(node)?.as_ref() {
            Value::Bool(truth) => Ok(*truth),
            other => {
                let found = type_name(other);
                let message = format!("a condition is true or false, not {found}; compare it, as in `… != null`");
                Err(Fault::wrong_type(node.at, message))
            }
        }
    }

    /// Makes a value its own; what is copied from elsewhere counts as produced.
    fn own(&mut self, at: usize, value: Val<'v>) -> Outcome<Value> {
        match value {
            Cow::Owned(value) => Ok(value),
            Cow::Borrowed(value) => {
                value::weigh(value, &mut self.session.meter).map_err(|error| error.at(at))?;
                Ok(value.clone())
            }
        }
    }

    fn made(&mut self, at: usize, value: impl Into<Value>, bytes: usize) -> Outcome<Val<'v>> {
        self.produce(at, bytes)?;
        Ok(Cow::Owned(value.into()))
    }

    fn spend(&mut self, at: usize, steps: u32) -> Outcome<()> {
        self.session.meter.steps(steps).map_err(|error| error.at(at))
    }

    fn scan(&mut self, at: usize, bytes: usize) -> Outcome<()> {
        self.session.meter.scan(bytes).map_err(|error| error.at(at))
    }

    fn produce(&mut self, at: usize, bytes: usize) -> Outcome<()> {
        self.session.meter.produce(bytes).map_err(|error| error.at(at))
    }
}
