//! APIs that become tools: a document is read, planned, held against what is there, and written as one batch.
//!
//! What a document means is in the crate `openapi`; what may be replaced is decided in `decide`.

mod decide;
mod fetch;
mod types;

use std::sync::Arc;

use serde_json::Value;
use tokio::sync::Semaphore;
use toolwright_openapi::{Document as Description, Options, Plan, Refused};
pub use toolwright_openapi::{Filter, InvalidFilter, Skipped};
use toolwright_store::DriftSource;
use toolwright_tools::http::{CompiledProvider, HttpClient};
use toolwright_types::{Document, RefName, Source, ToolDefinition, ToolError, ToolProviderConfig};
pub use types::{DatabaseImport, SchemaImport, SkippedType, TypeReport};
pub use url::Url;

use crate::Unavailable;
use crate::access::Session;
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
    http: HttpClient,
    turns: Arc<Semaphore>,
    lookout: Lookout,
}

/// What to import, and how.
#[derive(Debug)]
pub struct OpenApiImport {
    /// The document.
    pub origin: Origin,
    /// The provider, which is made when there is none of this name; named after the API when absent.
    pub provider: Option<RefName>,
    /// What stands before the names of tools; the provider's name when absent, nothing when empty.
    pub prefix: Option<String>,
    /// Where the API lives; what the document says when absent.
    pub base_url: Option<String>,
    /// Which operations.
    pub only: Filter,
    /// Whether tools that were imported before are replaced.
    pub update: bool,
    /// Whether everything is done but the writing.
    pub dry_run: bool,
}

/// Where a document is.
#[derive(Debug)]
pub enum Origin {
    /// Here, as JSON or YAML.
    Text(String),
    /// Here, and read already.
    Value(Value),
    /// At this address.
    Url(Url),
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

/// A plan, and the provider it is for.
struct Prepared {
    plan: Plan,
    provider: Arc<CompiledProvider>,
    existing: Option<Document<ToolProviderConfig>>,
}

impl Imports {
    pub(crate) fn new(registry: Registry, http: HttpClient, lookout: Lookout) -> Self {
        Self { registry, http, turns: Arc::new(Semaphore::new(AT_ONCE)), lookout }
    }

    /// Imports the operations of an OpenAPI document as tools. What cannot be one is told and left out; a failure leaves
    /// everything as it was.
    pub async fn openapi(&self, session: &Session, import: OpenApiImport) -> Result<ImportReport, ImportError> {
        let turn = self.turns.acquire().await;
        let _turn = turn.map_err(|error| Unavailable::new("imports are closed")(Box::new(error)))?;
        let (update, dry_run) = (import.update, import.dry_run);
        let Prepared { plan, provider, existing } = self.prepare(session, import).await?;
        let mut report = ImportReport {
            provider: provider.config.clone(),
            provider_created: existing.is_none(),
            imported: Vec::new(),
            updated: Vec::new(),
            unchanged: Vec::new(),
            skipped: plan.skipped,
            warnings: plan.todo.into_iter().filter(|_| existing.is_none()).chain(plan.warnings).collect(),
        };
        let mut batch = Batch::default();
        let mut changed = Vec::new();
        match &existing {
            Some(existing) => report.warnings.extend(decide::kept(existing, &plan.provider)),
            None => {
                self.registry.may_replace(session, None, &provider.config).map_err(RegistryError::from)?;
                batch.add::<ToolProviderConfig>(None, Registry::storable(&provider.config, Source::OpenapiImported)?);
            }
        }
        let checked = self.checked(plan.tools, provider).await?;
        for (operation, tool) in checked {
            let tool = match tool {
                Ok(tool) => tool,
                Err(reason) => {
                    report.skipped.push(Skipped { operation, reason });
                    continue;
                }
            };
            let current = self.registry.find::<ToolDefinition>(session, &tool.ref_name).await?;
            match decide(current.as_ref(), &tool, update) {
                Decision::Skip(reason) => report.skipped.push(Skipped { operation, reason }),
                Decision::Keep => report.unchanged.push(tool.ref_name),
                Decision::Write => {
                    self.registry.may_replace(session, current.as_ref(), &tool).map_err(RegistryError::from)?;
                    let new = match Registry::storable(&tool, Source::OpenapiImported) {
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

    /// Reads and plans beside the threads that serve everyone.
    async fn prepare(&self, session: &Session, import: OpenApiImport) -> Result<Prepared, ImportError> {
        let OpenApiImport { origin, provider: name, prefix, base_url, only, .. } = import;
        let mut existing = match &name {
            Some(name) => self.registry.find::<ToolProviderConfig>(session, name).await?,
            None => None,
        };
        let came_from = if let Origin::Url(url) = &origin { Some(url.clone()) } else { None };
        let description = match origin {
            Origin::Value(value) => aside(move || Description::from_value(value)).await??,
            Origin::Text(text) => aside(move || Description::parse(&text)).await??,
            Origin::Url(url) => {
                let allow = existing.as_ref().map(|provider| provider.body.egress_allow.as_slice()).unwrap_or_default();
                let text = fetch::text(&self.http, url, allow).await.map_err(ImportError::Fetch)?;
                aside(move || Description::parse(&text)).await??
            }
        };
        let name = match name {
            Some(name) => name,
            None => {
                let name = description.suggested_name().ok_or(ImportError::Nameless)?;
                existing = self.registry.find::<ToolProviderConfig>(session, &name).await?;
                name
            }
        };
        let known_url = existing.as_ref().and_then(|provider| provider.body.base_url.clone());
        let options = Options { provider: name, prefix, base_url: base_url.or(known_url), came_from, only };
        let plan = aside(move || toolwright_openapi::plan(&description, &options)).await??;
        let document = match &existing {
            Some(existing) => existing.clone(),
            None => Document::unsaved(plan.provider.ref_name.clone(), plan.provider.clone()),
        };
        let provider = CompiledProvider::compile(document).map_err(RegistryError::Invalid)?;
        Ok(Prepared { plan, provider: Arc::new(provider), existing })
    }

    /// Each tool, or why it cannot be saved.
    async fn checked(
        &self,
        tools: Vec<toolwright_openapi::Planned>,
        provider: Arc<CompiledProvider>,
    ) -> Result<Vec<(String, Result<ToolDefinition, String>)>, Unavailable> {
        let catalog = self.registry.catalog().clone();
        aside(move || {
            let check = |tool: ToolDefinition| {
                let document = Document::unsaved(tool.ref_name.clone(), tool);
                let compiled = catalog.compile_under(document, Arc::clone(&provider));
                compiled.map(|tool| tool.definition).map_err(|issues| issues.to_string())
            };
            tools.into_iter().map(|planned| (planned.operation, check(planned.definition))).collect()
        })
        .await
    }
}

/// Runs what takes its time beside the threads that serve everyone.
async fn aside<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, Unavailable> {
    let done = tokio::task::spawn_blocking(work).await;
    done.map_err(|error| Unavailable::new("the import was lost")(Box::new(error)))
}
