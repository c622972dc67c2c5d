//! Selectors and expressions, tried out before they go into a definition.

use axum::Json;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use toolwright_expr::JsonPath;
use toolwright_types::or_default;

use crate::extract::{Body, Caller};
use crate::problem::{Code, Problem};

const TAG: &str = "expressions";

/// A selector and what to select from.
#[derive(Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct JsonPathBody {
    /// A JSONPath (RFC 9535).
    selector: String,
    /// Any JSON.
    document: Value,
}

/// What was selected.
#[derive(Serialize, utoipa::ToSchema)]
pub struct NodesView {
    nodes: Vec<Value>,
}

/// Selects parts of a document.
#[utoipa::path(post, path = "/api/v1/ai/jsonpath", tag = TAG, operation_id = "jsonpath", request_body = JsonPathBody,
    responses((status = 200, body = NodesView), (status = "4XX", body = Problem, content_type = "application/problem+json")))]
pub async fn jsonpath(_caller: Caller, Body(body): Body<JsonPathBody>) -> Result<Json<NodesView>, Problem> {
    let nodes = aside(move || {
        let path = JsonPath::parse(&body.selector).map_err(|error| wrong("/selector", &error))?;
        let nodes = path.query(&body.document).map_err(|error| wrong("/selector", &error))?;
        Ok(nodes.into_iter().cloned().collect())
    });
    Ok(Json(NodesView { nodes: nodes.await? }))
}

/// An expression and what it sees.
#[derive(Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct EvaluateBody {
    /// With or without `${…}`.
    expression: String,
    /// Names and their values.
    #[serde(default, deserialize_with = "or_default")]
    #[schema(value_type = Object)]
    scope: Map<String, Value>,
}

/// What an expression gave.
#[derive(Serialize, utoipa::ToSchema)]
pub struct EvaluatedView {
    value: Value,
    warnings: Vec<String>,
}

/// Evaluates an expression.
#[utoipa::path(post, path = "/api/v1/ai/expressions/evaluate", tag = TAG, operation_id = "evaluateExpression", request_body = EvaluateBody,
    responses((status = 200, body = EvaluatedView), (status = "4XX", body = Problem, content_type = "application/problem+json")))]
pub async fn evaluate(_caller: Caller, Body(body): Body<EvaluateBody>) -> Result<Json<EvaluatedView>, Problem> {
    let evaluated = aside(move || {
        let scope = Value::Object(body.scope);
        toolwright_expr::evaluate(&body.expression, &scope).map_err(|error| wrong("/expression", &error))
    });
    let evaluated = evaluated.await?;
    Ok(Json(EvaluatedView { value: evaluated.value, warnings: evaluated.warnings }))
}

/// Runs what may take its time beside the threads that serve everyone.
pub async fn aside<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, Problem> + Send + 'static,
) -> Result<T, Problem> {
    let lost = |_| Problem::new(Code::Internal, "the evaluation was lost");
    tokio::task::spawn_blocking(work).await.map_err(lost)?
}

fn wrong(path: &str, error: &dyn std::fmt::Display) -> Problem {
    Problem::new(Code::InvalidExpression, error.to_string()).at_field(path, error.to_string())
}
