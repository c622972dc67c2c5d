//! Gram: parsing of texts and signatures, and queries over the definitions of a realm.

use std::collections::BTreeMap;

use axum::Json;
use axum::extract::State;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use toolwright_catalog::registry::Registry;
use toolwright_gram::{Diagnostics, Graph, Pattern, Query, Signature, SignatureParseError};

use super::expressions::run_blocking;
use crate::extract::{Caller, JsonBody};
use crate::problem::{Code, Problem, TextSpan};

const TAG: &str = "gram";

/// The largest number of matches in one response.
const MAX_MATCHES: usize = 1000;

/// A gram text.
#[derive(Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct GramBody {
    /// The text in gram notation.
    gram: String,
}

/// Parses a text and returns its pattern.
#[utoipa::path(post, path = "/api/v1/ai/gram/parse", tag = TAG, operation_id = "parseGram", request_body = GramBody,
    responses((status = 200, body = Object)))]
pub(crate) async fn parse(_caller: Caller, JsonBody(body): JsonBody<GramBody>) -> Result<Json<Value>, Problem> {
    let pattern = run_blocking(move || {
        toolwright_gram::parse(&body.gram).map_err(|diagnostics| invalid_gram("/gram", &diagnostics))
    });
    to_json(&pattern.await?).map(Json)
}

/// A type signature.
#[derive(Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct SignatureBody {
    /// The signature, such as `(personName::Text)==>(::String)`.
    signature: String,
}

/// The input schema of a signature.
#[derive(Serialize, utoipa::ToSchema)]
pub(crate) struct SchemaView {
    /// The JSON Schema.
    #[schema(value_type = Object)]
    schema: Value,
}

/// Returns the JSON Schema of the input of a type signature.
#[utoipa::path(post, path = "/api/v1/ai/gram/schema", tag = TAG, operation_id = "schemaOfSignature", request_body = SignatureBody,
    responses((status = 200, body = SchemaView)))]
pub(crate) async fn schema(
    _caller: Caller,
    JsonBody(body): JsonBody<SignatureBody>,
) -> Result<Json<SchemaView>, Problem> {
    let path = "/signature";
    let signature = run_blocking(move || {
        Signature::parse(&body.signature).map_err(|error| match error {
            SignatureParseError::Syntax(diagnostics) => invalid_gram(path, &diagnostics),
            SignatureParseError::Signature(error) => unusable_gram(path, &error),
        })
    });
    Ok(Json(SchemaView { schema: signature.await?.to_schema() }))
}

/// A query over definitions.
#[derive(Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct GramQueryBody {
    /// The gram query, such as `(agent:Agent)==>(tool:Tool {sideEffects: "writes"})`.
    query: String,
}

/// The matches of a query.
#[derive(Serialize, Deserialize, utoipa::ToSchema)]
pub struct MatchesView {
    /// For each match, the pattern of each variable.
    #[schema(value_type = Vec<Object>)]
    pub matches: Vec<BTreeMap<String, Pattern>>,
    /// Whether there are more matches than were returned.
    pub truncated: bool,
}

/// Runs a query over the agents and tools that the caller may read.
#[utoipa::path(post, path = "/api/v1/ai/gram/query", tag = TAG, operation_id = "queryGram", request_body = GramQueryBody,
    responses((status = 200, body = MatchesView)))]
pub(crate) async fn query(
    State(registry): State<Registry>,
    Caller(session): Caller,
    JsonBody(body): JsonBody<GramQueryBody>,
) -> Result<Json<MatchesView>, Problem> {
    let query = Query::parse(&body.query).map_err(|diagnostics| invalid_gram("/query", &diagnostics))?;
    registry.may_enter(&session)?;
    let graph = registry.graph(&session).await?;
    Ok(Json(run_blocking(move || find(&query, &graph)).await?))
}

fn find(query: &Query, graph: &Graph) -> Result<MatchesView, Problem> {
    let found = query.run(graph).map_err(|error| unusable_gram("/query", &error))?;
    let matches = found
        .iter()
        .take(MAX_MATCHES)
        .map(|found| found.bindings().map(|(variable, pattern)| (variable.to_owned(), pattern.clone())).collect());
    Ok(MatchesView { matches: matches.collect(), truncated: found.len() > MAX_MATCHES })
}

fn to_json(pattern: &Pattern) -> Result<Value, Problem> {
    serde_json::to_value(pattern).map_err(|error| Problem::new(Code::Internal, error.to_string()))
}

fn invalid_gram(path: &str, diagnostics: &Diagnostics) -> Problem {
    diagnostics.as_slice().iter().fold(
        Problem::new(Code::InvalidGram, diagnostics.to_string()),
        |problem, diagnostic| {
            let hint = diagnostic.hint.as_deref().map(|hint| format!("; {hint}")).unwrap_or_default();
            let span = TextSpan {
                line: diagnostic.position.line,
                column: diagnostic.position.column,
                start: diagnostic.span.start,
                end: diagnostic.span.end,
            };
            problem.with_span(path, format!("{}{hint}", diagnostic.message), span)
        },
    )
}

fn unusable_gram(path: &str, error: &dyn std::fmt::Display) -> Problem {
    Problem::new(Code::InvalidGram, error.to_string()).with_field(path, error.to_string())
}
