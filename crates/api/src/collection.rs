//! The routes that every kind of definition has: list, query, count, create, read, replace, merge, delete and versions.
//!
//! A kind can have further routes, which are defined in its module under `routes`. The OpenAPI description of the
//! common routes is built in [`describe`], so a new kind needs only an implementation of [`Collection`].

mod describe;
mod yaml;

use std::collections::BTreeMap;
use std::future::Future;

use axum::Json;
use axum::extract::{RawQuery, State};
use axum::http::header::{ACCEPT, CONTENT_TYPE};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use semver::Version;
use serde::{Deserialize, Serialize};
use toolwright_catalog::Session;
use toolwright_catalog::registry::{Definition, Registry, RegistryError, SavedDefinition};
use toolwright_gram::Pattern;
use toolwright_types::{DefinitionSource, Document, UniqueKeys};
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;

pub(crate) use describe::{DocumentedRoutes, documented, operation};
use yaml::WrittenBody;
pub(crate) use yaml::{DefinitionBody, Position, parse_text as parse_yaml, print as print_yaml};

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
    /// Whether definitions can be read and written as YAML.
    const HAS_YAML: bool = false;

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
        .routes(describe::collection_routes::<T>())
        .routes(describe::query_route::<T>())
        .routes(describe::count_route::<T>())
        .routes(describe::item_routes::<T>())
        .routes(describe::versions_route::<T>())
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
    DefinitionBody { value, written, .. }: DefinitionBody<T>,
) -> Result<impl IntoResponse, Problem> {
    let saved = registry.create::<T>(&session, value, params.origin()?).await;
    Ok((StatusCode::CREATED, views::saved(located(saved, written).await?)))
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
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let (name, version) = split_version::<T>(&name, params.version.as_deref());
    let accepts_yaml = || T::HAS_YAML && headers.get_all(ACCEPT).iter().any(yaml::is_yaml);
    match params.format.as_deref() {
        None if accepts_yaml() => return get_yaml::<T>(&engine, &session, name, version).await,
        Some("yaml") if T::HAS_YAML => return get_yaml::<T>(&engine, &session, name, version).await,
        None | Some("json") => {}
        Some("gram") if T::HAS_GRAM => {
            let pattern = T::gram(&engine, &session, name, version).await?;
            let text = pattern.as_ref().map(toolwright_gram::print).unwrap_or_default();
            return Ok(([(CONTENT_TYPE, "text/plain; charset=utf-8")], text).into_response());
        }
        Some(other) => {
            let known = match (T::HAS_GRAM, T::HAS_YAML) {
                (true, _) => "`json` or `gram`",
                (_, true) => "`json` or `yaml`",
                (false, false) => "`json`",
            };
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

/// Returns a definition as YAML, without the fields that the server manages.
async fn get_yaml<T: Collection>(
    engine: &AppState,
    session: &Session,
    name: &str,
    version: Option<&str>,
) -> Result<Response, Problem> {
    let document = engine.registry.get::<T>(session, name, version).await?;
    let etag = views::etag(document.meta.revision);
    Ok((etag, [(CONTENT_TYPE, yaml::MEDIA_TYPE)], yaml::print(&document.body)?).into_response())
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
    DefinitionBody { value, written, .. }: DefinitionBody<T>,
) -> Result<impl IntoResponse, Problem> {
    let saved = registry.replace::<T>(&session, &name, revision, value, params.origin()?).await;
    Ok(views::saved(located(saved, written).await?))
}

/// Adds the positions of the invalid fields in a YAML body to an error.
async fn located<T>(
    saved: Result<SavedDefinition<T>, RegistryError>,
    written: WrittenBody,
) -> Result<SavedDefinition<T>, Problem> {
    match saved {
        Ok(saved) => Ok(saved),
        Err(error) => Err(written.locate(error.into()).await),
    }
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
