//! The backend of tools of the types QUANTUM_QUERY and QUANTUM_API. Each such tool operates on the records of one
//! entity type.

use futures::future::BoxFuture;
use serde::Deserialize;
use serde_json::{Value, json};
use toolwright_query::Projection;
use toolwright_tools::ToolFailure;
use toolwright_tools::executor::{Attempt, Backend, BackendReply};
use toolwright_types::{ErrorCode, Operation, ToolError, ToolType};

use super::definitions::{DEFAULT_LIMIT, MAX_LIMIT};
use crate::{RecordError, RecordQuery, Records, SaveMode, ToolCaller};
use toolwright_catalog::Session;

/// The maximum size of a page in bytes. It is below the size at which results are truncated for models, so that a model
/// sees the whole page.
const MAX_PAGE_BYTES: usize = 24_000;

/// The backend of tools that operate on records.
pub struct RecordBackend(Records);

/// The arguments of all operations except create and update. The input of create and update is the record.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Arguments {
    id: String,
    version: Option<i64>,
    query: Option<String>,
    sort: Option<String>,
    fields: Option<String>,
    limit: Option<u32>,
    cursor: Option<String>,
}

impl RecordBackend {
    /// Creates the backend. A principal that may call a tool may also perform the tool's operation on the records.
    pub fn new(records: &Records) -> Self {
        Self(records.authorized_by_tool())
    }

    async fn execute(&self, attempt: Attempt<'_>) -> Result<BackendReply, ToolFailure> {
        let definition = &attempt.tool.definition;
        let operation = match definition.invocation.method.as_deref() {
            Some(method) => Operation::parse(method),
            None => (definition.tool_type == ToolType::QuantumQuery).then_some(Operation::Search),
        };
        let operation = operation.ok_or_else(|| {
            let known = Operation::ALL.map(Operation::as_str).join(", ");
            denied("unknown_operation", format!("`invocation.method` must be one of {known}"))
        })?;
        let entity_type = definition.invocation.path.as_deref().unwrap_or_default();
        let session = Session::new(attempt.cx.principal.clone(), attempt.cx.realm.clone());
        let path = ToolCaller::nested(attempt.executor, attempt.cx);
        let output =
            perform(&self.0.with_tool_caller(path), &session, entity_type, operation, attempt.input.clone()).await;
        output.map(BackendReply::from_output).map_err(to_tool_failure)
    }
}

async fn perform(
    records: &Records,
    session: &Session,
    entity_type: &str,
    operation: Operation,
    input: Value,
) -> Result<Value, RecordError> {
    let arguments = |input: Value| serde_json::from_value::<Arguments>(input).unwrap_or_default();
    match operation {
        Operation::Search => search(records, session, entity_type, arguments(input)).await,
        Operation::Count => {
            let request = RecordQuery::filter(arguments(input).query, Default::default());
            Ok(json!({ "count": records.count(session, entity_type, &request).await? }))
        }
        Operation::Get => {
            let Arguments { id, fields, .. } = arguments(input);
            let record = records.get(session, entity_type, &id).await?;
            let fields = fields.filter(|fields| !fields.trim().is_empty());
            let projection = fields.map(|fields| Projection::parse(&fields)).transpose();
            let projection = projection.map_err(|error| RecordError::invalid_fields(&error))?;
            Ok(projection.map_or(record.clone(), |projection| projection.apply(&record)))
        }
        Operation::Create => Ok(records.save(session, entity_type, input, SaveMode::Create).await?.record),
        Operation::Update => Ok(records.save(session, entity_type, input, SaveMode::Update).await?.record),
        Operation::Delete => {
            let Arguments { id, version, .. } = arguments(input);
            match records.delete(session, entity_type, &id, version).await {
                Ok(()) => Ok(json!({ "id": id, "deleted": true })),
                // Deleting a missing record is not an error, so that a repeated deletion succeeds.
                Err(RecordError::UnknownRecord { .. }) => Ok(json!({ "id": id, "deleted": false })),
                Err(error) => Err(error),
            }
        }
    }
}

async fn search(
    records: &Records,
    session: &Session,
    entity_type: &str,
    arguments: Arguments,
) -> Result<Value, RecordError> {
    let request = RecordQuery {
        query: arguments.query,
        sort: arguments.sort,
        fields: arguments.fields,
        cursor: arguments.cursor,
        limit: arguments.limit.unwrap_or(DEFAULT_LIMIT).clamp(1, MAX_LIMIT),
        max_bytes: Some(MAX_PAGE_BYTES),
        total: true,
        ..RecordQuery::default()
    };
    let found = records.find(session, entity_type, &request).await?;
    let total = found.total.unwrap_or_default();
    let hint = hint(found.records.len(), total, found.next.is_some());
    Ok(json!({ "items": found.records, "total": total, "nextCursor": found.next, "hint": hint }))
}

/// A text for the model that says how many records the page has and how to get the next page.
fn hint(shown: usize, total: u64, more: bool) -> String {
    match (shown, more) {
        (0, _) if total == 0 => "No record matches. Use fewer conditions, or check the fields.".to_owned(),
        (_, true) => format!(
            "{shown} of {total} on this page. For the next page, call again with `cursor` set to nextCursor and the same \
             query and sort. Fewer `fields` make larger pages; to get only the number, use the count tool."
        ),
        _ => format!("{shown} of {total} on this page, the last one."),
    }
}

impl Backend for RecordBackend {
    fn attempt<'a>(&'a self, attempt: Attempt<'a>) -> BoxFuture<'a, Result<BackendReply, ToolFailure>> {
        Box::pin(self.execute(attempt))
    }
}

/// Converts an error to a tool failure: a failure that the model can correct, a retryable failure or a fatal failure.
pub(super) fn to_tool_failure(error: RecordError) -> ToolFailure {
    let text = error.to_string();
    match error {
        RecordError::Denied(_) | RecordError::Forbidden(_) => denied("permission", text),
        RecordError::UnknownType { .. } => denied("unknown_type", text),
        RecordError::ExternalSource { .. } => ToolFailure::fatal(ErrorCode::ProviderError, text).reason("elsewhere"),
        // The failure is not retryable, because the executor has already retried the nested call.
        RecordError::Tool { error, .. } => {
            ToolFailure { retryable: false, ..ToolError { message: text, ..*error }.into() }
        }
        RecordError::UnknownRecord { .. } => ToolFailure::invalid(text).reason("not_found"),
        RecordError::Duplicate { .. } => ToolFailure::invalid(text).reason("duplicate"),
        RecordError::Conflict { .. } => ToolFailure::invalid(text).reason("version_conflict"),
        RecordError::MissingFilter(_) => ToolFailure::invalid(text).reason("no_filter"),
        RecordError::InvalidRequest { part, position, .. } => {
            let position = position.map(|position| format!(" at {position}")).unwrap_or_default();
            let mut failure = ToolFailure::invalid(format!("{text}{position}")).reason("invalid_query");
            failure.error = failure.error.detail("part", json!(part.as_str()));
            failure
        }
        RecordError::Invalid { violations, .. } => {
            let mut failure = ToolFailure::invalid(text).reason("invalid_record");
            failure.error = failure.error.detail("errors", json!(violations));
            failure
        }
        RecordError::Unavailable(error) => {
            tracing::error!(error = &error as &dyn std::error::Error, "records are unavailable");
            ToolFailure::retry("the records are unavailable; try again later", None)
        }
    }
}

pub(super) fn denied(reason: &str, message: String) -> ToolFailure {
    ToolFailure::fatal(ErrorCode::PolicyDenied, message).reason(reason)
}
