//! Tools: `[name:ToolSpecification {description, …} | signature]` and [`ToolDefinition`].

use serde_json::{Map, Value as Json, json};
use toolwright_gram::{Pattern, Signature, ToolSpecView, Type};
use toolwright_types::{InvocationConfig, RateLimit, ToolDefinition, ToolType};

use crate::field::names_of;
use crate::record::{Fields, Form, with_exact};
use crate::{Problem, schema};

/// The type of a tool that does not say: bound late, by its name, to a function of the library.
const FUNCTION: &str = "FUNCTION";

/// The label that is written; `Tool` is read too.
const LABEL: &str = "ToolSpecification";

fn form() -> Form {
    Form {
        noun: "tool",
        fields: names_of::<ToolDefinition>(),
        groups: &[("invocation", names_of::<InvocationConfig>), ("rateLimit", names_of::<RateLimit>)],
        said_otherwise: &["refName", "description"],
        own: &["description"],
    }
}

/// The definition that a tool pattern stands for. A property that no field is called like is an error.
pub fn read_tool(pattern: &Pattern) -> Result<ToolDefinition, Vec<Problem>> {
    read(pattern, &mut |fields| fields.refuse_unknown())
}

/// The same, where `unknown` decides about properties that no field is called like.
pub(crate) fn read(pattern: &Pattern, unknown: &mut dyn FnMut(&mut Fields)) -> Result<ToolDefinition, Vec<Problem>> {
    let tool =
        ToolSpecView::new(pattern).map_err(|problems| problems.into_iter().map(Problem::from).collect::<Vec<_>>())?;
    let signature = tool.signature().map_err(|error| vec![Problem::here(error.to_string())])?;
    let mut fields = form().read(pattern);
    unknown(&mut fields);
    fields.named.insert("refName".into(), json!(tool.name()));
    fields.named.insert("description".into(), json!(tool.description()));
    let kind = fields.named.entry("toolType").or_insert_with(|| json!(FUNCTION));
    if *kind == FUNCTION {
        fields.group("invocation").entry("path").or_insert_with(|| json!(tool.name()));
    }
    if !["inputSchema", "inputJsonSchema"].iter().any(|name| fields.named.contains_key(*name)) {
        fields.named.insert("inputJsonSchema".into(), signature.to_schema());
    }
    if !["outputSchema", "outputJsonSchema"].iter().any(|name| fields.named.contains_key(*name))
        && let Some(schema) = schema::of_returned(&signature.returns)
    {
        fields.named.insert("outputJsonSchema".into(), schema);
    }
    fields.finish()
}

/// The pattern that stands for a definition: reading it again gives the same.
pub fn write_tool(tool: &ToolDefinition) -> Pattern {
    let fields = fields_of(tool);
    let pattern = said(tool, &fields);
    let again = read_tool(&pattern).map(|tool| fields_of(&tool)).unwrap_or_default();
    with_exact(pattern, &fields, &again)
}

/// The pattern as far as signature and properties can say it.
fn said(tool: &ToolDefinition, fields: &Map<String, Json>) -> Pattern {
    let usual = fields_of(&ToolDefinition::new(tool.ref_name.clone(), ToolType::Function));
    let mut fields = fields.clone();
    fields.retain(|name, json| usual.get(name) != Some(json));
    let input = tool.effective_input_schema();
    let parameters = schema::parameters(&input);
    if parameters.is_some() {
        fields.shift_remove("inputJsonSchema");
    }
    let returns = schema::returned(&tool.effective_output_schema());
    if returns.is_some() {
        fields.shift_remove("outputJsonSchema");
    }
    if tool.tool_type == ToolType::Function
        && let Some(Json::Object(invocation)) = fields.get_mut("invocation")
        && invocation.get("path").is_some_and(|path| path == tool.ref_name.as_str())
    {
        invocation.shift_remove("path");
    }
    let signature = Signature {
        parameters: parameters.unwrap_or_else(|| schema::about(&input)),
        returns: returns.unwrap_or(Type::Object(None)),
    };
    let described =
        [tool.description.as_deref(), tool.name.as_deref()].into_iter().flatten().find(|text| !text.is_empty());
    let pattern = Pattern::named(tool.ref_name.as_str())
        .label(LABEL)
        .property("description", described.unwrap_or_else(|| tool.ref_name.as_str()))
        .element(signature.to_pattern());
    form().write(pattern, &fields)
}

fn fields_of(tool: &ToolDefinition) -> Map<String, Json> {
    match serde_json::to_value(tool) {
        Ok(Json::Object(fields)) => fields,
        _ => Map::new(),
    }
}
