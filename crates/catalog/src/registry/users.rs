//! Finds the definitions that use a given definition. The person who deletes the given definition gets a warning that
//! names them.

use toolwright_types::{
    AgentDefinition, ConditionBinding, Document, StepRegistration, ToolDefinition, ToolProviderConfig, TypeDefinition,
    WorkflowDefinition, referenced_types,
};

use super::uses::{is_handler, named, refers_to, registered_names};
use super::{Definition, Registry, RegistryError};
use crate::access::Session;
use crate::toolset::selects;

/// The maximum number of names in a warning.
const MAX_NAMES: usize = 20;

impl Registry {
    /// Returns a warning that names the agents that select a tool by name, id, category or tag, and the workflows and
    /// step registrations that name it.
    pub(super) async fn users_of_tool(
        &self,
        session: &Session,
        tool: &Document<ToolDefinition>,
    ) -> Result<Option<String>, RegistryError> {
        let refers = refers_to(&tool.meta.id, &tool.body);
        let agents = self.names_of(session, |agent: &AgentDefinition| selects(agent, &tool.body, &refers)).await?;
        let registrations = self.list_all::<StepRegistration>(session, Vec::new()).await?;
        let registered = registered_names(&registrations);
        let workflows =
            self.names_of(session, |workflow: &WorkflowDefinition| is_handler(workflow, &registered, &refers));
        let workflows = workflows.await?;
        let using = registrations.iter().filter(|registration| named(&registration.body.tool_ref, &refers));
        let registrations: Vec<String> = using.map(|registration| registration.meta.ref_name.to_string()).collect();
        let warnings = [(&agents, "agent"), (&workflows, "workflow"), (&registrations, "step registration")]
            .map(|(users, noun)| warning(users, noun, "tool"));
        let warnings: Vec<String> = warnings.into_iter().flatten().collect();
        Ok((!warnings.is_empty()).then(|| warnings.join("; ")))
    }

    /// Returns a warning that names the workflows with a step whose handler is a step registration.
    pub(super) async fn workflows_of_registration(
        &self,
        session: &Session,
        registration: &Document<StepRegistration>,
    ) -> Result<Option<String>, RegistryError> {
        let name = registration.meta.ref_name.as_str();
        let workflows = self.names_of(session, |workflow: &WorkflowDefinition| {
            workflow.steps.iter().any(|step| step.handler_ref.eq_ignore_ascii_case(name))
        });
        Ok(warning(&workflows.await?, "workflow", "step registration"))
    }

    /// Returns a warning that names the workflows with a step that has a condition binding.
    pub(super) async fn workflows_of_condition(
        &self,
        session: &Session,
        condition: &Document<ConditionBinding>,
    ) -> Result<Option<String>, RegistryError> {
        let name = condition.meta.ref_name.as_str();
        let workflows = self.names_of(session, |workflow: &WorkflowDefinition| {
            let mut conditions = workflow.steps.iter().filter_map(|step| step.condition_ref.as_deref());
            conditions.any(|condition| condition.eq_ignore_ascii_case(name))
        });
        Ok(warning(&workflows.await?, "workflow", "condition binding"))
    }

    /// Returns a warning that names the tools of a provider.
    pub(super) async fn tools_of_provider(
        &self,
        session: &Session,
        provider: &Document<ToolProviderConfig>,
    ) -> Result<Option<String>, RegistryError> {
        let name = provider.meta.ref_name.as_str();
        let tools = self.names_of(session, |tool: &ToolDefinition| {
            tool.provider_ref.as_deref().is_some_and(|provider| provider.eq_ignore_ascii_case(name))
        });
        Ok(warning(&tools.await?, "tool", "provider"))
    }

    /// Returns a warning that names the tools whose parameters have the schema of an entity type. Generated tools are
    /// not named, because they are deleted with their type.
    pub(super) async fn tools_of_type(
        &self,
        session: &Session,
        entity_type: &Document<TypeDefinition>,
    ) -> Result<Option<String>, RegistryError> {
        let name = entity_type.meta.ref_name.as_str();
        let tools = self.names_of(session, |tool: &ToolDefinition| {
            let parameters = tool.input_schema.iter().chain(&tool.output_schema);
            parameters.flat_map(referenced_types).any(|reference| reference.eq_ignore_ascii_case(name))
        });
        Ok(warning(&tools.await?, "tool", "type"))
    }

    /// Returns the names of the definitions that the session may read and for which `matches` returns true.
    async fn names_of<T: Definition>(
        &self,
        session: &Session,
        matches: impl Fn(&T) -> bool + Send,
    ) -> Result<Vec<String>, RegistryError> {
        let all = self.list_all::<T>(session, Vec::new()).await?;
        let found = all.iter().filter(|document| matches(&document.body));
        Ok(found.map(|document| document.meta.ref_name.to_string()).collect())
    }
}

fn warning(users: &[String], noun: &str, used: &str) -> Option<String> {
    let listed: Vec<String> = users.iter().take(MAX_NAMES).map(|name| format!("`{name}`")).collect();
    let more = match users.len().saturating_sub(MAX_NAMES) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let (plural, verb) = if users.len() == 1 { ("", "uses") } else { ("s", "use") };
    (!users.is_empty()).then(|| format!("{noun}{plural} {}{more} {verb} this {used}", listed.join(", ")))
}
