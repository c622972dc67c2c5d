//! Which tools an agent has: a fixed order of additions and filters, then a choice when there are too many to show.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, OnceLock};

use semver::VersionReq;
use serde_json::json;
use toolwright_tools::builtin::search_tools;
use toolwright_tools::{CompiledTool, Found, SearchIndex, Toolbox};
use toolwright_types::{AgentDefinition, OfferedTool, SideEffects, Status, Surface, ToolDefinition};

/// An agent's tools, in the order they were resolved. Immutable.
#[derive(Debug)]
pub struct Toolset {
    members: Vec<Member>,
    by_name: HashMap<String, usize>,
    /// Made when first searched: most agents are shown all they have.
    index: OnceLock<SearchIndex>,
    /// Finds what is not shown.
    finder: Option<Arc<CompiledTool>>,
}

/// One of an agent's tools.
#[derive(Debug, Clone)]
pub struct Member {
    /// The tool at the time it was resolved.
    pub tool: Arc<CompiledTool>,
    /// The version that the agent asks for.
    pub wanted: Option<VersionReq>,
    /// Whether it is an agent.
    pub delegate: bool,
    /// Whether the agent brought it along.
    pub carried: bool,
}

/// A tool as an agent's definition names it: `name` or `name@requirement`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ToolRef<'a> {
    pub name: &'a str,
    pub wanted: Option<VersionReq>,
}

impl<'a> ToolRef<'a> {
    /// None when what follows the `@` is no requirement. An exact version means that version.
    pub fn parse(text: &'a str) -> Option<Self> {
        match text.split_once('@') {
            None => Some(Self { name: text, wanted: None }),
            Some((name, version)) => {
                let exact = version.parse::<semver::Version>().ok().map(|version| format!("={version}"));
                let wanted = exact.as_deref().unwrap_or(version).parse().ok()?;
                Some(Self { name, wanted: Some(wanted) })
            }
        }
    }
}

impl Toolset {
    /// These tools, of which the first of each name counts.
    pub(crate) fn new(members: impl IntoIterator<Item = Member>, finder: Option<Arc<CompiledTool>>) -> Self {
        let mut seen = HashSet::new();
        let members: Vec<Member> = members.into_iter().filter(|member| seen.insert(member.key())).collect();
        let by_name = members.iter().enumerate().map(|(position, member)| (member.key(), position)).collect();
        Self { members, by_name, index: OnceLock::new(), finder }
    }

    /// All tools, in the order they were resolved.
    pub fn members(&self) -> &[Member] {
        &self.members
    }

    /// The tool of this name.
    pub fn find(&self, name: &str) -> Option<&Member> {
        self.by_name.get(&name.to_ascii_lowercase()).and_then(|position| self.members.get(*position))
    }

    /// Everything the agent may call, shown or not.
    pub fn names(&self, shown: &[OfferedTool]) -> impl Iterator<Item = String> {
        let finder = shown.iter().map(|tool| &tool.name).find(|name| *name == search_tools::NAME).cloned();
        self.members.iter().map(|member| member.tool.definition.ref_name.to_string()).chain(finder)
    }

    /// What the model is shown: everything, or the best for `message` and the tool that finds the rest.
    /// Tools whose effects are beyond `effects` could not be called and are not shown.
    pub fn offered(&self, most: u32, effects: SideEffects, message: &str) -> Vec<OfferedTool> {
        let most = usize::try_from(most).unwrap_or(usize::MAX);
        let callable = |member: &&Member| member.tool.effects <= effects;
        if most == 0 || self.members.iter().filter(callable).count() <= most {
            return self.members.iter().filter(callable).map(|member| offer(&member.tool)).collect();
        }
        let finder = self.finder.iter().map(|tool| offer(tool));
        // What the message says nothing about keeps the order of the definition.
        let ranked = self.index().rank(message);
        let rest = (0..self.members.len()).filter(|position| !ranked.contains(position));
        let chosen = ranked.iter().copied().chain(rest).filter_map(|position| self.members.get(position));
        finder.chain(chosen.filter(callable).map(|member| offer(&member.tool))).take(most).collect()
    }

    /// The tools of these names, as a model is shown them.
    pub fn offers<'a>(&self, names: impl IntoIterator<Item = &'a str>) -> Vec<OfferedTool> {
        names.into_iter().filter_map(|name| self.find(name)).map(|member| offer(&member.tool)).collect()
    }

    fn index(&self) -> &SearchIndex {
        self.index.get_or_init(|| SearchIndex::of(self.members.iter().map(|member| &*member.tool)))
    }
}

impl Toolbox for Toolset {
    fn search(&self, query: &str, limit: usize) -> Vec<Found> {
        let found = self.index().rank(query).into_iter().filter_map(|position| self.members.get(position)).take(limit);
        found
            .map(|member| Found {
                name: member.tool.definition.ref_name.to_string(),
                description: member.tool.definition.description_or_name().to_owned(),
            })
            .collect()
    }
}

impl Member {
    /// A tool of the catalog.
    pub(crate) fn listed(tool: Arc<CompiledTool>, wanted: Option<VersionReq>) -> Self {
        Self { tool, wanted, delegate: false, carried: false }
    }

    /// A tool that the agent brought along.
    pub(crate) fn carried(tool: Arc<CompiledTool>, wanted: Option<VersionReq>) -> Self {
        Self { tool, wanted, delegate: false, carried: true }
    }

    /// Whether no catalog has it, so that it is called as it is here.
    pub(crate) fn is_unlisted(&self) -> bool {
        self.delegate || self.carried
    }

    fn key(&self) -> String {
        self.tool.definition.ref_name.key()
    }
}

/// Whether an agent's definition asks for this tool by category or tag. A category holds those below it.
pub(crate) fn asks_for(agent: &AgentDefinition, tool: &ToolDefinition) -> bool {
    in_categories(&agent.tool_categories, tool) || tool.tags.iter().any(|tag| agent.tool_tags.contains(tag))
}

/// Whether an agent's definition leaves the tool of this name out.
pub(crate) fn excluded_by_name(agent: &AgentDefinition, name: &str) -> bool {
    agent.excluded_tool_refs.iter().any(|excluded| excluded.eq_ignore_ascii_case(name))
}

pub(crate) fn in_categories(categories: &[String], tool: &ToolDefinition) -> bool {
    let Some(own) = tool.category.as_deref() else { return false };
    categories
        .iter()
        .any(|wanted| own.strip_prefix(wanted.as_str()).is_some_and(|rest| rest.is_empty() || rest.starts_with('.')))
}

/// Whether a tool is there for agents at all.
pub(crate) fn usable(tool: &CompiledTool) -> bool {
    let definition = &tool.definition;
    definition.enabled
        && matches!(definition.status, Status::Active | Status::Deprecated)
        && definition.available_as.contains(&Surface::Tool)
        && tool.provider.as_ref().is_none_or(|provider| provider.config.enabled)
}

/// A tool as a model is shown it: what it does, when to use it, and examples.
pub(crate) fn offer(tool: &CompiledTool) -> OfferedTool {
    let definition = &tool.definition;
    let mut description = definition.description_or_name().to_owned();
    if let Some(more) = definition.long_description.as_deref().filter(|more| *more != description) {
        description.push_str("\n\n");
        description.push_str(more);
    }
    for example in &definition.examples {
        let example = json!({ "scenario": example.scenario, "input": example.input, "output": example.output });
        description.push_str("\n\nExample: ");
        description.push_str(&example.to_string());
    }
    OfferedTool { name: definition.ref_name.to_string(), description, input_schema: tool.input.source().clone() }
}
