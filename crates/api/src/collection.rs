//! The routes that every kind of definition has: list, query, count, create, read, replace, merge, delete.
//!
//! A kind adds its own beside them. The description is built here once, so that a new kind costs one line.

use std::collections::BTreeMap;
use std::future::Future;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::{MethodRouter, get as on_get, post as on_post};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use toolwright_engine::Session;
use toolwright_engine::registry::{Definition, RegistryError};
use toolwright_types::Source;
use utoipa::openapi::path::{HttpMethod, Operation, OperationBuilder, ParameterBuilder, ParameterIn, PathsBuilder};
use utoipa::openapi::request_body::RequestBodyBuilder;
use utoipa::openapi::schema::{ObjectBuilder, Type};
use utoipa::openapi::{ContentBuilder, PathItem, Ref, RefOr, Required, ResponseBuilder, Schema};
use utoipa::{PartialSchema, ToSchema};
use utoipa_axum::router::OpenApiRouter;

use crate::extract::{App, Body, Caller, Expected, Named, Parameters};
use crate::lists::{self, QueryBody};
use crate::problem::Problem;
use crate::views::{self, PageView, Viewable};

/// A kind of definition that has a collection.
pub trait Kind: Definition + Viewable + ToSchema {
    /// Where the collection is.
    const PATH: &'static str;
    /// The group it is listed under in the description.
    const TAG: &'static str;
    /// What one is called in operation ids, such as `Tool`.
    const ONE: &'static str;

    /// What is shown of those that no one defined; none by default.
    fn built_in(
        _engine: &App,
        _session: &Session,
        _name: &str,
        _version: Option<&str>,
    ) -> impl Future<Output = Result<Option<Self::View>, Problem>> + Send {
        async { Ok(None) }
    }

    /// All that no one defined, for `source=built-in`.
    fn all_built_in(_engine: &App, _session: &Session) -> Vec<Self::View> {
        Vec::new()
    }
}

/// How many there are.
#[derive(Serialize, ToSchema)]
pub struct CountView {
    /// The number.
    pub count: u64,
}

/// The version asked for.
#[derive(Deserialize)]
pub struct WantedVersion {
    version: Option<String>,
}

/// The routes of one kind.
pub fn routes<T: Kind>() -> OpenApiRouter<App>
where
    T::View: ToSchema + Send,
{
    let (one, many) = (T::ONE, format!("{}s", T::ONE));
    let page = || RefOr::Ref(Ref::from_schema_name(page_name::<T>()));
    let shown = || refers::<T::View>();
    let list_parameters = ["query", "limit", "cursor", "sort"].map(|name| (name, ParameterIn::Query));
    let reference = ("ref", ParameterIn::Path);
    let if_match = ("If-Match", ParameterIn::Header);
    OpenApiRouter::new()
        .routes(described::<T>(
            T::PATH.to_owned(),
            on_get(list::<T>).post(create::<T>),
            [
                (
                    HttpMethod::Get,
                    operation::<T>(&format!("list{many}"), &list_parameters, None, ("200", Some(page())))
                        .summary(Some(
                            "Lists definitions, those that a query finds if there is one. Parameters beside these filter by that field.",
                        ))
                        .build(),
                ),
                (
                    HttpMethod::Post,
                    operation::<T>(&format!("create{one}"), &[], Some(refers::<T>()), ("201", Some(shown())))
                        .summary(Some("Writes a new definition."))
                        .build(),
                ),
            ],
        ))
        .routes(described::<T>(
            format!("{}/query", T::PATH),
            on_post(query::<T>),
            [(
                HttpMethod::Post,
                operation::<T>(&format!("query{many}"), &[], Some(refers::<QueryBody>()), ("200", Some(page())))
                    .summary(Some("Lists definitions by a filter in the body."))
                    .build(),
            )],
        ))
        .routes(described::<T>(
            format!("{}/count", T::PATH),
            on_get(count::<T>),
            [(
                HttpMethod::Get,
                operation::<T>(&format!("count{many}"), &[("query", ParameterIn::Query)], None, ("200", Some(refers::<CountView>())))
                    .summary(Some("Counts definitions; parameters filter as in the list."))
                    .build(),
            )],
        ))
        .routes(described::<T>(
            format!("{}/{{ref}}", T::PATH),
            on_get(get::<T>).put(replace::<T>).patch(merge::<T>).delete(delete::<T>),
            [
                (
                    HttpMethod::Get,
                    operation::<T>(
                        &format!("get{one}"),
                        &[reference.clone(), ("version", ParameterIn::Query)],
                        None,
                        ("200", Some(shown())),
                    )
                    .summary(Some("Shows a definition: its highest active version, or the one asked for."))
                    .build(),
                ),
                (
                    HttpMethod::Put,
                    operation::<T>(
                        &format!("replace{one}"),
                        &[reference.clone(), if_match.clone()],
                        Some(refers::<T>()),
                        ("200", Some(shown())),
                    )
                    .summary(Some("Replaces a definition; a new `version` is added beside the old ones."))
                    .build(),
                ),
                (
                    HttpMethod::Patch,
                    operation::<T>(
                        &format!("merge{one}"),
                        &[reference.clone(), if_match.clone()],
                        Some(anything()),
                        ("200", Some(shown())),
                    )
                    .summary(Some("Changes some fields of a definition; null removes one."))
                    .build(),
                ),
                (
                    HttpMethod::Delete,
                    operation::<T>(&format!("delete{one}"), &[reference, if_match], None, ("204", None))
                        .summary(Some("Removes a definition with all its versions."))
                        .build(),
                ),
            ],
        ))
}

type Described = (Vec<(String, RefOr<Schema>)>, utoipa::openapi::path::Paths, MethodRouter<App>);

fn described<T: Kind>(
    path: String,
    router: MethodRouter<App>,
    operations: impl IntoIterator<Item = (HttpMethod, Operation)>,
) -> Described
where
    T::View: ToSchema,
{
    let mut schemas = vec![
        (T::name().into_owned(), T::schema()),
        (T::View::name().into_owned(), T::View::schema()),
        (page_name::<T>(), PageView::<T::View>::schema()),
        (QueryBody::name().into_owned(), QueryBody::schema()),
        (CountView::name().into_owned(), CountView::schema()),
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

fn operation<T: Kind>(
    id: &str,
    parameters: &[(&str, ParameterIn)],
    body: Option<RefOr<Schema>>,
    (status, answer): (&str, Option<RefOr<Schema>>),
) -> OperationBuilder {
    let content = |schema| ContentBuilder::new().schema(Some(schema)).build();
    let mut response = ResponseBuilder::new();
    if let Some(schema) = answer {
        response = response.content("application/json", content(schema));
    }
    let problem = ResponseBuilder::new().content("application/problem+json", content(refers::<Problem>()));
    let mut operation = OperationBuilder::new()
        .operation_id(Some(id))
        .tag(T::TAG)
        .response(status, response.build())
        .response("4XX", problem.build());
    for (name, place) in parameters {
        let required = if *place == ParameterIn::Path { Required::True } else { Required::False };
        let text = ObjectBuilder::new().schema_type(Type::String).build();
        let parameter = ParameterBuilder::new().name(*name).parameter_in(place.clone()).required(required);
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

/// A page has the name of what is on it; by itself the generic type has but one.
fn page_name<T: Kind>() -> String
where
    T::View: ToSchema,
{
    format!("PageView_{}", T::View::name())
}

fn refers<S: ToSchema>() -> RefOr<Schema> {
    RefOr::Ref(Ref::from_schema_name(S::name()))
}

fn anything() -> RefOr<Schema> {
    ObjectBuilder::new().build().into()
}

async fn list<T: Kind>(
    State(engine): State<App>,
    Caller(session): Caller,
    Parameters(parameters): Parameters<BTreeMap<String, String>>,
) -> Result<Json<PageView<T::View>>, Problem> {
    if parameters.get("source").is_some_and(|source| source == Source::BuiltIn.as_str()) {
        return Ok(Json(PageView::whole(T::all_built_in(&engine, &session))));
    }
    let listed = engine.registry.list::<T>(&session, lists::from_parameters(parameters)?).await?;
    Ok(Json(views::page(listed)))
}

async fn create<T: Kind>(
    State(engine): State<App>,
    Caller(session): Caller,
    Body(body): Body<Value>,
) -> Result<impl IntoResponse, Problem> {
    let saved = engine.registry.create::<T>(&session, body, Source::Manual).await?;
    Ok((StatusCode::CREATED, views::saved(saved)))
}

async fn query<T: Kind>(
    State(engine): State<App>,
    Caller(session): Caller,
    Body(body): Body<QueryBody>,
) -> Result<Json<PageView<T::View>>, Problem> {
    let listed = engine.registry.list::<T>(&session, body.wanted()?).await?;
    Ok(Json(views::page(listed)))
}

async fn count<T: Kind>(
    State(engine): State<App>,
    Caller(session): Caller,
    Parameters(mut parameters): Parameters<BTreeMap<String, String>>,
) -> Result<Json<CountView>, Problem> {
    let matching = lists::matching(parameters.remove("query").as_deref())?;
    let filters = lists::parameter_filters(parameters);
    let count = engine.registry.count::<T>(&session, &filters, matching.as_ref()).await?;
    Ok(Json(CountView { count }))
}

async fn get<T: Kind>(
    State(engine): State<App>,
    Caller(session): Caller,
    Named(name): Named,
    Parameters(wanted): Parameters<WantedVersion>,
) -> Result<Response, Problem> {
    let version = wanted.version.as_deref();
    match engine.registry.get::<T>(&session, &name, version).await {
        Ok(document) => Ok(views::tagged(document).into_response()),
        Err(error @ RegistryError::NotFound { .. }) => match T::built_in(&engine, &session, &name, version).await? {
            Some(view) => Ok(Json(view).into_response()),
            None => Err(error.into()),
        },
        Err(error) => Err(error.into()),
    }
}

async fn replace<T: Kind>(
    State(engine): State<App>,
    Caller(session): Caller,
    Named(name): Named,
    Expected(revision): Expected,
    Body(body): Body<Value>,
) -> Result<impl IntoResponse, Problem> {
    let saved = engine.registry.replace::<T>(&session, &name, revision, body, Source::Manual).await?;
    Ok(views::saved(saved))
}

async fn merge<T: Kind>(
    State(engine): State<App>,
    Caller(session): Caller,
    Named(name): Named,
    Expected(revision): Expected,
    Body(patch): Body<Value>,
) -> Result<impl IntoResponse, Problem> {
    let saved = engine.registry.merge::<T>(&session, &name, revision, patch).await?;
    Ok(views::saved(saved))
}

async fn delete<T: Kind>(
    State(engine): State<App>,
    Caller(session): Caller,
    Named(name): Named,
    Expected(revision): Expected,
) -> Result<StatusCode, Problem> {
    engine.registry.delete::<T>(&session, &name, revision).await?;
    Ok(StatusCode::NO_CONTENT)
}
