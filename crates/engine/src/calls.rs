//! Executes direct tool calls for the REST API, the CLI and the MCP server.

use std::sync::Arc;
use std::time::Duration;

use toolwright_catalog::{Access, Catalog, Session, Unavailable, select_version};
use toolwright_grpc::REFLECTION_METHOD;
use toolwright_runs::{DirectCall, DirectOutcome, Runs};
use toolwright_tools::ports::Authorizer;
use toolwright_tools::{CallRequest, CompiledTool, Executor};
use toolwright_types::{
    Document, DocumentId as _, ProviderType, RealmScope, RunId, Surface, ToolDefinition, ToolProviderConfig,
    ToolStatus, ToolType,
};

/// The value of `invocation.method` in a tool that lists the tools of an MCP server.
pub const MCP_LIST_METHOD: &str = "tools/list";

/// The maximum size of the answer to a connection test, in bytes of JSON.
const MAX_PROBE_BYTES: u64 = 16_000_000;

/// Executes tools for principals. Cheap to clone.
#[derive(Clone)]
pub struct Calls {
    executor: Executor,
    catalog: Catalog,
    runs: Runs,
    access: Access,
    /// How long a run waits for a client to return a result.
    client_wait: Duration,
}

impl Calls {
    pub(crate) fn new(executor: Executor, catalog: Catalog, runs: Runs, access: Access, client_wait: Duration) -> Self {
        Self { executor, catalog, runs, access, client_wait }
    }

    /// Returns the executor, for callers that decide for themselves whether a call needs an approval.
    pub fn executor(&self) -> &Executor {
        &self.executor
    }

    /// Returns the service that starts the runs of direct calls.
    pub(crate) fn runs(&self) -> &Runs {
        &self.runs
    }

    /// Checks that the session may execute a tool. The error describes the permission that the session lacks.
    pub(crate) fn may_execute(&self, session: &Session, tool: &CompiledTool) -> Result<(), String> {
        let permit = self.access.may_execute(&session.principal, &session.realm, tool);
        permit.map(drop).map_err(|denial| denial.permission)
    }

    /// Executes a tool as a direct call. Returns the id of its run and the outcome.
    pub async fn execute(
        &self,
        session: &Session,
        request: CallRequest,
    ) -> Result<(RunId, DirectOutcome), Unavailable> {
        let call = self.prepare(session, Surface::Tool, request).await;
        Ok((call.run(), call.execute().await?))
    }

    /// Prepares a call without executing it, so that the caller can ask a person for approval first.
    pub async fn prepare(&self, session: &Session, surface: Surface, request: CallRequest) -> DirectCall {
        self.runs.prepare_call(session, surface, request, self.client_wait, RunId::generate()).await
    }

    /// Returns the tools that the session can call on this surface.
    pub async fn offered(&self, session: &Session, surface: Surface) -> Result<Vec<Arc<CompiledTool>>, Unavailable> {
        let callable = |tool: &&Arc<CompiledTool>| {
            let definition = &tool.definition;
            definition.enabled
                && definition.status == ToolStatus::Active
                && definition.available_as.contains(&surface)
                && tool.provider.as_ref().is_none_or(|provider| provider.config.enabled)
                && self.access.may_execute(&session.principal, &session.realm, tool).is_ok()
        };
        Ok(self.catalog.tools(&session.realm).await?.iter().filter(callable).cloned().collect())
    }

    /// Returns the current version of each tool in the realm of the session.
    pub(crate) async fn all(&self, session: &Session) -> Result<Arc<Vec<Arc<CompiledTool>>>, Unavailable> {
        self.catalog.tools(&session.realm).await
    }

    /// Returns the version of this tool that matches the requirement.
    pub async fn find(
        &self,
        realm: &RealmScope,
        tool: &str,
        version: Option<&semver::VersionReq>,
    ) -> Result<Option<Arc<CompiledTool>>, Unavailable> {
        Ok(select_version(&self.catalog.versions(realm, tool).await?, version).cloned())
    }

    /// Tests the connection to a provider in its own protocol: lists the tools of an MCP server, asks a gRPC server for
    /// its services, or sends a GET request to the base URL.
    pub async fn probe(
        &self,
        session: &Session,
        provider: &Document<ToolProviderConfig>,
    ) -> Result<DirectOutcome, Unavailable> {
        let (tool_type, method, path) = match provider.body.provider_type {
            ProviderType::Mcp => (ToolType::ExternalMcp, Some(MCP_LIST_METHOD), None),
            ProviderType::Grpc => (ToolType::Grpc, None, Some(REFLECTION_METHOD)),
            ProviderType::Rest | ProviderType::QuantumInternal => (ToolType::ExternalRest, Some("GET"), Some("/")),
        };
        let mut definition = ToolDefinition::new(provider.meta.ref_name.clone(), tool_type);
        definition.invocation.method = method.map(str::to_owned);
        definition.invocation.path = path.map(str::to_owned);
        definition.provider_ref = Some(provider.meta.ref_name.to_string());
        definition.default_retry_count = Some(0);
        definition.max_output_bytes = Some(MAX_PROBE_BYTES);
        self.execute_unsaved(session, definition, None).await
    }

    /// Executes a tool that is not stored, with an empty input. If `provider` is set, the call uses this provider
    /// instead of the stored one. The call has a journal like any other call.
    pub async fn execute_unsaved(
        &self,
        session: &Session,
        definition: ToolDefinition,
        provider: Option<&ToolProviderConfig>,
    ) -> Result<DirectOutcome, Unavailable> {
        let document = Document::unsaved(definition.ref_name.clone(), definition);
        let compiled = match provider {
            None => self.catalog.compile(&session.realm, document).await?,
            Some(provider) => self.catalog.compile_with_unsaved_provider(document, provider.clone()),
        };
        let tool = compiled.map_err(|issues| Unavailable::new("the provider could not be probed", issues))?;
        self.runs.call_unsaved(session, Arc::new(tool)).await
    }
}
