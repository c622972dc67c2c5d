//! Readiness and uses of tools and providers.

use axum::Json;
use axum::extract::State;
use serde::{Deserialize, Serialize};
use toolwright_catalog::registry::{Registry, Use, Uses};
use toolwright_engine::{Readiness, ReadinessCheck};
use toolwright_types::ToolProviderConfig;

use super::tools::{find_readable_tool, parse_requirement, split_reference};
use crate::extract::{Caller, NoQueryParams, PathName, QueryParams};
use crate::problem::Problem;
use crate::state::AppState;

/// Whether a definition is ready for the caller.
#[derive(Debug, Serialize, Deserialize, utoipa::ToSchema)]
pub struct ReadinessView {
    /// Whether no check failed.
    pub ready: bool,
    /// The checks.
    pub checks: Vec<CheckView>,
}

/// One check of the readiness.
#[derive(Debug, Serialize, Deserialize, utoipa::ToSchema)]
pub struct CheckView {
    /// `lifecycle`, `permission`, `provider`, `secret`, `connection`, `quarantine`, `sandbox` or `drift`.
    pub check: String,
    /// `ok`, `warning` or `failed`.
    pub status: String,
    /// What was found.
    pub message: String,
    /// How to resolve the problem.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remedy: Option<String>,
    /// The name of the secret, if the check is `secret`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret: Option<String>,
    /// The scope of the secret that the caller's calls use: `user`, `realm` or `org`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scope: Option<String>,
}

impl From<Readiness> for ReadinessView {
    fn from(readiness: Readiness) -> Self {
        Self { ready: readiness.is_ready(), checks: readiness.checks.into_iter().map(CheckView::from).collect() }
    }
}

impl From<ReadinessCheck> for CheckView {
    fn from(check: ReadinessCheck) -> Self {
        Self {
            check: check.check.to_owned(),
            status: check.status.as_str().to_owned(),
            message: check.message,
            remedy: check.remedy,
            secret: check.secret,
            scope: check.scope.map(str::to_owned),
        }
    }
}

/// The parameters of a readiness check.
#[derive(Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct ReadinessParams {
    /// Whether to test the connection of the provider now. If false, the check uses the result of the last test that
    /// the caller may read.
    #[serde(default)]
    probe: bool,
}

/// Checks whether a tool is ready for the caller: life cycle, permission, provider, secrets, connection, accepted
/// definition and drift. Values of secrets are never returned.
#[utoipa::path(get, path = "/api/v1/ai/tools/{ref}/readiness", tag = "tools", operation_id = "getToolReadiness",
    params(("ref" = String, Path), ReadinessParams),
    responses((status = 200, body = ReadinessView)))]
pub(crate) async fn tool(
    State(engine): State<AppState>,
    Caller(session): Caller,
    PathName(reference): PathName,
    QueryParams(ReadinessParams { probe }): QueryParams<ReadinessParams>,
) -> Result<Json<ReadinessView>, Problem> {
    let (name, version) = split_reference(&reference);
    let version = version.map(parse_requirement).transpose()?;
    let tool = find_readable_tool(&engine, &session, name, version.as_ref()).await?;
    Ok(Json(engine.tool_readiness(&session, &tool, probe).await?.into()))
}

/// Checks whether a provider is ready for the caller. The checks are for the setting `enabled`, the secrets, the
/// connection, and the accepted definitions of the provider's tools. Values of secrets are never returned.
#[utoipa::path(get, path = "/api/v1/ai/tool-providers/{ref}/readiness", tag = "tool-providers", operation_id = "getToolProviderReadiness",
    params(("ref" = String, Path), ReadinessParams),
    responses((status = 200, body = ReadinessView)))]
pub(crate) async fn provider(
    State(engine): State<AppState>,
    Caller(session): Caller,
    PathName(name): PathName,
    QueryParams(ReadinessParams { probe }): QueryParams<ReadinessParams>,
) -> Result<Json<ReadinessView>, Problem> {
    let provider = engine.registry.get::<ToolProviderConfig>(&session, &name, None).await?;
    Ok(Json(engine.provider_readiness(&session, &provider, probe).await?.into()))
}

/// A definition that uses the requested tool or provider.
#[derive(Debug, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct UseView {
    /// The name of the definition.
    pub ref_name: String,
    /// How the definition uses the tool or provider. Agents: `name`, `library`, `category` and `tag`. Tools:
    /// `fallback`, `verify`, `compensate`, `function` and `provider`. Providers: `referenceData`. Entity types:
    /// `records`. Workflows: `step`. Step registrations: `tool`.
    pub by: Vec<String>,
}

impl From<Use> for UseView {
    fn from(found: Use) -> Self {
        Self { ref_name: found.ref_name.to_string(), by: found.by.into_iter().map(str::to_owned).collect() }
    }
}

/// The definitions that use a tool and that the caller may read.
#[derive(Debug, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ToolUsesView {
    /// The agents that select the tool.
    pub agents: Vec<UseView>,
    /// The tools that call the tool.
    pub tools: Vec<UseView>,
    /// The providers that fetch reference data with the tool.
    pub providers: Vec<UseView>,
    /// The entity types whose records the tool reads.
    pub types: Vec<UseView>,
    /// The workflows with a step that calls the tool.
    #[serde(default)]
    pub workflows: Vec<UseView>,
    /// The step registrations of the tool.
    #[serde(default)]
    pub step_registrations: Vec<UseView>,
    /// Whether a list was cut off at its maximum of 200 definitions.
    pub truncated: bool,
}

/// The definitions that use a provider and that the caller may read.
#[derive(Debug, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ProviderUsesView {
    /// The tools of the provider, and the tools that refer to these.
    pub tools: Vec<UseView>,
    /// The entity types whose records are read with tools of the provider.
    pub types: Vec<UseView>,
    /// The types of reference data that the provider supplies.
    pub reference_data: Vec<String>,
    /// Whether a list was cut off at its maximum of 200 definitions.
    pub truncated: bool,
}

fn use_views(uses: Vec<Use>) -> Vec<UseView> {
    uses.into_iter().map(UseView::from).collect()
}

/// Lists the definitions that use a tool.
#[utoipa::path(get, path = "/api/v1/ai/tools/{ref}/uses", tag = "tools", operation_id = "listToolUses", params(("ref" = String, Path)),
    responses((status = 200, body = ToolUsesView)))]
pub(crate) async fn tool_uses(
    State(engine): State<AppState>,
    Caller(session): Caller,
    PathName(reference): PathName,
    _: NoQueryParams,
) -> Result<Json<ToolUsesView>, Problem> {
    let (name, version) = split_reference(&reference);
    let version = version.map(parse_requirement).transpose()?;
    let tool = find_readable_tool(&engine, &session, name, version.as_ref()).await?;
    let Uses { agents, tools, providers, types, workflows, step_registrations, truncated, .. } =
        engine.registry.uses_of_tool(&session, &tool.id, &tool.definition).await?;
    Ok(Json(ToolUsesView {
        agents: use_views(agents),
        tools: use_views(tools),
        providers: use_views(providers),
        types: use_views(types),
        workflows: use_views(workflows),
        step_registrations: use_views(step_registrations),
        truncated,
    }))
}

/// Lists the definitions that use a provider.
#[utoipa::path(get, path = "/api/v1/ai/tool-providers/{ref}/uses", tag = "tool-providers", operation_id = "listToolProviderUses", params(("ref" = String, Path)),
    responses((status = 200, body = ProviderUsesView)))]
pub(crate) async fn provider_uses(
    State(registry): State<Registry>,
    Caller(session): Caller,
    PathName(name): PathName,
    _: NoQueryParams,
) -> Result<Json<ProviderUsesView>, Problem> {
    let provider = registry.get::<ToolProviderConfig>(&session, &name, None).await?;
    let Uses { tools, types, reference_data, truncated, .. } = registry.uses_of_provider(&session, &provider).await?;
    Ok(Json(ProviderUsesView { tools: use_views(tools), types: use_views(types), reference_data, truncated }))
}
