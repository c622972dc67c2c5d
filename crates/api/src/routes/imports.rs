//! Imports: descriptions of APIs that become tools.

use axum::Json;
use axum::extract::{DefaultBodyLimit, State};
use ipnet::IpNet;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;
use toolwright_engine::imports::{Filter, GrpcImport, ImportReport, InvalidFilter, OpenApiImport, Origin, Url};
use toolwright_types::{RefName, ToolProviderConfig};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::LARGEST_DOCUMENT;
use crate::extract::{App, Caller, LargeBody};
use crate::problem::Problem;

/// The routes, with a limit of their own: documents are larger than other bodies.
pub fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new().routes(routes!(openapi)).routes(routes!(grpc)).layer(DefaultBodyLimit::max(LARGEST_DOCUMENT))
}

/// What to import, and how.
#[derive(Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct OpenApiImportBody {
    /// The document: an object, or a text that is JSON or YAML.
    #[serde(default)]
    #[schema(value_type = Option<Object>)]
    document: Option<Value>,
    /// Where the document is, instead.
    #[serde(default)]
    url: Option<String>,
    /// The provider, which is made when there is none of this name; named after the API when absent.
    #[serde(default)]
    #[schema(value_type = Option<String>)]
    provider_ref: Option<RefName>,
    /// What stands before the names of tools; the provider's name when absent, nothing when empty.
    #[serde(default)]
    prefix: Option<String>,
    /// Where the API lives; what the document says when absent.
    #[serde(default)]
    base_url: Option<String>,
    /// Which operations; all when absent.
    #[serde(default, deserialize_with = "toolwright_types::or_default")]
    include: IncludeBody,
    /// Whether tools that were imported before are replaced.
    #[serde(default, deserialize_with = "toolwright_types::or_default")]
    update: bool,
    /// Whether everything is done but the writing.
    #[serde(default, deserialize_with = "toolwright_types::or_default")]
    dry_run: bool,
}

/// Which operations. Of each list that is given one entry must fit.
#[derive(Deserialize, Default, utoipa::ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct IncludeBody {
    /// Tags, without regard to case.
    #[serde(default, deserialize_with = "or_none")]
    tags: Vec<String>,
    /// Patterns of paths: `*` is anything but `/`, `**` is anything.
    #[serde(default, deserialize_with = "or_none")]
    paths: Vec<String>,
    /// Methods.
    #[serde(default, deserialize_with = "or_none")]
    methods: Vec<String>,
    /// Patterns of operation ids.
    #[serde(default, deserialize_with = "or_none")]
    operation_ids: Vec<String>,
}

/// What to import of a gRPC server, and how.
#[derive(Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct GrpcImportBody {
    /// The provider, which is made when there is none of this name.
    #[schema(value_type = String)]
    provider_ref: RefName,
    /// Where the server is, for a provider that is made.
    #[serde(default)]
    base_url: Option<String>,
    /// What the server can do, in base64, for a provider that is made; the server is asked by reflection when absent.
    #[serde(default)]
    descriptor_set: Option<String>,
    /// Private networks that a provider that is made may be in.
    #[serde(default, deserialize_with = "toolwright_types::or_default")]
    #[schema(value_type = Vec<String>)]
    egress_allow: Vec<IpNet>,
    /// Services by their full names; all when absent.
    #[serde(default, deserialize_with = "or_none")]
    services: Vec<String>,
    /// What stands before the names of tools; the provider's name when absent, nothing when empty.
    #[serde(default)]
    prefix: Option<String>,
    /// Whether tools that were imported before are replaced.
    #[serde(default, deserialize_with = "toolwright_types::or_default")]
    update: bool,
    /// Whether everything is done but the writing.
    #[serde(default, deserialize_with = "toolwright_types::or_default")]
    dry_run: bool,
}

fn or_none<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<String>, D::Error> {
    toolwright_types::or_default(deserializer)
}

/// What became of an import.
#[derive(Serialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ImportView {
    /// Whether nothing was written.
    dry_run: bool,
    /// The provider of the tools.
    provider: ToolProviderConfig,
    /// Whether it is new.
    provider_created: bool,
    /// Tools that are new.
    imported: Vec<ImportedView>,
    /// Tools that were replaced.
    updated: Vec<ImportedView>,
    /// Tools that are as the document says already.
    unchanged: Vec<ImportedView>,
    /// Operations that are no tools.
    skipped: Vec<SkippedView>,
    /// What whoever imports should know.
    warnings: Vec<String>,
}

/// A tool of an import.
#[derive(Serialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ImportedView {
    /// How the tool is addressed.
    #[schema(value_type = String)]
    ref_name: RefName,
}

/// An operation that is no tool.
#[derive(Serialize, utoipa::ToSchema)]
pub struct SkippedView {
    /// Method and path.
    operation: String,
    /// Why not.
    reason: String,
}

/// Imports the operations of an OpenAPI document as tools.
#[utoipa::path(post, path = "/api/v1/ai/tools/import/openapi", tag = "tools", operation_id = "importOpenApi", request_body = OpenApiImportBody,
    responses((status = 200, body = ImportView), (status = "4XX", body = Problem, content_type = "application/problem+json")))]
pub async fn openapi(
    State(engine): State<App>,
    Caller(session): Caller,
    LargeBody(body): LargeBody<OpenApiImportBody>,
) -> Result<Json<ImportView>, Problem> {
    let dry_run = body.dry_run;
    let report = engine.imports.openapi(&session, body.read()?).await?;
    Ok(Json(ImportView::new(report, dry_run)))
}

/// Imports the methods of a gRPC server as tools.
#[utoipa::path(post, path = "/api/v1/ai/tools/import/grpc", tag = "tools", operation_id = "importGrpc", request_body = GrpcImportBody,
    responses((status = 200, body = ImportView), (status = "4XX", body = Problem, content_type = "application/problem+json")))]
pub async fn grpc(
    State(engine): State<App>,
    Caller(session): Caller,
    LargeBody(body): LargeBody<GrpcImportBody>,
) -> Result<Json<ImportView>, Problem> {
    let dry_run = body.dry_run;
    let report = engine.imports.grpc(&session, body.read()?).await?;
    Ok(Json(ImportView::new(report, dry_run)))
}

impl GrpcImportBody {
    fn read(self) -> Result<GrpcImport, Problem> {
        let base_url = self.base_url.as_deref().map(|url| address("/baseUrl", url)).transpose()?;
        Ok(GrpcImport {
            provider: self.provider_ref,
            base_url: base_url.map(without_slash),
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
    fn read(self) -> Result<OpenApiImport, Problem> {
        let origin = origin(self.document, self.url)?;
        let base_url = self.base_url.as_deref().map(|url| address("/baseUrl", url)).transpose()?;
        Ok(OpenApiImport {
            origin,
            provider: self.provider_ref,
            prefix: self.prefix,
            base_url: base_url.map(without_slash),
            only: self.include.read()?,
            update: self.update,
            dry_run: self.dry_run,
        })
    }
}

impl IncludeBody {
    fn read(self) -> Result<Filter, Problem> {
        let at = |place: &'static str| move |error: InvalidFilter| Problem::invalid(place, error.to_string());
        Filter::default()
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
            provider: report.provider,
            provider_created: report.provider_created,
            imported: tools(report.imported),
            updated: tools(report.updated),
            unchanged: tools(report.unchanged),
            skipped: skipped.map(|one| SkippedView { operation: one.operation, reason: one.reason }).collect(),
            warnings: report.warnings,
        }
    }
}

fn without_slash(url: Url) -> String {
    url.as_str().trim_end_matches('/').to_owned()
}

/// The document of an import, or where it is.
pub(super) fn origin(document: Option<Value>, url: Option<String>) -> Result<Origin, Problem> {
    match (document, url) {
        (Some(Value::String(text)), None) => Ok(Origin::Text(text)),
        (Some(document), None) => Ok(Origin::Value(document)),
        (None, Some(url)) => Ok(Origin::Url(address("/url", &url)?)),
        _ => Err(Problem::invalid("/document", "give either `document` or `url`")),
    }
}

fn address(place: &str, text: &str) -> Result<Url, Problem> {
    let url: Url = text.parse().map_err(|error| Problem::invalid(place, format!("is no URL: {error}")))?;
    if matches!(url.scheme(), "http" | "https") {
        Ok(url)
    } else {
        Err(Problem::invalid(place, "is no http or https URL"))
    }
}
