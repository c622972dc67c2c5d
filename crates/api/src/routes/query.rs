//! The query gateway: records of all types behind a handful of routes. Their types are a collection like any other.

use axum::Json;
use axum::extract::State;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use toolwright_engine::Session;
use toolwright_engine::records::{MOST_RECORDS, Question, Wish};
use toolwright_query::Mode;
use toolwright_types::or_default;

use crate::extract::{App, Body, Caller};
use crate::problem::Problem;

const TAG: &str = "query";

/// Records of a page when nobody says how many.
const USUAL_LIMIT: u32 = 50;
/// Beyond this a cursor is the better way.
const MOST_SKIPPED: u64 = 100_000;

/// The types there are.
#[derive(Serialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct RootTypes {
    /// One for each type.
    root_types: Vec<RootType>,
    /// How many.
    count: usize,
}

/// A type, by its names.
#[derive(Serialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct RootType {
    /// Its whole name.
    class_name: String,
    /// The last part of it.
    simple_name: String,
    /// What its records are called.
    collection_name: String,
}

/// Lists the types whose records can be asked for.
#[utoipa::path(get, path = "/api/query/rootTypes", tag = TAG, operation_id = "listRootTypes",
    responses((status = 200, body = RootTypes), (status = "4XX", body = Problem, content_type = "application/problem+json")))]
pub async fn root_types(State(engine): State<App>, Caller(session): Caller) -> Result<Json<RootTypes>, Problem> {
    let types = engine.records.types(&session).await?;
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

/// Which records are meant.
#[derive(Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct QueryRequest {
    /// The type, by its whole or its simple name.
    root_type: String,
    /// In the query language; everything when absent.
    #[serde(default)]
    query: Option<String>,
    /// The realm to look in; that of the request when absent.
    #[serde(default)]
    realm: Option<String>,
    /// Values for variables of the query.
    #[serde(default, deserialize_with = "or_default")]
    #[schema(value_type = Object)]
    variables: Map<String, Value>,
}

/// How a query is answered.
#[derive(Serialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct PlanView {
    /// `FILTER`, or `AGGREGATION` where related records are put in.
    mode: &'static str,
    /// Where they are put in.
    expand_paths: Vec<String>,
}

/// Says how a query would be answered, without asking it.
#[utoipa::path(post, path = "/api/query/plan", tag = TAG, operation_id = "planQuery", request_body = QueryRequest,
    responses((status = 200, body = PlanView), (status = "4XX", body = Problem, content_type = "application/problem+json")))]
pub async fn plan(
    State(engine): State<App>,
    Caller(session): Caller,
    Body(request): Body<QueryRequest>,
) -> Result<Json<PlanView>, Problem> {
    let session = entered(&engine, session, request.realm.as_deref()).await?;
    let query = request.query.unwrap_or_default();
    let plan = engine.records.plan(&session, &request.root_type, &query).await?;
    let mode = match plan.mode {
        Mode::Filter => "FILTER",
        Mode::Aggregation => "AGGREGATION",
    };
    Ok(Json(PlanView { mode, expand_paths: plan.expand }))
}

/// Which records are wanted, in which order, and how many.
#[derive(Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct FindRequest {
    /// The type, by its whole or its simple name.
    root_type: String,
    /// In the query language; everything when absent.
    #[serde(default)]
    query: Option<String>,
    /// Which part of the list.
    #[serde(default, deserialize_with = "or_default")]
    page: PageRequest,
    /// The order; by id when absent.
    #[serde(default, deserialize_with = "or_default")]
    sort: Vec<SortRequest>,
    /// `+name, -customer.secret`; whole records when absent.
    #[serde(default)]
    fields: Option<String>,
    /// The realm to look in; that of the request when absent.
    #[serde(default)]
    realm: Option<String>,
    /// Values for variables of the query.
    #[serde(default, deserialize_with = "or_default")]
    #[schema(value_type = Object)]
    variables: Map<String, Value>,
}

/// Which part of a list.
#[derive(Default, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PageRequest {
    /// 0 to 1000; 50 when absent.
    #[serde(default)]
    limit: Option<u32>,
    /// How many to leave out, up to 100000.
    #[serde(default)]
    skip: Option<u64>,
    /// `nextCursor` of the page before.
    #[serde(default)]
    cursor: Option<String>,
}

/// One of the fields that a list is sorted by.
#[derive(Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SortRequest {
    /// Its path.
    field: String,
    /// `ASC` or `DESC`; ascending when absent.
    #[serde(default)]
    dir: Option<String>,
}

/// Records that were found.
#[derive(Serialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct FoundView {
    /// How many were left out.
    offset: u64,
    /// How many could have been there.
    limit: u32,
    /// The records.
    #[schema(value_type = Vec<Object>)]
    rows: Vec<Value>,
    /// How many there are.
    row_count: usize,
    /// The query as it was asked.
    filter: Option<String>,
    /// Where the next page begins; null on the last.
    next_cursor: Option<String>,
}

/// Finds records.
#[utoipa::path(post, path = "/api/query/find", tag = TAG, operation_id = "findRecords", request_body = FindRequest,
    responses((status = 200, body = FoundView), (status = "4XX", body = Problem, content_type = "application/problem+json")))]
pub async fn find(
    State(engine): State<App>,
    Caller(session): Caller,
    Body(request): Body<FindRequest>,
) -> Result<Json<FoundView>, Problem> {
    let session = entered(&engine, session, request.realm.as_deref()).await?;
    let (limit, offset) = (request.page.limit.unwrap_or(USUAL_LIMIT), request.page.skip.unwrap_or(0));
    if limit > MOST_RECORDS {
        return Err(Problem::invalid("/page/limit", format!("is a number from 0 to {MOST_RECORDS}")));
    }
    if offset > MOST_SKIPPED {
        let rule = format!("is at most {MOST_SKIPPED}; go on with `cursor`, the `nextCursor` of the page before");
        return Err(Problem::invalid("/page/skip", rule));
    }
    let question = Question {
        query: request.query,
        sort: sort(&request.sort)?,
        fields: request.fields,
        cursor: request.page.cursor,
        skip: offset,
        limit,
        variables: request.variables,
        ..Question::default()
    };
    let found = engine.records.find(&session, &request.root_type, &question).await?;
    Ok(Json(FoundView {
        offset,
        limit,
        row_count: found.records.len(),
        rows: found.records,
        filter: question.query,
        next_cursor: found.next,
    }))
}

/// The order as the language writes it. A name that could be taken for two is no name of a field.
fn sort(keys: &[SortRequest]) -> Result<Option<String>, Problem> {
    let mut written = Vec::new();
    for (at, key) in keys.iter().enumerate() {
        if key.field.contains([',', ':']) || key.field.trim() != key.field || key.field.starts_with(['+', '-']) {
            return Err(Problem::invalid(
                &format!("/sort/{at}/field"),
                "is the path of a field, such as `customer.name`",
            ));
        }
        written.push(match key.dir.as_deref() {
            None => format!("{}:asc", key.field),
            Some(dir) if dir.eq_ignore_ascii_case("asc") => format!("{}:asc", key.field),
            Some(dir) if dir.eq_ignore_ascii_case("desc") => format!("{}:desc", key.field),
            Some(_) => return Err(Problem::invalid(&format!("/sort/{at}/dir"), "is `ASC` or `DESC`")),
        });
    }
    Ok(Some(written.join(", ")).filter(|_| !keys.is_empty()))
}

/// How many records there are.
#[derive(Serialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct RecordCount {
    /// The number.
    count: u64,
    /// The type.
    root_type: String,
    /// The query as it was asked.
    query: Option<String>,
}

/// Counts records.
#[utoipa::path(post, path = "/api/query/count", tag = TAG, operation_id = "countRecords", request_body = QueryRequest,
    responses((status = 200, body = RecordCount), (status = "4XX", body = Problem, content_type = "application/problem+json")))]
pub async fn count(
    State(engine): State<App>,
    Caller(session): Caller,
    Body(request): Body<QueryRequest>,
) -> Result<Json<RecordCount>, Problem> {
    let session = entered(&engine, session, request.realm.as_deref()).await?;
    let question = Question::of(request.query, request.variables);
    let count = engine.records.count(&session, &request.root_type, &question).await?;
    Ok(Json(RecordCount { count, root_type: request.root_type, query: question.query }))
}

/// A record to be written.
#[derive(Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SaveRequest {
    /// The type.
    root_type: String,
    /// The realm to write in; that of the request when absent.
    #[serde(default)]
    realm: Option<String>,
    /// The record. With an `id` it replaces what is there; with a `version` only if that is what is there.
    #[schema(value_type = Object)]
    entity: Value,
}

/// A record that was written.
#[derive(Serialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct SavedView {
    /// Its id.
    id: String,
    /// The type.
    root_type: String,
    /// The record as it stands now.
    #[schema(value_type = Object)]
    entity: Value,
}

/// Writes a record: a new one, or in the place of the one with its id.
#[utoipa::path(post, path = "/api/query/save", tag = TAG, operation_id = "saveRecord", request_body = SaveRequest,
    responses((status = 200, body = SavedView), (status = "4XX", body = Problem, content_type = "application/problem+json")))]
pub async fn save(
    State(engine): State<App>,
    Caller(session): Caller,
    Body(request): Body<SaveRequest>,
) -> Result<Json<SavedView>, Problem> {
    let session = entered(&engine, session, request.realm.as_deref()).await?;
    if !request.entity.is_object() {
        return Err(Problem::invalid("/entity", "is a JSON object"));
    }
    let saved = engine.records.save(&session, &request.root_type, request.entity, Wish::Save).await?;
    Ok(Json(SavedView { id: saved.id, root_type: request.root_type, entity: saved.record }))
}

/// A record to be removed.
#[derive(Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct DeleteRequest {
    /// The type.
    root_type: String,
    /// The realm it is in; that of the request when absent.
    #[serde(default)]
    realm: Option<String>,
    /// Its id.
    id: String,
    /// The version that was read, if that matters.
    #[serde(default)]
    version: Option<i64>,
}

/// A record that was removed.
#[derive(Serialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct DeletedView {
    /// Always true: what could not be removed is a problem.
    success: bool,
    /// Its id.
    id: String,
    /// The type.
    root_type: String,
    /// One.
    deleted_count: u64,
}

/// Removes a record.
#[utoipa::path(post, path = "/api/query/delete", tag = TAG, operation_id = "deleteRecord", request_body = DeleteRequest,
    responses((status = 200, body = DeletedView), (status = "4XX", body = Problem, content_type = "application/problem+json")))]
pub async fn delete(
    State(engine): State<App>,
    Caller(session): Caller,
    Body(request): Body<DeleteRequest>,
) -> Result<Json<DeletedView>, Problem> {
    let session = entered(&engine, session, request.realm.as_deref()).await?;
    engine.records.delete(&session, &request.root_type, &request.id, request.version).await?;
    Ok(Json(DeletedView { success: true, id: request.id, root_type: request.root_type, deleted_count: 1 }))
}

/// Records to be removed.
#[derive(Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct DeleteManyRequest {
    /// The type.
    root_type: String,
    /// The realm they are in; that of the request when absent.
    #[serde(default)]
    realm: Option<String>,
    /// In the query language.
    #[serde(default)]
    query: Option<String>,
    /// Whether every record of the type is meant, where the query says nothing.
    #[serde(default, deserialize_with = "or_default")]
    all: bool,
    /// Values for variables of the query.
    #[serde(default, deserialize_with = "or_default")]
    #[schema(value_type = Object)]
    variables: Map<String, Value>,
}

/// How many records were removed.
#[derive(Serialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct DeletedManyView {
    /// Always true: what could not be done is a problem.
    success: bool,
    /// The query as it was asked.
    query: Option<String>,
    /// The type.
    root_type: String,
    /// The number.
    deleted_count: u64,
}

/// Removes the records that a query finds.
#[utoipa::path(post, path = "/api/query/deleteMany", tag = TAG, operation_id = "deleteRecords", request_body = DeleteManyRequest,
    responses((status = 200, body = DeletedManyView), (status = "4XX", body = Problem, content_type = "application/problem+json")))]
pub async fn delete_many(
    State(engine): State<App>,
    Caller(session): Caller,
    Body(request): Body<DeleteManyRequest>,
) -> Result<Json<DeletedManyView>, Problem> {
    let session = entered(&engine, session, request.realm.as_deref()).await?;
    let question = Question::of(request.query, request.variables);
    let deleted_count = engine.records.delete_many(&session, &request.root_type, &question, request.all).await?;
    Ok(Json(DeletedManyView { success: true, query: question.query, root_type: request.root_type, deleted_count }))
}

/// The session in the realm that the body asks for, where it asks for one.
pub(super) async fn entered(engine: &App, session: Session, realm: Option<&str>) -> Result<Session, Problem> {
    match realm {
        Some(name) if name != session.realm.name.as_str() => Ok(engine.identity.elsewhere(&session, name).await?),
        _ => Ok(session),
    }
}
