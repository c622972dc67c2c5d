//! The tools of an agent. If the agent has too many tools, only a selection of them is offered to the model.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::sync::{Arc, OnceLock};

use semver::VersionReq;
use serde_json::json;
use toolwright_tools::builtin::search_tools;
use toolwright_tools::{CompiledTool, SearchIndex, ToolMatch, Toolbox};
use toolwright_types::{AgentDefinition, OfferedTool, SideEffects, Surface, ToolDefinition, ToolStatus};

/// The tools of an agent, in the order in which they were resolved. Immutable.
#[derive(Debug)]
pub struct Toolset {
    members: Vec<ToolsetMember>,
    by_name: HashMap<String, usize>,
    /// The search index. It is built on the first search, because most agents offer all their tools and never search.
    index: OnceLock<SearchIndex>,
    /// The built-in tool with which the model searches the tools that are not offered.
    search_tool: Option<Arc<CompiledTool>>,
}

/// A tool of an agent.
#[derive(Debug, Clone)]
pub struct ToolsetMember {
    /// The tool at the time of resolution.
    pub tool: Arc<CompiledTool>,
    /// The version requirement in the agent's definition.
    pub version_req: Option<VersionReq>,
    /// Whether the tool is an agent.
    pub delegate: bool,
    /// Whether the definition is inline in the agent.
    pub inline: bool,
}

/// A reference to a tool or an agent: `name` or `name@requirement`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VersionedRef<'a> {
    /// The name of the tool or agent.
    pub name: &'a str,
    /// The version requirement; `None` means the current version.
    pub version_req: Option<VersionReq>,
}

impl<'a> VersionedRef<'a> {
    /// Parses a reference. Returns `None` if the text after `@` is not a version requirement. A full version such as
    /// `1.2.3` requires exactly that version.
    pub fn parse(text: &'a str) -> Option<Self> {
        match text.split_once('@') {
            None => Some(Self { name: text, version_req: None }),
            Some((name, version)) => {
                let exact = version.parse::<semver::Version>().ok().map(|version| format!("={version}"));
                let version_req = exact.as_deref().unwrap_or(version).parse().ok()?;
                Some(Self { name, version_req: Some(version_req) })
            }
        }
    }
}

impl fmt::Display for VersionedRef<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.version_req {
            Some(requirement) => write!(f, "{}@{requirement}", self.name),
            None => f.write_str(self.name),
        }
    }
}

impl Toolset {
    /// Creates a toolset. If several members have the same name, the first one is used.
    pub fn new(members: impl IntoIterator<Item = ToolsetMember>, search_tool: Option<Arc<CompiledTool>>) -> Self {
        let mut seen = HashSet::new();
        let members: Vec<ToolsetMember> = members.into_iter().filter(|member| seen.insert(member.key())).collect();
        let by_name = members.iter().enumerate().map(|(position, member)| (member.key(), position)).collect();
        Self { members, by_name, index: OnceLock::new(), search_tool }
    }

    /// Returns all tools, in the order in which they were resolved.
    pub fn members(&self) -> &[ToolsetMember] {
        &self.members
    }

    /// Returns the tool with this name.
    pub fn find(&self, name: &str) -> Option<&ToolsetMember> {
        self.by_name.get(&name.to_ascii_lowercase()).and_then(|position| self.members.get(*position))
    }

    /// Returns the names of all tools that the agent may call, including tools that are not offered to the model. The
    /// search tool is included if `shown` contains it.
    pub fn names(&self, shown: &[OfferedTool]) -> impl Iterator<Item = String> {
        let search_tool = shown.iter().map(|tool| &tool.name).find(|name| *name == search_tools::NAME).cloned();
        self.members.iter().map(|member| member.tool.definition.ref_name.to_string()).chain(search_tool)
    }

    /// Selects the tools that are offered to the model. If the agent has more than `max_tools` tools, the search tool
    /// and the tools that match `message` best are offered, `max_tools` in total. A `max_tools` of 0 means no limit.
    /// Tools with more side effects than `effects` are not offered, because their calls would be denied.
    pub fn offered(&self, max_tools: u32, effects: SideEffects, message: &str) -> Vec<OfferedTool> {
        let max_tools = usize::try_from(max_tools).unwrap_or(usize::MAX);
        let callable = |member: &&ToolsetMember| member.tool.effects <= effects;
        if max_tools == 0 || self.members.iter().filter(callable).count() <= max_tools {
            return self.members.iter().filter(callable).map(|member| offered_tool(&member.tool)).collect();
        }
        let search_tool = self.search_tool.iter().map(|tool| offered_tool(tool));
        // The tools that do not match the message follow in the order of the toolset.
        let ranked = self.index().rank(message);
        let rest = (0..self.members.len()).filter(|position| !ranked.contains(position));
        let chosen = ranked.iter().copied().chain(rest).filter_map(|position| self.members.get(position));
        search_tool.chain(chosen.filter(callable).map(|member| offered_tool(&member.tool))).take(max_tools).collect()
    }

    /// Returns the tools with these names in the form that is offered to a model.
    pub fn offered_by_name<'a>(&self, names: impl IntoIterator<Item = &'a str>) -> Vec<OfferedTool> {
        names.into_iter().filter_map(|name| self.find(name)).map(|member| offered_tool(&member.tool)).collect()
    }

    /// Returns the usage notes, behavior hints and examples of these tools as text for the instructions of the model.
    /// `None` if no tool has any.
    pub fn usage_text(&self, shown: &[OfferedTool]) -> Option<String> {
        let tools = shown.iter().filter_map(|tool| self.find(&tool.name)).filter_map(|member| {
            let parts: Vec<String> = usage_parts(&member.tool).collect();
            (!parts.is_empty()).then(|| format!("Tool `{}`:\n{}", member.tool.definition.ref_name, parts.join("\n")))
        });
        let tools: Vec<String> = tools.collect();
        (!tools.is_empty()).then(|| format!("How to use the tools:\n\n{}", tools.join("\n\n")))
    }

    /// Replaces the descriptions of these tools by the short ones, without usage notes, hints and examples.
    pub fn shorten_descriptions(&self, shown: &mut [OfferedTool]) {
        for tool in shown {
            if let Some(member) = self.find(&tool.name) {
                tool.description = member.tool.description().to_owned();
            }
        }
    }

    fn index(&self) -> &SearchIndex {
        self.index.get_or_init(|| SearchIndex::new(self.members.iter().map(|member| &*member.tool)))
    }
}

impl Toolbox for Toolset {
    fn search(&self, query: &str, limit: usize) -> Vec<ToolMatch> {
        let found = self.index().rank(query).into_iter().filter_map(|position| self.members.get(position)).take(limit);
        found
            .map(|member| ToolMatch {
                name: member.tool.definition.ref_name.to_string(),
                description: member.tool.definition.description_or_name().to_owned(),
            })
            .collect()
    }
}

impl ToolsetMember {
    /// Creates a member from a tool of the catalog.
    pub fn from_catalog(tool: Arc<CompiledTool>, version_req: Option<VersionReq>) -> Self {
        Self { tool, version_req, delegate: false, inline: false }
    }

    /// Creates a member from a tool whose definition is inline in the agent.
    pub fn inline(tool: Arc<CompiledTool>, version_req: Option<VersionReq>) -> Self {
        Self { tool, version_req, delegate: false, inline: true }
    }

    /// Whether the tool is a delegate or inline in the agent. The catalog does not contain such a tool, so calls use
    /// the compiled tool of this member.
    pub fn is_outside_catalog(&self) -> bool {
        self.delegate || self.inline
    }

    fn key(&self) -> String {
        self.tool.definition.ref_name.key()
    }
}

/// Whether an agent definition selects this tool by category or tag. A category includes its subcategories.
pub(crate) fn matches_category_or_tag(agent: &AgentDefinition, tool: &ToolDefinition) -> bool {
    in_categories(&agent.tool_categories, tool) || tool.tags.iter().any(|tag| agent.tool_tags.contains(tag))
}

/// How an agent definition selects a tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SelectedBy {
    /// By name or id.
    Name,
    /// As an implementation in a library.
    Library,
    /// By category.
    Category,
    /// By tag.
    Tag,
}

impl SelectedBy {
    /// Returns the name of the variant, such as `category`.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            SelectedBy::Name => "name",
            SelectedBy::Library => "library",
            SelectedBy::Category => "category",
            SelectedBy::Tag => "tag",
        }
    }
}

/// Whether an agent definition selects the tool in any way; see [`selection`].
pub(crate) fn selects(
    agent: &AgentDefinition,
    tool: &ToolDefinition,
    refers: impl Fn(&VersionedRef<'_>) -> bool,
) -> bool {
    !selection(agent, tool, refers).is_empty()
}

/// Returns the ways in which an agent definition selects the tool: by a tool reference, by an implementation in a
/// library, by category, or by tag. `refers` decides whether a reference means the tool. The list is empty if the agent
/// excludes the tool.
pub(crate) fn selection(
    agent: &AgentDefinition,
    tool: &ToolDefinition,
    refers: impl Fn(&VersionedRef<'_>) -> bool,
) -> Vec<SelectedBy> {
    if excluded_by_name(agent, tool.ref_name.as_str()) {
        return Vec::new();
    }
    let refers = |text: &String| VersionedRef::parse(text).is_some_and(|reference| refers(&reference));
    let is_selected_by = |way: &SelectedBy| match way {
        SelectedBy::Name => agent.tool_refs.iter().any(refers),
        SelectedBy::Library => agent.libraries.values().flat_map(|tools| tools.values()).any(refers),
        SelectedBy::Category => in_categories(&agent.tool_categories, tool),
        SelectedBy::Tag => tool.tags.iter().any(|tag| agent.tool_tags.contains(tag)),
    };
    let ways = [SelectedBy::Name, SelectedBy::Library, SelectedBy::Category, SelectedBy::Tag];
    ways.into_iter().filter(is_selected_by).collect()
}

/// Whether an agent definition excludes the tool with this name.
pub(crate) fn excluded_by_name(agent: &AgentDefinition, name: &str) -> bool {
    agent.excluded_tool_refs.iter().any(|excluded| excluded.eq_ignore_ascii_case(name))
}

/// Whether a tool is in one of these categories or in a subcategory.
pub fn in_categories(categories: &[String], tool: &ToolDefinition) -> bool {
    let Some(own) = tool.category.as_deref() else { return false };
    categories.iter().any(|category| {
        own.strip_prefix(category.as_str()).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
    })
}

/// Whether agents can use a tool. The tool and its provider must be enabled, its status active or deprecated, and
/// `TOOL` one of its surfaces.
pub fn is_available_to_agents(tool: &CompiledTool) -> bool {
    let definition = &tool.definition;
    definition.enabled
        && matches!(definition.status, ToolStatus::Active | ToolStatus::Deprecated)
        && definition.available_as.contains(&Surface::Tool)
        && tool.provider.as_ref().is_none_or(|provider| provider.config.enabled)
}

/// Returns a tool in the form that is offered to a model. The description includes the usage notes, the behavior hints
/// and the examples.
pub(crate) fn offered_tool(tool: &CompiledTool) -> OfferedTool {
    let description = [tool.description().to_owned()].into_iter().chain(usage_parts(tool));
    OfferedTool {
        name: tool.definition.ref_name.to_string(),
        description: description.collect::<Vec<_>>().join("\n\n"),
        input_schema: tool.input.source().clone(),
    }
}

/// Returns the usage notes, the behavior hints and the examples of a tool.
fn usage_parts(tool: &CompiledTool) -> impl Iterator<Item = String> {
    let definition = &tool.definition;
    // The description of an agentic tool already contains its usage notes.
    let notes = definition.long_description.clone();
    let notes = notes.filter(|notes| definition.agentic.is_none() && notes != definition.description_or_name());
    let examples = definition.examples.iter().map(|example| {
        let example = json!({ "scenario": example.scenario, "input": example.input, "output": example.output });
        format!("Example: {example}")
    });
    notes.into_iter().chain(definition.behavior_hints()).chain(examples)
}
