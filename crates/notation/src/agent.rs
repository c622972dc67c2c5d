//! Converts agent patterns, `[name:Agent {instruction, model, …} | tools…]`, to [`AgentDefinition`] and back.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value as Json, json};
use toolwright_gram::{AgentSpecView, DefinitionIndex, Pattern, is_tool};
use toolwright_types::{
    AgentDefinition, AgentPolicy, ExecutionConfig, LlmConfig, MemoryConfig, RefName, ToolDefinition, field_names,
};

use crate::properties::{DefinitionFields, PropertyMapping, with_exact};
use crate::{DefinitionError, model_name, tool, value};

const LABEL: &str = "Agent";

/// The property with the version requirements of the agent's tools.
const VERSIONS: &str = "toolVersions";

/// The text that replaces a missing instruction or an empty model name, because an agent pattern must have both
/// properties.
const PLACEHOLDER: &str = "(none)";

fn mapping() -> PropertyMapping {
    PropertyMapping {
        kind_name: "agent",
        fields: field_names::<AgentDefinition>(),
        groups: &[
            ("llmConfig", field_names::<LlmConfig>),
            ("executionConfig", field_names::<ExecutionConfig>),
            ("memoryConfig", field_names::<MemoryConfig>),
            ("policy", field_names::<AgentPolicy>),
        ],
        non_property_fields: &["refName", "description", "systemPrompt"],
        non_field_properties: &["description", "instruction", "model", VERSIONS],
    }
}

/// An agent and the tools that its document specifies.
#[derive(Debug, Clone, PartialEq)]
pub struct AgentBundle {
    /// The agent.
    pub definition: AgentDefinition,
    /// The tools that the agent's pattern or another document specifies, in the order of the agent's elements. All
    /// other tools are resolved by name when the agent runs.
    pub tools: Vec<ToolDefinition>,
    /// Descriptions of the ignored unknown properties. Each description names the agent or tool that has the property.
    pub ignored_properties: Vec<String>,
}

impl AgentBundle {
    /// Converts a pattern to definitions. Unknown properties are errors.
    pub fn compile(pattern: &Pattern, definitions: &DefinitionIndex) -> Result<Self, Vec<DefinitionError>> {
        read(pattern, definitions, &mut |fields| fields.reject_unknown())
    }

    /// Converts a pattern to definitions and ignores unknown properties. An invalid value of a known property is still
    /// an error because the property may be a safety limit.
    pub fn interpret<P: std::borrow::Borrow<Pattern>>(
        view: &AgentSpecView<P>,
        definitions: &DefinitionIndex,
    ) -> Result<Self, Vec<DefinitionError>> {
        let mut ignored_properties = Vec::new();
        let agent =
            read(view.pattern(), definitions, &mut |fields| ignored_properties.append(&mut fields.take_unknown()));
        agent.map(|agent| Self { ignored_properties, ..agent })
    }
}

/// Converts a definition to a pattern whose tools are references. Reading the pattern returns the same definition.
pub fn write_agent(agent: &AgentDefinition) -> Pattern {
    let fields = to_fields(agent);
    let pattern = draft_pattern(agent, &fields);
    let again = AgentBundle::compile(&pattern, &DefinitionIndex::default()).map(|agent| to_fields(&agent.definition));
    with_exact(pattern, &fields, &again.unwrap_or_default())
}

fn read(
    pattern: &Pattern,
    definitions: &DefinitionIndex,
    unknown: &mut dyn FnMut(&mut DefinitionFields),
) -> Result<AgentBundle, Vec<DefinitionError>> {
    let (tools, tool_errors) = tools(pattern, definitions, unknown);
    let mut fields = mapping().read(pattern);
    unknown(&mut fields);
    fields.set_name(pattern.identity());
    add_tool_refs(pattern, &mut fields);
    let mut errors = match AgentSpecView::new(pattern, definitions) {
        Ok(view) => {
            add_view(&view, &mut fields);
            Vec::new()
        }
        Err(errors) => errors.into_iter().map(DefinitionError::from).collect(),
    };
    // The errors of the view include those of the tools that the agent contains.
    errors.extend(tool_errors.into_iter().filter(|error| !errors.contains(error)).collect::<Vec<_>>());
    match fields.finish() {
        Ok(definition) if errors.is_empty() => Ok(AgentBundle { definition, tools, ignored_properties: Vec::new() }),
        Ok(_) => Err(errors),
        Err(more) => {
            errors.extend(more);
            Err(errors)
        }
    }
}

/// Sets the fields that gram has its own notation for.
fn add_view<P: std::borrow::Borrow<Pattern>>(view: &AgentSpecView<P>, fields: &mut DefinitionFields) {
    fields.named.insert("systemPrompt".into(), json!(view.instruction()));
    if let Some(description) = view.description() {
        fields.named.insert("description".into(), json!(description));
    }
    let (provider, named) = model_name::split_model(view.model());
    let llm = fields.group("llmConfig");
    for (name, text) in [("provider", provider), ("model", named)] {
        if let Some(text) = text {
            llm.entry(name).or_insert_with(|| json!(text));
        }
    }
}

/// Reads the tools that the elements of an agent specify, directly or by reference.
fn tools(
    agent: &Pattern,
    definitions: &DefinitionIndex,
    unknown: &mut dyn FnMut(&mut DefinitionFields),
) -> (Vec<ToolDefinition>, Vec<DefinitionError>) {
    let (mut tools, mut errors) = (Vec::new(), Vec::new());
    for (index, element) in agent.elements.iter().enumerate() {
        let specified = definitions.resolve(element);
        if !is_tool(specified) {
            continue;
        }
        match tool::read(specified, unknown) {
            Ok(tool) => tools.push(tool),
            // The errors of a tool in another document are reported at the tool itself and again at each agent that
            // refers to it.
            Err(found) => errors.extend(found.into_iter().map(|error| error.nested(index))),
        }
    }
    (tools, errors)
}

/// Sets `toolRefs` from three sources: the elements of the pattern, the versions of these elements in `toolVersions`,
/// and the property `toolRefs` with additional tools.
fn add_tool_refs(agent: &Pattern, fields: &mut DefinitionFields) {
    let mut versions: BTreeMap<String, Json> = BTreeMap::new();
    if let Some(property) = agent.get(VERSIONS) {
        match value::to_json(property) {
            Ok(Json::Object(named)) if named.values().all(Json::is_string) => versions.extend(named),
            _ => fields.reject_property(VERSIONS, "must be a map from tools to versions, as in `{find: \"^1.2\"}`"),
        }
    }
    let mut named: Vec<Json> = Vec::new();
    for tool in agent.elements.iter().map(Pattern::identity) {
        named.push(match versions.remove(tool) {
            Some(Json::String(version)) => json!(format!("{tool}@{version}")),
            _ => json!(tool),
        });
    }
    for tool in versions.into_keys() {
        fields.reject_property(VERSIONS, &format!("contains `{tool}`, which is not one of the agent's tools"));
    }
    match fields.named.get_mut("toolRefs") {
        Some(Json::Array(more)) => named.append(more),
        // `finish` reports the invalid type.
        Some(_) => return,
        None if named.is_empty() => return,
        None => {}
    }
    fields.named.insert("toolRefs".into(), Json::Array(named));
}

/// Converts a definition to a pattern, except for fields that elements and properties cannot express.
fn draft_pattern(agent: &AgentDefinition, fields: &Map<String, Json>) -> Pattern {
    let defaults = to_fields(&AgentDefinition::new(agent.ref_name.clone()));
    let mut fields = fields.clone();
    fields.retain(|name, json| defaults.get(name) != Some(json));
    let llm = &agent.llm_config;
    let model = model_name::format_model(llm.provider.as_deref(), llm.model.as_deref());
    if let Some(Json::Object(config)) = fields.get_mut("llmConfig") {
        let (provider, named) = model_name::split_model(&model);
        if (provider, named) == (llm.provider.as_deref(), llm.model.as_deref()) {
            config.shift_remove("provider");
            config.shift_remove("model");
        }
    }
    let instruction = agent.system_prompt.as_deref().filter(|text| !text.is_empty());
    let mut pattern = Pattern::named(agent.ref_name.as_str())
        .label(LABEL)
        .property("instruction", instruction.unwrap_or(PLACEHOLDER))
        .property("model", if model.is_empty() { PLACEHOLDER } else { &model });
    if let Some(description) = &agent.description {
        pattern = pattern.property("description", description.as_str());
    }
    if let Some((names, versions)) = elements(agent) {
        fields.shift_remove("toolRefs");
        pattern.elements = names.into_iter().map(Pattern::named).collect();
        if !versions.is_empty() {
            pattern = pattern.property(VERSIONS, value::from_json(&Json::Object(versions)));
        }
    }
    mapping().write(pattern, &fields)
}

/// Splits the tool references into names and versions. Returns `None` if a name is invalid, occurs twice or is the name
/// of the agent.
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

fn to_fields(agent: &AgentDefinition) -> Map<String, Json> {
    match serde_json::to_value(agent) {
        Ok(Json::Object(fields)) => fields,
        _ => Map::new(),
    }
}
