//! APIs that become tools: a description is read, planned, held against what is there, and written as one batch.
//!
//! What a description means is in the crates `openapi` and `grpc`; what may be replaced is decided in `decide`.

mod decide;
mod fetch;
mod grpc;
mod openapi;
mod types;

use std::sync::Arc;

pub use grpc::GrpcImport;
pub use openapi::{OpenApiImport, Origin};
use tokio::sync::{Semaphore, SemaphorePermit};
use toolwright_grpc::InvalidDescriptors;
use toolwright_openapi::Refused;
pub use toolwright_openapi::{Filter, InvalidFilter, Skipped};
use toolwright_store::DriftSource;
use toolwright_tools::http::{CompiledProvider, HttpClient};
use toolwright_types::{Document, RefName, Source, ToolDefinition, ToolError, ToolProviderConfig};
pub use types::{DatabaseImport, SchemaImport, SkippedType, TypeReport};
pub use url::Url;

use crate::Unavailable;
use crate::access::Session;
use crate::calls::Calls;
use crate::drift::Lookout;
use crate::records::Unreachable;
use crate::registry::{Batch, Registry, RegistryError};
use decide::{Decision, decide};

/// How many documents are read at the same time: a large one takes a hundred megabytes on its way.
const AT_ONCE: usize = 2;

/// Imports tools. Cheap to clone.
#[derive(Clone)]
pub struct Imports {
    registry: Registry,
    calls: Calls,
    http: HttpClient,
    turns: Arc<Semaphore>,
    lookout: Lookout,
}

/// What became of an import.
#[derive(Debug)]
pub struct ImportReport {
    /// The provider of the tools.
    pub provider: ToolProviderConfig,
    /// Whether it is new.
    pub provider_created: bool,
    /// Tools that are new.
    pub imported: Vec<RefName>,
    /// Tools that were replaced.
    pub updated: Vec<RefName>,
    /// Tools that are as the document says already.
    pub unchanged: Vec<RefName>,
    /// Operations that are no tools, and why.
    pub skipped: Vec<Skipped>,
    /// What whoever imports should know.
    pub warnings: Vec<String>,
}

/// Why nothing was imported.
#[derive(Debug, thiserror::Error)]
pub enum ImportError {
    /// The document cannot be used.
    #[error("the document cannot be imported: {0}")]
    Document(#[from] Refused),
    /// The document could not be fetched.
    #[error("the document cannot be fetched: {}", .0.message)]
    Fetch(ToolError),
    /// The descriptor set cannot be used.
    #[error("the services cannot be imported: {0}")]
    Descriptors(#[from] InvalidDescriptors),
    /// The server does not say what it can do.
    #[error("the server cannot be asked for its services: {}", .0.message)]
    Server(Box<ToolError>),
    /// There is no such service.
    #[error("there is no service `{wanted}`; there is {}", .known.join(", "))]
    UnknownService {
        /// What was asked for.
        wanted: String,
        /// What there is.
        known: Vec<String>,
    },
    /// There is nothing to make a tool of.
    #[error("there is no method to make a tool of: {}", nothing_fits(.skipped))]
    NoMethods {
        /// Whether a descriptor set said so, and not the server.
        by_set: bool,
        /// The methods there are, and why they are no tools.
        skipped: Vec<Skipped>,
    },
    /// The provider is there, and is of another kind.
    #[error("provider `{0}` is not of type GRPC")]
    NotGrpc(RefName),
    /// The provider is there, and describes itself otherwise.
    #[error("provider `{0}` is there already; change its `descriptorSet` there, and import without one")]
    Described(RefName),
    /// There is no such provider, and nothing to make it of.
    #[error("there is no provider `{0}`; give a `baseUrl` to make it")]
    NoProvider(RefName),
    /// The API has no name that could be the provider's.
    #[error("the title of the API is no name for a provider; give one as `providerRef`")]
    Nameless,
    /// The database cannot be asked, until somebody changes something.
    #[error("the database cannot be imported: {0}")]
    Database(String),
    /// There would be more types than one import makes.
    #[error("there would be more than {0} types; import a part of them, by patterns of their names")]
    TooMany(usize),
    /// The provider would be wrong, or a definition could not be written.
    #[error(transparent)]
    Registry(#[from] RegistryError),
}

impl From<Unavailable> for ImportError {
    fn from(error: Unavailable) -> Self {
        ImportError::Registry(error.into())
    }
}

impl From<Unreachable> for ImportError {
    fn from(error: Unreachable) -> Self {
        match error {
            Unreachable::Refused(message) => ImportError::Database(message),
            Unreachable::Unavailable(error) => error.into(),
        }
    }
}

/// What there is to import, and for which provider.
struct Proposal {
    source: Source,
    tools: Vec<Proposed>,
    provider: Arc<CompiledProvider>,
    existing: Option<Document<ToolProviderConfig>>,
    skipped: Vec<Skipped>,
    warnings: Vec<String>,
}

/// A tool, and the operation it is made of.
struct Proposed {
    operation: String,
    definition: ToolDefinition,
}

impl Imports {
    pub(crate) fn new(registry: Registry, calls: Calls, http: HttpClient, lookout: Lookout) -> Self {
        Self { registry, calls, http, turns: Arc::new(Semaphore::new(AT_ONCE)), lookout }
    }

    async fn turn(&self) -> Result<SemaphorePermit<'_>, Unavailable> {
        self.turns.acquire().await.map_err(|error| Unavailable::new("imports are closed")(Box::new(error)))
    }

    /// Writes what is proposed, as far as it may be. What cannot be a tool is told and left out; a failure leaves
    /// everything as it was.
    async fn bring_in(
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
            batch.add::<ToolProviderConfig>(None, Registry::storable(&provider.config, source)?);
        }
        let checked = self.checked(tools, provider).await?;
        for (operation, tool) in checked {
            let tool = match tool {
                Ok(tool) => tool,
                Err(reason) => {
                    report.skipped.push(Skipped { operation, reason });
                    continue;
                }
            };
            let current = self.registry.find::<ToolDefinition>(session, &tool.ref_name).await?;
            match decide(current.as_ref(), &tool, source, update) {
                Decision::Skip(reason) => report.skipped.push(Skipped { operation, reason }),
                Decision::Keep => report.unchanged.push(tool.ref_name),
                Decision::Write => {
                    self.registry.may_replace(session, current.as_ref(), &tool).map_err(RegistryError::from)?;
                    let new = match Registry::storable(&tool, source) {
                        Ok(new) => new,
                        Err(error) => {
                            report.skipped.push(Skipped { operation, reason: error.to_string() });
                            continue;
                        }
                    };
                    batch.add(current.as_ref(), new);
                    if let Some(current) = &current {
                        changed.push((tool.clone(), decide::differences(&current.body, &tool)));
                    }
                    let list = if current.is_some() { &mut report.updated } else { &mut report.imported };
                    list.push(tool.ref_name);
                }
            }
        }
        if !dry_run && !batch.is_empty() {
            self.registry.write_all(session, batch).await?;
            for (tool, differences) in changed.iter().filter(|(_, differences)| !differences.is_empty()) {
                self.lookout.tell(&session.realm, tool, DriftSource::Import, differences);
            }
        }
        Ok(report)
    }

    /// Each tool, or why it cannot be saved.
    async fn checked(
        &self,
        tools: Vec<Proposed>,
        provider: Arc<CompiledProvider>,
    ) -> Result<Vec<(String, Result<ToolDefinition, String>)>, Unavailable> {
        let catalog = self.registry.catalog().clone();
        aside(move || {
            let check = |tool: ToolDefinition| {
                let document = Document::unsaved(tool.ref_name.clone(), tool);
                let compiled = catalog.compile_under(document, Arc::clone(&provider));
                compiled.map(|tool| tool.definition).map_err(|issues| issues.to_string())
            };
            tools.into_iter().map(|proposed| (proposed.operation, check(proposed.definition))).collect()
        })
        .await
    }
}

/// What would help where nothing fits. A few methods show what is meant.
fn nothing_fits(skipped: &[Skipped]) -> String {
    if skipped.is_empty() {
        return "no service is described; give a descriptor set of the files that define services, as `protoc \
                --include_imports --descriptor_set_out` writes it, or ask a server that describes itself"
            .to_owned();
    }
    let shown = skipped.iter().take(3).map(|method| format!("`{}`: {}", method.operation, method.reason));
    let more = if skipped.len() > 3 { format!("; and {} more", skipped.len() - 3) } else { String::new() };
    format!("{}{more}", shown.collect::<Vec<_>>().join("; "))
}

/// The provider as it is, or as it would be.
fn compiled(
    existing: Option<&Document<ToolProviderConfig>>,
    proposed: &ToolProviderConfig,
) -> Result<Arc<CompiledProvider>, RegistryError> {
    let document = match existing {
        Some(existing) => existing.clone(),
        None => Document::unsaved(proposed.ref_name.clone(), proposed.clone()),
    };
    Ok(Arc::new(CompiledProvider::compile(document).map_err(RegistryError::Invalid)?))
}

/// Runs what takes its time beside the threads that serve everyone.
async fn aside<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, Unavailable> {
    let done = tokio::task::spawn_blocking(work).await;
    done.map_err(|error| Unavailable::new("the import was lost")(Box::new(error)))
}
