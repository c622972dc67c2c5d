//! Gram: parsing of texts and signatures, definitions from texts, and queries over the definitions of a realm.

use std::collections::BTreeMap;

use axum::Json;
use axum::extract::State;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use toolwright_catalog::registry::{AppliedDefinition, ApplyError, ApplyOptions, ApplyOutcome, Registry};
use toolwright_gram::{Diagnostic, DiagnosticCode, Diagnostics, Graph, Pattern, Query, Signature, SignatureParseError};
use toolwright_notation::{LocatedDefinition, read_all};

use super::expressions::run_blocking;
use crate::extract::{Caller, JsonBody};
use crate::problem::{Code, Problem, TextSpan};

const TAG: &str = "gram";

/// The largest number of invalid definitions in one response.
const MAX_ERRORS: usize = 50;

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

/// A gram text with definitions to apply.
#[derive(Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct GramApplyBody {
    /// The text in gram notation.
    gram: String,
    /// Whether the definitions are only checked and compared, and not written. Default: false.
    #[serde(default)]
    dry_run: Option<bool>,
    /// Whether the text may change tools that agents outside of the text use. Default: false.
    #[serde(default)]
    overwrite: Option<bool>,
}

/// The outcome of an applied text.
#[derive(Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct GramApplyView {
    /// Whether nothing was written because the request was a dry run.
    pub dry_run: bool,
    /// The definitions in the order of the text.
    pub definitions: Vec<AppliedView>,
}

/// An applied definition.
#[derive(Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct AppliedView {
    /// `agent` or `tool`.
    pub kind: String,
    /// The name.
    pub ref_name: String,
    /// The version.
    pub version: String,
    /// `created`, `updated` or `unchanged`.
    pub outcome: String,
    /// Warnings for the author.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
}

impl From<AppliedDefinition> for AppliedView {
    fn from(applied: AppliedDefinition) -> Self {
        let outcome = match applied.outcome {
            ApplyOutcome::Created => "created",
            ApplyOutcome::Updated => "updated",
            ApplyOutcome::Unchanged => "unchanged",
        };
        Self {
            kind: applied.kind.to_owned(),
            ref_name: applied.ref_name.to_string(),
            version: applied.version,
            outcome: outcome.to_owned(),
            warnings: applied.warnings,
        }
    }
}

/// Writes the agents and tools of a text, all or none. Definitions that do not change are not written.
#[utoipa::path(post, path = "/api/v1/ai/gram/apply", tag = TAG, operation_id = "applyGram", request_body = GramApplyBody,
    responses((status = 200, body = GramApplyView)))]
pub(crate) async fn apply(
    State(registry): State<Registry>,
    Caller(session): Caller,
    JsonBody(body): JsonBody<GramApplyBody>,
) -> Result<Json<GramApplyView>, Problem> {
    let GramApplyBody { gram, dry_run, overwrite } = body;
    let (gram, definitions) = run_blocking(move || definitions(&gram).map(|found| (gram, found))).await?;
    let options = ApplyOptions { dry_run: dry_run.unwrap_or(false), overwrite: overwrite.unwrap_or(false) };
    match registry.apply(&session, definitions, options).await {
        Ok(applied) => Ok(Json(GramApplyView {
            dry_run: options.dry_run,
            definitions: applied.into_iter().map(AppliedView::from).collect(),
        })),
        Err(ApplyError::Invalid(elements)) => {
            let errors = elements.into_iter().map(|element| (element.path, element.message)).collect();
            Err(run_blocking(move || Ok(invalid_elements(&gram, errors))).await?)
        }
        Err(error @ ApplyError::InUse(_)) => Err(Problem::new(Code::ToolInUse, error.to_string())),
        Err(ApplyError::Registry(error)) => Err(error.into()),
    }
}

/// Returns the definitions of a text.
fn definitions(gram: &str) -> Result<Vec<LocatedDefinition>, Problem> {
    let pattern = toolwright_gram::parse(gram).map_err(|diagnostics| invalid_gram("/gram", &diagnostics))?;
    read_all(&[pattern]).map_err(|errors| {
        let errors = errors.into_iter().map(|(_, error)| (error.path, error.message)).collect();
        invalid_elements(gram, errors)
    })
}

/// Returns a problem with the position of each invalid element.
fn invalid_elements(gram: &str, errors: Vec<(Vec<usize>, String)>) -> Problem {
    let located = errors
        .iter()
        .take(MAX_ERRORS)
        .map(|(path, message)| Diagnostic::for_element(gram, path, DiagnosticCode::InvalidTool, message));
    let located: Vec<Diagnostic> = located.collect();
    let detail = match (located.first(), errors.len()) {
        (Some(first), 1) => format!("{} at {}", first.message, first.position),
        (Some(first), count) => format!("{} at {} (and {} more)", first.message, first.position, count - 1),
        (None, _) => "the text has an invalid definition".to_owned(),
    };
    located.iter().fold(Problem::new(Code::InvalidGram, detail), |problem, diagnostic| {
        with_diagnostic(problem, "/gram", diagnostic)
    })
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
    let problem = Problem::new(Code::InvalidGram, diagnostics.to_string());
    diagnostics.as_slice().iter().fold(problem, |problem, diagnostic| with_diagnostic(problem, path, diagnostic))
}

fn with_diagnostic(problem: Problem, path: &str, diagnostic: &Diagnostic) -> Problem {
    let hint = diagnostic.hint.as_deref().map(|hint| format!("; {hint}")).unwrap_or_default();
    let span = TextSpan {
        line: diagnostic.position.line,
        column: diagnostic.position.column,
        start: diagnostic.span.start,
        end: diagnostic.span.end,
    };
    problem.with_span(path, format!("{}{hint}", diagnostic.message), span)
}

fn unusable_gram(path: &str, error: &dyn std::fmt::Display) -> Problem {
    Problem::new(Code::InvalidGram, error.to_string()).with_field(path, error.to_string())
}
