//! Finds the definitions that use a tool or a provider, and how they use it. Only definitions that the session may read
//! are found.

use std::collections::HashSet;

use toolwright_types::{
    AgentDefinition, Document, RecordLocation, RefName, StepRegistration, ToolDefinition, ToolProviderConfig,
    TypeDefinition, WorkflowDefinition,
};

use super::{Definition, Registry, RegistryError};
use crate::access::Session;
use crate::toolset::{SelectedBy, VersionedRef, selection};

/// The maximum number of definitions of each kind.
const MAX_USES: usize = 200;

/// The definitions that use a tool or a provider. Each kind of definition has a separate list, sorted by name.
#[derive(Debug, Default)]
pub struct Uses {
    /// The agents.
    pub agents: Vec<Use>,
    /// The tools.
    pub tools: Vec<Use>,
    /// The providers.
    pub providers: Vec<Use>,
    /// The entity types.
    pub types: Vec<Use>,
    /// The workflows with a step whose handler is the tool.
    pub workflows: Vec<Use>,
    /// The step registrations.
    pub step_registrations: Vec<Use>,
    /// The types of reference data of a provider.
    pub reference_data: Vec<String>,
    /// Whether a list does not contain all definitions.
    pub truncated: bool,
}

/// A definition that uses the tool or provider.
#[derive(Debug)]
pub struct Use {
    /// The name of the definition.
    pub ref_name: RefName,
    /// How the definition uses the tool or provider, such as `name` or `fallback`.
    pub by: Vec<&'static str>,
}

impl Registry {
    /// Returns the definitions that use a tool.
    pub async fn uses_of_tool(
        &self,
        session: &Session,
        id: &str,
        tool: &ToolDefinition,
    ) -> Result<Uses, RegistryError> {
        let refers = refers_to(id, tool);
        let named = |text: &str| named(text, &refers);
        let mut uses = Uses::default();
        uses.agents = self
            .users_of(session, &mut uses.truncated, |agent: &AgentDefinition| {
                selection(agent, tool, &refers).into_iter().map(SelectedBy::as_str).collect()
            })
            .await?;
        uses.tools = self
            .users_of(session, &mut uses.truncated, |user: &ToolDefinition| {
                let mut by: Vec<&str> =
                    referenced_tools(user).filter(|(_, name)| named(name)).map(|(by, _)| by).collect();
                by.dedup();
                by
            })
            .await?;
        uses.providers = self
            .users_of(session, &mut uses.truncated, |provider: &ToolProviderConfig| {
                let uses_tool = provider.reference_data.iter().any(|source| named(&source.tool_ref));
                Vec::from_iter(uses_tool.then_some("referenceData"))
            })
            .await?;
        uses.types = self
            .users_of(session, &mut uses.truncated, |entity_type: &TypeDefinition| {
                let mut tools = record_tools(entity_type);
                Vec::from_iter(tools.any(named).then_some("records"))
            })
            .await?;
        let registrations = self.list_all::<StepRegistration>(session, Vec::new()).await?;
        let registered = registered_names(&registrations);
        uses.workflows = self
            .users_of(session, &mut uses.truncated, |workflow: &WorkflowDefinition| {
                Vec::from_iter(is_handler(workflow, &registered, &refers).then_some("step"))
            })
            .await?;
        uses.step_registrations = using(registrations, &mut uses.truncated, |registration| {
            Vec::from_iter(named(&registration.tool_ref).then_some("tool"))
        });
        Ok(uses)
    }

    /// Returns the definitions that use a provider. A tool that refers to tools of the provider uses the provider too,
    /// such as an agentic tool. An entity type uses the provider of the tools that read its records.
    pub async fn uses_of_provider(
        &self,
        session: &Session,
        provider: &Document<ToolProviderConfig>,
    ) -> Result<Uses, RegistryError> {
        let (name, id) = (provider.meta.ref_name.as_str(), provider.meta.id.as_str());
        let is_provider = |reference: &str| reference.eq_ignore_ascii_case(name) || reference == id;
        let mut uses = Uses::default();
        let tools = self.list_all::<ToolDefinition>(session, Vec::new()).await?;
        let has_provider = |tool: &ToolDefinition| tool.provider_ref.as_deref().is_some_and(is_provider);
        let own: HashSet<String> =
            tools.iter().filter(|tool| has_provider(&tool.body)).map(|tool| tool.body.ref_name.key()).collect();
        let is_own = |text: &str| {
            VersionedRef::parse(text).is_some_and(|reference| own.contains(&reference.name.to_ascii_lowercase()))
        };
        uses.tools = self
            .users_of(session, &mut uses.truncated, |tool: &ToolDefinition| {
                let mut by = Vec::from_iter(has_provider(tool).then_some("provider"));
                by.extend(referenced_tools(tool).filter(|(_, name)| is_own(name)).map(|(by, _)| by));
                by.dedup();
                by
            })
            .await?;
        uses.types = self
            .users_of(session, &mut uses.truncated, |entity_type: &TypeDefinition| {
                Vec::from_iter(record_tools(entity_type).any(is_own).then_some("records"))
            })
            .await?;
        uses.reference_data = provider.body.reference_data.iter().map(|source| source.data_type.clone()).collect();
        Ok(uses)
    }

    /// Returns the definitions of kind `T` that use a tool or a provider. `how` returns in which ways a definition uses
    /// it.
    async fn users_of<T: Definition>(
        &self,
        session: &Session,
        truncated: &mut bool,
        how: impl Fn(&T) -> Vec<&'static str> + Send,
    ) -> Result<Vec<Use>, RegistryError> {
        Ok(using(self.list_all::<T>(session, Vec::new()).await?, truncated, how))
    }
}

/// Returns the definitions for which `how` returns in which ways they use a tool or a provider.
fn using<T>(all: Vec<Document<T>>, truncated: &mut bool, how: impl Fn(&T) -> Vec<&'static str>) -> Vec<Use> {
    let uses = all.into_iter().map(|document| Use { by: how(&document.body), ref_name: document.meta.ref_name });
    let mut uses: Vec<Use> = uses.filter(|found| !found.by.is_empty()).collect();
    *truncated |= uses.len() > MAX_USES;
    uses.truncate(MAX_USES);
    uses
}

/// Returns whether a reference, which may have a version requirement, means the tool.
pub(super) fn named(text: &str, refers: impl Fn(&VersionedRef<'_>) -> bool) -> bool {
    VersionedRef::parse(text).is_some_and(|reference| refers(&reference))
}

/// Returns the names of step registrations, in lower case.
pub(super) fn registered_names(registrations: &[Document<StepRegistration>]) -> HashSet<String> {
    registrations.iter().map(|registration| registration.body.name.key()).collect()
}

/// Returns whether the handler of a step is the tool. A step registration has precedence over a tool with its name.
pub(super) fn is_handler(
    workflow: &WorkflowDefinition,
    registered: &HashSet<String>,
    refers: impl Fn(&VersionedRef<'_>) -> bool,
) -> bool {
    let mut handlers = workflow.steps.iter().map(|step| step.handler_ref.as_str());
    handlers.any(|handler| !registered.contains(&handler.to_ascii_lowercase()) && named(handler, &refers))
}

/// Returns a function that decides whether a reference means this tool, by name or by id.
pub(super) fn refers_to<'a>(id: &'a str, tool: &'a ToolDefinition) -> impl Fn(&VersionedRef<'_>) -> bool {
    let name = tool.ref_name.as_str();
    // A built-in tool has no id.
    move |reference| reference.name.eq_ignore_ascii_case(name) || (!id.is_empty() && reference.name == id)
}

/// Returns the other tools that a tool refers to, each with the kind of reference, such as `fallback`.
pub(crate) fn referenced_tools(tool: &ToolDefinition) -> impl Iterator<Item = (&'static str, &str)> {
    let fallbacks = tool.error_handling.values().filter_map(|semantics| semantics.fallback_tool_ref.as_deref());
    let fallbacks = fallbacks.map(|name| ("fallback", name));
    let verify = tool.verify_tool_ref.as_deref().map(|name| ("verify", name));
    let compensate = tool.compensate_tool_ref.as_deref().map(|name| ("compensate", name));
    let granted = tool.invocation.functions.values().map(|name| ("function", name.as_str()));
    let operations = tool.composite.iter().flat_map(|composite| &composite.operations);
    let operations = operations.filter_map(|operation| Some(("operation", operation.tool()?)));
    let allocated = tool.agentic.iter().flat_map(|agentic| agentic.allocated_tools());
    let allocated = allocated.filter_map(|(_, name)| Some(("allocation", name?)));
    fallbacks.chain(verify).chain(compensate).chain(granted).chain(operations).chain(allocated)
}

/// Returns the tools that read the records of an entity type.
pub(crate) fn record_tools(entity_type: &TypeDefinition) -> impl Iterator<Item = &str> {
    let rest = match &entity_type.records {
        Some(RecordLocation::Rest(rest)) => Some(rest),
        Some(RecordLocation::Sql(_)) | None => None,
    };
    rest.into_iter().flat_map(|rest| rest.tools()).map(|(_, name)| name.as_str())
}
