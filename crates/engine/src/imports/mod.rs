//! Imports tools and entity types from API descriptions and databases.
//!
//! An import derives definitions from a description, compares them with the existing definitions and writes them as one
//! batch. The crates `openapi` and `grpc` parse the descriptions. The module `conflict` decides which definitions may
//! be replaced.

mod conflict;
mod fetch;
mod grpc;
mod openapi;
mod types;

use std::sync::Arc;

pub use grpc::GrpcImport;
pub use openapi::{DocumentSource, OpenApiImport};
use tokio::sync::{Semaphore, SemaphorePermit};
use toolwright_grpc::InvalidDescriptorSet;
use toolwright_openapi::DocumentError;
pub use toolwright_openapi::{InvalidOperationFilter, OperationFilter, SkippedOperation};
use toolwright_store::DriftSource;
use toolwright_tools::http::{CompiledProvider, HttpClient};
use toolwright_types::{DefinitionSource, Document, RefName, ToolDefinition, ToolError, ToolProviderConfig};
pub use types::{DatabaseImport, SchemaImport, SkippedType, TypeImportReport};
pub use url::Url;

use crate::calls::Calls;
use crate::drift::DriftRecorder;
use conflict::ImportAction;
use toolwright_catalog::Session;
use toolwright_catalog::Unavailable;
use toolwright_catalog::registry::{Batch, Registry, RegistryError};
use toolwright_records::{DatabaseError, SqlTables};

/// The maximum number of concurrent imports. It is low, because a large document needs about a hundred megabytes of
/// memory.
const MAX_CONCURRENT_IMPORTS: usize = 2;

/// Imports tools and entity types. Cheap to clone.
#[derive(Clone)]
pub struct Imports {
    registry: Registry,
    calls: Calls,
    http: HttpClient,
    permits: Arc<Semaphore>,
    drift_recorder: DriftRecorder,
    tables: SqlTables,
}

/// The result of an import of tools.
#[derive(Debug)]
pub struct ImportReport {
    /// The provider of the tools.
    pub provider: ToolProviderConfig,
    /// Whether the import created the provider.
    pub provider_created: bool,
    /// The tools that were added.
    pub imported: Vec<RefName>,
    /// The tools that were replaced.
    pub updated: Vec<RefName>,
    /// The existing tools that are equal to the imported tools.
    pub unchanged: Vec<RefName>,
    /// The operations that were not imported, with the reason.
    pub skipped: Vec<SkippedOperation>,
    /// Warnings for the user who started the import.
    pub warnings: Vec<String>,
}

/// The reason why nothing was imported.
#[derive(Debug, thiserror::Error)]
pub enum ImportError {
    /// The document is not valid.
    #[error("the document cannot be imported: {0}")]
    Document(#[from] DocumentError),
    /// The document could not be fetched.
    #[error("the document could not be fetched: {}", .0.message)]
    Fetch(ToolError),
    /// The descriptor set is not valid.
    #[error("the services cannot be imported: {0}")]
    Descriptors(#[from] InvalidDescriptorSet),
    /// Server reflection failed.
    #[error("the services of the server could not be listed: {}", .0.message)]
    Server(Box<ToolError>),
    /// The requested service does not exist on the gRPC server.
    #[error("service `{service}` does not exist; use one of {}", .known.join(", "))]
    UnknownService {
        /// The requested service.
        service: String,
        /// The services that exist.
        known: Vec<String>,
    },
    /// No method can be imported as a tool.
    #[error("no method can be imported as a tool: {}", no_methods_reason(.skipped))]
    NoMethods {
        /// Whether the methods come from a descriptor set. Otherwise they come from server reflection.
        from_descriptor_set: bool,
        /// The methods that cannot be imported, with the reason.
        skipped: Vec<SkippedOperation>,
    },
    /// The existing provider is not a gRPC provider.
    #[error("provider `{0}` must have the type GRPC")]
    NotGrpc(RefName),
    /// The existing provider has another descriptor set than the import.
    #[error("provider `{0}` exists with another `descriptorSet`; change it in the provider, and import without one")]
    DescriptorSetConflict(RefName),
    /// The provider does not exist, and the import has no base URL with which to create it.
    #[error("provider `{0}` does not exist; set `baseUrl` to create it")]
    UnknownProvider(RefName),
    /// No provider name can be derived from the title of the API.
    #[error("the title of the API cannot be used as the name of a provider; set `providerRef`")]
    NoProviderName,
    /// The database cannot be used as it is configured. The text contains the cause and the remedy.
    #[error("the database cannot be imported: {0}")]
    Database(String),
    /// The import contains too many types.
    #[error("an import must have at most {0} types; select fewer with name patterns")]
    TooManyTypes(usize),
    /// The provider is not valid, or a definition could not be written.
    #[error(transparent)]
    Registry(#[from] RegistryError),
}

impl From<Unavailable> for ImportError {
    fn from(error: Unavailable) -> Self {
        ImportError::Registry(error.into())
    }
}

impl From<DatabaseError> for ImportError {
    fn from(error: DatabaseError) -> Self {
        match error {
            DatabaseError::Misconfigured(message) => ImportError::Database(message),
            DatabaseError::Unavailable(error) => error.into(),
        }
    }
}

/// The tools to import and their provider.
struct Proposal {
    source: DefinitionSource,
    tools: Vec<ProposedTool>,
    provider: Arc<CompiledProvider>,
    existing: Option<Document<ToolProviderConfig>>,
    skipped: Vec<SkippedOperation>,
    warnings: Vec<String>,
}

/// A tool and the operation that it was generated from.
struct ProposedTool {
    operation: String,
    definition: ToolDefinition,
}

impl Imports {
    pub(crate) fn new(
        registry: Registry,
        calls: Calls,
        http: HttpClient,
        drift_recorder: DriftRecorder,
        tables: SqlTables,
    ) -> Self {
        let permits = Arc::new(Semaphore::new(MAX_CONCURRENT_IMPORTS));
        Self { registry, calls, http, permits, drift_recorder, tables }
    }

    /// Waits until fewer than `MAX_CONCURRENT_IMPORTS` imports are running.
    async fn acquire_permit(&self) -> Result<SemaphorePermit<'_>, Unavailable> {
        self.permits.acquire().await.map_err(|error| Unavailable::new("imports are closed", error))
    }

    /// Writes the proposed tools as one batch. Tools that are not valid or must not be replaced are reported as
    /// skipped. If the import fails, nothing is written.
    async fn apply(
        &self,
        session: &Session,
        proposal: Proposal,
        update: bool,
        dry_run: bool,
    ) -> Result<ImportReport, ImportError> {
        let Proposal { source, tools, provider, existing, skipped, warnings } = proposal;
        let mut report = ImportReport {
            provider: provider.config.clone(),
            provider_created: existing.is_none(),
            imported: Vec::new(),
            updated: Vec::new(),
            unchanged: Vec::new(),
            skipped,
            warnings,
        };
        let mut batch = Batch::default();
        let mut changed = Vec::new();
        if existing.is_none() {
            self.registry.may_replace(session, None, &provider.config).map_err(RegistryError::from)?;
            batch.add::<ToolProviderConfig>(None, Registry::prepare_revision(&provider.config, source)?);
        }
        let compiled = self.compile_tools(tools, provider).await?;
        for (operation, tool) in compiled {
            let tool = match tool {
                Ok(tool) => tool,
                Err(reason) => {
                    report.skipped.push(SkippedOperation { operation, reason });
                    continue;
                }
            };
            let current = self.registry.find::<ToolDefinition>(session, &tool.ref_name).await?;
            let replaces_builtin = self.registry.catalog().builtin_tool(&tool.ref_name.key()).is_some();
            match conflict::resolve(current.as_ref(), &tool, source, update, replaces_builtin) {
                ImportAction::Skip(reason) => report.skipped.push(SkippedOperation { operation, reason }),
                ImportAction::Unchanged => report.unchanged.push(tool.ref_name),
                ImportAction::Write => {
                    self.registry.may_replace(session, current.as_ref(), &tool).map_err(RegistryError::from)?;
                    let new = match Registry::prepare_revision(&tool, source) {
                        Ok(new) => new,
                        Err(error) => {
                            report.skipped.push(SkippedOperation { operation, reason: error.to_string() });
                            continue;
                        }
                    };
                    batch.add(current.as_ref(), new);
                    if let Some(current) = &current {
                        changed.push((tool.clone(), conflict::differences(&current.body, &tool)));
                    }
                    let list = if current.is_some() { &mut report.updated } else { &mut report.imported };
                    list.push(tool.ref_name);
                }
            }
        }
        if !dry_run && !batch.is_empty() {
            self.registry.write_all(session, batch).await?;
            for (tool, differences) in changed.iter().filter(|(_, differences)| !differences.is_empty()) {
                self.drift_recorder.send(&session.realm, tool, DriftSource::Import, differences);
            }
        }
        Ok(report)
    }

    /// Compiles each tool, and returns it or the reason why it is not valid.
    async fn compile_tools(
        &self,
        tools: Vec<ProposedTool>,
        provider: Arc<CompiledProvider>,
    ) -> Result<Vec<(String, Result<ToolDefinition, String>)>, Unavailable> {
        let catalog = self.registry.catalog().clone();
        run_blocking(move || {
            let compile = |tool: ToolDefinition| {
                let document = Document::unsaved(tool.ref_name.clone(), tool);
                let compiled = catalog.compile_with_provider(document, Arc::clone(&provider));
                compiled.map(|tool| tool.definition).map_err(|issues| issues.to_string())
            };
            tools.into_iter().map(|proposed| (proposed.operation, compile(proposed.definition))).collect()
        })
        .await
    }
}

/// Explains why no method can be imported, with the first methods as examples.
fn no_methods_reason(skipped: &[SkippedOperation]) -> String {
    if skipped.is_empty() {
        return "no service was found; create a descriptor set from the files that define services with `protoc \
                --include_imports --descriptor_set_out`, or use a server with reflection"
            .to_owned();
    }
    let shown = skipped.iter().take(3).map(|method| format!("`{}`: {}", method.operation, method.reason));
    let more = if skipped.len() > 3 { format!("; and {} more", skipped.len() - 3) } else { String::new() };
    format!("{}{more}", shown.collect::<Vec<_>>().join("; "))
}

/// Compiles the existing provider, or the proposed provider if none exists.
fn compile_provider(
    existing: Option<&Document<ToolProviderConfig>>,
    proposed: &ToolProviderConfig,
) -> Result<Arc<CompiledProvider>, RegistryError> {
    let document = match existing {
        Some(existing) => existing.clone(),
        None => Document::unsaved(proposed.ref_name.clone(), proposed.clone()),
    };
    Ok(Arc::new(CompiledProvider::compile(document).map_err(RegistryError::Invalid)?))
}

/// Runs CPU-bound work on a blocking thread, so that it does not block the async runtime.
async fn run_blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, Unavailable> {
    let result = tokio::task::spawn_blocking(work).await;
    result.map_err(|error| Unavailable::new("the import was interrupted", error))
}
