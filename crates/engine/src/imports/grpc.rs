//! Imports the methods of gRPC services as tools. The methods come from server reflection or from a descriptor set.

use ipnet::IpNet;
use toolwright_grpc::{GrpcImportOptions, GrpcProposal, REFLECTION_METHOD, SkippedMethod};
use toolwright_openapi::SkippedOperation;
use toolwright_runs::DirectOutcome;
use toolwright_types::{DefinitionSource, ProviderType, RefName, ToolDefinition, ToolProviderConfig, ToolType};

use super::{ImportError, ImportReport, Imports, Proposal, ProposedTool, compile_provider, conflict, run_blocking};
use toolwright_catalog::Session;
use toolwright_catalog::registry::RegistryError;

/// The timeout of a reflection call.
const REFLECTION_TIMEOUT_MS: u64 = 60_000;
/// The maximum size of a descriptor set that is fetched from a server, in bytes of base64 text.
const MAX_DESCRIPTOR_SET_BYTES: u64 = 24 << 20;

/// A request to import gRPC methods as tools.
#[derive(Debug)]
pub struct GrpcImport {
    /// The provider. It is created if it does not exist.
    pub provider: RefName,
    /// The base URL of a new provider.
    pub base_url: Option<String>,
    /// The descriptor set of a new provider. `None` means server reflection.
    pub descriptor_set: Option<String>,
    /// Private networks that a new provider may reach.
    pub egress_allow: Vec<IpNet>,
    /// The full names of the services to import. An empty list imports all services.
    pub services: Vec<String>,
    /// The prefix of tool names. `None` means the provider's name. An empty text means no prefix.
    pub prefix: Option<String>,
    /// Whether tools of an earlier import are replaced.
    pub update: bool,
    /// Whether the import only reports what it would do.
    pub dry_run: bool,
}

impl Imports {
    /// Imports the methods of a gRPC server as tools.
    pub async fn grpc(&self, session: &Session, import: GrpcImport) -> Result<ImportReport, ImportError> {
        let _permit = self.acquire_permit().await?;
        let (update, dry_run) = (import.update, import.dry_run);
        let proposal = self.propose_grpc(session, import).await?;
        self.apply(session, proposal, update, dry_run).await
    }

    async fn propose_grpc(&self, session: &Session, import: GrpcImport) -> Result<Proposal, ImportError> {
        let GrpcImport { provider: name, base_url, descriptor_set, egress_allow, services, prefix, .. } = import;
        let existing = self.registry.find::<ToolProviderConfig>(session, &name).await?;
        let mut warnings = Vec::new();
        let provider = match &existing {
            Some(existing) if existing.body.provider_type != ProviderType::Grpc => {
                return Err(ImportError::NotGrpc(name));
            }
            Some(existing) if descriptor_set.is_some() && existing.body.descriptor_set != descriptor_set => {
                return Err(ImportError::DescriptorSetConflict(name));
            }
            Some(existing) => {
                let mut requested = existing.body.clone();
                requested.base_url = base_url.or(requested.base_url);
                warnings.extend(conflict::provider_warning(existing, &requested));
                existing.body.clone()
            }
            None => {
                let Some(base_url) = base_url else { return Err(ImportError::UnknownProvider(name)) };
                let mut provider = ToolProviderConfig::new(name.clone(), ProviderType::Grpc);
                (provider.base_url, provider.descriptor_set) = (Some(base_url), descriptor_set);
                provider.egress_allow = egress_allow;
                provider
            }
        };
        if existing.is_none() {
            // The permission is checked before any network request is sent, because the import itself can permit
            // private networks.
            self.registry.may_replace(session, None, &provider).map_err(RegistryError::from)?;
        }
        let compiled = compile_provider(existing.as_ref(), &provider)?;
        let descriptor_set = match &provider.descriptor_set {
            Some(text) => text.clone(),
            None => {
                let allowed = self.registry.may_import_tools(session, None, name.as_str());
                allowed.map_err(RegistryError::from)?;
                self.reflect(session, &provider).await?
            }
        };
        let options = GrpcImportOptions { provider: name.to_string(), services, prefix };
        let GrpcProposal { tools, skipped } = run_blocking(move || {
            let pool = toolwright_grpc::parse_descriptor_set(&descriptor_set)?;
            let known: Vec<String> = pool.services().map(|service| service.full_name().to_owned()).collect();
            match options.services.iter().find(|service| !known.contains(service)) {
                Some(service) => Err(ImportError::UnknownService { service: service.clone(), known }),
                None => Ok(toolwright_grpc::propose_tools(&pool, &options)),
            }
        })
        .await??;
        let skipped = skipped.into_iter();
        let skipped: Vec<SkippedOperation> =
            skipped.map(|SkippedMethod { method, reason }| SkippedOperation { operation: method, reason }).collect();
        if tools.is_empty() {
            return Err(ImportError::NoMethods { from_descriptor_set: provider.descriptor_set.is_some(), skipped });
        }
        let operation = |tool: &ToolDefinition| tool.invocation.path.clone().unwrap_or_default();
        let tools = tools.into_iter();
        Ok(Proposal {
            source: DefinitionSource::GrpcImported,
            tools: tools.map(|tool| ProposedTool { operation: operation(&tool), definition: tool }).collect(),
            provider: compiled,
            existing,
            skipped,
            warnings,
        })
    }

    /// Fetches the descriptor set of a gRPC server by reflection: calls a tool that is not stored.
    async fn reflect(&self, session: &Session, provider: &ToolProviderConfig) -> Result<String, ImportError> {
        let mut tool = ToolDefinition::new(provider.ref_name.clone(), ToolType::Grpc);
        tool.provider_ref = Some(provider.ref_name.to_string());
        tool.invocation.path = Some(REFLECTION_METHOD.to_owned());
        tool.default_retry_count = Some(0);
        tool.timeout_ms = Some(REFLECTION_TIMEOUT_MS);
        tool.max_output_bytes = Some(MAX_DESCRIPTOR_SET_BYTES);
        match self.calls.execute_unsaved(session, tool, Some(provider)).await? {
            DirectOutcome::Done(envelope) => match envelope.error {
                Some(error) => Err(ImportError::Server(Box::new(error))),
                None => Ok(envelope.output.as_str().unwrap_or_default().to_owned()),
            },
            DirectOutcome::Waiting(_) => Ok(String::new()),
        }
    }
}
