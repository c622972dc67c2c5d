//! The routes that every kind of definition has: list, query, count, create, read, replace, merge, delete and versions.
//!
//! A kind can have further routes, which are defined in its module under `routes`. The OpenAPI description of the
//! common routes is built here, so a new kind needs only an implementation of [`Collection`].

use std::collections::BTreeMap;
use std::future::Future;

use axum::Json;
use axum::extract::{RawQuery, State};
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use axum::routing::{MethodRouter, get as on_get, post as on_post};
use semver::Version;
use serde::{Deserialize, Serialize};
use toolwright_catalog::Session;
use toolwright_catalog::registry::{Definition, Registry, RegistryError, SavedDefinition};
use toolwright_gram::Pattern;
use toolwright_types::{DefinitionSource, Document, UniqueKeys};
use utoipa::openapi::link::{Link, LinkBuilder};
use utoipa::openapi::path::{HttpMethod, Operation, OperationBuilder, ParameterBuilder, ParameterIn, PathsBuilder};
use utoipa::openapi::request_body::RequestBodyBuilder;
use utoipa::openapi::schema::{ObjectBuilder, Type};
use utoipa::openapi::{ContentBuilder, PathItem, Ref, RefOr, Required, ResponseBuilder, Schema};
use utoipa::{PartialSchema, ToSchema};
use utoipa_axum::router::OpenApiRouter;

use crate::extract::{Caller, IfMatch, JsonBody, PathName, QueryParams, WriteParams, refuse_version_parameter};
use crate::list_params::{self, QueryBody};
use crate::problem::Problem;
use crate::routes::tools::parse_requirement;
use crate::state::AppState;
use crate::views::{self, PageView, Viewable};

/// A kind of definition that has the common routes.
pub(crate) trait Collection: Definition + Viewable + ToSchema {
    /// The path of the collection.
    const PATH: &'static str;
    /// The OpenAPI tag of the operations.
    const TAG: &'static str;
    /// The singular name of the kind in operation ids, such as `Tool`.
    const SINGULAR: &'static str;

    /// Whether the kind has a gram notation.
    const HAS_GRAM: bool = false;

    /// Returns a definition in gram notation. Called only if [`Collection::HAS_GRAM`] is true.
    fn gram(
        _engine: &AppState,
        _session: &Session,
        _name: &str,
        _version: Option<&str>,
    ) -> impl Future<Output = Result<Option<Pattern>, Problem>> + Send {
        async { Ok(None) }
    }

    /// Finds a built-in definition by its name. The default implementation finds none.
    fn built_in(
        _engine: &AppState,
        _session: &Session,
        _name: &str,
        _version: Option<&str>,
    ) -> impl Future<Output = Result<Option<Self::View>, Problem>> + Send {
        async { Ok(None) }
    }

    /// Returns all built-in definitions, which a list with `source=built-in` contains.
    fn all_built_in(_engine: &AppState, _session: &Session) -> Vec<Self::View> {
        Vec::new()
    }
}

/// A number of items.
#[derive(Serialize, ToSchema)]
pub(crate) struct CountView {
    /// The number of items.
    pub count: u64,
}

/// The response to a deletion of a definition that other definitions use.
#[derive(Serialize, Deserialize, ToSchema)]
pub struct DeletionView {
    /// Warnings that name the definitions that used the deleted definition.
    pub warnings: Vec<String>,
}

/// The query parameters of a request for one definition.
#[derive(Deserialize)]
pub(crate) struct GetParams {
    version: Option<String>,
    format: Option<String>,
    /// Whether to check the definition again, as a save does.
    #[serde(default)]
    check: bool,
}

/// The query parameters of a list of revisions.
#[derive(Deserialize)]
pub(crate) struct RevisionParams {
    pub(crate) limit: Option<u32>,
    pub(crate) cursor: Option<String>,
}

/// Returns the routes of one collection, with their OpenAPI description.
pub(crate) fn routes<T: Collection>() -> OpenApiRouter<AppState>
where
    T::View: ToSchema + Send,
{
    OpenApiRouter::new()
        .routes(collection_routes::<T>())
        .routes(query_route::<T>())
        .routes(count_route::<T>())
        .routes(item_routes::<T>())
        .routes(versions_route::<T>())
}

/// `GET` and `POST` on the collection.
fn collection_routes<T: Collection>() -> DocumentedRoutes
where
    T::View: ToSchema + Send,
{
    let list_params = ["query", "limit", "cursor", "sort", "applySet"].map(|name| (name, ParameterIn::Query));
    let list = operation::<T>(&format!("list{}s", T::SINGULAR), &list_params, None, ("200", Some(page_ref::<T>())))
        .summary(Some("Lists definitions, filtered by `query` if it is set. Any other parameter filters by the field of its name."));
    let create = operation::<T>(
        &format!("create{}", T::SINGULAR),
        &[("applySet", ParameterIn::Query)],
        Some(schema_ref::<T>()),
        ("201", Some(schema_ref::<T::View>())),
    )
    .summary(Some("Creates a definition."));
    documented::<T>(
        T::PATH.to_owned(),
        on_get(self::list::<T>).post(self::create::<T>),
        [(HttpMethod::Get, list.build()), (HttpMethod::Post, create.build())],
    )
}

/// `POST` on `/query`.
fn query_route<T: Collection>() -> DocumentedRoutes
where
    T::View: ToSchema + Send,
{
    let query = operation::<T>(
        &format!("query{}s", T::SINGULAR),
        &[],
        Some(schema_ref::<QueryBody>()),
        ("200", Some(page_ref::<T>())),
    )
    .summary(Some("Lists definitions by a filter in the body."));
    let path = format!("{}/query", T::PATH);
    documented::<T>(path, on_post(self::query::<T>), [(HttpMethod::Post, query.build())])
}

/// `GET` on `/count`.
fn count_route<T: Collection>() -> DocumentedRoutes
where
    T::View: ToSchema + Send,
{
    let count = operation::<T>(
        &format!("count{}s", T::SINGULAR),
        &[("query", ParameterIn::Query)],
        None,
        ("200", Some(schema_ref::<CountView>())),
    )
    .summary(Some("Counts definitions. Parameters filter as in the list."));
    let path = format!("{}/count", T::PATH);
    documented::<T>(path, on_get(self::count::<T>), [(HttpMethod::Get, count.build())])
}

/// `GET`, `PUT`, `PATCH` and `DELETE` on one definition.
fn item_routes<T: Collection>() -> DocumentedRoutes
where
    T::View: ToSchema + Send,
{
    let singular = T::SINGULAR;
    let view = || ("200", Some(schema_ref::<T::View>()));
    let reference = ("ref", ParameterIn::Path);
    let write_params = [reference.clone(), ("If-Match", ParameterIn::Header)];
    let mut read_params = vec![reference, ("version", ParameterIn::Query), ("check", ParameterIn::Query)];
    if T::HAS_GRAM {
        read_params.push(("format", ParameterIn::Query));
    }
    let get = operation::<T>(&format!("get{singular}"), &read_params, None, view())
        .description(Some("`check=true` checks the definition again, as a save does: the response has `warnings`, or is 422 with the errors."))
        .summary(Some(match T::KIND.is_versioned() {
            true if T::HAS_GRAM => {
                "Returns a definition: the requested version, or the highest active one. `format=gram` returns gram notation."
            }
            true => "Returns a definition: the requested version, or the highest active one.",
            false => "Returns a definition: the revision whose number is `version`, or the newest one.",
        }));
    let replace_params = [&write_params[..], &[("applySet", ParameterIn::Query)]].concat();
    let replace = operation::<T>(&format!("replace{singular}"), &replace_params, Some(schema_ref::<T>()), view())
        .summary(Some(match T::KIND.is_versioned() {
            true => "Replaces a definition. A new `version` is added beside the existing ones.",
            false => "Replaces a definition. Earlier revisions remain readable.",
        }));
    let merge = operation::<T>(&format!("merge{singular}"), &write_params, Some(any_object()), view())
        .summary(Some("Changes some fields of a definition. Null removes a field."));
    let warned = ContentBuilder::new().schema(Some(schema_ref::<DeletionView>())).build();
    let delete = operation::<T>(&format!("delete{singular}"), &write_params, None, ("204", None))
        .response("200", ResponseBuilder::new().content("application/json", warned).build())
        .summary(Some("Deletes a definition with all its versions and revisions. If other definitions use it, the response is 200 with a warning that names them, otherwise 204."));
    let mut get = get.build();
    if T::HAS_GRAM
        && let Some(RefOr::T(response)) = get.responses.responses.get_mut("200")
    {
        let text = ObjectBuilder::new().schema_type(Type::String).build();
        let text = ContentBuilder::new().schema(Some(RefOr::T(Schema::Object(text)))).build();
        response.content.insert("text/plain".to_owned(), text.into());
    }
    documented::<T>(
        format!("{}/{{ref}}", T::PATH),
        on_get(self::get::<T>).put(self::replace::<T>).patch(self::merge::<T>).delete(self::delete::<T>),
        [
            (HttpMethod::Get, get),
            (HttpMethod::Put, replace.build()),
            (HttpMethod::Patch, merge.build()),
            (HttpMethod::Delete, delete.build()),
        ],
    )
}

/// `GET` on `/versions` of one definition.
fn versions_route<T: Collection>() -> DocumentedRoutes
where
    T::View: ToSchema + Send,
{
    let reference = ("ref", ParameterIn::Path);
    let parameters = [reference, ("limit", ParameterIn::Query), ("cursor", ParameterIn::Query)];
    let summary = match T::KIND.is_versioned() {
        true => "Lists the versions of a definition, highest first. Without `limit`, all of them.",
        false => "Lists the revisions of a definition, newest first. Each write creates a revision.",
    };
    let id = format!("list{}Versions", T::SINGULAR);
    let versions = operation::<T>(&id, &parameters, None, ("200", Some(page_ref::<T>()))).summary(Some(summary));
    let path = format!("{}/{{ref}}/versions", T::PATH);
    documented::<T>(path, on_get(self::versions::<T>), [(HttpMethod::Get, versions.build())])
}

pub(crate) type DocumentedRoutes = (Vec<(String, RefOr<Schema>)>, utoipa::openapi::path::Paths, MethodRouter<AppState>);

pub(crate) fn documented<T: Collection>(
    path: String,
    router: MethodRouter<AppState>,
    operations: impl IntoIterator<Item = (HttpMethod, Operation)>,
) -> DocumentedRoutes
where
    T::View: ToSchema,
{
    let mut schemas = vec![
        (T::name().into_owned(), T::schema()),
        (T::View::name().into_owned(), T::View::schema()),
        (page_name::<T>(), PageView::<T::View>::schema()),
        (QueryBody::name().into_owned(), QueryBody::schema()),
        (CountView::name().into_owned(), CountView::schema()),
        (DeletionView::name().into_owned(), DeletionView::schema()),
    ];
    T::schemas(&mut schemas);
    T::View::schemas(&mut schemas);
    let item = operations.into_iter().fold(None, |item: Option<PathItem>, (method, operation)| {
        let mut next = PathItem::new(method, operation);
        if let Some(earlier) = item {
            next.merge_operations(earlier);
        }
        Some(next)
    });
    let paths = PathsBuilder::new().path(path, item.unwrap_or_default()).build();
    (schemas, paths, router)
}

pub(crate) fn operation<T: Collection>(
    id: &str,
    parameters: &[(&str, ParameterIn)],
    body: Option<RefOr<Schema>>,
    (status, response_schema): (&str, Option<RefOr<Schema>>),
) -> OperationBuilder {
    let content = |schema| ContentBuilder::new().schema(Some(schema)).build();
    let mut response =
        links::<T>(status).fold(ResponseBuilder::new(), |response, (name, link)| response.link(name, link));
    if let Some(schema) = response_schema {
        response = response.content("application/json", content(schema));
    }
    let mut operation = OperationBuilder::new().operation_id(Some(id)).tag(T::TAG).response(status, response.build());
    for (name, location) in parameters {
        let required = if *location == ParameterIn::Path { Required::True } else { Required::False };
        let text = ObjectBuilder::new().schema_type(Type::String).build();
        let parameter = ParameterBuilder::new().name(*name).parameter_in(location.clone()).required(required);
        operation = operation.parameter(parameter.schema(Some(text)).build());
    }
    match body {
        Some(schema) => {
            let body = RequestBodyBuilder::new().content("application/json", content(schema));
            operation.request_body(Some(body.required(Some(Required::True)).build()))
        }
        None => operation,
    }
}

/// Returns links to the operations on a created definition. Only the response with status 201 has links.
fn links<T: Collection>(status: &str) -> impl Iterator<Item = (&'static str, Link)> {
    let verbs: &[&str] = if status == "201" { &["get", "replace", "merge", "delete"] } else { &[] };
    verbs.iter().map(|verb| {
        let link = LinkBuilder::new().operation_id(format!("{verb}{}", T::SINGULAR));
        (*verb, link.parameter("ref", "$response.body#/refName").build())
    })
}

/// Returns the name of a page schema in the OpenAPI document. The name contains the item type, because the generic type
/// [`PageView`] would otherwise have the same schema name for every item type.
fn page_name<T: Collection>() -> String
where
    T::View: ToSchema,
{
    format!("PageView_{}", T::View::name())
}

fn page_ref<T: Collection>() -> RefOr<Schema>
where
    T::View: ToSchema,
{
    RefOr::Ref(Ref::from_schema_name(page_name::<T>()))
}

fn schema_ref<S: ToSchema>() -> RefOr<Schema> {
    RefOr::Ref(Ref::from_schema_name(S::name()))
}

fn any_object() -> RefOr<Schema> {
    ObjectBuilder::new().build().into()
}

async fn list<T: Collection>(
    State(engine): State<AppState>,
    Caller(session): Caller,
    QueryParams(parameters): QueryParams<BTreeMap<String, String>>,
) -> Result<Json<PageView<T::View>>, Problem> {
    let built_in = parameters.get("source").is_some_and(|source| source == DefinitionSource::BuiltIn.as_str());
    let query = list_params::from_query_params::<T>(parameters)?;
    if built_in {
        return Ok(Json(PageView::complete(T::all_built_in(&engine, &session))));
    }
    let page = engine.registry.list::<T>(&session, query).await?;
    Ok(Json(views::page(page)))
}

async fn create<T: Collection>(
    State(registry): State<Registry>,
    Caller(session): Caller,
    QueryParams(params): QueryParams<WriteParams>,
    JsonBody(UniqueKeys(body)): JsonBody<UniqueKeys>,
) -> Result<impl IntoResponse, Problem> {
    Ok((StatusCode::CREATED, views::saved(registry.create::<T>(&session, body, params.origin()?).await?)))
}

async fn query<T: Collection>(
    State(registry): State<Registry>,
    Caller(session): Caller,
    JsonBody(body): JsonBody<QueryBody>,
) -> Result<Json<PageView<T::View>>, Problem> {
    let page = registry.list::<T>(&session, body.into_query::<T>()?).await?;
    Ok(Json(views::page(page)))
}

async fn count<T: Collection>(
    State(registry): State<Registry>,
    Caller(session): Caller,
    QueryParams(parameters): QueryParams<BTreeMap<String, String>>,
) -> Result<Json<CountView>, Problem> {
    let (matching, filters) = list_params::from_count_params::<T>(parameters)?;
    let count = registry.count::<T>(&session, &filters, matching.as_ref()).await?;
    Ok(Json(CountView { count }))
}

async fn get<T: Collection>(
    State(engine): State<AppState>,
    Caller(session): Caller,
    PathName(name): PathName,
    QueryParams(params): QueryParams<GetParams>,
) -> Result<Response, Problem> {
    let (name, version) = split_version::<T>(&name, params.version.as_deref());
    match params.format.as_deref() {
        None | Some("json") => {}
        Some("gram") if T::HAS_GRAM => {
            let pattern = T::gram(&engine, &session, name, version).await?;
            let text = pattern.as_ref().map(toolwright_gram::print).unwrap_or_default();
            return Ok(([(CONTENT_TYPE, "text/plain; charset=utf-8")], text).into_response());
        }
        Some(other) => {
            let known = if T::HAS_GRAM { "`json` or `gram`" } else { "`json`" };
            return Err(Problem::invalid("format", format!("must be {known}, got `{other}`")));
        }
    }
    match engine.registry.get::<T>(&session, name, version).await {
        Ok(document) if params.check => {
            let warnings = engine.registry.recheck(&session, &document.body).await?;
            Ok(views::saved(SavedDefinition { document, warnings }).into_response())
        }
        Ok(document) => Ok(views::with_etag(document).into_response()),
        Err(error @ RegistryError::NotFound { .. }) => match T::built_in(&engine, &session, name, version).await? {
            Some(view) => Ok(Json(view).into_response()),
            None => Err(error.into()),
        },
        Err(error) => Err(error.into()),
    }
}

/// Splits `name@version` into the name and the version or requirement. The parameter `version` takes precedence.
fn split_version<'a, T: Collection>(reference: &'a str, version: Option<&'a str>) -> (&'a str, Option<&'a str>) {
    match reference.split_once('@') {
        Some((name, named)) if T::KIND.is_versioned() => (name, version.or(Some(named))),
        _ => (reference, version),
    }
}

async fn versions<T: Collection>(
    State(engine): State<AppState>,
    Caller(session): Caller,
    PathName(name): PathName,
    QueryParams(params): QueryParams<RevisionParams>,
) -> Result<Json<PageView<T::View>>, Problem> {
    let views = |documents: Vec<Document<T>>| documents.into_iter().map(|one| T::view(one, Vec::new())).collect();
    if !T::KIND.is_versioned() {
        let newest: Option<i64> = list_params::cursor(params.cursor.as_deref())?;
        let limit = list_params::limit(params.limit)?;
        let (revisions, next) = engine.registry.revisions::<T>(&session, &name, newest, limit).await?;
        return Ok(Json(PageView { items: views(revisions), next_cursor: next.map(|next| next.to_string()) }));
    }
    let (name, requirement) = split_version::<T>(&name, None);
    let requirement = requirement.map(parse_requirement).transpose()?;
    let last: Option<Version> = list_params::cursor(params.cursor.as_deref())?;
    let limit = params.limit.map(|limit| list_params::limit(Some(limit))).transpose()?;
    let limit = limit.and_then(|limit| usize::try_from(limit).ok()).unwrap_or(usize::MAX);
    let matches = |document: &Document<T>| {
        let version = document.body.version();
        requirement.as_ref().is_none_or(|requirement| version.is_some_and(|version| requirement.matches(version)))
            && last.as_ref().is_none_or(|last| version.is_some_and(|version| version < last))
    };
    match engine.registry.versions::<T>(&session, name).await {
        Ok(versions) => {
            let mut page: Vec<Document<T>> = versions.into_iter().filter(matches).collect();
            let more = page.len() > limit;
            page.truncate(limit);
            let next =
                page.last().filter(|_| more).and_then(|document| document.body.version()).map(Version::to_string);
            Ok(Json(PageView { items: views(page), next_cursor: next }))
        }
        Err(error @ RegistryError::NotFound { .. }) => match T::built_in(&engine, &session, name, None).await? {
            Some(view) => Ok(Json(PageView::complete(vec![view]))),
            None => Err(error.into()),
        },
        Err(error) => Err(error.into()),
    }
}

async fn replace<T: Collection>(
    State(registry): State<Registry>,
    Caller(session): Caller,
    PathName(name): PathName,
    IfMatch(revision): IfMatch,
    QueryParams(params): QueryParams<WriteParams>,
    JsonBody(UniqueKeys(body)): JsonBody<UniqueKeys>,
) -> Result<impl IntoResponse, Problem> {
    let saved = registry.replace::<T>(&session, &name, revision, body, params.origin()?).await?;
    Ok(views::saved(saved))
}

async fn merge<T: Collection>(
    State(registry): State<Registry>,
    Caller(session): Caller,
    PathName(name): PathName,
    IfMatch(revision): IfMatch,
    RawQuery(query): RawQuery,
    JsonBody(UniqueKeys(patch)): JsonBody<UniqueKeys>,
) -> Result<impl IntoResponse, Problem> {
    refuse_version_parameter(query.as_deref())?;
    let saved = registry.merge::<T>(&session, &name, revision, patch).await?;
    Ok(views::saved(saved))
}

async fn delete<T: Collection>(
    State(registry): State<Registry>,
    Caller(session): Caller,
    PathName(name): PathName,
    IfMatch(revision): IfMatch,
    RawQuery(query): RawQuery,
) -> Result<Response, Problem> {
    refuse_version_parameter(query.as_deref())?;
    if let (_, Some(version)) = split_version::<T>(&name, None) {
        let rule = "a delete removes all versions";
        let remedy = "or set the `status` of this version to `blocked`";
        return Err(Problem::invalid("ref", format!("{rule}: omit `@{version}` to delete them all, {remedy}")));
    }
    Ok(match registry.delete::<T>(&session, &name, revision).await? {
        Some(warning) => Json(DeletionView { warnings: vec![warning] }).into_response(),
        None => StatusCode::NO_CONTENT.into_response(),
    })
}
