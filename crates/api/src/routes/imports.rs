//! Imports of tools from OpenAPI documents and gRPC servers.

use axum::Json;
use axum::extract::{DefaultBodyLimit, State};
use ipnet::IpNet;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;
use toolwright_engine::Imports;
use toolwright_engine::imports::{
    DocumentSource, GrpcImport, ImportReport, InvalidOperationFilter, OpenApiImport, OperationFilter, Url,
};
use toolwright_types::{RefName, ToolOrigin, ToolProviderConfig};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::MAX_DOCUMENT_BYTES;
use crate::extract::{Caller, LargeJsonBody};
use crate::problem::Problem;
use crate::state::AppState;

/// Returns the import routes. Their body limit is larger than that of other routes, because bodies contain documents.
pub(crate) fn routes() -> OpenApiRouter<AppState> {
    OpenApiRouter::new().routes(routes!(openapi)).routes(routes!(grpc)).layer(DefaultBodyLimit::max(MAX_DOCUMENT_BYTES))
}

/// An OpenAPI document to import.
#[derive(Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct OpenApiImportBody {
    /// The document: an object, or a string in JSON or YAML.
    #[serde(default)]
    document: Option<Value>,
    /// The URL of the document, instead of `document`.
    #[serde(default)]
    url: Option<String>,
    /// The URL or the file name of `document`, which the `origin` of the tools names. User, query and fragment of a URL and
    /// the folders of a file are removed. Default: `url`, otherwise the name of the provider with `.json`.
    #[serde(default)]
    source: Option<String>,
    /// The provider, which is created if it does not exist. Default: a provider that is named after the API.
    #[serde(default)]
    #[schema(value_type = Option<String>)]
    provider_ref: Option<RefName>,
    /// The prefix of tool names. An empty string means no prefix. Default: the name of the provider.
    #[serde(default)]
    prefix: Option<String>,
    /// The base URL of the API. Default: the base URL of the existing provider, otherwise the base URL in the document.
    #[serde(default)]
    base_url: Option<String>,
    /// The operations to import. Default: all operations.
    #[serde(default, deserialize_with = "toolwright_types::null_as_default")]
    include: IncludeBody,
    /// Whether to replace tools that were imported before.
    #[serde(default, deserialize_with = "toolwright_types::null_as_default")]
    update: bool,
    /// Whether to return the result without saving anything.
    #[serde(default, deserialize_with = "toolwright_types::null_as_default")]
    dry_run: bool,
}

/// Selects operations. An operation must match at least one entry of each list that is not empty.
#[derive(Deserialize, Default, utoipa::ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct IncludeBody {
    /// Tags, case-insensitive.
    #[serde(default, deserialize_with = "null_as_empty")]
    tags: Vec<String>,
    /// Path patterns: `*` matches anything but `/`, `**` matches anything.
    #[serde(default, deserialize_with = "null_as_empty")]
    paths: Vec<String>,
    /// HTTP methods.
    #[serde(default, deserialize_with = "null_as_empty")]
    methods: Vec<String>,
    /// Patterns of operation ids.
    #[serde(default, deserialize_with = "null_as_empty")]
    operation_ids: Vec<String>,
}

/// A gRPC server to import from.
#[derive(Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct GrpcImportBody {
    /// The provider, created if it does not exist.
    #[schema(value_type = String)]
    provider_ref: RefName,
    /// The URL of the server, if the provider is created.
    #[serde(default)]
    base_url: Option<String>,
    /// The descriptor set in base64, for a provider that is created. If absent, server reflection is used.
    #[serde(default)]
    descriptor_set: Option<String>,
    /// The private networks that the provider may access, if it is created.
    #[serde(default, deserialize_with = "toolwright_types::null_or_networks")]
    #[schema(value_type = Vec<String>)]
    egress_allow: Vec<IpNet>,
    /// The full names of the services to import. Default: all services.
    #[serde(default, deserialize_with = "null_as_empty")]
    services: Vec<String>,
    /// The prefix of tool names. An empty string means no prefix. Default: the name of the provider.
    #[serde(default)]
    prefix: Option<String>,
    /// Whether to replace tools that were imported before.
    #[serde(default, deserialize_with = "toolwright_types::null_as_default")]
    update: bool,
    /// Whether to return the result without saving anything.
    #[serde(default, deserialize_with = "toolwright_types::null_as_default")]
    dry_run: bool,
}

fn null_as_empty<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<String>, D::Error> {
    toolwright_types::null_as_default(deserializer)
}

/// The result of an import.
#[derive(Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ImportView {
    /// Whether the import was a dry run, which saves nothing.
    pub dry_run: bool,
    /// The provider of the tools.
    // The type is `Value`, because a definition rejects unknown fields and a client may be older than the server.
    #[schema(value_type = ToolProviderConfig)]
    pub provider: Value,
    /// Whether the provider was created.
    pub provider_created: bool,
    /// The new tools.
    pub imported: Vec<ImportedView>,
    /// The replaced tools.
    pub updated: Vec<ImportedView>,
    /// The tools that are already up to date.
    pub unchanged: Vec<ImportedView>,
    /// The operations that were not imported.
    pub skipped: Vec<SkippedOperationView>,
    /// Warnings about the import.
    pub warnings: Vec<String>,
}

/// An imported tool.
#[derive(Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ImportedView {
    /// The name of the tool.
    #[schema(value_type = String)]
    pub ref_name: RefName,
}

/// An operation that was not imported.
#[derive(Serialize, Deserialize, utoipa::ToSchema)]
pub struct SkippedOperationView {
    /// The method and path.
    pub operation: String,
    /// The reason.
    pub reason: String,
}

/// Imports the operations of an OpenAPI document as tools.
#[utoipa::path(post, path = "/api/v1/ai/tools/import/openapi", tag = "tools", operation_id = "importOpenApi", request_body = OpenApiImportBody,
    responses((status = 200, body = ImportView)))]
pub(crate) async fn openapi(
    State(imports): State<Imports>,
    Caller(session): Caller,
    LargeJsonBody(body): LargeJsonBody<OpenApiImportBody>,
) -> Result<Json<ImportView>, Problem> {
    let dry_run = body.dry_run;
    let report = imports.openapi(&session, body.into_import()?).await?;
    Ok(Json(ImportView::new(report, dry_run)))
}

/// Imports the methods of a gRPC server as tools.
#[utoipa::path(post, path = "/api/v1/ai/tools/import/grpc", tag = "tools", operation_id = "importGrpc", request_body = GrpcImportBody,
    responses((status = 200, body = ImportView)))]
pub(crate) async fn grpc(
    State(imports): State<Imports>,
    Caller(session): Caller,
    LargeJsonBody(body): LargeJsonBody<GrpcImportBody>,
) -> Result<Json<ImportView>, Problem> {
    let dry_run = body.dry_run;
    let report = imports.grpc(&session, body.into_import()?).await?;
    Ok(Json(ImportView::new(report, dry_run)))
}

impl GrpcImportBody {
    fn into_import(self) -> Result<GrpcImport, Problem> {
        let base_url = self.base_url.as_deref().map(|url| parse_url("/baseUrl", url)).transpose()?;
        Ok(GrpcImport {
            provider: self.provider_ref,
            base_url: base_url.map(trim_trailing_slash),
            descriptor_set: self.descriptor_set,
            egress_allow: self.egress_allow,
            services: self.services,
            prefix: self.prefix,
            update: self.update,
            dry_run: self.dry_run,
        })
    }
}

impl OpenApiImportBody {
    fn into_import(self) -> Result<OpenApiImport, Problem> {
        let document = document_source(self.document, self.url)?;
        let base_url = self.base_url.as_deref().map(|url| parse_url("/baseUrl", url)).transpose()?;
        let unnamed =
            || Problem::invalid("/source", "must be the URL or the name of a file, with at most 2,048 characters");
        let source = self.source.map(|source| ToolOrigin::document_name(&source).ok_or_else(unnamed)).transpose()?;
        Ok(OpenApiImport {
            document,
            source,
            provider: self.provider_ref,
            prefix: self.prefix,
            base_url: base_url.map(trim_trailing_slash),
            filter: self.include.into_filter()?,
            update: self.update,
            dry_run: self.dry_run,
        })
    }
}

impl IncludeBody {
    fn into_filter(self) -> Result<OperationFilter, Problem> {
        let at =
            |pointer: &'static str| move |error: InvalidOperationFilter| Problem::invalid(pointer, error.to_string());
        OperationFilter::default()
            .tags(self.tags)
            .map_err(at("/include/tags"))?
            .paths(self.paths)
            .map_err(at("/include/paths"))?
            .methods(self.methods)
            .map_err(at("/include/methods"))?
            .operations(self.operation_ids)
            .map_err(at("/include/operationIds"))
    }
}

impl ImportView {
    fn new(report: ImportReport, dry_run: bool) -> Self {
        let tools = |names: Vec<RefName>| names.into_iter().map(|ref_name| ImportedView { ref_name }).collect();
        let skipped = report.skipped.into_iter();
        Self {
            dry_run,
            provider: serde_json::to_value(report.provider).unwrap_or_default(),
            provider_created: report.provider_created,
            imported: tools(report.imported),
            updated: tools(report.updated),
            unchanged: tools(report.unchanged),
            skipped: skipped.map(|one| SkippedOperationView { operation: one.operation, reason: one.reason }).collect(),
            warnings: report.warnings,
        }
    }
}

fn trim_trailing_slash(url: Url) -> String {
    url.as_str().trim_end_matches('/').to_owned()
}

/// The document of an import, or its URL.
pub(super) fn document_source(document: Option<Value>, url: Option<String>) -> Result<DocumentSource, Problem> {
    match (document, url) {
        (Some(Value::String(text)), None) => Ok(DocumentSource::Text(text)),
        (Some(document), None) => Ok(DocumentSource::Value(document)),
        (None, Some(url)) => Ok(DocumentSource::Url(parse_url("/url", &url)?)),
        _ => Err(Problem::invalid("/document", "exactly one of `document` and `url` is required")),
    }
}

/// Parses an http or https URL.
pub(super) fn parse_url(pointer: &str, text: &str) -> Result<Url, Problem> {
    let url: Url =
        text.parse().map_err(|error| Problem::invalid(pointer, format!("must be a URL, got `{text}`: {error}")))?;
    if matches!(url.scheme(), "http" | "https") {
        Ok(url)
    } else {
        Err(Problem::invalid(pointer, format!("must be an http or https URL, got `{text}`")))
    }
}
