//! The caches of compiled definitions, and their keys.

use std::borrow::Cow;
use std::sync::Arc;

use quick_cache::Equivalent;
use toolwright_gram::Graph;
use toolwright_tools::CompiledTool;
use toolwright_types::{Principal, PrincipalId, RealmId, RealmScope, Role};

use crate::agent::CompiledAgent;
use crate::entity_type::CompiledType;
use crate::toolset::Toolset;
use crate::workflow::CompiledWorkflow;

/// The maximum total number of items in all cached graphs. This many items use about half a gigabyte of memory.
const MAX_GRAPH_ITEMS: u64 = 500_000;

/// The definitions that were compiled since the last change of a definition.
pub(super) struct DefinitionCache {
    /// The versions of each tool. This cache is read on every call, so it uses the fastest implementation.
    pub versions: quick_cache::sync::Cache<NameKey<String>, Tools>,
    /// The current version of every tool of a realm.
    pub all_tools: moka::sync::Cache<RealmId, Tools>,
    pub agents: moka::sync::Cache<(RealmId, String), Arc<CompiledAgent>>,
    pub workflows: moka::sync::Cache<(RealmId, String), Arc<CompiledWorkflow>>,
    pub types: moka::sync::Cache<(RealmId, String), Arc<CompiledType>>,
    /// Every type of a realm.
    pub all_types: moka::sync::Cache<RealmId, Types>,
    pub toolsets: moka::sync::Cache<ToolsetKey, Arc<Toolset>>,
    pub graphs: moka::sync::Cache<Viewer, Arc<Graph<'static>>>,
}

impl DefinitionCache {
    pub(super) fn new() -> Self {
        Self {
            versions: quick_cache::sync::Cache::new(20_000),
            all_tools: moka::sync::Cache::builder().max_capacity(1_000).build(),
            agents: moka::sync::Cache::builder().max_capacity(5_000).build(),
            workflows: moka::sync::Cache::builder().max_capacity(5_000).build(),
            types: moka::sync::Cache::builder().max_capacity(10_000).build(),
            all_types: moka::sync::Cache::builder().max_capacity(1_000).build(),
            toolsets: moka::sync::Cache::builder().max_capacity(5_000).build(),
            graphs: moka::sync::Cache::builder()
                .max_capacity(MAX_GRAPH_ITEMS)
                .weigher(|_, graph: &Arc<Graph>| u32::try_from(graph.len()).unwrap_or(u32::MAX))
                .build(),
        }
    }
}

pub(super) type Tools = Arc<Vec<Arc<CompiledTool>>>;
pub(super) type Types = Arc<Vec<Arc<CompiledType>>>;

/// A cache key: a realm and a normalized name. Lookups use a borrowed name.
#[derive(PartialEq, Eq, Hash)]
pub(super) struct NameKey<S> {
    pub realm: RealmId,
    pub name: S,
}

impl Equivalent<NameKey<String>> for NameKey<&str> {
    fn equivalent(&self, key: &NameKey<String>) -> bool {
        self.realm == key.realm && self.name == key.name
    }
}

/// Returns a name in lower case, because names are compared without regard to case.
pub(super) fn normalized_name(name: &str) -> Cow<'_, str> {
    match name.bytes().any(|byte| byte.is_ascii_uppercase()) {
        true => Cow::Owned(name.to_ascii_lowercase()),
        false => Cow::Borrowed(name),
    }
}

/// A cache key: an agent and the principal that uses its tools.
#[derive(PartialEq, Eq, Hash)]
pub struct ToolsetKey {
    /// The id, the revision and the content hash of the agent.
    pub agent: String,
    /// The principal and the realm.
    pub viewer: Viewer,
}

/// A cache key: a principal and a realm. It contains everything on which the principal's permissions depend.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Viewer {
    realm: RealmId,
    principal: PrincipalId,
    home: RealmId,
    roles: Vec<Role>,
}

impl Viewer {
    /// Creates the viewer for `principal` in `realm`.
    pub fn new(principal: &Principal, realm: &RealmScope) -> Self {
        let Principal { id, home, roles, .. } = principal;
        Self { realm: realm.realm, principal: *id, home: *home, roles: roles.clone() }
    }
}
