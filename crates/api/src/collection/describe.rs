//! The OpenAPI description of the routes that every kind of definition has.

use axum::routing::{MethodRouter, get as on_get, post as on_post};
use utoipa::openapi::link::{Link, LinkBuilder};
use utoipa::openapi::path::{HttpMethod, Operation, OperationBuilder, ParameterBuilder, ParameterIn, PathsBuilder};
use utoipa::openapi::request_body::RequestBodyBuilder;
use utoipa::openapi::schema::{ObjectBuilder, Type};
use utoipa::openapi::{Content, ContentBuilder, PathItem, Ref, RefOr, Required, ResponseBuilder, Schema};
use utoipa::{PartialSchema, ToSchema};

use super::{Collection, CountView, DeletionView, yaml};
use crate::list_params::QueryBody;
use crate::state::AppState;
use crate::views::PageView;

/// `GET` and `POST` on the collection.
pub(super) fn collection_routes<T: Collection>() -> DocumentedRoutes
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
        on_get(super::list::<T>).post(super::create::<T>),
        [(HttpMethod::Get, list.build()), (HttpMethod::Post, accept_yaml::<T>(create))],
    )
}

/// `POST` on `/query`.
pub(super) fn query_route<T: Collection>() -> DocumentedRoutes
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
    documented::<T>(path, on_post(super::query::<T>), [(HttpMethod::Post, query.build())])
}

/// `GET` on `/count`.
pub(super) fn count_route<T: Collection>() -> DocumentedRoutes
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
    documented::<T>(path, on_get(super::count::<T>), [(HttpMethod::Get, count.build())])
}

/// `GET`, `PUT`, `PATCH` and `DELETE` on one definition.
pub(super) fn item_routes<T: Collection>() -> DocumentedRoutes
where
    T::View: ToSchema + Send,
{
    let singular = T::SINGULAR;
    let view = || ("200", Some(schema_ref::<T::View>()));
    let reference = ("ref", ParameterIn::Path);
    let write_params = [reference.clone(), ("If-Match", ParameterIn::Header)];
    let mut read_params = vec![reference, ("version", ParameterIn::Query), ("check", ParameterIn::Query)];
    if T::HAS_GRAM || T::HAS_YAML {
        read_params.push(("format", ParameterIn::Query));
    }
    let get = operation::<T>(&format!("get{singular}"), &read_params, None, view())
        .description(Some(match T::HAS_YAML {
            true => "`check=true` checks the definition again, as a save does: the response has `warnings`, or is 422 with the errors. `format=yaml`, or a request that accepts `application/yaml`, returns YAML without the fields that the server manages.",
            false => "`check=true` checks the definition again, as a save does: the response has `warnings`, or is 422 with the errors.",
        }))
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
    if let Some(RefOr::T(response)) = get.responses.responses.get_mut("200") {
        let texts = [("text/plain", T::HAS_GRAM), (yaml::MEDIA_TYPE, T::HAS_YAML)];
        for (media_type, _) in texts.into_iter().filter(|(_, available)| *available) {
            response.content.insert(media_type.to_owned(), text_content().into());
        }
    }
    documented::<T>(
        format!("{}/{{ref}}", T::PATH),
        on_get(super::get::<T>).put(super::replace::<T>).patch(super::merge::<T>).delete(super::delete::<T>),
        [
            (HttpMethod::Get, get),
            (HttpMethod::Put, accept_yaml::<T>(replace)),
            (HttpMethod::Patch, merge.build()),
            (HttpMethod::Delete, delete.build()),
        ],
    )
}

/// Builds an operation. If the kind can be written as YAML, adds YAML to the content types of the body.
fn accept_yaml<T: Collection>(operation: OperationBuilder) -> Operation {
    let mut operation = operation.build();
    if let Some(RefOr::T(body)) = operation.request_body.as_mut().filter(|_| T::HAS_YAML) {
        body.content.insert(yaml::MEDIA_TYPE.to_owned(), text_content().into());
    }
    operation
}

fn text_content() -> Content {
    let text = ObjectBuilder::new().schema_type(Type::String).build();
    ContentBuilder::new().schema(Some(RefOr::T(Schema::Object(text)))).build()
}

/// `GET` on `/versions` of one definition.
pub(super) fn versions_route<T: Collection>() -> DocumentedRoutes
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
    documented::<T>(path, on_get(super::versions::<T>), [(HttpMethod::Get, versions.build())])
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
