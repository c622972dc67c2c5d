//! Resolves an agent's tools for whoever it acts as.

use std::sync::Arc;

use serde_json::json;
use toolwright_tools::builtin::search_tools;
use toolwright_tools::ports::Authorizer;
use toolwright_tools::{CompiledTool, Issues};
use toolwright_types::{
    AgentDefinition, Document, JsonSchema, Principal, RealmScope, SideEffects, ToolDefinition, ToolType,
};

use super::CompiledAgent;
use super::gram::carried_document;
use super::toolset::{Member, ToolRef, Toolset, asks_for, excluded_by_name, in_categories, usable};
use crate::Unavailable;
use crate::access::Access;
use crate::catalog::{Catalog, ToolsetKey, Viewer, choose};

/// Resolves tools.
#[derive(Clone)]
pub(crate) struct Resolver {
    pub catalog: Catalog,
    pub access: Access,
}

/// A tool that an earlier run knew.
pub(crate) struct Known<'a> {
    pub name: &'a str,
    /// The version it wanted.
    pub wanted: Option<&'a str>,
    pub delegate: bool,
    /// The tool itself, if the agent brought it along.
    pub carried: Option<&'a ToolDefinition>,
}

impl Resolver {
    /// The tools of an agent, as `principal` may use them in `realm`.
    pub async fn tools(
        &self,
        agent: &CompiledAgent,
        realm: &RealmScope,
        principal: &Principal,
    ) -> Result<Arc<Toolset>, Unavailable> {
        let key = ToolsetKey {
            agent: format!("{}/{}", agent.document.meta.id, agent.document.meta.revision),
            viewer: Viewer::of(principal, realm),
        };
        if let Some(known) = self.catalog.known_toolset(&key) {
            return Ok(known);
        }
        self.catalog.toolset(key, self.resolve(agent, realm, principal)).await
    }

    /// The tools of a run that began earlier, by the names it may call.
    pub async fn again(&self, realm: &RealmScope, names: Vec<Known<'_>>) -> Result<Toolset, Unavailable> {
        let mut members = Vec::new();
        for Known { name, wanted, delegate, carried } in names {
            let wanted = wanted.and_then(|text| text.parse().ok());
            if delegate {
                members.extend(self.delegate(realm, name).await?);
            } else if let Some(definition) = carried {
                let compiled = self.catalog.compile(realm, carried_document(definition.clone())).await?;
                members.extend(compiled.ok().map(|tool| Member::carried(Arc::new(tool), wanted)));
            } else if let Some(tool) = choose(&self.catalog.versions(realm, name).await?, wanted.as_ref()) {
                members.push(Member::listed(Arc::clone(tool), wanted));
            }
        }
        Ok(Toolset::new(members, self.finder()))
    }

    /// In this order, each tool once: named, by category, by tag; less what is excluded, not permitted or switched
    /// off; then delegates.
    async fn resolve(
        &self,
        compiled: &CompiledAgent,
        realm: &RealmScope,
        principal: &Principal,
    ) -> Result<Toolset, Unavailable> {
        let agent = &compiled.document.body;
        let mut members = Vec::new();
        for named in agent.tool_refs.iter().filter_map(|text| ToolRef::parse(text)) {
            if let Some(tool) = choose(&compiled.carried_versions(named.name), named.wanted.as_ref()) {
                members.push(Member::carried(Arc::clone(tool), named.wanted));
                continue;
            }
            let versions = self.catalog.versions(realm, named.name).await?;
            if let Some(tool) = choose(&versions, named.wanted.as_ref()) {
                members.push(Member::listed(Arc::clone(tool), named.wanted));
            }
        }
        if !(agent.tool_categories.is_empty() && agent.tool_tags.is_empty()) {
            let all = self.catalog.all(realm).await?;
            let (by_category, rest): (Vec<_>, Vec<_>) =
                all.iter().partition(|tool| in_categories(&agent.tool_categories, &tool.definition));
            let by_tag = rest.into_iter().filter(|tool| asks_for(agent, &tool.definition));
            members.extend(by_category.into_iter().chain(by_tag).map(|tool| Member::listed(Arc::clone(tool), None)));
        }
        members.retain(|member| {
            !excluded(agent, &member.tool)
                && self.access.may_execute(principal, realm, &member.tool).is_ok()
                && usable(&member.tool)
        });
        for name in &agent.delegate_agent_refs {
            members.extend(self.delegate(realm, name).await?);
        }
        Ok(Toolset::new(members, self.finder()))
    }

    /// An agent as a tool of another one.
    async fn delegate(&self, realm: &RealmScope, name: &str) -> Result<Option<Member>, Unavailable> {
        let Some(agent) = self.catalog.agent(realm, name).await? else { return Ok(None) };
        if !agent.document.body.enabled {
            return Ok(None);
        }
        // What it changes, it changes by tools of its own, each under the rules of both agents.
        let tool = self.as_tool(&agent.document, SideEffects::Reads)?;
        Ok(Some(Member { delegate: true, ..Member::listed(Arc::new(tool), None) }))
    }

    /// An agent as whoever calls it sees it.
    pub fn as_tool(
        &self,
        agent: &Document<AgentDefinition>,
        effects: SideEffects,
    ) -> Result<CompiledTool, Unavailable> {
        let compiled = self.compile_as_tool(agent, effects);
        compiled.map_err(|issues| Unavailable::new("an agent cannot be offered as a tool")(Box::new(issues)))
    }

    fn compile_as_tool(&self, agent: &Document<AgentDefinition>, effects: SideEffects) -> Result<CompiledTool, Issues> {
        let mut definition = ToolDefinition::new(agent.meta.ref_name.clone(), ToolType::Agent);
        definition.description = Some(format!("{} (an agent: give it a whole task)", agent.body.summary()));
        definition.security_uri.clone_from(&agent.body.security_uri);
        definition.invocation.path = Some(agent.meta.ref_name.to_string());
        definition.side_effects = Some(effects);
        // Its run has limits of its own.
        definition.timeout_ms = Some(24 * 60 * 60 * 1000);
        definition.default_retry_count = Some(0);
        definition.input_json_schema = Some(JsonSchema(json!({
            "type": "object",
            "properties": {
                "task": { "type": "string", "description": "What to do, with everything it needs to know." },
                "context": { "type": "object", "description": "Further data for the agent." },
            },
            "required": ["task"],
            "additionalProperties": false,
        })));
        let mut document = Document { meta: agent.meta.clone(), body: definition };
        document.meta.content_hash.clone_from(&agent.meta.content_hash);
        self.catalog.compile_unsaved(document)
    }

    fn finder(&self) -> Option<Arc<CompiledTool>> {
        self.catalog.builtin_named(search_tools::NAME).cloned()
    }
}

fn excluded(agent: &AgentDefinition, tool: &CompiledTool) -> bool {
    excluded_by_name(agent, tool.definition.ref_name.as_str()) || agent.excluded_tool_refs.contains(&tool.id)
}
