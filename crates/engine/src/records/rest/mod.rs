//! Records that an API lists. Each look at them is a call of a tool, on the path of every call: whoever may not call the tool
//! does not see the records. What was listed is searched in memory.

mod listing;

use futures::future::BoxFuture;
use serde_json::{Map, Value};
use toolwright_store::{RecordPage, Selection};
use toolwright_tools::{CallContext, CallRequest, Executor};
use toolwright_types::{DocumentId, RecordsIn, RefName, RestRecords, RunId, ToolEnvelope, ToolError};

use super::{CompiledType, RecordError, RecordSet, RecordSource};
use crate::access::Session;

/// The way to the tools that records are behind.
pub struct CallPath {
    executor: Executor,
    /// The call that needs the records; none when somebody asks in person.
    outer: Option<CallContext>,
}

impl CallPath {
    /// For somebody who asks in person.
    pub(crate) fn direct(executor: &Executor) -> Self {
        Self { executor: executor.clone(), outer: None }
    }

    /// For a call, with its depth, its surface and its trial.
    pub(crate) fn within(executor: &Executor, outer: &CallContext) -> Self {
        Self { executor: executor.clone(), outer: Some(outer.clone()) }
    }

    async fn read(&self, session: &Session, request: CallRequest) -> Result<Box<ToolEnvelope>, ToolError> {
        match &self.outer {
            Some(outer) => self.executor.read_within(outer, request).await,
            None => {
                let (realm, principal) = (session.realm.clone(), session.principal.clone());
                let cx = CallContext::direct(realm, principal, RunId::generate());
                self.executor.read_within(&cx, request).await
            }
        }
    }
}

/// Finds records with tools.
pub(crate) struct RestResources;

impl RestResources {
    /// The records that pass, in the order of the list.
    async fn passing(&self, set: RecordSet<'_>, selection: &Selection) -> Result<Vec<Value>, RecordError> {
        let rest = place(set.of)?;
        let envelope = called(set, &rest.list, Map::new()).await?;
        let answer = answer(set.of, &rest.list, envelope)?;
        let unfit = |why: String| elsewhere(set.of, format!("tool `{}` {why}", rest.list));
        let mut records = listing::records(set.of, &rest.id_field, answer).map_err(unfit)?;
        records.retain(|record| listing::passes(selection, record));
        Ok(records)
    }

    async fn one(
        &self,
        set: RecordSet<'_>,
        tool: &RefName,
        id: &str,
        selection: &Selection,
    ) -> Result<Option<Value>, RecordError> {
        let rest = place(set.of)?;
        let argument = rest.id_parameter.as_ref().unwrap_or(&rest.id_field);
        let input = Map::from_iter([(argument.clone(), Value::from(id))]);
        let envelope = called(set, tool, input).await?;
        if envelope.error.is_some() && envelope.metadata.http_status == Some(404) {
            return Ok(None);
        }
        let answer = answer(set.of, tool, envelope)?;
        if answer.is_null() {
            return Ok(None);
        }
        let unfit = |why: String| elsewhere(set.of, format!("tool `{tool}` {why}"));
        let record = listing::record(set.of, &rest.id_field, answer).map_err(unfit)?;
        Ok(Some(record).filter(|record| listing::passes(selection, record)))
    }
}

fn place(of: &CompiledType) -> Result<&RestRecords, RecordError> {
    match &of.definition.records {
        Some(RecordsIn::Rest(rest)) => Ok(rest),
        _ => Err(elsewhere(of, "they are not behind tools".to_owned())),
    }
}

async fn called(
    set: RecordSet<'_>,
    tool: &RefName,
    input: Map<String, Value>,
) -> Result<Box<ToolEnvelope>, RecordError> {
    let calls = set.calls.ok_or_else(|| elsewhere(set.of, "no tools can be called here".to_owned()))?;
    let request = CallRequest { tool: tool.to_string(), version: None, input: Value::Object(input) };
    calls.read(set.session, request).await.map_err(|error| failed(set.of, tool, error))
}

/// What the tool answered, whole.
fn answer(of: &CompiledType, tool: &RefName, envelope: Box<ToolEnvelope>) -> Result<Value, RecordError> {
    let ToolEnvelope { output, error, truncated, .. } = *envelope;
    match error {
        Some(error) => Err(failed(of, tool, error)),
        None if truncated => {
            let why = "answers with more than its `maxOutputBytes`; allow it more, or let it list less";
            Err(elsewhere(of, format!("tool `{tool}` {why}")))
        }
        None => Ok(output),
    }
}

fn failed(of: &CompiledType, tool: &RefName, error: ToolError) -> RecordError {
    RecordError::Tool { name: of.name().to_owned(), tool: tool.to_string(), error: Box::new(error) }
}

fn elsewhere(of: &CompiledType, message: String) -> RecordError {
    RecordError::Elsewhere { name: of.name().to_owned(), message }
}

impl RecordSource for RestResources {
    fn find<'a>(
        &'a self,
        set: RecordSet<'a>,
        selection: &'a Selection,
        page: &'a RecordPage,
    ) -> BoxFuture<'a, Result<Vec<Value>, RecordError>> {
        Box::pin(async move { Ok(listing::page(self.passing(set, selection).await?, page)) })
    }

    fn count<'a>(&'a self, set: RecordSet<'a>, selection: &'a Selection) -> BoxFuture<'a, Result<u64, RecordError>> {
        Box::pin(async move { Ok(self.passing(set, selection).await?.len() as u64) })
    }

    /// Of one list, so that both speak of the same moment.
    fn find_and_count<'a>(
        &'a self,
        set: RecordSet<'a>,
        selection: &'a Selection,
        page: &'a RecordPage,
    ) -> BoxFuture<'a, Result<(Vec<Value>, u64), RecordError>> {
        Box::pin(async move {
            let passing = self.passing(set, selection).await?;
            let total = passing.len() as u64;
            Ok((listing::page(passing, page), total))
        })
    }

    fn get<'a>(
        &'a self,
        set: RecordSet<'a>,
        id: &'a str,
        selection: &'a Selection,
    ) -> BoxFuture<'a, Result<Option<Value>, RecordError>> {
        Box::pin(async move {
            match &place(set.of)?.get {
                Some(tool) => self.one(set, tool, id, selection).await,
                None => Ok(self.passing(set, selection).await?.pop()),
            }
        })
    }
}
