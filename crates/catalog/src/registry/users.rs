//! Finds the definitions that use a definition, for the person who deletes it.

use toolwright_types::{
    AgentDefinition, Document, ToolDefinition, ToolProviderConfig, TypeDefinition, referenced_types,
};

use super::{Definition, DefinitionQuery, Registry, RegistryError};
use crate::access::Session;
use crate::toolset::{VersionedRef, excluded_by_name, matches_category_or_tag};

/// The maximum number of names in a warning.
const MAX_NAMES: usize = 20;
/// The number of definitions per page.
const PAGE_SIZE: u32 = 1000;

impl Registry {
    /// Returns a warning with the agents that select a tool by name, id, category or tag.
    pub(super) async fn agents_of_tool(
        &self,
        session: &Session,
        tool: &Document<ToolDefinition>,
    ) -> Result<Option<String>, RegistryError> {
        let name = tool.meta.ref_name.as_str();
        let is_tool =
            |reference: VersionedRef<'_>| reference.name.eq_ignore_ascii_case(name) || reference.name == tool.meta.id;
        let agents = self.names_of(session, |agent: &AgentDefinition| {
            let is_named = agent.tool_refs.iter().filter_map(|text| VersionedRef::parse(text)).any(is_tool);
            (is_named || matches_category_or_tag(agent, &tool.body)) && !excluded_by_name(agent, name)
        });
        Ok(warning(&agents.await?, "agent", "tool"))
    }

    /// Returns a warning with the tools of a provider.
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

    /// Returns a warning with the tools whose parameters have the schema of an entity type. Generated tools are deleted
    /// with their type.
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

    /// Returns the names of the definitions that the session may read and that match.
    async fn names_of<T: Definition>(
        &self,
        session: &Session,
        matches: impl Fn(&T) -> bool + Send,
    ) -> Result<Vec<String>, RegistryError> {
        let (mut names, mut cursor) = (Vec::new(), None);
        loop {
            let query = DefinitionQuery { limit: PAGE_SIZE, cursor, ..DefinitionQuery::default() };
            let page = self.list::<T>(session, query).await?;
            let found = page.items.iter().filter(|document| matches(&document.body));
            names.extend(found.map(|document| document.meta.ref_name.to_string()));
            match page.next {
                Some(next) => cursor = Some(next),
                None => return Ok(names),
            }
        }
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
