//! Finds the definitions that use a given definition. The person who deletes the given definition gets a warning that
//! names them.

use toolwright_types::{
    AgentDefinition, Document, ToolDefinition, ToolProviderConfig, TypeDefinition, referenced_types,
};

use super::uses::refers_to;
use super::{Definition, Registry, RegistryError};
use crate::access::Session;
use crate::toolset::selects;

/// The maximum number of names in a warning.
const MAX_NAMES: usize = 20;

impl Registry {
    /// Returns a warning that names the agents that select a tool by name, id, category or tag.
    pub(super) async fn agents_of_tool(
        &self,
        session: &Session,
        tool: &Document<ToolDefinition>,
    ) -> Result<Option<String>, RegistryError> {
        let agents = self.names_of(session, |agent: &AgentDefinition| {
            selects(agent, &tool.body, refers_to(&tool.meta.id, &tool.body))
        });
        Ok(warning(&agents.await?, "agent", "tool"))
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
