//! Parses and evaluates a text in one call, for the REST route that evaluates expressions.

use serde_json::Value;

use crate::eval::type_name;
use crate::{Error, Evaluation, Expression, Scope, Template};

/// Parses and evaluates `expression` over `scope`. `expression` is either one expression without `${…}` around it, or a
/// template with one or more `${…}`. The scope is an object whose keys are the names that the expression may use.
pub fn evaluate(expression: &str, scope: &Value) -> Result<Evaluation, Error> {
    if !scope.is_object() {
        let found = type_name(scope);
        return Err(Error::Scope { found });
    }
    let scope = Scope::from_names(scope);
    if expression.contains("${") {
        return Ok(Template::parse(expression)?.evaluate(&scope)?);
    }
    Ok(Expression::parse(expression)?.evaluate(&scope)?)
}
