//! Gram: texts and signatures tried out, and queries over the definitions of a realm.

use std::collections::BTreeMap;

use axum::Json;
use axum::extract::State;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use toolwright_gram::{Diagnostics, Graph, Pattern, Query, Signature, SignatureParseError};

use super::expressions::aside;
use crate::extract::{App, Body, Caller};
use crate::problem::{Code, Place, Problem};

const TAG: &str = "gram";

/// The most matches that are sent.
const MOST_MATCHES: usize = 1000;

/// A text.
#[derive(Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct GramBody {
    /// Gram notation.
    gram: String,
}

/// Parses a text. The answer is its pattern.
#[utoipa::path(post, path = "/api/v1/ai/gram/parse", tag = TAG, operation_id = "parseGram", request_body = GramBody,
    responses((status = 200, body = Object), (status = "4XX", body = Problem, content_type = "application/problem+json")))]
pub async fn parse(_caller: Caller, Body(body): Body<GramBody>) -> Result<Json<Value>, Problem> {
    let pattern = aside(move || toolwright_gram::parse(&body.gram).map_err(|mistakes| wrong("/gram", &mistakes)));
    written(&pattern.await?).map(Json)
}

/// A type signature.
#[derive(Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SignatureBody {
    /// Such as `(personName::Text)==>(::String)`.
    signature: String,
}

/// What a signature takes.
#[derive(Serialize, utoipa::ToSchema)]
pub struct SchemaView {
    /// A JSON Schema.
    #[schema(value_type = Object)]
    schema: Value,
}

/// The JSON Schema of what a type signature takes.
#[utoipa::path(post, path = "/api/v1/ai/gram/schema", tag = TAG, operation_id = "schemaOfSignature", request_body = SignatureBody,
    responses((status = 200, body = SchemaView), (status = "4XX", body = Problem, content_type = "application/problem+json")))]
pub async fn schema(_caller: Caller, Body(body): Body<SignatureBody>) -> Result<Json<SchemaView>, Problem> {
    let path = "/signature";
    let signature = aside(move || {
        Signature::parse(&body.signature).map_err(|error| match error {
            SignatureParseError::Syntax(mistakes) => wrong(path, &mistakes),
            SignatureParseError::Signature(error) => unusable(path, &error),
        })
    });
    Ok(Json(SchemaView { schema: signature.await?.to_schema() }))
}

/// A question about definitions.
#[derive(Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct GramQueryBody {
    /// A gram query, such as `(agent:Agent)==>(tool:Tool {sideEffects: "writes"})`.
    query: String,
}

/// What a query found.
#[derive(Serialize, utoipa::ToSchema)]
pub struct MatchesView {
    /// For each match, the pattern of each variable.
    #[schema(value_type = Vec<Object>)]
    matches: Vec<BTreeMap<String, Value>>,
    /// Whether there are more, which were not sent.
    truncated: bool,
}

/// Asks a query of the agents and tools that the caller may read.
#[utoipa::path(post, path = "/api/v1/ai/gram/query", tag = TAG, operation_id = "queryGram", request_body = GramQueryBody,
    responses((status = 200, body = MatchesView), (status = "4XX", body = Problem, content_type = "application/problem+json")))]
pub async fn query(
    State(engine): State<App>,
    Caller(session): Caller,
    Body(body): Body<GramQueryBody>,
) -> Result<Json<MatchesView>, Problem> {
    let query = Query::parse(&body.query).map_err(|mistakes| wrong("/query", &mistakes))?;
    engine.registry.may_enter(&session)?;
    let graph = engine.registry.graph(&session).await?;
    Ok(Json(aside(move || find(&query, &graph)).await?))
}

fn find(query: &Query, graph: &Graph) -> Result<MatchesView, Problem> {
    let found = query.run(graph).map_err(|error| unusable("/query", &error))?;
    let matches = found.iter().take(MOST_MATCHES).map(|found| {
        found.bindings().map(|(variable, pattern)| Ok((variable.to_owned(), written(pattern)?))).collect()
    });
    Ok(MatchesView { matches: matches.collect::<Result<_, Problem>>()?, truncated: found.len() > MOST_MATCHES })
}

fn written(pattern: &Pattern) -> Result<Value, Problem> {
    serde_json::to_value(pattern).map_err(|error| Problem::new(Code::Internal, error.to_string()))
}

fn wrong(path: &str, mistakes: &Diagnostics) -> Problem {
    mistakes.as_slice().iter().fold(Problem::new(Code::InvalidGram, mistakes.to_string()), |problem, mistake| {
        let hint = mistake.hint.as_deref().map(|hint| format!("; {hint}")).unwrap_or_default();
        let place = Place {
            line: mistake.position.line,
            column: mistake.position.column,
            start: mistake.span.start,
            end: mistake.span.end,
        };
        problem.at_place(path, format!("{}{hint}", mistake.message), place)
    })
}

fn unusable(path: &str, error: &dyn std::fmt::Display) -> Problem {
    Problem::new(Code::InvalidGram, error.to_string()).at_field(path, error.to_string())
}
