//! Runs QUANTUM_QUERY and QUANTUM_API tools: operations on the records of one type.

use futures::future::BoxFuture;
use serde::Deserialize;
use serde_json::{Value, json};
use toolwright_query::Projection;
use toolwright_tools::ToolFailure;
use toolwright_tools::executor::{Attempt, Backend, Reply};
use toolwright_types::{ErrorCode, Operation, ToolError, ToolType};

use super::tools::PAGE;
use crate::access::Session;
use crate::records::{CallPath, Question, RecordError, Records, Wish};

/// What a page may come to before it is cut: less than a model is shown of one result, so that it sees all of it.
const LARGEST_PAGE: usize = 24_000;

/// The backend of tools that work on records.
pub(crate) struct RecordTools(Records);

/// The arguments of the tools that read.
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

impl RecordTools {
    pub fn new(records: &Records) -> Self {
        Self(records.by_tool())
    }

    async fn call(&self, attempt: Attempt<'_>) -> Result<Reply, ToolFailure> {
        let definition = &attempt.tool.definition;
        let operation = match definition.invocation.method.as_deref() {
            Some(method) => Operation::parse(method),
            None => (definition.tool_type == ToolType::QuantumQuery).then_some(Operation::Search),
        };
        let operation = operation.ok_or_else(|| {
            let known = Operation::ALL.map(Operation::as_str).join(", ");
            denied("unknown_operation", format!("`invocation.method` names an operation: {known}"))
        })?;
        let of = definition.invocation.path.as_deref().unwrap_or_default();
        let session = Session { principal: attempt.cx.principal.clone(), realm: attempt.cx.realm.clone() };
        let path = CallPath::within(attempt.executor, attempt.cx);
        let done = perform(&self.0.calling(path), &session, of, operation, attempt.input.clone()).await;
        done.map(Reply::of).map_err(failure)
    }
}

async fn perform(
    records: &Records,
    session: &Session,
    of: &str,
    operation: Operation,
    input: Value,
) -> Result<Value, RecordError> {
    let arguments = |input: Value| serde_json::from_value::<Arguments>(input).unwrap_or_default();
    match operation {
        Operation::Search => search(records, session, of, arguments(input)).await,
        Operation::Count => {
            let question = Question::of(arguments(input).query, Default::default());
            Ok(json!({ "count": records.count(session, of, &question).await? }))
        }
        Operation::Get => {
            let Arguments { id, fields, .. } = arguments(input);
            let record = records.get(session, of, &id).await?;
            let fields = fields.filter(|fields| !fields.trim().is_empty());
            let projection = fields.map(|fields| Projection::parse(&fields)).transpose();
            let projection = projection.map_err(|error| RecordError::fields(&error))?;
            Ok(projection.map_or(record.clone(), |projection| projection.apply(&record)))
        }
        Operation::Create => Ok(records.save(session, of, input, Wish::Create).await?.record),
        Operation::Update => Ok(records.save(session, of, input, Wish::Update).await?.record),
        Operation::Delete => {
            let Arguments { id, version, .. } = arguments(input);
            match records.delete(session, of, &id, version).await {
                Ok(()) => Ok(json!({ "id": id, "deleted": true })),
                // Doing it twice is the same as doing it once.
                Err(RecordError::NoRecord { .. }) => Ok(json!({ "id": id, "deleted": false })),
                Err(error) => Err(error),
            }
        }
    }
}

async fn search(records: &Records, session: &Session, of: &str, arguments: Arguments) -> Result<Value, RecordError> {
    let question = Question {
        query: arguments.query,
        sort: arguments.sort,
        fields: arguments.fields,
        cursor: arguments.cursor,
        limit: arguments.limit.unwrap_or(PAGE.0).clamp(1, PAGE.1),
        most_bytes: Some(LARGEST_PAGE),
        total: true,
        ..Question::default()
    };
    let found = records.find(session, of, &question).await?;
    let total = found.total.unwrap_or_default();
    let hint = hint(found.records.len(), total, found.next.is_some());
    Ok(json!({ "items": found.records, "total": total, "nextCursor": found.next, "hint": hint }))
}

/// What is shown, and how to see more.
fn hint(shown: usize, total: u64, more: bool) -> String {
    match (shown, more) {
        (0, _) if total == 0 => "Nothing fits. Ask with fewer conditions, or look at the fields again.".to_owned(),
        (_, true) => format!(
            "{shown} of {total} on this page. For the next, call again with `cursor` set to nextCursor and the same query and \
             sort. Fewer `fields` make larger pages; to know only how many there are, count."
        ),
        _ => format!("{shown} of {total} on this page, which is the last."),
    }
}

impl Backend for RecordTools {
    fn attempt<'a>(&'a self, attempt: Attempt<'a>) -> BoxFuture<'a, Result<Reply, ToolFailure>> {
        Box::pin(self.call(attempt))
    }
}

/// Who should act on it: the model where its question is wrong, nobody where it is not permitted.
pub(super) fn failure(error: RecordError) -> ToolFailure {
    let text = error.to_string();
    match error {
        RecordError::Denied(_) | RecordError::Refused(_) => denied("permission", text),
        RecordError::UnknownType { .. } => denied("unknown_type", text),
        RecordError::Elsewhere { .. } => ToolFailure::fatal(ErrorCode::ProviderError, text).reason("elsewhere"),
        // It was tried again where that could help, when it was called.
        RecordError::Tool { error, .. } => {
            ToolFailure { retryable: false, ..ToolError { message: text, ..*error }.into() }
        }
        RecordError::NoRecord { .. } => ToolFailure::invalid(text).reason("not_found"),
        RecordError::Duplicate { .. } => ToolFailure::invalid(text).reason("duplicate"),
        RecordError::Conflict { .. } => ToolFailure::invalid(text).reason("version_conflict"),
        RecordError::Everything(_) => ToolFailure::invalid(text).reason("no_filter"),
        RecordError::Asked { part, position, .. } => {
            let place = position.map(|position| format!(" at {position}")).unwrap_or_default();
            let mut failure = ToolFailure::invalid(format!("{text}{place}")).reason("invalid_query");
            failure.error = failure.error.detail("part", json!(part.noun()));
            failure
        }
        RecordError::Invalid { violations, .. } => {
            let mut failure = ToolFailure::invalid(text).reason("invalid_record");
            failure.error = failure.error.detail("errors", json!(violations));
            failure
        }
        RecordError::Unavailable(error) => {
            tracing::error!(error = &error as &dyn std::error::Error, "records cannot be reached");
            ToolFailure::retry("the records cannot be reached now", None)
        }
    }
}

pub(super) fn denied(reason: &str, message: String) -> ToolFailure {
    ToolFailure::fatal(ErrorCode::PolicyDenied, message).reason(reason)
}
