//! Imports of types: tables of a database, whose records stay where they are, and objects of an OpenAPI document.

use axum::Json;
use axum::extract::{DefaultBodyLimit, State};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use toolwright_engine::imports::{DatabaseImport, SchemaImport, TypeReport};
use toolwright_types::RefName;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::imports::origin;
use crate::LARGEST_DOCUMENT;
use crate::extract::{App, Body, Caller, LargeBody};
use crate::problem::Problem;

/// The routes.
pub fn routes() -> OpenApiRouter<App> {
    let openapi = OpenApiRouter::new().routes(routes!(openapi)).layer(DefaultBodyLimit::max(LARGEST_DOCUMENT));
    OpenApiRouter::new().routes(routes!(database)).merge(openapi)
}

/// Which tables, and how.
#[derive(Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct DatabaseImportBody {
    /// The secret that holds the URL of the database: `postgres://…` or `sqlite:…`.
    secret_ref: String,
    /// The schema; `public` when absent. SQLite has none.
    #[serde(default)]
    schema: Option<String>,
    /// Patterns of names of tables, with `*` for anything; all when empty.
    #[serde(default, deserialize_with = "toolwright_types::or_default")]
    tables: Vec<String>,
    /// Whether types that were imported before are replaced.
    #[serde(default, deserialize_with = "toolwright_types::or_default")]
    update: bool,
    /// Whether the types are written; else it is only shown what would be.
    #[serde(default, deserialize_with = "toolwright_types::or_default")]
    apply: bool,
}

/// Which schemas, and how.
#[derive(Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SchemaImportBody {
    /// The document: an object, or a text that is JSON or YAML.
    #[serde(default)]
    #[schema(value_type = Option<Object>)]
    document: Option<Value>,
    /// Where the document is, instead.
    #[serde(default)]
    url: Option<String>,
    /// Patterns of names of schemas, with `*` for anything; all when empty.
    #[serde(default, deserialize_with = "toolwright_types::or_default")]
    schemas: Vec<String>,
    /// Whether types that were imported before are replaced.
    #[serde(default, deserialize_with = "toolwright_types::or_default")]
    update: bool,
    /// Whether the types are written; else it is only shown what would be.
    #[serde(default, deserialize_with = "toolwright_types::or_default")]
    apply: bool,
}

/// What became of an import of types.
#[derive(Serialize, utoipa::ToSchema)]
pub struct TypeImportView {
    /// Whether the types were written.
    applied: bool,
    /// Types that are new.
    imported: Vec<ImportedTypeView>,
    /// Types that were replaced.
    updated: Vec<ImportedTypeView>,
    /// Types that are as they would be already.
    unchanged: Vec<ImportedTypeView>,
    /// What is no type.
    skipped: Vec<SkippedTypeView>,
    /// What whoever imports should know.
    warnings: Vec<String>,
}

/// A type of an import.
#[derive(Serialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ImportedTypeView {
    /// How the type is addressed.
    #[schema(value_type = String)]
    ref_name: RefName,
}

/// Something that is no type.
#[derive(Serialize, utoipa::ToSchema)]
pub struct SkippedTypeView {
    /// What it is called where it comes from.
    name: String,
    /// Why not.
    reason: String,
}

/// Makes types of the tables of a database, or shows what they would be.
#[utoipa::path(post, path = "/api/v1/ai/types/import/database", tag = "types", operation_id = "importDatabase", request_body = DatabaseImportBody,
    responses((status = 200, body = TypeImportView), (status = "4XX", body = Problem, content_type = "application/problem+json")))]
pub async fn database(
    State(engine): State<App>,
    Caller(session): Caller,
    Body(body): Body<DatabaseImportBody>,
) -> Result<Json<TypeImportView>, Problem> {
    let applied = body.apply;
    let import = DatabaseImport {
        secret: body.secret_ref,
        schema: body.schema.unwrap_or_else(|| "public".to_owned()),
        tables: body.tables,
        update: body.update,
        apply: body.apply,
    };
    let report = engine.imports.database(&session, import).await?;
    Ok(Json(TypeImportView::new(report, applied)))
}

/// Makes types of the objects that an OpenAPI document describes, or shows what they would be.
#[utoipa::path(post, path = "/api/v1/ai/types/import/openapi", tag = "types", operation_id = "importTypes", request_body = SchemaImportBody,
    responses((status = 200, body = TypeImportView), (status = "4XX", body = Problem, content_type = "application/problem+json")))]
pub async fn openapi(
    State(engine): State<App>,
    Caller(session): Caller,
    LargeBody(body): LargeBody<SchemaImportBody>,
) -> Result<Json<TypeImportView>, Problem> {
    let SchemaImportBody { document, url, schemas, update, apply } = body;
    let import = SchemaImport { origin: origin(document, url)?, schemas, update, apply };
    let report = engine.imports.schemas(&session, import).await?;
    Ok(Json(TypeImportView::new(report, apply)))
}

impl TypeImportView {
    fn new(report: TypeReport, applied: bool) -> Self {
        let named = |names: Vec<RefName>| names.into_iter().map(|ref_name| ImportedTypeView { ref_name }).collect();
        let skipped = report.skipped.into_iter();
        Self {
            applied,
            imported: named(report.imported),
            updated: named(report.updated),
            unchanged: named(report.unchanged),
            skipped: skipped.map(|one| SkippedTypeView { name: one.name, reason: one.reason }).collect(),
            warnings: report.warnings,
        }
    }
}
