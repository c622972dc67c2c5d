//! Determines which tools of an agent the principal of a run may use.

use std::sync::Arc;

use serde_json::{Value, json};
use toolwright_tools::builtin::search_tools;
use toolwright_tools::ports::Authorizer;
use toolwright_tools::{CompiledTool, Issues};
use toolwright_types::json::hex_digest;
use toolwright_types::{
    AgentDefinition, DefinitionSource, Document, DocumentMeta, JsonSchema, Principal, RealmScope, SideEffects,
    ToolDefinition, ToolType,
};

use crate::Unavailable;
use crate::access::Access;
use crate::agent::CompiledAgent;
use crate::catalog::{Catalog, ToolsetKey, Viewer, select_version};
use crate::toolset::{
    Toolset, ToolsetMember, VersionedRef, excluded_by_name, in_categories, is_available_to_agents,
    matches_category_or_tag,
};

/// Determines the tools of agents.
#[derive(Clone)]
pub struct Resolver {
    /// The compiled definitions.
    pub catalog: Catalog,
    /// The permissions of principals.
    pub access: Access,
}

/// A tool as a run recorded it in its journal.
pub struct RecordedTool<'a> {
    /// The name of the tool.
    pub name: &'a str,
    /// The version requirement in the agent's definition.
    pub version_req: Option<&'a str>,
    /// Whether the tool is a delegate.
    pub delegate: bool,
    /// The definition, if it was inline in the agent.
    pub definition: Option<&'a ToolDefinition>,
}

impl Resolver {
    /// Returns the tools of an agent that `principal` may use in `realm`.
    pub async fn tools(
        &self,
        agent: &CompiledAgent,
        realm: &RealmScope,
        principal: &Principal,
    ) -> Result<Arc<Toolset>, Unavailable> {
        let DocumentMeta { id, revision, content_hash, .. } = &agent.document.meta;
        // An unsaved agent has no content hash. Without it, agents with different tools would have the same key.
        if content_hash.is_empty() {
            return self.resolve(agent, realm, principal).await.map(Arc::new);
        }
        // The hash distinguishes the versions of an agent, which have the same id and revision.
        let key =
            ToolsetKey { agent: format!("{id}/{revision}/{content_hash}"), viewer: Viewer::new(principal, realm) };
        if let Some(cached) = self.catalog.cached_toolset(&key) {
            return Ok(cached);
        }
        self.catalog.resolve_toolset(key, self.resolve(agent, realm, principal)).await
    }

    /// Restores the toolset of a run from its recorded tools. Omits tools that no longer exist, inline tools that do
    /// not compile, and delegates that are disabled.
    pub async fn restore_toolset(
        &self,
        realm: &RealmScope,
        tools: Vec<RecordedTool<'_>>,
    ) -> Result<Toolset, Unavailable> {
        let mut members = Vec::new();
        for RecordedTool { name, version_req, delegate, definition } in tools {
            let version_req = version_req.and_then(|text| text.parse().ok());
            if delegate {
                members.extend(self.delegate(realm, VersionedRef { name, version_req }).await?);
            } else if let Some(definition) = definition {
                let compiled = self.catalog.compile(realm, inline_tool_document(definition.clone())).await?;
                members.extend(compiled.ok().map(|tool| ToolsetMember::inline(Arc::new(tool), version_req)));
            } else if let Some(tool) = select_version(&self.catalog.versions(realm, name).await?, version_req.as_ref())
            {
                members.push(ToolsetMember::from_catalog(Arc::clone(tool), version_req));
            }
        }
        Ok(Toolset::new(members, self.search_tool()))
    }

    /// Collects the tools by name, then by category, then by tag. Removes the tools that are excluded, not permitted or
    /// not available. Then adds the delegates.
    async fn resolve(
        &self,
        compiled: &CompiledAgent,
        realm: &RealmScope,
        principal: &Principal,
    ) -> Result<Toolset, Unavailable> {
        let agent = &compiled.document.body;
        let mut members = Vec::new();
        for named in agent.tool_refs.iter().filter_map(|text| VersionedRef::parse(text)) {
            if let Some(tool) = select_version(&compiled.inline_versions(named.name), named.version_req.as_ref()) {
                members.push(ToolsetMember::inline(Arc::clone(tool), named.version_req));
                continue;
            }
            let versions = self.catalog.versions(realm, named.name).await?;
            if let Some(tool) = select_version(&versions, named.version_req.as_ref()) {
                members.push(ToolsetMember::from_catalog(Arc::clone(tool), named.version_req));
            }
        }
        if !(agent.tool_categories.is_empty() && agent.tool_tags.is_empty()) {
            let all = self.catalog.tools(realm).await?;
            let (by_category, rest): (Vec<_>, Vec<_>) =
                all.iter().partition(|tool| in_categories(&agent.tool_categories, &tool.definition));
            let by_tag = rest.into_iter().filter(|tool| matches_category_or_tag(agent, &tool.definition));
            members.extend(
                by_category.into_iter().chain(by_tag).map(|tool| ToolsetMember::from_catalog(Arc::clone(tool), None)),
            );
        }
        if agent.can_create_workflows {
            members.extend(self.workflow_tools().map(|tool| ToolsetMember::from_catalog(tool, None)));
        } else {
            members.retain(|member| !is_workflow_tool(&member.tool));
        }
        members.retain(|member| {
            !excluded(agent, &member.tool)
                && self.access.may_execute(principal, realm, &member.tool).is_ok()
                && is_available_to_agents(&member.tool)
        });
        for named in agent.delegate_agent_refs.iter().filter_map(|text| VersionedRef::parse(text)) {
            members.extend(self.delegate(realm, named).await?);
        }
        Ok(Toolset::new(members, self.search_tool()))
    }

    /// Returns an agent as a tool of another agent.
    async fn delegate(
        &self,
        realm: &RealmScope,
        named: VersionedRef<'_>,
    ) -> Result<Option<ToolsetMember>, Unavailable> {
        let Some(agent) = self.catalog.agent(realm, &named.to_string()).await?.filter(|agent| agent.is_runnable())
        else {
            return Ok(None);
        };
        // Calling a delegate counts as a read, because only the tools of the delegate can write. Each call to these
        // tools is checked against the rules of both agents.
        let tool = Arc::new(self.as_tool(&agent.document, SideEffects::Reads)?);
        Ok(Some(ToolsetMember { delegate: true, ..ToolsetMember::from_catalog(tool, named.version_req) }))
    }

    /// Compiles an agent as a tool that other agents or clients can call.
    pub fn as_tool(
        &self,
        agent: &Document<AgentDefinition>,
        effects: SideEffects,
    ) -> Result<CompiledTool, Unavailable> {
        let compiled = self.compile_as_tool(agent, effects);
        compiled.map_err(|issues| Unavailable::new("an agent could not be compiled as a tool", issues))
    }

    fn compile_as_tool(&self, agent: &Document<AgentDefinition>, effects: SideEffects) -> Result<CompiledTool, Issues> {
        let mut definition = ToolDefinition::new(agent.meta.ref_name.clone(), ToolType::Agent);
        definition.description = Some(format!("{} (an agent: give it a whole task)", agent.body.summary()));
        definition.security_uri.clone_from(&agent.body.security_uri);
        // The path has the exact version, so a call runs the version that the toolset contains.
        definition.invocation.path = Some(format!("{}@{}", agent.meta.ref_name, agent.body.version));
        definition.version = agent.body.version.clone();
        definition.side_effects = Some(effects);
        // The time limit of the tool is long, because the run of the agent enforces the agent's time limit.
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
        self.catalog.compile_without_provider(document)
    }

    /// Returns the tools with which an agent writes workflows.
    fn workflow_tools(&self) -> impl Iterator<Item = Arc<CompiledTool>> {
        [PROPOSE_WORKFLOW, SAVE_WORKFLOW].into_iter().filter_map(|name| self.catalog.builtin_tool(name).cloned())
    }

    fn search_tool(&self) -> Option<Arc<CompiledTool>> {
        self.catalog.builtin_tool(search_tools::NAME).cloned()
    }
}

/// The built-in tool that checks a workflow and compares it with the stored one.
pub const PROPOSE_WORKFLOW: &str = "workflow_propose";
/// The built-in tool that saves a workflow.
pub const SAVE_WORKFLOW: &str = "workflow_save";

fn is_workflow_tool(tool: &CompiledTool) -> bool {
    tool.source == DefinitionSource::BuiltIn
        && [PROPOSE_WORKFLOW, SAVE_WORKFLOW].contains(&tool.definition.ref_name.as_str())
}

fn excluded(agent: &AgentDefinition, tool: &CompiledTool) -> bool {
    excluded_by_name(agent, tool.definition.ref_name.as_str()) || agent.excluded_tool_refs.contains(&tool.id)
}

/// Returns a document for a tool whose definition is inline in an agent. Equal definitions have equal ids.
pub fn inline_tool_document(tool: ToolDefinition) -> Document<ToolDefinition> {
    let body: Value = serde_json::to_value(&tool).unwrap_or_default();
    let mut document = Document::unsaved(tool.ref_name.clone(), tool);
    document.meta.content_hash = hex_digest(&body);
    document.meta.id = format!("gram/{}", document.meta.content_hash);
    document.meta.source = DefinitionSource::Gram;
    document
}
