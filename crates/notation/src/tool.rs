//! Converts tool patterns, `[name:ToolSpecification {description, …} | signature]`, to [`ToolDefinition`] and back.

use serde_json::{Map, Value as Json, json};
use toolwright_gram::{Pattern, Signature, ToolSpecView, Type};
use toolwright_types::{InvocationConfig, RateLimit, ToolDefinition, ToolPrice, ToolType, field_names};

use crate::properties::{DefinitionFields, PropertyMapping, with_exact};
use crate::{DefinitionError, schema};

/// The default tool type: a function of the library, resolved by name when the tool is called.
const FUNCTION: &str = "FUNCTION";

/// The label in written patterns. The label `Tool` is also accepted when a pattern is read.
const LABEL: &str = "ToolSpecification";

fn mapping() -> PropertyMapping {
    PropertyMapping {
        kind_name: "tool",
        fields: field_names::<ToolDefinition>(),
        groups: &[
            ("invocation", field_names::<InvocationConfig>),
            ("rateLimit", field_names::<RateLimit>),
            ("price", field_names::<ToolPrice>),
        ],
        non_property_fields: &["refName", "description"],
        non_field_properties: &["description"],
    }
}

/// Converts a tool pattern to a definition. Unknown properties are errors.
pub fn read_tool(pattern: &Pattern) -> Result<ToolDefinition, Vec<DefinitionError>> {
    read(pattern, &mut |fields| fields.reject_unknown())
}

/// Converts a tool pattern to a definition. `unknown` rejects the unknown properties or removes them.
pub(crate) fn read(
    pattern: &Pattern,
    unknown: &mut dyn FnMut(&mut DefinitionFields),
) -> Result<ToolDefinition, Vec<DefinitionError>> {
    let mut fields = mapping().read(pattern);
    unknown(&mut fields);
    fields.set_name(pattern.identity());
    let errors = match ToolSpecView::new(pattern) {
        Ok(tool) => add_view(&tool, &mut fields).err().into_iter().collect(),
        Err(errors) => errors.into_iter().map(DefinitionError::from).collect::<Vec<_>>(),
    };
    let kind = fields.named.entry("toolType").or_insert_with(|| json!(FUNCTION));
    if *kind == FUNCTION {
        fields.group("invocation").entry("path").or_insert_with(|| json!(pattern.identity()));
    }
    match fields.finish() {
        Ok(tool) if errors.is_empty() => Ok(tool),
        Ok(_) => Err(errors),
        Err(more) => Err([errors, more].concat()),
    }
}

/// Sets the fields that gram has its own notation for.
fn add_view<P: std::borrow::Borrow<Pattern>>(
    tool: &ToolSpecView<P>,
    fields: &mut DefinitionFields,
) -> Result<(), DefinitionError> {
    let signature = tool.signature().map_err(|error| DefinitionError::at_root(error.to_string()))?;
    fields.named.insert("description".into(), json!(tool.description()));
    let (input, output) = schema::signature_schemas(&signature);
    if !["inputSchema", "inputJsonSchema"].iter().any(|name| fields.named.contains_key(*name)) {
        fields.named.insert("inputJsonSchema".into(), input);
    }
    if !["outputSchema", "outputJsonSchema"].iter().any(|name| fields.named.contains_key(*name))
        && let Some(schema) = output
    {
        fields.named.insert("outputJsonSchema".into(), schema);
    }
    Ok(())
}

/// Converts a definition to a pattern. Reading the pattern returns the same definition.
pub fn write_tool(tool: &ToolDefinition) -> Pattern {
    let fields = to_fields(tool);
    let pattern = draft_pattern(tool, &fields);
    let again = read_tool(&pattern).map(|tool| to_fields(&tool)).unwrap_or_default();
    with_exact(pattern, &fields, &again)
}

/// Converts a definition to a pattern, except for fields that the signature and properties cannot express.
fn draft_pattern(tool: &ToolDefinition, fields: &Map<String, Json>) -> Pattern {
    let defaults = to_fields(&ToolDefinition::new(tool.ref_name.clone(), ToolType::Function));
    let mut fields = fields.clone();
    fields.retain(|name, json| defaults.get(name) != Some(json));
    let input = tool.effective_input_schema();
    let parameters = schema::parameters(&input);
    if parameters.is_some() {
        fields.shift_remove("inputJsonSchema");
    }
    let returns = schema::return_type(&tool.effective_output_schema());
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
        parameters: parameters.unwrap_or_else(|| schema::approximate_parameters(&input)),
        returns: returns.unwrap_or(Type::Object(None)),
    };
    let description =
        [tool.description.as_deref(), tool.name.as_deref()].into_iter().flatten().find(|text| !text.is_empty());
    let pattern = Pattern::named(tool.ref_name.as_str())
        .label(LABEL)
        .property("description", description.unwrap_or_else(|| tool.ref_name.as_str()))
        .element(signature.to_pattern());
    mapping().write(pattern, &fields)
}

fn to_fields(tool: &ToolDefinition) -> Map<String, Json> {
    match serde_json::to_value(tool) {
        Ok(Json::Object(fields)) => fields,
        _ => Map::new(),
    }
}
