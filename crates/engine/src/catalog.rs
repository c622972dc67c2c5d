//! Tools and agents ready to use, compiled when first asked for and kept until any definition changes.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashSet};
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use futures::future::BoxFuture;
use quick_cache::Equivalent;
use semver::VersionReq;
use serde_json::Value;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use toolwright_gram::Graph;
use toolwright_store::{ListQuery, Ref, Store};
use toolwright_tools::http::CompiledProvider;
use toolwright_tools::{CompiledTool, Issues, Library, ports};
use toolwright_types::{
    AgentDefinition, Document, DocumentKind, Principal, PrincipalId, PromptFragment, RealmId, RealmScope, Role, Status,
    ToolDefinition, ToolProviderConfig, ToolType, TypeDefinition,
};

use crate::Unavailable;
use crate::agents::{CompiledAgent, Toolset};
use crate::records::CompiledType;

/// How long a change made by another server may go unnoticed.
const POLL: Duration = Duration::from_secs(1);

/// How many definitions are read at once.
const PAGE: u32 = 1000;

/// How many things the graphs of all viewers have together: about half a gigabyte.
const MOST_THINGS: u64 = 500_000;

/// Finds and compiles tools and agents. Cheap to clone.
#[derive(Clone)]
pub struct Catalog(Arc<Inner>);

struct Inner {
    store: Store,
    library: Arc<Library>,
    builtin: BTreeMap<String, Arc<CompiledTool>>,
    /// Replaced as a whole when a definition changes. A reader that began before the change fills the old one,
    /// which nobody looks at any more, so nothing stale outlives a change.
    compiled: ArcSwap<Compiled>,
    /// Counts the changes, for those who keep something made of definitions.
    edition: watch::Sender<u64>,
}

/// Everything that was compiled since the last change.
struct Compiled {
    /// Asked for every call, so the cheapest to ask.
    versions: quick_cache::sync::Cache<Named<String>, Tools>,
    /// The present version of every tool of a realm.
    all: moka::sync::Cache<RealmId, Tools>,
    agents: moka::sync::Cache<(RealmId, String), Arc<CompiledAgent>>,
    types: moka::sync::Cache<(RealmId, String), Arc<CompiledType>>,
    /// Every type of a realm.
    all_types: moka::sync::Cache<RealmId, Types>,
    toolsets: moka::sync::Cache<ToolsetKey, Arc<Toolset>>,
    graphs: moka::sync::Cache<Viewer, Arc<Graph<'static>>>,
}

type Tools = Arc<Vec<Arc<CompiledTool>>>;
type Types = Arc<Vec<Arc<CompiledType>>>;

/// What is called so in a realm.
#[derive(PartialEq, Eq, Hash)]
struct Named<S> {
    realm: RealmId,
    name: S,
}

impl Equivalent<Named<String>> for Named<&str> {
    fn equivalent(&self, kept: &Named<String>) -> bool {
        self.realm == kept.realm && self.name == kept.name
    }
}

/// A name as it is compared: capitals are no other letters.
fn key_of(name: &str) -> Cow<'_, str> {
    match name.bytes().any(|byte| byte.is_ascii_uppercase()) {
        true => Cow::Owned(name.to_ascii_lowercase()),
        false => Cow::Borrowed(name),
    }
}

/// Whose view of which agent's tools.
#[derive(PartialEq, Eq, Hash)]
pub(crate) struct ToolsetKey {
    pub agent: String,
    pub viewer: Viewer,
}

/// Who looks at which realm: permission decides what is there to be seen.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Viewer {
    realm: RealmId,
    principal: PrincipalId,
    home: RealmId,
    roles: Vec<Role>,
}

impl Viewer {
    /// The viewer that `principal` is in `realm`.
    pub fn of(principal: &Principal, realm: &RealmScope) -> Self {
        let Principal { id, home, roles, .. } = principal;
        Self { realm: realm.realm, principal: *id, home: *home, roles: roles.clone() }
    }
}

impl Catalog {
    pub(crate) fn new(store: Store, library: Arc<Library>) -> Self {
        let builtin = toolwright_tools::builtin::tools(&library);
        let compiled = ArcSwap::from_pointee(Compiled::empty());
        Self(Arc::new(Inner { store, library, builtin, compiled, edition: watch::Sender::new(0) }))
    }

    /// The tools that need no definition.
    pub fn builtin(&self) -> impl Iterator<Item = &Arc<CompiledTool>> {
        self.0.builtin.values()
    }

    /// Whether a tool writes although its definition does not say so.
    pub(crate) fn writes_silently(&self, tool: &ToolDefinition) -> bool {
        toolwright_tools::writes_silently(tool, &self.0.library)
    }

    /// What a tool's function says of itself, where the definition says something else.
    pub(crate) fn described_differently(&self, tool: &ToolDefinition) -> Option<&str> {
        let function = self.0.library.lookup(tool.invocation.path.as_deref()?).ok()?;
        let said = function.spec().description.as_str();
        (tool.tool_type == ToolType::Function && tool.description.as_deref()? != said).then_some(said)
    }

    /// Forgets everything compiled, because a definition changed.
    pub(crate) fn changed(&self) {
        self.0.compiled.store(Arc::new(Compiled::empty()));
        // INVARIANT: after the old set is gone. Whoever reads the new number finds nothing older than it.
        self.0.edition.send_modify(|edition| *edition += 1);
    }

    /// The number of changes so far, and every further one. What is made of definitions after the number was read is
    /// at least as new as the number.
    pub fn editions(&self) -> watch::Receiver<u64> {
        self.0.edition.subscribe()
    }

    /// Notices changes that other servers make, until `stop`. `seen` is the generation before anything was compiled.
    pub(crate) async fn follow(self, mut seen: i64, stop: CancellationToken) {
        while stop.run_until_cancelled(tokio::time::sleep(POLL)).await.is_some() {
            match self.0.store.generation().await {
                Ok(now) if seen != now => {
                    self.changed();
                    seen = now;
                }
                Ok(_) => {}
                Err(error) => tracing::warn!(%error, "cannot see whether definitions changed"),
            }
        }
    }

    /// All versions of a tool, highest first; empty when there is none.
    pub async fn versions(&self, realm: &RealmScope, name: &str) -> Result<Tools, Unavailable> {
        let compiled = self.0.compiled.load_full();
        let key = key_of(name);
        if let Some(found) = compiled.versions.get(&Named { realm: realm.realm, name: &*key }) {
            return Ok(found);
        }
        let reference = Ref::parse(DocumentKind::Tool, name);
        let documents = self.0.store.in_realm(realm).versions(DocumentKind::Tool, &reference).await?;
        let mut tools = Vec::with_capacity(documents.len());
        for document in documents {
            tools.push(Arc::new(self.load(realm, document).await?));
        }
        match self.0.builtin.get(&*key) {
            Some(builtin) if tools.is_empty() => tools.push(Arc::clone(builtin)),
            // Not kept: names that do not exist are without number.
            None if tools.is_empty() => return Ok(Arc::default()),
            _ => {}
        }
        let tools = Arc::new(tools);
        compiled.versions.insert(Named { realm: realm.realm, name: key.into_owned() }, Arc::clone(&tools));
        Ok(tools)
    }

    /// The present version of every tool of a realm, those that need no definition last.
    pub(crate) async fn all(&self, realm: &RealmScope) -> Result<Tools, Unavailable> {
        let compiled = self.0.compiled.load_full();
        if let Some(found) = compiled.all.get(&realm.realm) {
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
        compiled.all.insert(realm.realm, Arc::clone(&tools));
        Ok(tools)
    }

    /// An agent, by name or id.
    pub(crate) async fn agent(
        &self,
        realm: &RealmScope,
        name: &str,
    ) -> Result<Option<Arc<CompiledAgent>>, Unavailable> {
        let compiled = self.0.compiled.load_full();
        let key = (realm.realm, name.to_ascii_lowercase());
        if let Some(found) = compiled.agents.get(&key) {
            return Ok(Some(found));
        }
        let reference = Ref::parse(DocumentKind::Agent, name);
        let Some(document) = self.0.store.in_realm(realm).get(DocumentKind::Agent, &reference).await? else {
            return Ok(None);
        };
        let broken = Unavailable::new("a stored agent cannot be used by this release");
        let document: Document<AgentDefinition> = match document.try_map(serde_json::from_value) {
            Ok(document) => document,
            Err(error) => return Err(broken(Box::new(error))),
        };
        match self.compile_agent(realm, document).await? {
            Ok((agent, _)) => {
                let agent = Arc::new(agent);
                compiled.agents.insert(key, Arc::clone(&agent));
                Ok(Some(agent))
            }
            Err(issues) => Err(broken(Box::new(issues))),
        }
    }

    /// A type of records, by name or id.
    pub(crate) async fn entity_type(
        &self,
        realm: &RealmScope,
        name: &str,
    ) -> Result<Option<Arc<CompiledType>>, Unavailable> {
        let compiled = self.0.compiled.load_full();
        let key = (realm.realm, name.to_ascii_lowercase());
        if let Some(found) = compiled.types.get(&key) {
            return Ok(Some(found));
        }
        let reference = Ref::parse(DocumentKind::Type, name);
        let Some(document) = self.0.store.in_realm(realm).get(DocumentKind::Type, &reference).await? else {
            return Ok(None);
        };
        let found = Arc::new(load_type(document)?);
        compiled.types.insert(key, Arc::clone(&found));
        Ok(Some(found))
    }

    /// All types of a realm, by name.
    pub(crate) async fn entity_types(&self, realm: &RealmScope) -> Result<Types, Unavailable> {
        let compiled = self.0.compiled.load_full();
        if let Some(found) = compiled.all_types.get(&realm.realm) {
            return Ok(found);
        }
        let documents = self.documents(realm, DocumentKind::Type).await?;
        let found: Vec<_> =
            documents.into_iter().map(|document| load_type(document).map(Arc::new)).collect::<Result<_, _>>()?;
        let found = Arc::new(found);
        compiled.all_types.insert(realm.realm, Arc::clone(&found));
        Ok(found)
    }

    /// Every definition of a kind, by name.
    async fn documents(&self, realm: &RealmScope, kind: DocumentKind) -> Result<Vec<Document<Value>>, Unavailable> {
        let mut documents = Vec::new();
        let mut cursor = None;
        loop {
            let query = ListQuery { limit: PAGE, cursor: cursor.take(), ..ListQuery::default() };
            let page = self.0.store.in_realm(realm).list(kind, &query).await;
            let page = page.map_err(|error| Unavailable::new("the definitions cannot be listed")(Box::new(error)))?;
            documents.extend(page.items);
            match page.next {
                Some(next) => cursor = Some(next),
                None => return Ok(documents),
            }
        }
    }

    /// The definition, compiled with the fragments of the moment, and which of those are missing.
    pub(crate) async fn compile_agent(
        &self,
        realm: &RealmScope,
        document: Document<AgentDefinition>,
    ) -> Result<Result<(CompiledAgent, Vec<String>), Issues>, Unavailable> {
        let (mut fragments, mut missing) = (Vec::new(), Vec::new());
        for name in &document.body.system_prompt_refs {
            match self.fragment(realm, name).await? {
                Some(fragment) => fragments.push(fragment),
                None => missing.push(name.clone()),
            }
        }
        Ok(CompiledAgent::compile(document, &fragments).map(|agent| (agent, missing)))
    }

    async fn fragment(&self, realm: &RealmScope, name: &str) -> Result<Option<PromptFragment>, Unavailable> {
        let reference = Ref::parse(DocumentKind::Fragment, name);
        let found = self.0.store.in_realm(realm).get(DocumentKind::Fragment, &reference).await?;
        let parsed = found.map(|document| serde_json::from_value(document.body)).transpose();
        parsed.map_err(|error| Unavailable::new("a stored prompt fragment cannot be read")(Box::new(error)))
    }

    /// Whether there is a principal of this name in the realm's org.
    pub(crate) async fn knows_principal(&self, realm: &RealmScope, name: &str) -> Result<bool, Unavailable> {
        let Ok(name) = name.parse() else { return Ok(false) };
        Ok(self.0.store.tenancy().principal(realm.org, &name).await?.is_some())
    }

    /// A view of an agent's tools that was made since the last change.
    pub(crate) fn known_toolset(&self, key: &ToolsetKey) -> Option<Arc<Toolset>> {
        self.0.compiled.load().toolsets.get(key)
    }

    /// Makes a view of an agent's tools and keeps it until the next change. Whoever resolves does so from what was
    /// compiled when it began: a change meanwhile leaves the view in a set that nobody asks any more.
    pub(crate) async fn toolset<F>(&self, key: ToolsetKey, resolve: F) -> Result<Arc<Toolset>, Unavailable>
    where
        F: Future<Output = Result<Toolset, Unavailable>>,
    {
        let compiled = self.0.compiled.load_full();
        let toolset = Arc::new(resolve.await?);
        compiled.toolsets.insert(key, Arc::clone(&toolset));
        Ok(toolset)
    }

    /// The definitions that someone sees as a graph, made when first asked for and kept until the next change.
    pub(crate) async fn graph<E, F>(&self, viewer: Viewer, make: F) -> Result<Arc<Graph<'static>>, E>
    where
        F: Future<Output = Result<Graph<'static>, E>>,
    {
        let compiled = self.0.compiled.load_full();
        if let Some(found) = compiled.graphs.get(&viewer) {
            return Ok(found);
        }
        let graph = Arc::new(make.await?);
        compiled.graphs.insert(viewer, Arc::clone(&graph));
        Ok(graph)
    }

    /// The tool that needs no definition of this name.
    pub(crate) fn builtin_named(&self, name: &str) -> Option<&Arc<CompiledTool>> {
        self.0.builtin.get(name)
    }

    /// A tool that no one defined, such as an agent as another one sees it.
    pub(crate) fn compile_unsaved(&self, document: Document<ToolDefinition>) -> Result<CompiledTool, Issues> {
        CompiledTool::compile(document, None, &self.0.library)
    }

    /// The definition, compiled with this provider and the library of the moment.
    pub(crate) fn compile_under(
        &self,
        document: Document<ToolDefinition>,
        provider: Arc<CompiledProvider>,
    ) -> Result<CompiledTool, Issues> {
        CompiledTool::compile(document, Some(provider), &self.0.library)
    }

    /// A tool that no one defined, of a provider that need not be saved.
    pub(crate) fn compile_with(
        &self,
        document: Document<ToolDefinition>,
        provider: ToolProviderConfig,
    ) -> Result<CompiledTool, Issues> {
        let provider = CompiledProvider::compile(Document::unsaved(provider.ref_name.clone(), provider))?;
        self.compile_under(document, Arc::new(provider))
    }

    /// The definition, compiled with the provider and library of the moment.
    pub(crate) async fn compile(
        &self,
        realm: &RealmScope,
        document: Document<ToolDefinition>,
    ) -> Result<Result<CompiledTool, Issues>, Unavailable> {
        let provider = match document.body.provider_ref.as_deref() {
            Some(name) => self.provider(realm, name).await?,
            None => None,
        };
        Ok(CompiledTool::compile(document, provider, &self.0.library))
    }

    async fn load(&self, realm: &RealmScope, document: Document<Value>) -> Result<CompiledTool, Unavailable> {
        let broken = Unavailable::new("a stored definition cannot be used by this release");
        let parsed: Result<Document<ToolDefinition>, _> = document.try_map(serde_json::from_value);
        match parsed {
            Ok(document) => self.compile(realm, document).await?.map_err(|issues| broken(Box::new(issues))),
            Err(error) => Err(broken(Box::new(error))),
        }
    }

    async fn provider(&self, realm: &RealmScope, name: &str) -> Result<Option<Arc<CompiledProvider>>, Unavailable> {
        let reference = Ref::parse(DocumentKind::Provider, name);
        let Some(document) = self.0.store.in_realm(realm).get(DocumentKind::Provider, &reference).await? else {
            return Ok(None);
        };
        let broken = Unavailable::new("a stored provider cannot be used by this release");
        let parsed: Result<Document<ToolProviderConfig>, _> = document.try_map(serde_json::from_value);
        match parsed {
            Ok(document) => match CompiledProvider::compile(document) {
                Ok(provider) => Ok(Some(Arc::new(provider))),
                Err(issues) => Err(broken(Box::new(issues))),
            },
            Err(error) => Err(broken(Box::new(error))),
        }
    }
}

fn load_type(document: Document<Value>) -> Result<CompiledType, Unavailable> {
    let broken = Unavailable::new("a stored type cannot be used by this release");
    let parsed: Result<Document<TypeDefinition>, _> = document.try_map(serde_json::from_value);
    match parsed.map(CompiledType::compile) {
        Ok(Ok((found, _))) => Ok(found),
        Ok(Err(issues)) => Err(broken(Box::new(issues))),
        Err(error) => Err(broken(Box::new(error))),
    }
}

impl ports::Catalog for Catalog {
    fn resolve<'a>(
        &'a self,
        realm: &'a RealmScope,
        name: &'a str,
        version: Option<&'a VersionReq>,
    ) -> BoxFuture<'a, Result<Option<Arc<CompiledTool>>, ports::Unavailable>> {
        Box::pin(async move {
            let versions = self.versions(realm, name).await;
            let versions =
                versions.map_err(|error| ports::Unavailable { port: "the catalog", source: Box::new(error) })?;
            Ok(choose(&versions, version).cloned())
        })
    }
}

impl Compiled {
    fn empty() -> Self {
        Self {
            versions: quick_cache::sync::Cache::new(20_000),
            all: moka::sync::Cache::builder().max_capacity(1_000).build(),
            agents: moka::sync::Cache::builder().max_capacity(5_000).build(),
            types: moka::sync::Cache::builder().max_capacity(10_000).build(),
            all_types: moka::sync::Cache::builder().max_capacity(1_000).build(),
            toolsets: moka::sync::Cache::builder().max_capacity(5_000).build(),
            graphs: moka::sync::Cache::builder()
                .max_capacity(MOST_THINGS)
                .weigher(|_, graph: &Arc<Graph>| u32::try_from(graph.len()).unwrap_or(u32::MAX))
                .build(),
        }
    }
}

/// The version that a requirement means among all of a tool, highest first.
///
/// An exact version is taken whatever its status: the executor refuses a blocked one by name. Otherwise the highest
/// active version that fits, else deprecated, else blocked. A draft is never chosen for anyone who did not name it.
pub(crate) fn choose<'a>(
    versions: &'a [Arc<CompiledTool>],
    wanted: Option<&VersionReq>,
) -> Option<&'a Arc<CompiledTool>> {
    let fits = |tool: &&Arc<CompiledTool>| wanted.is_none_or(|wanted| wanted.matches(&tool.definition.version));
    if let Some(exact) = wanted.and_then(exact_version) {
        return versions.iter().find(|tool| tool.definition.version == exact);
    }
    [Status::Active, Status::Deprecated, Status::Blocked]
        .into_iter()
        .find_map(|status| versions.iter().filter(fits).find(|tool| tool.definition.status == status))
}

/// The one version that `=1.2.3` means.
fn exact_version(wanted: &VersionReq) -> Option<semver::Version> {
    match wanted.comparators.as_slice() {
        [one] if one.op == semver::Op::Exact => {
            let mut version = semver::Version::new(one.major, one.minor?, one.patch?);
            version.pre = one.pre.clone();
            Some(version)
        }
        _ => None,
    }
}
