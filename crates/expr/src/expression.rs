//! One expression: parsed once, evaluated as often as needed.

use std::borrow::Cow;
use std::fmt;

use serde::Serialize;
use serde_json::Value;

use crate::eval::{self, Fault, Session, Val};
use crate::limits::Limits;
use crate::syntax::{self, Kind, Node, Step, SyntaxError};
use crate::{EvalError, ParseError, Position, Scope};

/// A CEL expression: the text between `${` and `}`.
///
/// ```
/// use serde_json::json;
/// use toolwright_expr::{Expression, Scope};
///
/// let input = json!({"errors": ["no address"]});
/// let expression = Expression::parse("param.errors.length > 0")?;
/// let result = expression.evaluate(&Scope::new(&input)).unwrap();
/// assert_eq!(result.value, json!(true));
/// # Ok::<(), toolwright_expr::ParseError>(())
/// ```
#[derive(Clone)]
pub struct Expression {
    source: Box<str>,
    tree: Node,
    /// The steps of a plain path such as `param.a.b`, which needs no evaluator.
    plain: Option<Box<[Box<str>]>>,
}

/// A value, and what was odd on the way to it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Evaluated {
    /// The result.
    pub value: Value,
    /// Paths that were missing and taken as null, and the like.
    pub warnings: Vec<String>,
}

impl Expression {
    /// Parses one expression, without the `${` and `}` around it.
    pub fn parse(source: &str) -> Result<Self, ParseError> {
        let tree = syntax::parse(source).map_err(|error| located(source, error))?;
        Ok(Self { source: source.into(), plain: plain(&tree), tree })
    }

    /// The text this was parsed from.
    pub fn source(&self) -> &str {
        &self.source
    }

    /// Whether this is only a path of names, such as `param.order.id`.
    pub fn is_path(&self) -> bool {
        self.plain.is_some()
    }

    /// Evaluates within the default [`Limits`].
    pub fn evaluate(&self, scope: &Scope<'_>) -> Result<Evaluated, EvalError> {
        self.evaluate_within(scope, Limits::default())
    }

    /// Evaluates within `limits`.
    pub fn evaluate_within(&self, scope: &Scope<'_>, limits: Limits) -> Result<Evaluated, EvalError> {
        let mut session = Session::new(limits);
        let value = self.run(scope, &mut session)?.into_owned();
        Ok(Evaluated { value, warnings: session.into_warnings() })
    }

    /// Evaluates as a part of something larger that shares budget and warnings.
    pub(crate) fn run<'v>(&'v self, scope: &Scope<'v>, session: &mut Session) -> Result<Val<'v>, EvalError> {
        if let Some(value) = self.plain.as_deref().and_then(|names| follow(names, scope)) {
            return Ok(Cow::Borrowed(value));
        }
        eval::run(&self.tree, scope, session).map_err(|fault| self.failed(fault))
    }

    fn failed(&self, fault: Fault) -> EvalError {
        let position = Position::of(&self.source, fault.at);
        EvalError::new(fault.kind, fault.message, position)
    }
}

impl fmt::Debug for Expression {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Expression").field(&self.source).finish()
    }
}

pub(crate) fn located(source: &str, error: SyntaxError) -> ParseError {
    ParseError::new(error.message, Position::of(source, error.at))
}

/// Follows a plain path as far as it is there; what is missing is left to the evaluator, which
/// knows `.length` and writes the warning.
fn follow<'v>(names: &[Box<str>], scope: &Scope<'v>) -> Option<&'v Value> {
    let (root, fields) = names.split_first()?;
    let root = scope.lookup(root)?;
    fields.iter().try_fold(root, |value, field| value.get(&**field))
}

fn plain(tree: &Node) -> Option<Box<[Box<str>]>> {
    let (root, steps) = match &tree.kind {
        Kind::Path { root, steps } => (root.as_ref(), steps.as_slice()),
        _ => (tree, [].as_slice()),
    };
    let Kind::Name(name) = &root.kind else {
        return None;
    };
    let fields = steps.iter().map(|step| match step {
        Step::Field(field) => Some(field.clone()),
        Step::Index(_) => None,
    });
    std::iter::once(Some(name.clone())).chain(fields).collect()
}
