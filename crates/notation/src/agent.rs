//! Agents: `[name:Agent {instruction, model, …} | tools…]` and [`AgentDefinition`].

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value as Json, json};
use toolwright_gram::{AgentView, Definitions, Pattern, is_tool};
use toolwright_types::{
    AgentDefinition, AgentPolicy, ExecutionConfig, LlmConfig, MemoryConfig, RefName, ToolDefinition,
};

use crate::field::names_of;
use crate::record::{Fields, Form, with_exact};
use crate::{Problem, model, tool, value};

const LABEL: &str = "Agent";

/// The versions that are wanted of the agent's tools, where any are.
const VERSIONS: &str = "toolVersions";

/// What stands where a definition has no instructions.
const NO_INSTRUCTION: &str = "(none)";

fn form() -> Form {
    Form {
        noun: "agent",
        fields: names_of::<AgentDefinition>(),
        groups: &[
            ("llmConfig", names_of::<LlmConfig>),
            ("executionConfig", names_of::<ExecutionConfig>),
            ("memoryConfig", names_of::<MemoryConfig>),
            ("policy", names_of::<AgentPolicy>),
        ],
        said_otherwise: &["refName", "description", "systemPrompt"],
        own: &["description", "instruction", "model", VERSIONS],
    }
}

/// An agent and the tools whose specifications it brings along.
#[derive(Debug, Clone, PartialEq)]
pub struct Agent {
    /// The agent.
    pub definition: AgentDefinition,
    /// The tools that are specified in it, or by reference in one of the texts beside it, in its order. Others that it
    /// names are bound by whoever runs it.
    pub tools: Vec<ToolDefinition>,
    /// Properties that were left out because nobody knows them, each with its agent or tool.
    pub left_out: Vec<String>,
}

impl Agent {
    /// The definitions that a pattern stands for. A property that no field is called like is an error.
    pub fn compile(pattern: &Pattern, definitions: &Definitions) -> Result<Self, Vec<Problem>> {
        read(pattern, definitions, &mut |fields| fields.refuse_unknown())
    }

    /// The same agent for whoever goes by the pattern alone: what no field is called like is left out and said so. What
    /// is known and wrong is an error here too, because it may be what keeps the agent from doing harm.
    pub fn interpret<P: std::borrow::Borrow<Pattern>>(
        view: &AgentView<P>,
        definitions: &Definitions,
    ) -> Result<Self, Vec<Problem>> {
        let mut left_out = Vec::new();
        let agent = read(view.pattern(), definitions, &mut |fields| left_out.append(&mut fields.take_unknown()));
        agent.map(|agent| Self { left_out, ..agent })
    }
}

/// The pattern that stands for a definition: reading it again gives the same. Its tools are references.
pub fn write_agent(agent: &AgentDefinition) -> Pattern {
    let fields = fields_of(agent);
    let pattern = said(agent, &fields);
    let again = Agent::compile(&pattern, &Definitions::default()).map(|agent| fields_of(&agent.definition));
    with_exact(pattern, &fields, &again.unwrap_or_default())
}

fn read(
    pattern: &Pattern,
    definitions: &Definitions,
    unknown: &mut dyn FnMut(&mut Fields),
) -> Result<Agent, Vec<Problem>> {
    let view = AgentView::new(pattern, definitions)
        .map_err(|problems| problems.into_iter().map(Problem::from).collect::<Vec<_>>())?;
    let (tools, mut problems) = tools(&view, definitions, unknown);
    let mut fields = form().read(pattern);
    unknown(&mut fields);
    fields.named.insert("refName".into(), json!(view.name()));
    fields.named.insert("systemPrompt".into(), json!(view.instruction()));
    if let Some(description) = view.description() {
        fields.named.insert("description".into(), json!(description));
    }
    let (provider, named) = model::parts(view.model());
    let llm = fields.group("llmConfig");
    for (name, text) in [("provider", provider), ("model", named)] {
        if let Some(text) = text {
            llm.entry(name).or_insert_with(|| json!(text));
        }
    }
    name_tools(&view, &mut fields);
    match fields.finish() {
        Ok(definition) if problems.is_empty() => Ok(Agent { definition, tools, left_out: Vec::new() }),
        Ok(_) => Err(problems),
        Err(more) => {
            problems.extend(more);
            Err(problems)
        }
    }
}

/// The tools that the elements of an agent specify, here or where they refer to.
fn tools<P: std::borrow::Borrow<Pattern>>(
    agent: &AgentView<P>,
    definitions: &Definitions,
    unknown: &mut dyn FnMut(&mut Fields),
) -> (Vec<ToolDefinition>, Vec<Problem>) {
    let (mut tools, mut problems) = (Vec::new(), Vec::new());
    for (index, element) in agent.tools().enumerate() {
        let specified = definitions.follow(element);
        if !is_tool(specified) {
            continue;
        }
        match tool::read(specified, unknown) {
            Ok(tool) => tools.push(tool),
            // What is wrong with a shared tool is said where it is defined, and here that it cannot be used.
            Err(found) => problems.extend(found.into_iter().map(|problem| problem.below(index))),
        }
    }
    (tools, problems)
}

/// Elements are tools by name; `toolVersions` says which versions, `toolRefs` which tools besides.
fn name_tools<P: std::borrow::Borrow<Pattern>>(agent: &AgentView<P>, fields: &mut Fields) {
    let mut versions: BTreeMap<String, Json> = BTreeMap::new();
    if let Some(written) = agent.pattern().get(VERSIONS) {
        match value::to_json(written) {
            Ok(Json::Object(named)) if named.values().all(Json::is_string) => versions.extend(named),
            _ => fields.wrong(VERSIONS, "is a map from tools to versions, as in `{find: \"^1.2\"}`"),
        }
    }
    let mut named: Vec<Json> = Vec::new();
    for tool in agent.tools().map(Pattern::identity) {
        named.push(match versions.remove(tool) {
            Some(Json::String(version)) => json!(format!("{tool}@{version}")),
            _ => json!(tool),
        });
    }
    for tool in versions.into_keys() {
        fields.wrong(VERSIONS, &format!("names `{tool}`, which is none of its tools"));
    }
    match fields.named.get_mut("toolRefs") {
        Some(Json::Array(more)) => named.append(more),
        // Reported when the definition is read.
        Some(_) => return,
        None if named.is_empty() => return,
        None => {}
    }
    fields.named.insert("toolRefs".into(), Json::Array(named));
}

/// The pattern as far as elements and properties can say it.
fn said(agent: &AgentDefinition, fields: &Map<String, Json>) -> Pattern {
    let usual = fields_of(&AgentDefinition::new(agent.ref_name.clone()));
    let mut fields = fields.clone();
    fields.retain(|name, json| usual.get(name) != Some(json));
    let llm = &agent.llm_config;
    let model = model::written(llm.provider.as_deref(), llm.model.as_deref());
    if let Some(Json::Object(config)) = fields.get_mut("llmConfig") {
        let (provider, named) = model::parts(&model);
        if (provider, named) == (llm.provider.as_deref(), llm.model.as_deref()) {
            config.shift_remove("provider");
            config.shift_remove("model");
        }
    }
    let instruction = agent.system_prompt.as_deref().filter(|text| !text.is_empty());
    let mut pattern = Pattern::named(agent.ref_name.as_str())
        .label(LABEL)
        .property("instruction", instruction.unwrap_or(NO_INSTRUCTION))
        .property("model", if model.is_empty() { NO_INSTRUCTION } else { &model });
    if let Some(description) = &agent.description {
        pattern = pattern.property("description", description.as_str());
    }
    if let Some((names, versions)) = elements(agent) {
        fields.shift_remove("toolRefs");
        pattern.elements = names.into_iter().map(Pattern::named).collect();
        if !versions.is_empty() {
            pattern = pattern.property(VERSIONS, value::of_json(&Json::Object(versions)));
        }
    }
    form().write(pattern, &fields)
}

/// Tools as elements and their versions apart; none if names cannot tell them apart, from each other or from the agent.
fn elements(agent: &AgentDefinition) -> Option<(Vec<&str>, Map<String, Json>)> {
    let tool_refs = &agent.tool_refs;
    let mut seen = BTreeSet::from([agent.ref_name.as_str()]);
    let mut versions = BTreeMap::new();
    let mut names = Vec::with_capacity(tool_refs.len());
    for text in tool_refs {
        let (name, version) = text.split_once('@').map_or((text.as_str(), None), |(name, v)| (name, Some(v)));
        if name.parse::<RefName>().is_err() || !seen.insert(name) {
            return None;
        }
        names.push(name);
        if let Some(version) = version {
            versions.insert(name.to_owned(), json!(version));
        }
    }
    Some((names, versions.into_iter().collect()))
}

fn fields_of(agent: &AgentDefinition) -> Map<String, Json> {
    match serde_json::to_value(agent) {
        Ok(Json::Object(fields)) => fields,
        _ => Map::new(),
    }
}
