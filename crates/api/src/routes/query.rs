//! The query gateway: routes under `/api/query` for the records of all entity types. The entity types themselves have
//! the routes of [`crate::collection`].

use axum::Json;
use axum::extract::State;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use toolwright_catalog::Session;
use toolwright_catalog::identity::Identity;
use toolwright_query::QueryMode;
use toolwright_records::{MAX_PAGE_SIZE, RecordQuery, Records, SaveMode};
use toolwright_types::null_as_default;

use crate::extract::{Caller, JsonBody, NoQueryParams};
use crate::problem::Problem;

const TAG: &str = "query";

/// The page size when `limit` is absent.
const DEFAULT_LIMIT: u32 = 50;
/// The largest number of records to skip. To read further, clients use a cursor.
const MAX_SKIP: u64 = 100_000;

/// The entity types of the realm.
#[derive(Serialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct RootTypes {
    /// The entity types.
    root_types: Vec<RootType>,
    /// The number of entity types.
    count: usize,
}

/// The names of an entity type.
#[derive(Serialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct RootType {
    /// The full name.
    class_name: String,
    /// The last segment of the full name.
    simple_name: String,
    /// The plural name.
    collection_name: String,
}

/// Lists the entity types that can be queried.
#[utoipa::path(get, path = "/api/query/rootTypes", tag = TAG, operation_id = "listRootTypes",
    responses((status = 200, body = RootTypes)))]
pub(crate) async fn root_types(
    State(records): State<Records>,
    Caller(session): Caller,
    _: NoQueryParams,
) -> Result<Json<RootTypes>, Problem> {
    let types = records.types(&session).await?;
    let root_types: Vec<RootType> = types
        .iter()
        .map(|of| RootType {
            class_name: of.name().to_owned(),
            simple_name: of.name().rsplit(['.', '/']).next().unwrap_or_default().to_owned(),
            collection_name: of.definition.plural(),
        })
        .collect();
    Ok(Json(RootTypes { count: root_types.len(), root_types }))
}

/// A query.
#[derive(Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct QueryRequest {
    /// The entity type, by its full or simple name.
    root_type: String,
    /// The query, in the query language. Default: all records.
    #[serde(default)]
    query: Option<String>,
    /// The realm to query. Default: the realm of the request.
    #[serde(default)]
    realm: Option<String>,
    /// The variables of the query.
    #[serde(default, deserialize_with = "null_as_default")]
    #[schema(value_type = Object)]
    variables: Map<String, Value>,
}

/// The plan of a query.
#[derive(Serialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct PlanView {
    /// `FILTER`, or `AGGREGATION` if related records are embedded.
    mode: &'static str,
    /// The paths at which related records are embedded.
    expand_paths: Vec<String>,
}

/// Returns the plan of a query without running it.
#[utoipa::path(post, path = "/api/query/plan", tag = TAG, operation_id = "planQuery", request_body = QueryRequest,
    responses((status = 200, body = PlanView)))]
pub(crate) async fn plan(
    State(records): State<Records>,
    State(identity): State<Identity>,
    Caller(session): Caller,
    JsonBody(request): JsonBody<QueryRequest>,
) -> Result<Json<PlanView>, Problem> {
    let session = enter_realm(&identity, session, request.realm.as_deref()).await?;
    let query = request.query.unwrap_or_default();
    let plan = records.plan(&session, &request.root_type, &query).await?;
    let mode = match plan.mode {
        QueryMode::Filter => "FILTER",
        QueryMode::Aggregation => "AGGREGATION",
    };
    Ok(Json(PlanView { mode, expand_paths: plan.expand }))
}

/// A query with an order and a page.
#[derive(Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct FindRequest {
    /// The entity type, by its full or simple name.
    root_type: String,
    /// The query, in the query language. Default: all records.
    #[serde(default)]
    query: Option<String>,
    /// The page to return.
    #[serde(default, deserialize_with = "null_as_default")]
    page: PageRequest,
    /// The order. Default: by id.
    #[serde(default, deserialize_with = "null_as_default")]
    sort: Vec<SortRequest>,
    /// The fields to return, such as `+name, -customer.secret`. Default: whole records.
    #[serde(default)]
    fields: Option<String>,
    /// The realm to query. Default: the realm of the request.
    #[serde(default)]
    realm: Option<String>,
    /// The variables of the query.
    #[serde(default, deserialize_with = "null_as_default")]
    #[schema(value_type = Object)]
    variables: Map<String, Value>,
}

/// A page of a list.
#[derive(Default, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct PageRequest {
    /// The page size, from 0 to 1000. Default: 50.
    #[serde(default)]
    limit: Option<u32>,
    /// The number of records to skip, at most 100000.
    #[serde(default)]
    skip: Option<u64>,
    /// `nextCursor` of the previous page.
    #[serde(default)]
    cursor: Option<String>,
}

/// A sort key.
#[derive(Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct SortRequest {
    /// The path of the field.
    field: String,
    /// `ASC` or `DESC`. Default: `ASC`.
    #[serde(default)]
    dir: Option<String>,
}

/// A page of records.
#[derive(Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct RecordPageView {
    /// The number of skipped records.
    pub offset: u64,
    /// The page size.
    pub limit: u32,
    /// The records.
    #[schema(value_type = Vec<Object>)]
    pub rows: Vec<Value>,
    /// The number of records in `rows`.
    pub row_count: usize,
    /// The query of the request.
    pub filter: Option<String>,
    /// The cursor of the next page; null on the last page.
    pub next_cursor: Option<String>,
}

/// Finds records.
#[utoipa::path(post, path = "/api/query/find", tag = TAG, operation_id = "findRecords", request_body = FindRequest,
    responses((status = 200, body = RecordPageView)))]
pub(crate) async fn find(
    State(records): State<Records>,
    State(identity): State<Identity>,
    Caller(session): Caller,
    JsonBody(request): JsonBody<FindRequest>,
) -> Result<Json<RecordPageView>, Problem> {
    let session = enter_realm(&identity, session, request.realm.as_deref()).await?;
    let (limit, offset) = (request.page.limit.unwrap_or(DEFAULT_LIMIT), request.page.skip.unwrap_or(0));
    if limit > MAX_PAGE_SIZE {
        return Err(Problem::invalid("/page/limit", format!("must be between 0 and {MAX_PAGE_SIZE}, got {limit}")));
    }
    if offset > MAX_SKIP {
        let rule = format!(
            "must be at most {MAX_SKIP}, got {offset}; use `cursor` with the `nextCursor` of the previous page"
        );
        return Err(Problem::invalid("/page/skip", rule));
    }
    let record_query = RecordQuery {
        query: request.query,
        sort: sort_expression(&request.sort)?,
        fields: request.fields,
        cursor: request.page.cursor,
        skip: offset,
        limit,
        variables: request.variables,
        ..RecordQuery::default()
    };
    let found = records.find(&session, &request.root_type, &record_query).await?;
    Ok(Json(RecordPageView {
        offset,
        limit,
        row_count: found.records.len(),
        rows: found.records,
        filter: record_query.query,
        next_cursor: found.next,
    }))
}

/// Returns the order in the syntax of the query language. Rejects field names with characters that the syntax uses.
fn sort_expression(keys: &[SortRequest]) -> Result<Option<String>, Problem> {
    let mut keys_text = Vec::new();
    for (at, key) in keys.iter().enumerate() {
        if key.field.contains([',', ':']) || key.field.trim() != key.field || key.field.starts_with(['+', '-']) {
            return Err(Problem::invalid(
                &format!("/sort/{at}/field"),
                format!("must be the path of a field such as `customer.name`, got `{}`", key.field),
            ));
        }
        keys_text.push(match key.dir.as_deref() {
            None => format!("{}:asc", key.field),
            Some(dir) if dir.eq_ignore_ascii_case("asc") => format!("{}:asc", key.field),
            Some(dir) if dir.eq_ignore_ascii_case("desc") => format!("{}:desc", key.field),
            Some(dir) => {
                let message = format!("must be `ASC` or `DESC`, got `{dir}`");
                return Err(Problem::invalid(&format!("/sort/{at}/dir"), message));
            }
        });
    }
    Ok(Some(keys_text.join(", ")).filter(|_| !keys.is_empty()))
}

/// A number of records.
#[derive(Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct RecordCount {
    /// The number of records.
    pub count: u64,
    /// The entity type.
    pub root_type: String,
    /// The query of the request.
    pub query: Option<String>,
}

/// Counts records.
#[utoipa::path(post, path = "/api/query/count", tag = TAG, operation_id = "countRecords", request_body = QueryRequest,
    responses((status = 200, body = RecordCount)))]
pub(crate) async fn count(
    State(records): State<Records>,
    State(identity): State<Identity>,
    Caller(session): Caller,
    JsonBody(request): JsonBody<QueryRequest>,
) -> Result<Json<RecordCount>, Problem> {
    let session = enter_realm(&identity, session, request.realm.as_deref()).await?;
    let record_query = RecordQuery::filter(request.query, request.variables);
    let count = records.count(&session, &request.root_type, &record_query).await?;
    Ok(Json(RecordCount { count, root_type: request.root_type, query: record_query.query }))
}

/// A record to save.
#[derive(Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct SaveRequest {
    /// The entity type.
    root_type: String,
    /// The realm to save in. Default: the realm of the request.
    #[serde(default)]
    realm: Option<String>,
    /// The record. It replaces the existing record with the same `id`. If it has a `version`, the existing record must
    /// have that version.
    #[schema(value_type = Object)]
    entity: Value,
}

/// A saved record.
#[derive(Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct SavedView {
    /// The id of the record.
    pub id: String,
    /// The entity type.
    pub root_type: String,
    /// The saved record.
    #[schema(value_type = Object)]
    pub entity: Value,
}

/// Saves a record: creates it, or replaces the existing record with the same id.
#[utoipa::path(post, path = "/api/query/save", tag = TAG, operation_id = "saveRecord", request_body = SaveRequest,
    responses((status = 200, body = SavedView)))]
pub(crate) async fn save(
    State(records): State<Records>,
    State(identity): State<Identity>,
    Caller(session): Caller,
    JsonBody(request): JsonBody<SaveRequest>,
) -> Result<Json<SavedView>, Problem> {
    let session = enter_realm(&identity, session, request.realm.as_deref()).await?;
    if !request.entity.is_object() {
        return Err(Problem::invalid("/entity", "must be a JSON object"));
    }
    let saved = records.save(&session, &request.root_type, request.entity, SaveMode::Upsert).await?;
    Ok(Json(SavedView { id: saved.id, root_type: request.root_type, entity: saved.record }))
}

/// A record to delete.
#[derive(Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct DeleteRequest {
    /// The entity type.
    root_type: String,
    /// The realm of the record. Default: the realm of the request.
    #[serde(default)]
    realm: Option<String>,
    /// The id of the record.
    id: String,
    /// The version that the record must have.
    #[serde(default)]
    version: Option<i64>,
}

/// A deleted record.
#[derive(Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct DeletedView {
    /// Always true. The response to a failure is a problem document.
    pub success: bool,
    /// The id of the record.
    pub id: String,
    /// The entity type.
    pub root_type: String,
    /// Always 1.
    pub deleted_count: u64,
}

/// Deletes a record.
#[utoipa::path(post, path = "/api/query/delete", tag = TAG, operation_id = "deleteRecord", request_body = DeleteRequest,
    responses((status = 200, body = DeletedView)))]
pub(crate) async fn delete(
    State(records): State<Records>,
    State(identity): State<Identity>,
    Caller(session): Caller,
    JsonBody(request): JsonBody<DeleteRequest>,
) -> Result<Json<DeletedView>, Problem> {
    let session = enter_realm(&identity, session, request.realm.as_deref()).await?;
    records.delete(&session, &request.root_type, &request.id, request.version).await?;
    Ok(Json(DeletedView { success: true, id: request.id, root_type: request.root_type, deleted_count: 1 }))
}

/// The records to delete.
#[derive(Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct DeleteManyRequest {
    /// The entity type.
    root_type: String,
    /// The realm of the records. Default: the realm of the request.
    #[serde(default)]
    realm: Option<String>,
    /// The query, in the query language.
    #[serde(default)]
    query: Option<String>,
    /// Whether to delete all records of the type if the query is empty.
    #[serde(default, deserialize_with = "null_as_default")]
    all: bool,
    /// The variables of the query.
    #[serde(default, deserialize_with = "null_as_default")]
    #[schema(value_type = Object)]
    variables: Map<String, Value>,
}

/// The number of deleted records.
#[derive(Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct DeletedManyView {
    /// Always true. The response to a failure is a problem document.
    pub success: bool,
    /// The query of the request.
    pub query: Option<String>,
    /// The entity type.
    pub root_type: String,
    /// The number of records.
    pub deleted_count: u64,
}

/// Deletes the records that match a query.
#[utoipa::path(post, path = "/api/query/deleteMany", tag = TAG, operation_id = "deleteRecords", request_body = DeleteManyRequest,
    responses((status = 200, body = DeletedManyView)))]
pub(crate) async fn delete_many(
    State(records): State<Records>,
    State(identity): State<Identity>,
    Caller(session): Caller,
    JsonBody(request): JsonBody<DeleteManyRequest>,
) -> Result<Json<DeletedManyView>, Problem> {
    let session = enter_realm(&identity, session, request.realm.as_deref()).await?;
    let record_query = RecordQuery::filter(request.query, request.variables);
    let deleted_count = records.delete_many(&session, &request.root_type, &record_query, request.all).await?;
    Ok(Json(DeletedManyView { success: true, query: record_query.query, root_type: request.root_type, deleted_count }))
}

/// Returns the session in the realm that the body names, or in the realm of the request.
pub(super) async fn enter_realm(
    identity: &Identity,
    session: Session,
    realm: Option<&str>,
) -> Result<Session, Problem> {
    match realm {
        Some(name) if name != session.realm.name.as_str() => Ok(identity.switch_realm(&session, name).await?),
        _ => Ok(session),
    }
}
