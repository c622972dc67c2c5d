//! Finds definitions in the store and compiles them: tools, agents and entity types.
//!
//! A definition is compiled on first use. The result is cached until any definition changes.

mod cache;
mod compile;
mod versions;

use std::collections::{BTreeMap, HashSet};
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use futures::future::BoxFuture;
use semver::{Version, VersionReq};
use serde_json::Value;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use toolwright_gram::Graph;
use toolwright_store::{DocumentRef, ListQuery, Store};
use toolwright_tools::{CompiledTool, Library, ports};
use toolwright_types::{AgentDefinition, Document, DocumentKind, RealmScope, ToolDefinition, ToolType};

pub use cache::{ToolsetKey, Viewer};
pub use versions::{Versioned, select_version};

use self::cache::{DefinitionCache, NameKey, Tools, Types, normalized_name};
pub(crate) use self::compile::compile_sized;
use self::compile::load_type;
use crate::agent::CompiledAgent;
use crate::entity_type::CompiledType;
use crate::toolset::{Toolset, VersionedRef};
use crate::workflow::CompiledWorkflow;
use crate::{BoxError, Unavailable};

/// How often the store is polled for changes that other servers made.
const POLL_INTERVAL: Duration = Duration::from_secs(1);

/// The number of definitions per page when all of them are read.
const PAGE_SIZE: u32 = 1000;

/// Finds and compiles definitions. Cheap to clone.
#[derive(Clone)]
pub struct Catalog(Arc<Inner>);

struct Inner {
    store: Store,
    library: Arc<Library>,
    builtin: BTreeMap<String, Arc<CompiledTool>>,
    /// The cache is replaced as a whole when a definition changes. A reader that loaded an old definition inserts it
    /// into the old cache, which no new reader uses. So the new cache contains no old definitions.
    cache: ArcSwap<DefinitionCache>,
    /// The number of invalidations so far. Components that derive data from definitions subscribe to it.
    generation: watch::Sender<u64>,
}

impl Catalog {
    /// Creates a catalog with an empty cache. `library` has the implementations of function tools.
    pub fn new(store: Store, library: Arc<Library>) -> Self {
        let builtin = toolwright_tools::builtin::tools(&library);
        let cache = ArcSwap::from_pointee(DefinitionCache::new());
        Self(Arc::new(Inner { store, library, builtin, cache, generation: watch::Sender::new(0) }))
    }

    /// Returns the built-in tools, which exist without a definition.
    pub fn builtin_tools(&self) -> impl Iterator<Item = &Arc<CompiledTool>> {
        self.0.builtin.values()
    }

    /// Whether the tool's function writes but its definition does not declare side effects.
    pub fn has_undeclared_writes(&self, tool: &ToolDefinition) -> bool {
        toolwright_tools::has_undeclared_writes(tool, &self.0.library)
    }

    /// Returns the description of the tool's function if it differs from the description of the definition.
    pub fn conflicting_description(&self, tool: &ToolDefinition) -> Option<&str> {
        let function = self.0.library.lookup(tool.invocation.path.as_deref()?).ok()?;
        let description = function.spec().description.as_str();
        (tool.tool_type == ToolType::Function && tool.description.as_deref()? != description).then_some(description)
    }

    /// Discards all compiled definitions. Call it after a definition changed.
    pub fn invalidate(&self) {
        self.0.cache.store(Arc::new(DefinitionCache::new()));
        // INVARIANT: the counter is increased after the cache was replaced. So a reader that sees the new number never
        // gets a definition from the old cache.
        self.0.generation.send_modify(|generation| *generation += 1);
    }

    /// Subscribes to the number of invalidations. To keep derived data up to date, read the number first, then derive
    /// the data, and repeat when the number changes.
    pub fn generations(&self) -> watch::Receiver<u64> {
        self.0.generation.subscribe()
    }

    /// Invalidates the catalog when another server changes a definition, until `stop` is cancelled. `last_seen` must be
    /// read from the store before the first definition is compiled.
    pub async fn watch_other_servers(self, mut last_seen: i64, stop: CancellationToken) {
        while stop.run_until_cancelled(tokio::time::sleep(POLL_INTERVAL)).await.is_some() {
            match self.0.store.generation().await {
                Ok(current) if last_seen != current => {
                    self.invalidate();
                    last_seen = current;
                }
                Ok(_) => {}
                Err(error) => tracing::warn!(%error, "could not check for changed definitions"),
            }
        }
    }

    /// Returns all versions of a tool, highest first. The list is empty if the tool does not exist.
    pub async fn versions(&self, realm: &RealmScope, name: &str) -> Result<Tools, Unavailable> {
        let cache = self.0.cache.load_full();
        let key = normalized_name(name);
        if let Some(found) = cache.versions.get(&NameKey { realm: realm.realm, name: &*key }) {
            return Ok(found);
        }
        let reference = DocumentRef::parse(DocumentKind::Tool, name);
        let documents = self.0.store.definitions(realm).versions(DocumentKind::Tool, &reference).await?;
        let mut tools = Vec::with_capacity(documents.len());
        for document in documents {
            tools.push(Arc::new(self.load(realm, document).await?));
        }
        match self.0.builtin.get(&*key) {
            Some(builtin) if tools.is_empty() => tools.push(Arc::clone(builtin)),
            // A missing tool is not cached. Otherwise clients could fill the cache with names that do not exist.
            None if tools.is_empty() => return Ok(Arc::default()),
            _ => {}
        }
        let tools = Arc::new(tools);
        cache.versions.insert(NameKey { realm: realm.realm, name: key.into_owned() }, Arc::clone(&tools));
        Ok(tools)
    }

    /// Returns the current version of every tool of a realm. Built-in tools come last. A built-in tool is omitted if a
    /// definition has its name.
    pub async fn tools(&self, realm: &RealmScope) -> Result<Tools, Unavailable> {
        let cache = self.0.cache.load_full();
        if let Some(found) = cache.all_tools.get(&realm.realm) {
            return Ok(found);
        }
        let mut tools = Vec::new();
        for document in self.documents(realm, DocumentKind::Tool).await? {
            tools.push(Arc::new(self.load(realm, document).await?));
        }
        let defined: HashSet<String> = tools.iter().map(|tool| tool.definition.ref_name.key()).collect();
        tools
            .extend(self.0.builtin.iter().filter(|(key, _)| !defined.contains(*key)).map(|(_, tool)| Arc::clone(tool)));
        let tools = Arc::new(tools);
        cache.all_tools.insert(realm.realm, Arc::clone(&tools));
        Ok(tools)
    }

    /// Returns the agent that `name` refers to. `name` is the name or the id of the agent, such as `clerk`, optionally
    /// with a version requirement, such as `clerk@^1.2`.
    pub async fn agent(&self, realm: &RealmScope, name: &str) -> Result<Option<Arc<CompiledAgent>>, Unavailable> {
        let cache = self.0.cache.load_full();
        let key = (realm.realm, name.to_ascii_lowercase());
        if let Some(found) = cache.agents.get(&key) {
            return Ok(Some(found));
        }
        let Some(VersionedRef { name, version_req }) = VersionedRef::parse(name) else { return Ok(None) };
        let reference = DocumentRef::parse(DocumentKind::Agent, name);
        let documents = self.0.store.definitions(realm).versions(DocumentKind::Agent, &reference).await?;
        let invalid = |source: BoxError| Unavailable::new("a stored agent is not valid in this release", source);
        let versions: Result<Vec<Document<AgentDefinition>>, _> =
            documents.into_iter().map(|document| document.try_map(serde_json::from_value)).collect();
        let versions = versions.map_err(|error| invalid(Box::new(error)))?;
        let Some(document) = select_version(&versions, version_req.as_ref()).cloned() else { return Ok(None) };
        match self.compile_agent(realm, document).await? {
            Ok((agent, _)) => {
                let agent = Arc::new(agent);
                cache.agents.insert(key, Arc::clone(&agent));
                Ok(Some(agent))
            }
            Err(issues) => Err(invalid(Box::new(issues))),
        }
    }

    /// Returns an agent from the cache, if it was compiled since the last change of a definition.
    pub(crate) fn cached_agent(&self, realm: &RealmScope, key: &str) -> Option<Arc<CompiledAgent>> {
        self.0.cache.load().agents.get(&(realm.realm, key.to_owned()))
    }

    /// Caches a compiled agent until a definition changes.
    pub(crate) fn cache_agent(&self, realm: &RealmScope, key: String, agent: CompiledAgent) -> Arc<CompiledAgent> {
        let agent = Arc::new(agent);
        self.0.cache.load().agents.insert((realm.realm, key), Arc::clone(&agent));
        agent
    }

    pub(crate) fn store(&self) -> &Store {
        &self.0.store
    }

    /// Returns a workflow from the cache, if it was compiled since the last change of a definition.
    pub(crate) fn cached_workflow(&self, realm: &RealmScope, name: &str) -> Option<Arc<CompiledWorkflow>> {
        self.0.cache.load().workflows.get(&(realm.realm, name.to_ascii_lowercase()))
    }

    /// Returns a function that inserts a workflow into the current cache. If a definition changes before the function is
    /// called, the workflow is inserted into the old cache, which is no longer used.
    pub(crate) fn workflow_inserter(
        &self,
        realm: &RealmScope,
        name: &str,
    ) -> impl FnOnce(Arc<CompiledWorkflow>) -> Arc<CompiledWorkflow> + use<> {
        let (cache, key) = (self.0.cache.load_full(), (realm.realm, name.to_ascii_lowercase()));
        move |workflow| {
            cache.workflows.insert(key, Arc::clone(&workflow));
            workflow
        }
    }

    /// Returns the versions of an agent, highest first. Empty if the agent does not exist.
    pub async fn agent_versions(&self, realm: &RealmScope, name: &str) -> Result<Vec<Version>, Unavailable> {
        let reference = DocumentRef::parse(DocumentKind::Agent, name);
        let documents = self.0.store.definitions(realm).versions(DocumentKind::Agent, &reference).await?;
        let version = |document: Document<Value>| document.body.get("version")?.as_str()?.parse().ok();
        Ok(documents.into_iter().filter_map(version).collect())
    }

    /// Returns an entity type by name or id.
    pub async fn entity_type(&self, realm: &RealmScope, name: &str) -> Result<Option<Arc<CompiledType>>, Unavailable> {
        let cache = self.0.cache.load_full();
        let key = (realm.realm, name.to_ascii_lowercase());
        if let Some(found) = cache.types.get(&key) {
            return Ok(Some(found));
        }
        let reference = DocumentRef::parse(DocumentKind::Type, name);
        let Some(document) = self.0.store.definitions(realm).get(DocumentKind::Type, &reference).await? else {
            return Ok(None);
        };
        let found = Arc::new(load_type(document).await?);
        cache.types.insert(key, Arc::clone(&found));
        Ok(Some(found))
    }

    /// Returns all entity types of a realm, sorted by name.
    pub async fn entity_types(&self, realm: &RealmScope) -> Result<Types, Unavailable> {
        let cache = self.0.cache.load_full();
        if let Some(found) = cache.all_types.get(&realm.realm) {
            return Ok(found);
        }
        let documents = self.documents(realm, DocumentKind::Type).await?;
        let mut found = Vec::with_capacity(documents.len());
        for document in documents {
            found.push(Arc::new(load_type(document).await?));
        }
        let found = Arc::new(found);
        cache.all_types.insert(realm.realm, Arc::clone(&found));
        Ok(found)
    }

    /// Reads every definition of a kind, sorted by name.
    async fn documents(&self, realm: &RealmScope, kind: DocumentKind) -> Result<Vec<Document<Value>>, Unavailable> {
        let mut documents = Vec::new();
        let mut cursor = None;
        loop {
            let query = ListQuery { limit: PAGE_SIZE, cursor: cursor.take(), ..ListQuery::default() };
            let page = self.0.store.definitions(realm).list(kind, &query).await;
            let page = page.map_err(|error| Unavailable::new("the definitions could not be listed", error))?;
            documents.extend(page.items);
            match page.next {
                Some(next) => cursor = Some(next),
                None => return Ok(documents),
            }
        }
    }

    /// Whether a principal with this name exists in the org of the realm.
    pub async fn principal_exists(&self, realm: &RealmScope, name: &str) -> Result<bool, Unavailable> {
        let Ok(name) = name.parse() else { return Ok(false) };
        Ok(self.0.store.tenancy().principal(realm.org, &name).await?.is_some())
    }

    /// Returns an agent's toolset, if it was resolved since the last change of a definition.
    pub fn cached_toolset(&self, key: &ToolsetKey) -> Option<Arc<Toolset>> {
        self.0.cache.load().toolsets.get(key)
    }

    /// Resolves an agent's toolset and caches it until a definition changes. If a definition changes during the
    /// resolution, the result is inserted into the old cache, which is no longer used.
    pub async fn resolve_toolset<F>(&self, key: ToolsetKey, resolve: F) -> Result<Arc<Toolset>, Unavailable>
    where
        F: Future<Output = Result<Toolset, Unavailable>>,
    {
        let cache = self.0.cache.load_full();
        let toolset = Arc::new(resolve.await?);
        cache.toolsets.insert(key, Arc::clone(&toolset));
        Ok(toolset)
    }

    /// Returns the graph of the definitions that a viewer may read. It is built on first use and cached until a
    /// definition changes.
    pub async fn graph<E, F>(&self, viewer: Viewer, build: F) -> Result<Arc<Graph<'static>>, E>
    where
        F: Future<Output = Result<Graph<'static>, E>>,
    {
        let cache = self.0.cache.load_full();
        if let Some(found) = cache.graphs.get(&viewer) {
            return Ok(found);
        }
        let graph = Arc::new(build.await?);
        cache.graphs.insert(viewer, Arc::clone(&graph));
        Ok(graph)
    }

    /// Returns the built-in tool with this name.
    pub fn builtin_tool(&self, name: &str) -> Option<&Arc<CompiledTool>> {
        self.0.builtin.get(name)
    }
}

impl ports::ToolCatalog for Catalog {
    fn resolve<'a>(
        &'a self,
        realm: &'a RealmScope,
        name: &'a str,
        version: Option<&'a VersionReq>,
    ) -> BoxFuture<'a, Result<Option<Arc<CompiledTool>>, ports::PortError>> {
        Box::pin(async move {
            let versions = self.versions(realm, name).await;
            let versions =
                versions.map_err(|error| ports::PortError { port: "the catalog", source: Box::new(error) })?;
            Ok(select_version(&versions, version).cloned())
        })
    }
}
