//! Builds a graph of the definitions of a realm, for queries such as which agents can call which tools.
//!
//! A pattern is a node or an edge of the graph. It shows the effective definition, not only the fields that the author
//! wrote. For example, the pattern of an agent includes the tools that the agent selects by category or tag. If a tool
//! declares no side effects, its pattern shows the side effects that follow from its HTTP method.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use toolwright_gram::{Graph, Pattern};
use toolwright_notation::{reference_relations, write_agent, write_tool};
use toolwright_types::{AgentDefinition, Document, ToolDefinition};

use crate::catalog::Viewer;
use crate::registry::{Definition, DefinitionQuery, Registry, RegistryError};
use crate::toolset::{excluded_by_name, matches_category_or_tag};
use crate::{Session, Unavailable};

/// The number of definitions per page.
const PAGE_SIZE: u32 = 1000;

impl Registry {
    /// Returns a graph of the agents and tools that the session may read, with the relations between them. Relations
    /// refer to agents and tools by name. If an agent and a tool have the same name, the tool is named `tool:name`. The
    /// graph is cached until a definition changes.
    pub async fn graph(&self, session: &Session) -> Result<Arc<Graph<'static>>, RegistryError> {
        let build = async {
            let (agents, tools) = self.readable(session).await?;
            // Building a graph of thousands of definitions takes long, so it must not block the async runtime.
            let built =
                tokio::task::spawn_blocking(move || Graph::from_patterns(&patterns(&agents, tools)).into_owned()).await;
            built.map_err(|error| Unavailable::new("the graph of the definitions could not be built", error).into())
        };
        self.catalog().graph(Viewer::new(&session.principal, &session.realm), build).await
    }

    async fn readable(&self, session: &Session) -> Result<(Vec<AgentDefinition>, Vec<ToolDefinition>), RegistryError> {
        let agents: Vec<AgentDefinition> = self.read_all(session).await?;
        let mut tools: Vec<ToolDefinition> = self.read_all(session).await?;
        let defined: HashSet<String> = tools.iter().map(|tool| tool.ref_name.key()).collect();
        let builtin = self.catalog().builtin_tools().map(|tool| &tool.definition);
        let readable = builtin.filter(|tool| self.may_read(session, *tool).is_ok());
        tools.extend(readable.filter(|tool| !defined.contains(&tool.ref_name.key())).cloned());
        Ok((agents, tools))
    }

    async fn read_all<T: Definition>(&self, session: &Session) -> Result<Vec<T>, RegistryError> {
        let mut all = Vec::new();
        let mut cursor = None;
        loop {
            let query = DefinitionQuery { limit: PAGE_SIZE, cursor: cursor.take(), ..DefinitionQuery::default() };
            let page = self.list::<T>(session, query).await?;
            all.extend(page.items.into_iter().map(|Document { body, .. }| body));
            match page.next {
                Some(next) => cursor = Some(next),
                None => return Ok(all),
            }
        }
    }
}

fn patterns(agents: &[AgentDefinition], mut tools: Vec<ToolDefinition>) -> Vec<Pattern> {
    let agent_keys: HashSet<String> = agents.iter().map(|agent| agent.ref_name.key()).collect();
    let names: HashMap<String, String> = tools
        .iter()
        .map(|tool| {
            let name = tool.ref_name.to_string();
            let key = tool.ref_name.key();
            let name = if agent_keys.contains(&key) { format!("tool:{name}") } else { name };
            (key, name)
        })
        .collect();
    for tool in &mut tools {
        tool.side_effects = Some(tool.effects());
    }
    let named = |tool: &ToolDefinition| names.get(&tool.ref_name.key()).cloned().unwrap_or_default();
    let mut patterns: Vec<Pattern> = Vec::with_capacity(agents.len() + tools.len());
    for agent in agents {
        let mut pattern = write_agent(agent);
        pattern.elements = tool_names(agent, &tools, &names).into_iter().map(Pattern::named).collect();
        patterns.push(pattern);
    }
    for tool in &tools {
        let mut pattern = write_tool(tool);
        pattern.subject.identity = named(tool);
        patterns.push(pattern);
    }
    let mut relations = reference_relations(&patterns);
    let agent_names: HashMap<String, &str> =
        agents.iter().map(|agent| (agent.ref_name.key(), agent.ref_name.as_str())).collect();
    for link in &mut relations {
        let to_agent = link.has_label("DELEGATES_TO");
        if let Some(end) = link.elements.get_mut(1) {
            let key = end.identity().to_ascii_lowercase();
            let known =
                if to_agent { agent_names.get(&key).map(|name| (*name).to_owned()) } else { names.get(&key).cloned() };
            end.subject.identity = known.unwrap_or_else(|| end.identity().to_owned());
        }
    }
    patterns.extend(relations);
    patterns
}

/// Returns the names of an agent's tools without duplicates: first the tools that the agent names, then the tools that
/// it selects by category or tag. Excluded tools are omitted.
fn tool_names(agent: &AgentDefinition, tools: &[ToolDefinition], names: &HashMap<String, String>) -> Vec<String> {
    let mut seen = HashSet::new();
    let named = agent.tool_refs.iter().map(|text| text.split_once('@').map_or(text.as_str(), |(name, _)| name));
    let selects = !agent.tool_categories.is_empty() || !agent.tool_tags.is_empty();
    // An agent without categories and tags needs no scan over all tools.
    let candidates = if selects { tools } else { &[] };
    let selected =
        candidates.iter().filter(|tool| matches_category_or_tag(agent, tool)).map(|tool| tool.ref_name.as_str());
    let all = named.chain(selected).filter(|name| !excluded_by_name(agent, name));
    let all = all.map(|name| names.get(&name.to_ascii_lowercase()).cloned().unwrap_or_else(|| name.to_owned()));
    all.filter(|name| seen.insert(name.to_ascii_lowercase())).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use toolwright_gram::Query;

    use super::*;

    fn query_names(query: &str) -> Vec<String> {
        let agents = [
            json!({ "refName": "desk", "toolTags": ["crm"], "excludedToolRefs": ["crm/drop"], "delegateAgentRefs": ["CLERK@^1"] }),
            json!({ "refName": "clerk", "toolRefs": ["Store@^1"], "requiresApproval": true }),
            json!({ "refName": "twin", "toolRefs": ["twin"] }),
        ];
        let tools = [
            json!({ "refName": "crm/find", "toolType": "FUNCTION", "tags": ["crm"] }),
            json!({ "refName": "crm/drop", "toolType": "FUNCTION", "tags": ["crm"], "sideEffects": "writes" }),
            json!({ "refName": "store", "toolType": "EXTERNAL_REST", "invocation": { "method": "POST", "path": "/x" } }),
            json!({ "refName": "twin", "toolType": "FUNCTION", "verifyToolRef": "store" }),
        ];
        let agents: Vec<AgentDefinition> = agents.map(|agent| serde_json::from_value(agent).unwrap()).into();
        let tools: Vec<ToolDefinition> = tools.map(|tool| serde_json::from_value(tool).unwrap()).into();
        let patterns = patterns(&agents, tools);
        let graph = Graph::from_patterns(&patterns);
        let query = Query::parse(query).unwrap();
        let matches = query.run(&graph).unwrap();
        let mut names: Vec<String> = matches
            .iter()
            .map(|row| row.bindings().map(|(_, pattern)| pattern.identity()).collect::<Vec<_>>().join(" "))
            .collect();
        names.sort();
        names
    }

    #[test]
    fn agent_pattern_contains_tools_selected_by_name_or_tag_but_not_excluded_tools() {
        assert_eq!(query_names("[a:Agent | (t:Tool)]"), ["clerk store", "desk crm/find", "twin tool:twin"]);
    }

    #[test]
    fn query_for_agents_that_reach_a_writing_tool_follows_delegates_and_verify_tools() {
        let writers = r#"(a:Agent)==>(t:Tool {sideEffects: "writes"})"#;
        assert_eq!(query_names(writers), ["clerk store", "desk store", "twin store"]);
        let unguarded = r#"(a:Agent {requiresApproval:: absent})==>(t:Tool {sideEffects: "writes"})"#;
        assert_eq!(query_names(unguarded), ["desk store", "twin store"]);
    }
}
