//! Reads records from an API by calling tools: one tool lists the records, and an optional second tool returns a single
//! record. The calls need the principal's permission to call these tools. The records of a list are filtered in memory.

mod listing;

use futures::future::BoxFuture;
use serde_json::{Map, Value};
use toolwright_store::{RecordPage, Selection};
use toolwright_tools::CallRequest;
use toolwright_types::{RecordLocation, RefName, RestRecords, ToolEnvelope, ToolError};

use super::{CompiledType, RecordError, RecordSet, RecordSource};

/// The record source that calls tools.
pub(crate) struct RestResources;

impl RestResources {
    /// Lists all records and returns those that match the selection, in the order of the list.
    async fn matching_records(&self, set: RecordSet<'_>, selection: &Selection) -> Result<Vec<Value>, RecordError> {
        let rest = rest_location(set.entity_type)?;
        let envelope = call_tool(set, &rest.list, Map::new()).await?;
        let output = tool_output(set.entity_type, &rest.list, envelope)?;
        let invalid = |why: String| source_error(set.entity_type, format!("tool `{}` {why}", rest.list));
        let mut records = listing::parse_records(set.entity_type, &rest.id_field, output).map_err(invalid)?;
        records.retain(|record| listing::matches(selection, record));
        Ok(records)
    }

    async fn fetch_one(
        &self,
        set: RecordSet<'_>,
        tool: &RefName,
        id: &str,
        selection: &Selection,
    ) -> Result<Option<Value>, RecordError> {
        let rest = rest_location(set.entity_type)?;
        let argument = rest.id_parameter.as_ref().unwrap_or(&rest.id_field);
        let input = Map::from_iter([(argument.clone(), Value::from(id))]);
        let envelope = call_tool(set, tool, input).await?;
        if envelope.error.is_some() && envelope.metadata.http_status == Some(404) {
            return Ok(None);
        }
        let output = tool_output(set.entity_type, tool, envelope)?;
        if output.is_null() {
            return Ok(None);
        }
        let invalid = |why: String| source_error(set.entity_type, format!("tool `{tool}` {why}"));
        let record = listing::parse_record(set.entity_type, &rest.id_field, output).map_err(invalid)?;
        Ok(Some(record).filter(|record| listing::matches(selection, record)))
    }
}

fn rest_location(entity_type: &CompiledType) -> Result<&RestRecords, RecordError> {
    match &entity_type.definition.records {
        Some(RecordLocation::Rest(rest)) => Ok(rest),
        _ => Err(source_error(entity_type, "the type has no tools that read its records".to_owned())),
    }
}

async fn call_tool(
    set: RecordSet<'_>,
    tool: &RefName,
    input: Map<String, Value>,
) -> Result<Box<ToolEnvelope>, RecordError> {
    let unavailable = || source_error(set.entity_type, "tools cannot be called in this context".to_owned());
    let tool_caller = set.tool_caller.ok_or_else(unavailable)?;
    let request = CallRequest { tool: tool.to_string(), version: None, input: Value::Object(input) };
    tool_caller.read(set.session, request).await.map_err(|error| tool_failed(set.entity_type, tool, error))
}

/// Returns the output of the tool, or an error if the call failed or the output was truncated.
fn tool_output(entity_type: &CompiledType, tool: &RefName, envelope: Box<ToolEnvelope>) -> Result<Value, RecordError> {
    let ToolEnvelope { output, error, truncated, .. } = *envelope;
    match error {
        Some(error) => Err(tool_failed(entity_type, tool, error)),
        None if truncated => {
            let why = "returned more than its `maxOutputBytes`; raise the limit, or make the tool return less";
            Err(source_error(entity_type, format!("tool `{tool}` {why}")))
        }
        None => Ok(output),
    }
}

fn tool_failed(entity_type: &CompiledType, tool: &RefName, error: ToolError) -> RecordError {
    RecordError::Tool { name: entity_type.name().to_owned(), tool: tool.to_string(), error: Box::new(error) }
}

fn source_error(entity_type: &CompiledType, message: String) -> RecordError {
    RecordError::ExternalSource { name: entity_type.name().to_owned(), message }
}

impl RecordSource for RestResources {
    fn find<'a>(
        &'a self,
        set: RecordSet<'a>,
        selection: &'a Selection,
        page: &'a RecordPage,
    ) -> BoxFuture<'a, Result<Vec<Value>, RecordError>> {
        Box::pin(async move { Ok(listing::sort_and_page(self.matching_records(set, selection).await?, page)) })
    }

    fn count<'a>(&'a self, set: RecordSet<'a>, selection: &'a Selection) -> BoxFuture<'a, Result<u64, RecordError>> {
        Box::pin(async move { Ok(self.matching_records(set, selection).await?.len() as u64) })
    }

    /// Lists the records once, so that the page and the count are consistent.
    fn find_and_count<'a>(
        &'a self,
        set: RecordSet<'a>,
        selection: &'a Selection,
        page: &'a RecordPage,
    ) -> BoxFuture<'a, Result<(Vec<Value>, u64), RecordError>> {
        Box::pin(async move {
            let matching_records = self.matching_records(set, selection).await?;
            let total = matching_records.len() as u64;
            Ok((listing::sort_and_page(matching_records, page), total))
        })
    }

    fn get<'a>(
        &'a self,
        set: RecordSet<'a>,
        id: &'a str,
        selection: &'a Selection,
    ) -> BoxFuture<'a, Result<Option<Value>, RecordError>> {
        Box::pin(async move {
            match &rest_location(set.entity_type)?.get {
                Some(tool) => self.fetch_one(set, tool, id, selection).await,
                None => Ok(self.matching_records(set, selection).await?.pop()),
            }
        })
    }
}
