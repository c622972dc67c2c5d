//! The definitions of a realm as patterns, for queries about who reaches what.
//!
//! A pattern says here what takes effect, not only what its author wrote: an agent has the tools of its categories and
//! tags too, a tool that says nothing about its effects has those that follow from it.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use toolwright_gram::{Graph, Pattern};
use toolwright_notation::{links, write_agent, write_tool};
use toolwright_types::{AgentDefinition, Document, ToolDefinition};

use crate::agents::{asks_for, excluded_by_name};
use crate::catalog::Viewer;
use crate::registry::{Definition, Registry, RegistryError, Wanted};
use crate::{Session, Unavailable};

/// How many definitions are read at once.
const PAGE: u32 = 1000;

impl Registry {
    /// The agents and tools that the session may read, as patterns that refer to each other by name, and how they are
    /// linked. Where an agent and a tool have one name, the tool is called `tool:name`. The graph is kept until a
    /// definition changes.
    pub async fn graph(&self, session: &Session) -> Result<Arc<Graph<'static>>, RegistryError> {
        let make = async {
            let (agents, tools) = self.readable(session).await?;
            // Thousands of definitions take a while; other requests go on meanwhile.
            let built = tokio::task::spawn_blocking(move || Graph::of(&patterns(&agents, tools)).into_owned()).await;
            built.map_err(|error| Unavailable::new("the definitions cannot be made a graph")(Box::new(error)).into())
        };
        self.catalog().graph(Viewer::of(&session.principal, &session.realm), make).await
    }

    async fn readable(&self, session: &Session) -> Result<(Vec<AgentDefinition>, Vec<ToolDefinition>), RegistryError> {
        let agents: Vec<AgentDefinition> = self.everything(session).await?;
        let mut tools: Vec<ToolDefinition> = self.everything(session).await?;
        let defined: HashSet<String> = tools.iter().map(|tool| tool.ref_name.key()).collect();
        let builtin = self.catalog().builtin().map(|tool| &tool.definition);
        let visible = builtin.filter(|tool| self.may_read(session, *tool).is_ok());
        tools.extend(visible.filter(|tool| !defined.contains(&tool.ref_name.key())).cloned());
        Ok((agents, tools))
    }

    async fn everything<T: Definition>(&self, session: &Session) -> Result<Vec<T>, RegistryError> {
        let mut all = Vec::new();
        let mut cursor = None;
        loop {
            let wanted = Wanted { limit: PAGE, cursor: cursor.take(), ..Wanted::default() };
            let page = self.list::<T>(session, wanted).await?;
            all.extend(page.items.into_iter().map(|Document { body, .. }| body));
            match page.next {
                Some(next) => cursor = Some(next),
                None => return Ok(all),
            }
        }
    }
}

fn patterns(agents: &[AgentDefinition], mut tools: Vec<ToolDefinition>) -> Vec<Pattern> {
    let taken: HashSet<String> = agents.iter().map(|agent| agent.ref_name.key()).collect();
    let names: HashMap<String, String> = tools
        .iter()
        .map(|tool| {
            let name = tool.ref_name.to_string();
            let key = tool.ref_name.key();
            let name = if taken.contains(&key) { format!("tool:{name}") } else { name };
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
        pattern.elements = tools_of(agent, &tools, &names).into_iter().map(Pattern::named).collect();
        patterns.push(pattern);
    }
    for tool in &tools {
        let mut pattern = write_tool(tool);
        pattern.subject.identity = named(tool);
        patterns.push(pattern);
    }
    let mut found = links(&patterns);
    let agent_names: HashMap<String, &str> =
        agents.iter().map(|agent| (agent.ref_name.key(), agent.ref_name.as_str())).collect();
    for link in &mut found {
        let to_agent = link.has_label("DELEGATES_TO");
        if let Some(end) = link.elements.get_mut(1) {
            let key = end.identity().to_ascii_lowercase();
            let known =
                if to_agent { agent_names.get(&key).map(|name| (*name).to_owned()) } else { names.get(&key).cloned() };
            end.subject.identity = known.unwrap_or_else(|| end.identity().to_owned());
        }
    }
    patterns.extend(found);
    patterns
}

/// The names of an agent's tools, each once: named, by category and tag, less what is excluded.
fn tools_of(agent: &AgentDefinition, tools: &[ToolDefinition], names: &HashMap<String, String>) -> Vec<String> {
    let mut seen = HashSet::new();
    let named = agent.tool_refs.iter().map(|text| text.split_once('@').map_or(text.as_str(), |(name, _)| name));
    let asks = !agent.tool_categories.is_empty() || !agent.tool_tags.is_empty();
    // Most agents only name their tools, and need not look through all there are.
    let offered = if asks { tools } else { &[] };
    let asked = offered.iter().filter(|tool| asks_for(agent, tool)).map(|tool| tool.ref_name.as_str());
    let all = named.chain(asked).filter(|name| !excluded_by_name(agent, name));
    let all = all.map(|name| names.get(&name.to_ascii_lowercase()).cloned().unwrap_or_else(|| name.to_owned()));
    all.filter(|name| seen.insert(name.to_ascii_lowercase())).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use toolwright_gram::Query;

    use super::*;

    fn found(query: &str) -> Vec<String> {
        let agents = [
            json!({ "refName": "desk", "toolTags": ["crm"], "excludedToolRefs": ["crm/drop"], "delegateAgentRefs": ["CLERK"] }),
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
        let graph = Graph::of(&patterns);
        let query = Query::parse(query).unwrap();
        let matches = query.run(&graph).unwrap();
        let mut names: Vec<String> = matches
            .iter()
            .map(|found| found.bindings().map(|(_, pattern)| pattern.identity()).collect::<Vec<_>>().join(" "))
            .collect();
        names.sort();
        names
    }

    #[test]
    fn agents_have_what_they_ask_for_by_tag_and_not_what_is_excluded() {
        assert_eq!(found("[a:Agent | (t:Tool)]"), ["clerk store", "desk crm/find", "twin tool:twin"]);
    }

    #[test]
    fn effects_follow_from_the_method_and_delegates_are_reached() {
        let writers = r#"(a:Agent)==>(t:Tool {sideEffects: "writes"})"#;
        assert_eq!(found(writers), ["clerk store", "desk store", "twin store"]);
        let unguarded = r#"(a:Agent {requiresApproval:: absent})==>(t:Tool {sideEffects: "writes"})"#;
        assert_eq!(found(unguarded), ["desk store", "twin store"]);
    }
}
