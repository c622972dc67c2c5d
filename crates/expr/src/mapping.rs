//! `responseMapping`: what of a response becomes the output of a tool.

use serde_json::Value;

use crate::{EvalError, EvalErrorKind, Evaluated, Expression, JsonPath, ParseError, Position};
use crate::{Scope, Template};

/// A JSONPath (`$.data.items[*]`), an expression (`size(items)`) or a template (`Order ${id}`).
#[derive(Debug, Clone)]
pub struct Mapping {
    kind: Kind,
}

#[derive(Debug, Clone)]
enum Kind {
    Path(JsonPath),
    Expression(Expression),
    Template(Template),
}

impl Mapping {
    /// Parses a mapping. `$`, alone or before `.` or `[`, begins a JSONPath; all else is an
    /// expression, with or without `${…}`.
    pub fn parse(source: &str) -> Result<Self, ParseError> {
        let kind = if is_path(source) {
            Kind::Path(JsonPath::parse(source)?)
        } else if source.contains("${") {
            Kind::Template(Template::parse(source)?)
        } else {
            Kind::Expression(Expression::parse(source)?)
        };
        Ok(Self { kind })
    }

    /// Maps a response.
    ///
    /// A JSONPath that can match at most one node gives that node, or null and a warning; any other
    /// gives the list of its nodes. An expression sees the response as `response` and as `body`, its
    /// fields by bare name, and what is in `scope`.
    pub fn apply<'v>(&'v self, response: &'v Value, scope: &Scope<'v>) -> Result<Evaluated, EvalError> {
        let over = || scope.over(&["response", "body"], response);
        match &self.kind {
            Kind::Path(path) => select(path, response),
            Kind::Expression(expression) => expression.evaluate(&over()),
            Kind::Template(template) => template.evaluate(&over()),
        }
    }
}

fn is_path(source: &str) -> bool {
    let after = source.strip_prefix('$').map(str::trim_start);
    after.is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
}

fn select(path: &JsonPath, response: &Value) -> Result<Evaluated, EvalError> {
    let nodes = path
        .query(response)
        .map_err(|error| EvalError::new(EvalErrorKind::Budget, error.to_string(), Position::START))?;
    if !path.is_singular() {
        let value = Value::Array(nodes.into_iter().cloned().collect());
        return Ok(Evaluated { value, warnings: Vec::new() });
    }
    let node = nodes.into_iter().next();
    let missing = format!("`{}` matches nothing in the response; it was taken as null", path.source());
    Ok(Evaluated {
        value: node.cloned().unwrap_or_default(),
        warnings: node.is_none().then_some(missing).into_iter().collect(),
    })
}
