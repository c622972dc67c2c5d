//! Parse and evaluate in one go, for the route that tries expressions out.

use serde_json::Value;

use crate::eval::type_name;
use crate::{Error, Evaluated, Expression, Scope, Template};

/// Evaluates `expression` (bare, as `${…}`, or as text with `${…}` in it) over `scope`: an object
/// whose keys are the names that the expression may use.
pub fn evaluate(expression: &str, scope: &Value) -> Result<Evaluated, Error> {
    if !scope.is_object() {
        let found = type_name(scope);
        return Err(Error::Scope { found });
    }
    let scope = Scope::of_names(scope);
    if expression.contains("${") {
        return Ok(Template::parse(expression)?.evaluate(&scope)?);
    }
    Ok(Expression::parse(expression)?.evaluate(&scope)?)
}
