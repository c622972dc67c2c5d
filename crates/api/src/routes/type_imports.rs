//! Imports of entity types from the tables of a database and from the schemas of an OpenAPI document. The records of an
//! imported table stay in its database.

use axum::Json;
use axum::extract::{DefaultBodyLimit, State};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use toolwright_engine::Imports;
use toolwright_engine::imports::{DatabaseImport, SchemaImport, TypeImportReport};
use toolwright_types::RefName;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::imports::document_source;
use crate::MAX_DOCUMENT_BYTES;
use crate::extract::{Caller, JsonBody, LargeJsonBody};
use crate::problem::Problem;
use crate::state::AppState;

pub(crate) fn routes() -> OpenApiRouter<AppState> {
    let openapi = OpenApiRouter::new().routes(routes!(openapi)).layer(DefaultBodyLimit::max(MAX_DOCUMENT_BYTES));
    OpenApiRouter::new().routes(routes!(database)).merge(openapi)
}

/// The database tables to import.
#[derive(Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct DatabaseImportBody {
    /// The secret with the URL of the database: `postgres://…` or `sqlite:…`.
    secret_ref: String,
    /// The database schema. Default: `public`. SQLite has no schemas.
    #[serde(default)]
    schema: Option<String>,
    /// Patterns of table names, with `*` as a wildcard. An empty list means all tables.
    #[serde(default, deserialize_with = "toolwright_types::null_as_default")]
    tables: Vec<String>,
    /// Whether to replace types that were imported before.
    #[serde(default, deserialize_with = "toolwright_types::null_as_default")]
    update: bool,
    /// Whether to save the types. Otherwise the result is only returned.
    #[serde(default, deserialize_with = "toolwright_types::null_as_default")]
    apply: bool,
}

/// The schemas to import.
#[derive(Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct SchemaImportBody {
    /// The document: an object, or a string in JSON or YAML.
    #[serde(default)]
    document: Option<Value>,
    /// The URL of the document, instead of `document`.
    #[serde(default)]
    url: Option<String>,
    /// Patterns of schema names, with `*` as a wildcard. An empty list means all schemas.
    #[serde(default, deserialize_with = "toolwright_types::null_as_default")]
    schemas: Vec<String>,
    /// Whether to replace types that were imported before.
    #[serde(default, deserialize_with = "toolwright_types::null_as_default")]
    update: bool,
    /// Whether to save the types. Otherwise the result is only returned.
    #[serde(default, deserialize_with = "toolwright_types::null_as_default")]
    apply: bool,
}

/// The result of an import of entity types.
#[derive(Serialize, Deserialize, utoipa::ToSchema)]
pub struct TypeImportView {
    /// Whether the types were saved.
    pub applied: bool,
    /// The new types.
    pub imported: Vec<ImportedTypeView>,
    /// The replaced types.
    pub updated: Vec<ImportedTypeView>,
    /// The types that are already up to date.
    pub unchanged: Vec<ImportedTypeView>,
    /// The tables or schemas that were not imported.
    pub skipped: Vec<SkippedTypeView>,
    /// Warnings about the import.
    pub warnings: Vec<String>,
}

/// An imported type.
#[derive(Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ImportedTypeView {
    /// The name of the type.
    #[schema(value_type = String)]
    pub ref_name: RefName,
}

/// A table or schema that was not imported.
#[derive(Serialize, Deserialize, utoipa::ToSchema)]
pub struct SkippedTypeView {
    /// The name of the table or schema.
    pub name: String,
    /// The reason.
    pub reason: String,
}

/// Imports the tables of a database as entity types, or returns what would be imported.
#[utoipa::path(post, path = "/api/v1/ai/types/import/database", tag = "types", operation_id = "importDatabase", request_body = DatabaseImportBody,
    responses((status = 200, body = TypeImportView)))]
pub(crate) async fn database(
    State(imports): State<Imports>,
    Caller(session): Caller,
    JsonBody(body): JsonBody<DatabaseImportBody>,
) -> Result<Json<TypeImportView>, Problem> {
    let applied = body.apply;
    let import = DatabaseImport {
        secret: body.secret_ref,
        schema: body.schema.unwrap_or_else(|| "public".to_owned()),
        tables: body.tables,
        update: body.update,
        apply: body.apply,
    };
    let report = imports.database(&session, import).await?;
    Ok(Json(TypeImportView::new(report, applied)))
}

/// Imports the object schemas of an OpenAPI document as entity types, or returns what would be imported.
#[utoipa::path(post, path = "/api/v1/ai/types/import/openapi", tag = "types", operation_id = "importTypes", request_body = SchemaImportBody,
    responses((status = 200, body = TypeImportView)))]
pub(crate) async fn openapi(
    State(imports): State<Imports>,
    Caller(session): Caller,
    LargeJsonBody(body): LargeJsonBody<SchemaImportBody>,
) -> Result<Json<TypeImportView>, Problem> {
    let SchemaImportBody { document, url, schemas, update, apply } = body;
    let import = SchemaImport { document: document_source(document, url)?, schemas, update, apply };
    let report = imports.schemas(&session, import).await?;
    Ok(Json(TypeImportView::new(report, apply)))
}

impl TypeImportView {
    fn new(report: TypeImportReport, applied: bool) -> Self {
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
