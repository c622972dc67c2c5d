//! Built-in tools that access records of every type. The principal needs the permission to access the type that a call
//! names.

use std::sync::{Arc, OnceLock};

use futures::future::BoxFuture;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use toolwright_query::QueryMode;
use toolwright_tools::{DynTool, Library, ToolCx, ToolFailure, ToolSpec};
use toolwright_types::{SideEffects, null_as_default};

use super::backend::{denied, to_tool_failure};
use super::definitions::{DEFAULT_LIMIT, MAX_LIMIT};
use crate::{RecordError, RecordQuery, Records, SaveMode, ToolCaller};
use toolwright_catalog::Session;

/// A slot for [`Records`]. It is filled after the tools are built, because of a cycle: `Records` needs the catalog, and
/// the catalog needs the library that contains these tools.
pub type RecordsSlot = Arc<OnceLock<Records>>;

/// Adds the built-in record tools to a library.
pub fn with_query_tools(library: Library, records: &RecordsSlot) -> Library {
    let tool = |operation| Arc::new(QueryTool { spec: spec(operation), operation, records: Arc::clone(records) });
    QueryOperation::ALL.into_iter().fold(library, |library, operation| library.with_dyn(tool(operation)))
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum QueryOperation {
    RootTypes,
    Plan,
    Find,
    Save,
    Delete,
    DeleteMany,
}

impl QueryOperation {
    const ALL: [QueryOperation; 6] = [
        QueryOperation::RootTypes,
        QueryOperation::Plan,
        QueryOperation::Find,
        QueryOperation::Save,
        QueryOperation::Delete,
        QueryOperation::DeleteMany,
    ];
}

struct QueryTool {
    spec: ToolSpec,
    operation: QueryOperation,
    records: RecordsSlot,
}

fn spec(operation: QueryOperation) -> ToolSpec {
    let entity_type = json!({ "type": "string", "description": "The type, as `query_rootTypes` lists it." });
    let query =
        json!({ "type": "string", "description": "In the query language, such as `status:open && total:>#10`." });
    let object_schema = |properties: Value, required: &[&str]| json!({ "type": "object", "additionalProperties": false, "properties": properties, "required": required });
    let (name, description, input_schema) = match operation {
        QueryOperation::RootTypes => {
            ("query_rootTypes", "Lists the types whose records can be queried.", object_schema(json!({}), &[]))
        }
        QueryOperation::Plan => (
            "query_plan",
            "Checks a query and returns how it would be executed.",
            object_schema(json!({ "rootType": entity_type, "query": query }), &["rootType", "query"]),
        ),
        QueryOperation::Find => (
            "query_find",
            "Finds records of any type by a query, a page at a time.",
            object_schema(
                json!({
                    "rootType": entity_type, "query": query,
                    "sort": { "type": "string", "description": "The sort order, such as `name, -created`." },
                    "fields": { "type": "string", "description": "The fields to return, such as `+id, +name`." },
                    "page": { "type": "object", "additionalProperties": false, "properties": {
                        "limit": { "type": "integer", "minimum": 0, "maximum": MAX_LIMIT },
                        "skip": { "type": "integer", "minimum": 0, "maximum": 100_000 },
                        "cursor": { "type": "string", "description": "`nextCursor` of the previous page." },
                    } },
                }),
                &["rootType"],
            ),
        ),
        QueryOperation::Save => (
            "query_save",
            "Creates a record of any type, or replaces the one with the same id.",
            object_schema(json!({ "rootType": entity_type, "entity": { "type": "object" } }), &["rootType", "entity"]),
        ),
        QueryOperation::Delete => (
            "query_delete",
            "Deletes a record of any type by its id.",
            object_schema(json!({ "rootType": entity_type, "id": { "type": "string" } }), &["rootType", "id"]),
        ),
        QueryOperation::DeleteMany => (
            "query_deleteMany",
            "Deletes the records of a type that match a query.",
            object_schema(
                json!({ "rootType": entity_type, "query": query, "all": { "type": "boolean", "description": "Confirms the deletion of every record when the query has no condition." } }),
                &["rootType"],
            ),
        ),
    };
    let writes = matches!(operation, QueryOperation::Save | QueryOperation::Delete | QueryOperation::DeleteMany);
    ToolSpec {
        input_schema,
        output_schema: json!({ "type": "object" }),
        side_effects: if writes { SideEffects::Writes } else { SideEffects::Reads },
        ..ToolSpec::new(name, description)
    }
}

/// The arguments of all tools. Each tool uses some of them.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Arguments {
    root_type: String,
    query: Option<String>,
    sort: Option<String>,
    fields: Option<String>,
    #[serde(deserialize_with = "null_as_default")]
    page: Page,
    entity: Value,
    id: String,
    all: bool,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Page {
    limit: Option<u32>,
    skip: u64,
    cursor: Option<String>,
}

impl DynTool for QueryTool {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn call<'a>(&'a self, cx: &'a ToolCx<'a>, input: Value) -> BoxFuture<'a, Result<Value, ToolFailure>> {
        Box::pin(async move {
            let records = self
                .records
                .get()
                .ok_or_else(|| denied("no_records", "records are not available in this context".to_owned()))?;
            let arguments: Arguments =
                serde_json::from_value(input).map_err(|error| ToolFailure::invalid(error.to_string()))?;
            let session = Session::new(cx.call.principal.clone(), cx.call.realm.clone());
            let records = records.with_tool_caller(ToolCaller::nested(cx.executor, cx.call));
            perform(&records, &session, self.operation, arguments).await.map_err(to_tool_failure)
        })
    }
}

async fn perform(
    records: &Records,
    session: &Session,
    operation: QueryOperation,
    arguments: Arguments,
) -> Result<Value, RecordError> {
    let Arguments { root_type, query, sort, fields, page, entity, id, all } = arguments;
    let entity_type = root_type.as_str();
    match operation {
        QueryOperation::RootTypes => {
            let types = records.types(session).await?;
            let shown: Vec<Value> = types
                .iter()
                .map(|entity_type| json!({ "rootType": entity_type.name(), "description": entity_type.definition.description, "plural": entity_type.definition.plural() }))
                .collect();
            Ok(json!({ "count": shown.len(), "rootTypes": shown }))
        }
        QueryOperation::Plan => {
            let plan = records.plan(session, entity_type, &query.unwrap_or_default()).await?;
            let mode = if plan.mode == QueryMode::Filter { "FILTER" } else { "AGGREGATION" };
            Ok(json!({ "mode": mode, "expandPaths": plan.expand }))
        }
        QueryOperation::Find => {
            let limit = page.limit.unwrap_or(DEFAULT_LIMIT).min(MAX_LIMIT);
            let Page { skip, cursor, .. } = page;
            let request = RecordQuery { query, sort, fields, cursor, skip, limit, ..RecordQuery::default() };
            let found = records.find(session, entity_type, &request).await?;
            Ok(json!({
                "offset": skip, "limit": limit, "rowCount": found.records.len(), "rows": found.records,
                "filter": request.query, "nextCursor": found.next,
            }))
        }
        QueryOperation::Save => {
            let saved = records.save(session, entity_type, entity, SaveMode::Upsert).await?;
            Ok(json!({ "id": saved.id, "rootType": root_type, "entity": saved.record }))
        }
        QueryOperation::Delete => {
            records.delete(session, entity_type, &id, None).await?;
            Ok(json!({ "success": true, "id": id, "rootType": root_type, "deletedCount": 1 }))
        }
        QueryOperation::DeleteMany => {
            let request = RecordQuery::filter(query, Map::new());
            let deleted = records.delete_many(session, entity_type, &request, all).await?;
            Ok(json!({ "success": true, "query": request.query, "rootType": root_type, "deletedCount": deleted }))
        }
    }
}
