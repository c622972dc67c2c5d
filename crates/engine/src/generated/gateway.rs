//! The query gateway as built-in tools: records of every type, for who may read and write the types themselves.

use std::sync::{Arc, OnceLock};

use futures::future::BoxFuture;
use semver::Version;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use toolwright_query::Mode;
use toolwright_tools::{DynTool, Library, ToolCx, ToolFailure, ToolSpec};
use toolwright_types::{SideEffects, or_default};

use super::backend::{denied, failure};
use super::tools::PAGE;
use crate::access::Session;
use crate::records::{CallPath, Question, RecordError, Records, Wish};

/// The records, once they exist: they need the catalog, which needs the library that these tools are in.
pub(crate) type Gateway = Arc<OnceLock<Records>>;

/// The library with the tools of the gateway.
pub(crate) fn with_gateway(library: Library, gateway: &Gateway) -> Library {
    let tool = |route| Arc::new(GatewayTool { spec: spec(route), route, records: Arc::clone(gateway) });
    Route::ALL.into_iter().fold(library, |library, route| library.with_dyn(tool(route)))
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Route {
    RootTypes,
    Plan,
    Find,
    Save,
    Delete,
    DeleteMany,
}

impl Route {
    const ALL: [Route; 6] = [Route::RootTypes, Route::Plan, Route::Find, Route::Save, Route::Delete, Route::DeleteMany];
}

struct GatewayTool {
    spec: ToolSpec,
    route: Route,
    records: Gateway,
}

fn spec(route: Route) -> ToolSpec {
    let of = json!({ "type": "string", "description": "The type, as `query_rootTypes` lists it." });
    let query =
        json!({ "type": "string", "description": "In the query language, such as `status:open && total:>#10`." });
    let taking = |properties: Value, required: &[&str]| json!({ "type": "object", "additionalProperties": false, "properties": properties, "required": required });
    let (name, description, input_schema) = match route {
        Route::RootTypes => {
            ("query_rootTypes", "Lists the types whose records can be asked for.", taking(json!({}), &[]))
        }
        Route::Plan => (
            "query_plan",
            "Says how a query would be answered, and whether it can be.",
            taking(json!({ "rootType": of, "query": query }), &["rootType", "query"]),
        ),
        Route::Find => (
            "query_find",
            "Finds records of any type by a query, a page at a time.",
            taking(
                json!({
                    "rootType": of, "query": query,
                    "sort": { "type": "string", "description": "The order, such as `name, -created`." },
                    "fields": { "type": "string", "description": "Only these fields, such as `+id, +name`." },
                    "page": { "type": "object", "additionalProperties": false, "properties": {
                        "limit": { "type": "integer", "minimum": 0, "maximum": PAGE.1 },
                        "skip": { "type": "integer", "minimum": 0, "maximum": 100_000 },
                        "cursor": { "type": "string", "description": "`nextCursor` of the page before." },
                    } },
                }),
                &["rootType"],
            ),
        ),
        Route::Save => (
            "query_save",
            "Writes a record of any type: a new one, or in the place of the one with its id.",
            taking(json!({ "rootType": of, "entity": { "type": "object" } }), &["rootType", "entity"]),
        ),
        Route::Delete => (
            "query_delete",
            "Removes a record of any type by its id.",
            taking(json!({ "rootType": of, "id": { "type": "string" } }), &["rootType", "id"]),
        ),
        Route::DeleteMany => (
            "query_deleteMany",
            "Removes the records of a type that a query finds.",
            taking(
                json!({ "rootType": of, "query": query, "all": { "type": "boolean", "description": "Whether every record is meant, where the query says nothing." } }),
                &["rootType"],
            ),
        ),
    };
    let writes = matches!(route, Route::Save | Route::Delete | Route::DeleteMany);
    ToolSpec {
        name: name.to_owned(),
        version: Version::new(1, 0, 0),
        description: description.to_owned(),
        input_schema,
        output_schema: json!({ "type": "object" }),
        side_effects: if writes { SideEffects::Writes } else { SideEffects::Reads },
    }
}

/// The arguments of all of them; each has some.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Arguments {
    root_type: String,
    query: Option<String>,
    sort: Option<String>,
    fields: Option<String>,
    #[serde(deserialize_with = "or_default")]
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

impl DynTool for GatewayTool {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn call<'a>(&'a self, cx: &'a ToolCx<'a>, input: Value) -> BoxFuture<'a, Result<Value, ToolFailure>> {
        Box::pin(async move {
            let records =
                self.records.get().ok_or_else(|| denied("no_records", "there are no records here".to_owned()))?;
            let arguments: Arguments =
                serde_json::from_value(input).map_err(|error| ToolFailure::invalid(error.to_string()))?;
            let session = Session { principal: cx.call.principal.clone(), realm: cx.call.realm.clone() };
            let records = records.calling(CallPath::within(cx.executor, cx.call));
            perform(&records, &session, self.route, arguments).await.map_err(failure)
        })
    }
}

async fn perform(
    records: &Records,
    session: &Session,
    route: Route,
    arguments: Arguments,
) -> Result<Value, RecordError> {
    let Arguments { root_type, query, sort, fields, page, entity, id, all } = arguments;
    let of = root_type.as_str();
    match route {
        Route::RootTypes => {
            let types = records.types(session).await?;
            let shown: Vec<Value> = types
                .iter()
                .map(|of| json!({ "rootType": of.name(), "description": of.definition.description, "plural": of.definition.plural() }))
                .collect();
            Ok(json!({ "count": shown.len(), "rootTypes": shown }))
        }
        Route::Plan => {
            let plan = records.plan(session, of, &query.unwrap_or_default()).await?;
            let mode = if plan.mode == Mode::Filter { "FILTER" } else { "AGGREGATION" };
            Ok(json!({ "mode": mode, "expandPaths": plan.expand }))
        }
        Route::Find => {
            let limit = page.limit.unwrap_or(PAGE.0).min(PAGE.1);
            let Page { skip, cursor, .. } = page;
            let question = Question { query, sort, fields, cursor, skip, limit, ..Question::default() };
            let found = records.find(session, of, &question).await?;
            Ok(json!({
                "offset": skip, "limit": limit, "rowCount": found.records.len(), "rows": found.records,
                "filter": question.query, "nextCursor": found.next,
            }))
        }
        Route::Save => {
            let saved = records.save(session, of, entity, Wish::Save).await?;
            Ok(json!({ "id": saved.id, "rootType": root_type, "entity": saved.record }))
        }
        Route::Delete => {
            records.delete(session, of, &id, None).await?;
            Ok(json!({ "success": true, "id": id, "rootType": root_type, "deletedCount": 1 }))
        }
        Route::DeleteMany => {
            let question = Question::of(query, Map::new());
            let deleted = records.delete_many(session, of, &question, all).await?;
            Ok(json!({ "success": true, "query": question.query, "rootType": root_type, "deletedCount": deleted }))
        }
    }
}
