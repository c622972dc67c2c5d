//! `responseMapping`: selects the output of a tool from a response.

use serde_json::Value;

use crate::{EvalError, EvalErrorKind, Evaluation, Expression, JsonPath, ParseError, Position};
use crate::{Scope, Template};

/// A response mapping: a JSONPath (`$.data.items[*]`), an expression (`size(items)`) or a template (`Order ${id}`).
#[derive(Debug, Clone)]
pub struct Mapping {
    kind: MappingKind,
}

#[derive(Debug, Clone)]
enum MappingKind {
    Path(JsonPath),
    Expression(Expression),
    Template(Template),
}

impl Mapping {
    /// Parses a mapping. The text `$`, or a text that begins with `$.` or `$[`, is a JSONPath. A text that contains
    /// `${` is a template. Any other text is an expression.
    pub fn parse(source: &str) -> Result<Self, ParseError> {
        let kind = if is_path(source) {
            MappingKind::Path(JsonPath::parse(source)?)
        } else if source.contains("${") {
            MappingKind::Template(Template::parse(source)?)
        } else {
            MappingKind::Expression(Expression::parse(source)?)
        };
        Ok(Self { kind })
    }

    /// Maps a response.
    ///
    /// A JSONPath that can match at most one node returns that node. If no node matches, it returns null and a warning.
    /// Any other JSONPath returns a list of all matching nodes. An expression can use the names `response` and `body`
    /// for the response, the names of the response's fields, and the names in `scope`.
    pub fn apply<'v>(&'v self, response: &'v Value, scope: &Scope<'v>) -> Result<Evaluation, EvalError> {
        let response_scope = || scope.with_value(&["response", "body"], response);
        match &self.kind {
            MappingKind::Path(path) => select(path, response),
            MappingKind::Expression(expression) => expression.evaluate(&response_scope()),
            MappingKind::Template(template) => template.evaluate(&response_scope()),
        }
    }
}

fn is_path(source: &str) -> bool {
    let after = source.strip_prefix('$').map(str::trim_start);
    after.is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
}

fn select(path: &JsonPath, response: &Value) -> Result<Evaluation, EvalError> {
    let nodes = path
        .query(response)
        .map_err(|error| EvalError::new(EvalErrorKind::Budget, error.to_string(), Position::START))?;
    if !path.is_singular() {
        let value = Value::Array(nodes.into_iter().cloned().collect());
        return Ok(Evaluation { value, warnings: Vec::new() });
    }
    let node = nodes.into_iter().next();
    let missing = format!("`{}` matches nothing in the response; using null", path.source());
    Ok(Evaluation {
        value: node.cloned().unwrap_or_default(),
        warnings: node.is_none().then_some(missing).into_iter().collect(),
    })
}
