//! Services that describe themselves, or are described by a descriptor set.

use ipnet::IpNet;
use toolwright_grpc::{DESCRIBE, ImportOptions, Imported};
use toolwright_openapi::Skipped;
use toolwright_tools::Outcome;
use toolwright_types::{ProviderType, RefName, Source, ToolDefinition, ToolProviderConfig, ToolType};

use super::{ImportError, ImportReport, Imports, Proposal, Proposed, aside, compiled, decide};
use crate::access::Session;
use crate::registry::RegistryError;

/// How long a server may take to describe itself.
const PATIENCE_MS: u64 = 60_000;
/// What a server may say of itself, in base64.
const LARGEST_DESCRIPTION: u64 = 24 << 20;

/// What to import, and how.
#[derive(Debug)]
pub struct GrpcImport {
    /// The provider, which is made when there is none of this name.
    pub provider: RefName,
    /// Where the server is, for a provider that is made.
    pub base_url: Option<String>,
    /// What the server can do, for a provider that is made; the server is asked when absent.
    pub descriptor_set: Option<String>,
    /// Private networks that a provider that is made may be in.
    pub egress_allow: Vec<IpNet>,
    /// Services by their full names; all when empty.
    pub services: Vec<String>,
    /// What stands before the names of tools; the provider's name when absent, nothing when empty.
    pub prefix: Option<String>,
    /// Whether tools that were imported before are replaced.
    pub update: bool,
    /// Whether everything is done but the writing.
    pub dry_run: bool,
}

impl Imports {
    /// Imports the methods of a gRPC server as tools.
    pub async fn grpc(&self, session: &Session, import: GrpcImport) -> Result<ImportReport, ImportError> {
        let _turn = self.turn().await?;
        let (update, dry_run) = (import.update, import.dry_run);
        let proposal = self.read_grpc(session, import).await?;
        self.bring_in(session, proposal, update, dry_run).await
    }

    async fn read_grpc(&self, session: &Session, import: GrpcImport) -> Result<Proposal, ImportError> {
        let GrpcImport { provider: name, base_url, descriptor_set, egress_allow, services, prefix, .. } = import;
        let existing = self.registry.find::<ToolProviderConfig>(session, &name).await?;
        let mut warnings = Vec::new();
        let provider = match &existing {
            Some(existing) if existing.body.provider_type != ProviderType::Grpc => {
                return Err(ImportError::NotGrpc(name));
            }
            Some(existing) if descriptor_set.is_some() && existing.body.descriptor_set != descriptor_set => {
                return Err(ImportError::Described(name));
            }
            Some(existing) => {
                let mut asked_for = existing.body.clone();
                asked_for.base_url = base_url.or(asked_for.base_url);
                warnings.extend(decide::kept(existing, &asked_for));
                existing.body.clone()
            }
            None => {
                let Some(base_url) = base_url else { return Err(ImportError::NoProvider(name)) };
                let mut provider = ToolProviderConfig::new(name.clone(), ProviderType::Grpc);
                (provider.base_url, provider.descriptor_set) = (Some(base_url), descriptor_set);
                provider.egress_allow = egress_allow;
                provider
            }
        };
        if existing.is_none() {
            // Before anything goes out: its networks are the importer's own word.
            self.registry.may_replace(session, None, &provider).map_err(RegistryError::from)?;
        }
        let compiled = compiled(existing.as_ref(), &provider)?;
        let description = match &provider.descriptor_set {
            Some(text) => text.clone(),
            None => self.described(session, &provider).await?,
        };
        let options = ImportOptions { provider: name.to_string(), services, prefix };
        let Imported { tools, skipped } = aside(move || {
            let pool = toolwright_grpc::pool(&description)?;
            let known: Vec<String> = pool.services().map(|service| service.full_name().to_owned()).collect();
            match options.services.iter().find(|wanted| !known.contains(wanted)) {
                Some(wanted) => Err(ImportError::UnknownService { wanted: wanted.clone(), known }),
                None => Ok(toolwright_grpc::tools(&pool, &options)),
            }
        })
        .await??;
        let skipped: Vec<Skipped> =
            skipped.into_iter().map(|(operation, reason)| Skipped { operation, reason }).collect();
        if tools.is_empty() {
            return Err(ImportError::NoMethods { by_set: provider.descriptor_set.is_some(), skipped });
        }
        let operation = |tool: &ToolDefinition| tool.invocation.path.clone().unwrap_or_default();
        let tools = tools.into_iter();
        Ok(Proposal {
            source: Source::GrpcImported,
            tools: tools.map(|tool| Proposed { operation: operation(&tool), definition: tool }).collect(),
            provider: compiled,
            existing,
            skipped,
            warnings,
        })
    }

    /// What a server says of itself, asked by a call like any other of a tool that nobody saved.
    async fn described(&self, session: &Session, provider: &ToolProviderConfig) -> Result<String, ImportError> {
        let mut asking = ToolDefinition::new(provider.ref_name.clone(), ToolType::Grpc);
        asking.provider_ref = Some(provider.ref_name.to_string());
        asking.invocation.path = Some(DESCRIBE.to_owned());
        asking.default_retry_count = Some(0);
        asking.timeout_ms = Some(PATIENCE_MS);
        asking.max_output_bytes = Some(LARGEST_DESCRIPTION);
        match self.calls.execute_unsaved(session, asking, Some(provider)).await? {
            Outcome::Done(envelope) => match envelope.error {
                Some(error) => Err(ImportError::Server(Box::new(error))),
                None => Ok(envelope.output.as_str().unwrap_or_default().to_owned()),
            },
            Outcome::Client(_) => Ok(String::new()),
        }
    }
}
