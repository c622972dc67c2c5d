//! Expressions: an expression is parsed once and evaluated many times.

use std::borrow::Cow;
use std::fmt;

use serde::Serialize;
use serde_json::Value;

use crate::eval::{self, CowValue, EvalContext, RuntimeError};
use crate::limits::EvalLimits;
use crate::syntax::{self, Node, NodeKind, PathSegment, SyntaxError};
use crate::{EvalError, ParseError, Position, Reference, Scope, references};

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
    /// The names of the path if the expression is a simple path such as `param.a.b`. A simple path is looked up without
    /// the evaluator.
    simple_path: Option<Box<[Box<str>]>>,
}

/// The result of an evaluation.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Evaluation {
    /// The value.
    pub value: Value,
    /// Warnings, for example about missing paths.
    pub warnings: Vec<String>,
}

impl Expression {
    /// Parses one expression, without the `${` and `}` around it.
    pub fn parse(source: &str) -> Result<Self, ParseError> {
        let tree = syntax::parse(source).map_err(|error| locate(source, error))?;
        Ok(Self { source: source.into(), simple_path: simple_path(&tree), tree })
    }

    /// Whether a text can be a name in an expression without backticks: not `a-b`, and no word with a meaning of its own
    /// such as `in` or `while`.
    pub fn is_name(text: &str) -> bool {
        syntax::is_name(text)
    }

    /// The source text.
    pub fn source(&self) -> &str {
        &self.source
    }

    /// Whether the expression consists only of names, such as `param.order.id`.
    pub fn is_path(&self) -> bool {
        self.simple_path.is_some()
    }

    /// Returns the paths that the expression reads.
    pub fn references(&self) -> Vec<Reference<'_>> {
        references::of_node(&self.tree)
    }

    /// Evaluates within the default [`EvalLimits`].
    pub fn evaluate(&self, scope: &Scope<'_>) -> Result<Evaluation, EvalError> {
        self.evaluate_within(scope, EvalLimits::default())
    }

    /// Evaluates within `limits`.
    pub fn evaluate_within(&self, scope: &Scope<'_>, limits: EvalLimits) -> Result<Evaluation, EvalError> {
        let mut context = EvalContext::new(limits);
        let value = self.evaluate_in(scope, &mut context)?.into_owned();
        Ok(Evaluation { value, warnings: context.into_warnings() })
    }

    /// Evaluates the expression. `context` contains the budget and the warnings, which several expressions of a
    /// template share.
    pub(crate) fn evaluate_in<'v>(
        &'v self,
        scope: &Scope<'v>,
        context: &mut EvalContext,
    ) -> Result<CowValue<'v>, EvalError> {
        if let Some(value) = self.simple_path.as_deref().and_then(|names| look_up_path(names, scope)) {
            return Ok(Cow::Borrowed(value));
        }
        eval::evaluate(&self.tree, scope, context).map_err(|error| self.locate(error))
    }

    fn locate(&self, error: RuntimeError) -> EvalError {
        let position = Position::from_offset(&self.source, error.offset);
        EvalError::new(error.kind, error.message, position)
    }
}

impl fmt::Debug for Expression {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Expression").field(&self.source).finish()
    }
}

/// Converts the byte offset of a syntax error to a position in `source`.
pub(crate) fn locate(source: &str, error: SyntaxError) -> ParseError {
    ParseError::new(error.message, Position::from_offset(source, error.offset))
}

/// Looks up a simple path. Returns `None` if the path does not exist. The caller then uses the evaluator, which
/// supports `.length` and adds a warning for a missing path.
fn look_up_path<'v>(names: &[Box<str>], scope: &Scope<'v>) -> Option<&'v Value> {
    let (root, fields) = names.split_first()?;
    let root = scope.lookup(root)?;
    fields.iter().try_fold(root, |value, field| value.get(&**field))
}

fn simple_path(tree: &Node) -> Option<Box<[Box<str>]>> {
    let (root, segments) = match &tree.kind {
        NodeKind::Path { root, segments } => (root.as_ref(), segments.as_slice()),
        _ => (tree, [].as_slice()),
    };
    let NodeKind::Ident(name) = &root.kind else {
        return None;
    };
    let fields = segments.iter().map(|segment| match segment {
        PathSegment::Field(field) => Some(field.clone()),
        PathSegment::Index(_) => None,
    });
    std::iter::once(Some(name.clone())).chain(fields).collect()
}
