//! Evaluation of selectors and expressions, for authors of definitions.

use axum::Json;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use toolwright_budget::Stopped;
use toolwright_expr::JsonPath;
use toolwright_types::null_as_default;

use crate::extract::{Caller, JsonBody};
use crate::problem::{Code, Problem};

const TAG: &str = "expressions";

/// A selector and a document.
#[derive(Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct JsonPathBody {
    /// A JSONPath (RFC 9535).
    selector: String,
    /// The document to select from.
    document: Value,
}

/// The selected nodes.
#[derive(Serialize, utoipa::ToSchema)]
pub(crate) struct NodesView {
    nodes: Vec<Value>,
}

/// Selects nodes of a document.
#[utoipa::path(post, path = "/api/v1/ai/jsonpath", tag = TAG, operation_id = "jsonpath", request_body = JsonPathBody,
    responses((status = 200, body = NodesView)))]
pub(crate) async fn jsonpath(
    _caller: Caller,
    JsonBody(body): JsonBody<JsonPathBody>,
) -> Result<Json<NodesView>, Problem> {
    let nodes = run_blocking(move || {
        let path = JsonPath::parse(&body.selector).map_err(|error| invalid_expression("/selector", &error))?;
        let nodes = path.query(&body.document).map_err(|error| invalid_expression("/selector", &error))?;
        Ok(nodes.into_iter().cloned().collect())
    });
    Ok(Json(NodesView { nodes: nodes.await? }))
}

/// An expression and its scope.
#[derive(Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct EvaluateBody {
    /// The expression, with or without `${…}`.
    expression: String,
    /// The variables of the expression.
    #[serde(default, deserialize_with = "null_as_default")]
    #[schema(value_type = Object)]
    scope: Map<String, Value>,
}

/// The result of an expression.
#[derive(Serialize, utoipa::ToSchema)]
pub(crate) struct EvaluatedView {
    value: Value,
    warnings: Vec<String>,
}

/// Evaluates an expression.
#[utoipa::path(post, path = "/api/v1/ai/expressions/evaluate", tag = TAG, operation_id = "evaluateExpression", request_body = EvaluateBody,
    responses((status = 200, body = EvaluatedView)))]
pub(crate) async fn evaluate(
    _caller: Caller,
    JsonBody(body): JsonBody<EvaluateBody>,
) -> Result<Json<EvaluatedView>, Problem> {
    let evaluated = run_blocking(move || {
        let scope = Value::Object(body.scope);
        toolwright_expr::evaluate(&body.expression, &scope).map_err(|error| invalid_expression("/expression", &error))
    });
    let evaluated = evaluated.await?;
    Ok(Json(EvaluatedView { value: evaluated.value, warnings: evaluated.warnings }))
}

/// Runs CPU-bound work outside of the threads that serve requests. The work stops when the client disconnects.
pub(crate) async fn run_blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, Problem> + Send + 'static,
) -> Result<T, Problem> {
    let stopped = |stopped: Stopped| Problem::new(Code::InvalidExpression, stopped.to_string());
    toolwright_budget::offload(work).await.map_err(stopped)?
}

fn invalid_expression(path: &str, error: &dyn std::fmt::Display) -> Problem {
    Problem::new(Code::InvalidExpression, error.to_string()).with_field(path, error.to_string())
}
