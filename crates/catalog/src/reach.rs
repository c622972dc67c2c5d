//! Builds the reach graph: what agents can reach through their tools, with the providers of the tools and the data
//! behind them.

use std::collections::{BTreeSet, HashMap, HashSet, VecDeque};
use std::sync::Arc;

use toolwright_tools::CompiledTool;
use toolwright_types::{AgentDefinition, RecordLocation, SideEffects, ToolStatus, ToolType, TypeDefinition};

use crate::access::Session;
use crate::catalog::select_version;
use crate::registry::{Registry, RegistryError, record_tools, referenced_tools};
use crate::toolset::{VersionedRef, excluded_by_name, is_available_to_agents, selection};
use crate::{CompiledType, Unavailable};

/// The maximum number of nodes.
const MAX_NODES: usize = 2_000;
/// The maximum number of edges.
const MAX_EDGES: usize = 10_000;

/// What agents can reach.
#[derive(Debug, Default, PartialEq)]
pub struct Reach {
    /// The nodes, in the order in which they were found.
    pub nodes: Vec<ReachNode>,
    /// The edges.
    pub edges: Vec<ReachEdge>,
    /// Whether the graph has more nodes or edges than the maximum.
    pub truncated: bool,
}

/// A node of the reach graph.
#[derive(Debug, Clone, PartialEq)]
pub struct ReachNode {
    /// The id in this graph, such as `tool:crm/find`.
    pub id: String,
    /// The kind.
    pub kind: ReachKind,
    /// The name.
    pub name: String,
    /// The version of a tool or agent.
    pub version: Option<String>,
    /// The side effects of a tool.
    pub side_effects: Option<SideEffects>,
    /// Whether each call of a tool, or each write of an agent, needs an approval.
    pub requires_confirmation: Option<bool>,
}

/// The kind of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReachKind {
    /// An agent.
    Agent,
    /// A tool.
    Tool,
    /// A provider.
    Provider,
    /// An entity type.
    Type,
    /// A host that receives requests.
    Host,
    /// An external database, named after the secret with its URL.
    Database,
}

impl ReachKind {
    /// The name of the kind.
    pub fn as_str(self) -> &'static str {
        match self {
            ReachKind::Agent => "agent",
            ReachKind::Tool => "tool",
            ReachKind::Provider => "provider",
            ReachKind::Type => "type",
            ReachKind::Host => "host",
            ReachKind::Database => "database",
        }
    }
}

/// An edge of the reach graph.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct ReachEdge {
    /// The id of the node that uses the node `to`.
    pub from: String,
    /// The id of the node that is used.
    pub to: String,
    /// How the node `from` uses the node `to`, such as `name`, `delegate`, `fallback` or `provider`.
    pub by: &'static str,
}

impl Registry {
    /// Returns what one agent can reach, or what all agents together can reach. Definitions that the session may not
    /// read are omitted, with their edges. Disabled and blocked definitions are omitted too.
    pub async fn reach(&self, session: &Session, agent: Option<&str>) -> Result<Reach, RegistryError> {
        let root = match agent {
            Some(reference) => Some(self.get::<AgentDefinition>(session, reference, None).await?.body.ref_name.key()),
            None => None,
        };
        let definitions = self.reachable_definitions(session).await?;
        // Matching thousands of tools with the categories of thousands of agents takes long, so it must not block the
        // async runtime.
        let built = tokio::task::spawn_blocking(move || Walk::new(&definitions).run(root.as_deref())).await;
        built.map_err(|error| Unavailable::new("the reach graph could not be built", error).into())
    }

    async fn reachable_definitions(&self, session: &Session) -> Result<Definitions, RegistryError> {
        let (catalog, realm) = (self.catalog(), &session.realm);
        let agents = self.list_all::<AgentDefinition>(session, Vec::new()).await?;
        let agents: Vec<AgentDefinition> = agents.into_iter().map(|document| document.body).collect();
        let is_reachable = |tool: &&Arc<CompiledTool>| {
            is_available_to_agents(tool) && self.may_read(session, &tool.definition).is_ok()
        };
        let tools: Vec<Arc<CompiledTool>> = catalog.tools(realm).await?.iter().filter(is_reachable).cloned().collect();
        let mut required = HashMap::new();
        for text in agents.iter().flat_map(tool_references).filter(|text| text.contains('@')) {
            let Some(reference) = VersionedRef::parse(text) else { continue };
            let versions = catalog.versions(realm, reference.name).await?;
            let version = select_version(&versions, reference.version_req.as_ref()).filter(is_reachable);
            required.insert(text.to_ascii_lowercase(), version.cloned());
        }
        let providers = tools.iter().chain(required.values().flatten()).filter_map(|tool| tool.provider.as_deref());
        let providers = providers.filter(|provider| self.may_read(session, &provider.config).is_ok());
        let providers = providers.map(|provider| provider.config.ref_name.key()).collect();
        let types = catalog.entity_types(realm).await?;
        let types = types.iter().filter(|entity_type| self.may_read(session, definition(entity_type)).is_ok());
        let types = types.map(|entity_type| definition(entity_type).clone()).collect();
        Ok(Definitions { agents, tools, required, providers, types })
    }
}

fn definition(entity_type: &CompiledType) -> &TypeDefinition {
    &entity_type.definition
}

/// The definitions that a session may read.
struct Definitions {
    agents: Vec<AgentDefinition>,
    /// The current versions of the tools that agents can use.
    tools: Vec<Arc<CompiledTool>>,
    /// The tools that agents refer to with a version requirement. The key is the reference in lower case. The value is
    /// `None` if no version matches.
    required: HashMap<String, Option<Arc<CompiledTool>>>,
    /// The names of the providers, in lower case.
    providers: HashSet<String>,
    types: Vec<TypeDefinition>,
}

/// Returns the references of an agent to tools, including those in its `libraries`.
fn tool_references(agent: &AgentDefinition) -> impl Iterator<Item = &String> {
    agent.tool_refs.iter().chain(agent.libraries.values().flat_map(|tools| tools.values()))
}

/// A breadth-first walk from agents to everything that they reach.
struct Walk<'a> {
    definitions: &'a Definitions,
    agents: HashMap<String, &'a AgentDefinition>,
    tools: HashMap<String, &'a CompiledTool>,
    types: HashMap<String, &'a TypeDefinition>,
    queue: VecDeque<Visit<'a>>,
    seen: HashSet<String>,
    edges: BTreeSet<ReachEdge>,
    reach: Reach,
}

/// A node whose edges have not been found yet.
enum Visit<'a> {
    Agent(&'a AgentDefinition),
    Tool(&'a CompiledTool),
    Type(&'a TypeDefinition),
}

impl<'a> Walk<'a> {
    fn new(definitions: &'a Definitions) -> Self {
        let by_id = definitions.tools.iter().filter(|tool| !tool.id.is_empty()).map(|tool| (tool.id.clone(), &**tool));
        let by_name = definitions.tools.iter().map(|tool| (tool.definition.ref_name.key(), &**tool));
        Self {
            agents: definitions.agents.iter().map(|agent| (agent.ref_name.key(), agent)).collect(),
            tools: by_id.chain(by_name).collect(),
            types: definitions.types.iter().map(|one| (one.ref_name.key(), one)).collect(),
            queue: VecDeque::new(),
            seen: HashSet::new(),
            edges: BTreeSet::new(),
            reach: Reach::default(),
            definitions,
        }
    }

    fn run(mut self, root: Option<&str>) -> Reach {
        let is_root = |agent: &&AgentDefinition| match root {
            Some(root) => agent.ref_name.key() == root,
            None => is_runnable(agent),
        };
        for agent in self.definitions.agents.iter().filter(is_root) {
            self.add_agent(agent);
        }
        while let Some(visit) = self.queue.pop_front() {
            match visit {
                Visit::Agent(agent) => self.visit_agent(agent),
                Visit::Tool(tool) => self.visit_tool(tool),
                Visit::Type(entity_type) => self.visit_type(entity_type),
            }
        }
        self.reach.edges = self.edges.into_iter().collect();
        self.reach
    }

    fn visit_agent(&mut self, agent: &'a AgentDefinition) {
        let from = node_id(ReachKind::Agent, agent.ref_name.as_str());
        let definitions = self.definitions;
        for text in tool_references(agent).filter(|text| text.contains('@')) {
            let tool = definitions.required.get(&text.to_ascii_lowercase()).and_then(Option::as_deref);
            let Some(tool) = tool.filter(|tool| !excluded_by_name(agent, tool.definition.ref_name.as_str())) else {
                continue;
            };
            let by = if agent.tool_refs.contains(text) { "name" } else { "library" };
            self.link_tool(&from, tool, by);
        }
        for tool in &definitions.tools {
            let name = tool.definition.ref_name.as_str();
            let refers = |reference: &VersionedRef<'_>| {
                reference.version_req.is_none()
                    && (reference.name.eq_ignore_ascii_case(name) || reference.name == tool.id)
            };
            for by in selection(agent, &tool.definition, refers) {
                self.link_tool(&from, tool, by.as_str());
            }
        }
        for reference in agent.delegate_agent_refs.iter().filter_map(|text| VersionedRef::parse(text)) {
            let delegate = self.agents.get(&reference.name.to_ascii_lowercase()).copied();
            if let Some(to) = delegate.filter(|agent| is_runnable(agent)).and_then(|agent| self.add_agent(agent)) {
                self.link(&from, to, "delegate");
            }
        }
    }

    fn visit_tool(&mut self, tool: &'a CompiledTool) {
        let from = tool_id(tool, self.tools.get(&tool.definition.ref_name.key()).copied());
        let provider = tool.provider.as_deref();
        match provider.filter(|provider| self.definitions.providers.contains(&provider.config.ref_name.key())) {
            Some(provider) => {
                if let Some(to) = self.add(ReachKind::Provider, provider.config.ref_name.as_str()) {
                    self.link(&from, to.clone(), "provider");
                    self.link_host(&to, provider.base_url().map(ToString::to_string).as_deref());
                }
            }
            // The path of a tool without a provider is a URL.
            None if provider.is_none() && tool.definition.tool_type.makes_requests() => {
                self.link_host(&from, tool.definition.invocation.path.as_deref());
            }
            None => {}
        }
        for (by, name) in referenced_tools(&tool.definition) {
            let name = VersionedRef::parse(name).map_or(name, |reference| reference.name);
            if let Some(other) = self.tools.get(&name.to_ascii_lowercase()).copied() {
                self.link_tool(&from, other, by);
            }
        }
        if matches!(tool.definition.tool_type, ToolType::QuantumApi | ToolType::QuantumQuery) {
            let name = tool.definition.invocation.path.as_deref().unwrap_or_default().to_ascii_lowercase();
            if let Some(entity_type) = self.types.get(&name).copied()
                && let Some(to) = self.add(ReachKind::Type, entity_type.ref_name.as_str())
            {
                self.link(&from, to, "records");
                self.queue.push_back(Visit::Type(entity_type));
            }
        }
    }

    fn visit_type(&mut self, entity_type: &'a TypeDefinition) {
        let from = node_id(ReachKind::Type, entity_type.ref_name.as_str());
        for name in record_tools(entity_type) {
            if let Some(tool) = self.tools.get(&name.to_ascii_lowercase()).copied() {
                self.link_tool(&from, tool, "records");
            }
        }
        if let Some(RecordLocation::Sql(sql)) = &entity_type.records
            && let Some(to) = self.add(ReachKind::Database, &sql.url_secret_ref)
        {
            self.link(&from, to, "records");
        }
    }

    fn link_tool(&mut self, from: &str, tool: &'a CompiledTool, by: &'static str) {
        let id = tool_id(tool, self.tools.get(&tool.definition.ref_name.key()).copied());
        let definition = &tool.definition;
        let is_new = !self.seen.contains(&id);
        let node = ReachNode {
            version: Some(definition.version.to_string()),
            side_effects: Some(tool.effects),
            requires_confirmation: Some(definition.requires_confirmation),
            ..ReachNode::new(id.clone(), ReachKind::Tool, definition.ref_name.as_str())
        };
        if self.add_node(node) {
            self.link(from, id, by);
            if is_new {
                self.queue.push_back(Visit::Tool(tool));
            }
        }
    }

    fn link_host(&mut self, from: &str, url: Option<&str>) {
        if let Some(host) = url.and_then(host_of)
            && let Some(to) = self.add(ReachKind::Host, host)
        {
            self.link(from, to, "host");
        }
    }

    /// Adds an agent and returns its id. `None` if the graph is full.
    fn add_agent(&mut self, agent: &'a AgentDefinition) -> Option<String> {
        let id = node_id(ReachKind::Agent, agent.ref_name.as_str());
        let is_new = !self.seen.contains(&id);
        let node = ReachNode {
            version: Some(agent.version.to_string()),
            requires_confirmation: Some(agent.requires_approval),
            ..ReachNode::new(id.clone(), ReachKind::Agent, agent.ref_name.as_str())
        };
        let added = self.add_node(node);
        if added && is_new {
            self.queue.push_back(Visit::Agent(agent));
        }
        added.then_some(id)
    }

    fn add(&mut self, kind: ReachKind, name: &str) -> Option<String> {
        let id = node_id(kind, name);
        self.add_node(ReachNode::new(id.clone(), kind, name)).then_some(id)
    }

    /// Adds a node if it is new. Returns false if the graph is full and does not contain the node.
    fn add_node(&mut self, node: ReachNode) -> bool {
        if self.seen.contains(&node.id) {
            return true;
        }
        if self.reach.nodes.len() >= MAX_NODES {
            self.reach.truncated = true;
            return false;
        }
        self.seen.insert(node.id.clone());
        self.reach.nodes.push(node);
        true
    }

    fn link(&mut self, from: &str, to: String, by: &'static str) {
        if self.edges.len() >= MAX_EDGES {
            self.reach.truncated = true;
            return;
        }
        self.edges.insert(ReachEdge { from: from.to_owned(), to, by });
    }
}

impl ReachNode {
    fn new(id: String, kind: ReachKind, name: &str) -> Self {
        Self { id, kind, name: name.to_owned(), version: None, side_effects: None, requires_confirmation: None }
    }
}

fn is_runnable(agent: &AgentDefinition) -> bool {
    agent.enabled && agent.status != ToolStatus::Blocked
}

fn node_id(kind: ReachKind, name: &str) -> String {
    format!("{}:{}", kind.as_str(), name.to_ascii_lowercase())
}

/// Returns the id of a tool. The id of a version other than the current one contains the version.
fn tool_id(tool: &CompiledTool, current: Option<&CompiledTool>) -> String {
    let id = node_id(ReachKind::Tool, tool.definition.ref_name.as_str());
    match current {
        Some(current) if current.definition.version == tool.definition.version => id,
        _ => format!("{id}@{}", tool.definition.version),
    }
}

/// Returns the host and the port of a URL, without the user and the path. The URL may be a template.
fn host_of(url: &str) -> Option<&str> {
    let (_, rest) = url.split_once("://")?;
    let authority = rest.split(['/', '?', '#']).next()?;
    let host = authority.rsplit('@').next()?;
    (!host.is_empty()).then_some(host)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn host_of_a_url_has_neither_credentials_nor_path() {
        for (url, host) in [
            ("https://api.example.com/v1?key=1", Some("api.example.com")),
            ("http://user:secret@10.0.0.1:8080/x", Some("10.0.0.1:8080")),
            ("https://${input.region}.example.com/x", Some("${input.region}.example.com")),
            ("/relative", None),
            ("https://", None),
        ] {
            assert_eq!(host_of(url), host, "{url}");
        }
    }
}
