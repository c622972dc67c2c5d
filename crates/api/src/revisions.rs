//! The revisions of a definition, and the changes between two of them. Every kind of definition has these routes.

use axum::Json;
use axum::extract::State;
use axum::routing::get as on_get;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use toolwright_catalog::Session;
use toolwright_catalog::registry::Registry;
use toolwright_machine::journal::diff::{ValueDifference, differences};
use toolwright_types::{DefinitionSource, Document, Timestamp};
use utoipa::openapi::path::{HttpMethod, ParameterIn};
use utoipa::openapi::{Ref, RefOr};
use utoipa::{PartialSchema, ToSchema};
use utoipa_axum::router::OpenApiRouter;

use crate::collection::{Collection, DocumentedRoutes, RevisionParams, documented, operation};
use crate::extract::{Caller, PathName, PathTriple, QueryParams};
use crate::list_params;
use crate::problem::Problem;
use crate::state::AppState;
use crate::views::PageView;

/// The maximum number of changes in a response.
const MAX_CHANGES: usize = 1_000;

/// A revision of a definition. Each write creates one.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct RevisionView {
    /// The number of the revision, from 1.
    pub revision: i64,
    /// The version of the definition. Absent for kinds without versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// SHA-256 of the canonical definition. Equal definitions have equal hashes.
    pub content_hash: String,
    /// The origin of the definition.
    pub source: DefinitionSource,
    /// The principal that wrote the revision.
    pub updated_by: String,
    /// When the revision was written.
    #[schema(value_type = String, format = DateTime)]
    pub updated_at: Timestamp,
}

/// The changes from one revision to another.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct RevisionDiffView {
    /// The first revision.
    pub from: RevisionView,
    /// The second revision.
    pub to: RevisionView,
    /// The changes, in the order of the fields. Empty if the definitions are equal.
    pub changes: Vec<ChangeView>,
    /// Whether there are more changes than the list contains.
    pub truncated: bool,
}

/// A change of a field.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct ChangeView {
    /// `add`, `remove` or `replace`.
    pub op: String,
    /// The field as a JSON pointer. Elements of a list are compared by position.
    pub path: String,
    /// The value in the first revision; null if the field is absent.
    pub before: Value,
    /// The value in the second revision; null if the field is absent.
    pub after: Value,
}

impl From<ValueDifference> for ChangeView {
    fn from(ValueDifference { field, expected, got }: ValueDifference) -> Self {
        // A definition never contains null. So null means that the field is absent in one of the revisions.
        let op = match (&expected, &got) {
            (Value::Null, _) => "add",
            (_, Value::Null) => "remove",
            _ => "replace",
        };
        Self { op: op.to_owned(), path: field, before: expected, after: got }
    }
}

fn revision_view<T: Collection>(document: &Document<T>) -> RevisionView {
    let meta = &document.meta;
    RevisionView {
        revision: meta.revision,
        version: document.body.version().map(ToString::to_string),
        content_hash: meta.content_hash.clone(),
        source: meta.source,
        updated_by: meta.updated_by.clone(),
        updated_at: meta.updated_at,
    }
}

/// Returns the routes for the revisions of one kind of definition, with their OpenAPI description.
pub(crate) fn routes<T: Collection>() -> OpenApiRouter<AppState>
where
    T::View: ToSchema + Send,
{
    OpenApiRouter::new().routes(list_route::<T>()).routes(diff_route::<T>())
}

fn list_route<T: Collection>() -> DocumentedRoutes
where
    T::View: ToSchema + Send,
{
    let page = "PageView_RevisionView";
    let parameters = [("ref", ParameterIn::Path), ("limit", ParameterIn::Query), ("cursor", ParameterIn::Query)];
    let response = ("200", Some(RefOr::Ref(Ref::from_schema_name(page))));
    let list = operation::<T>(&format!("list{}Revisions", T::SINGULAR), &parameters, None, response)
        .summary(Some("Lists all revisions of a definition, newest first: who wrote them, when, and their hashes."));
    let path = format!("{}/{{ref}}/revisions", T::PATH);
    let mut routes = documented::<T>(path, on_get(self::list::<T>), [(HttpMethod::Get, list.build())]);
    routes.0.push((page.to_owned(), PageView::<RevisionView>::schema()));
    add_schemas(routes)
}

fn diff_route<T: Collection>() -> DocumentedRoutes
where
    T::View: ToSchema + Send,
{
    let parameters = ["ref", "a", "b"].map(|name| (name, ParameterIn::Path));
    let response = ("200", Some(RefOr::Ref(Ref::from_schema_name(RevisionDiffView::name()))));
    let diff = operation::<T>(&format!("diff{}Revisions", T::SINGULAR), &parameters, None, response)
        .summary(Some("Compares two revisions of a definition, given by their numbers."));
    let path = format!("{}/{{ref}}/revisions/{{a}}/diff/{{b}}", T::PATH);
    add_schemas(documented::<T>(path, on_get(self::diff::<T>), [(HttpMethod::Get, diff.build())]))
}

fn add_schemas(mut routes: DocumentedRoutes) -> DocumentedRoutes {
    routes.0.push((RevisionView::name().into_owned(), RevisionView::schema()));
    routes.0.push((RevisionDiffView::name().into_owned(), RevisionDiffView::schema()));
    RevisionView::schemas(&mut routes.0);
    RevisionDiffView::schemas(&mut routes.0);
    routes
}

async fn list<T: Collection>(
    State(registry): State<Registry>,
    Caller(session): Caller,
    PathName(name): PathName,
    QueryParams(params): QueryParams<RevisionParams>,
) -> Result<Json<PageView<RevisionView>>, Problem> {
    let newest: Option<i64> = list_params::cursor(params.cursor.as_deref())?;
    let limit = list_params::limit(params.limit)?;
    let (revisions, next) = registry.revisions::<T>(&session, &name, newest, limit).await?;
    let items = revisions.iter().map(revision_view).collect();
    Ok(Json(PageView { items, next_cursor: next.map(|next| next.to_string()) }))
}

async fn diff<T: Collection>(
    State(registry): State<Registry>,
    Caller(session): Caller,
    PathTriple(name, a, b): PathTriple,
) -> Result<Json<RevisionDiffView>, Problem> {
    let (from, before) = revision::<T>(&registry, &session, &name, ("a", &a)).await?;
    let (to, after) = revision::<T>(&registry, &session, &name, ("b", &b)).await?;
    let mut changes = differences(&before, &after);
    let truncated = changes.len() > MAX_CHANGES;
    changes.truncate(MAX_CHANGES);
    Ok(Json(RevisionDiffView { from, to, changes: changes.into_iter().map(ChangeView::from).collect(), truncated }))
}

async fn revision<T: Collection>(
    registry: &Registry,
    session: &Session,
    name: &str,
    (parameter, text): (&str, &str),
) -> Result<(RevisionView, Value), Problem> {
    let invalid = |_| Problem::invalid(parameter, format!("must be the number of a revision, got `{text}`"));
    let number: i64 = text.parse().map_err(invalid)?;
    let document = registry.revision::<T>(session, name, number).await?;
    let body = serde_json::to_value(&document.body);
    let unreadable = |error| toolwright_catalog::Unavailable::new("a stored definition cannot be compared", error);
    Ok((revision_view(&document), body.map_err(unreadable)?))
}
