//! A tool as others describe tools: the bare object of each format, made from a [`CompiledTool`].
//!
//! | format | name | schema |
//! |---|---|---|
//! | `universal` | [`snake_case`] | lowered to type, description, enum, default, items, properties, required |
//! | `langchain` | [`snake_case`] | JSON Schema with references written out |
//! | `mcp`, `openai`, `anthropic` | [`mangle`] | JSON Schema 2020-12; references kept where the root allows it |
//! | `gemini` | [`mangle`] | lowered to the subset of OpenAPI that Gemini reads |
//!
//! Every schema has an object at its root, without `$ref`, `allOf`, `anyOf` or `oneOf` there, because no provider
//! takes those. `{}` becomes an object without properties. A schema that accepts no object at all (a list, a text)
//! becomes an object with the one property [`WRAPPED`]; [`unwrap_arguments`] takes a caller's arguments out again.
//!
//! An export shows a caller what to send; it does not check it: the executor validates each call against the tool's
//! own schema, whatever was lost on the way out. Names of properties are not changed, also where a provider would not
//! take them. Envelopes, HTTP routes and the texts of agentic tools are not here.

mod names;
mod render;
mod root;
mod shape;
mod walk;

use std::fmt;
use std::str::FromStr;

use serde_json::{Value, json};
use toolwright_types::{SideEffects, ToolType};

use crate::CompiledTool;

pub use names::{Collision, NameTable, mangle, snake_case, unmangle};

/// The property that holds the input of a tool whose schema accepts no object.
pub const WRAPPED: &str = "value";

/// The longest description in the universal format, in characters.
const UNIVERSAL_DESCRIPTION: usize = 2000;

/// A format that tools can be exported in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Format {
    /// What every framework reads: few keywords, everything described.
    Universal,
    /// What `StructuredTool` takes.
    LangChain,
    /// A tool of an MCP server.
    Mcp,
    /// A tool of OpenAI's Chat Completions.
    OpenAi,
    /// A tool of Anthropic's Messages.
    Anthropic,
    /// A function declaration of Gemini.
    Gemini,
}

impl Format {
    /// All formats.
    pub const ALL: [Format; 6] =
        [Format::Universal, Format::LangChain, Format::Mcp, Format::OpenAi, Format::Anthropic, Format::Gemini];

    /// The format as it is written in a route.
    pub fn as_str(self) -> &'static str {
        match self {
            Format::Universal => "universal",
            Format::LangChain => "langchain",
            Format::Mcp => "mcp",
            Format::OpenAi => "openai",
            Format::Anthropic => "anthropic",
            Format::Gemini => "gemini",
        }
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A word that is not the name of a format.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("there is no export format `{0}`; use universal, langchain, mcp, openai, anthropic or gemini")]
pub struct UnknownFormat(String);

impl FromStr for Format {
    type Err = UnknownFormat;

    fn from_str(text: &str) -> Result<Self, UnknownFormat> {
        let found = Format::ALL.into_iter().find(|format| format.as_str() == text);
        found.ok_or_else(|| UnknownFormat(text.to_owned()))
    }
}

/// `tool` in `format`.
pub fn export(tool: &CompiledTool, format: Format) -> Value {
    match format {
        Format::Universal => universal(tool),
        Format::LangChain => langchain(tool),
        Format::Mcp => mcp(tool),
        Format::OpenAi => openai(tool),
        Format::Anthropic => anthropic(tool),
        Format::Gemini => gemini(tool),
    }
}

/// The input of `tool` in the `arguments` of a caller that was shown an export.
pub fn unwrap_arguments(tool: &CompiledTool, mut arguments: Value) -> Value {
    if !tool.wrapped.get_or_init(|| root::is_wrapped(tool.input.source())) {
        return arguments;
    }
    match arguments.get_mut(WRAPPED) {
        Some(input) => input.take(),
        None => arguments,
    }
}

fn universal(tool: &CompiledTool) -> Value {
    json!({
        "name": snake_case(&tool.definition.ref_name),
        "description": cut(tool.definition.description_or_name(), UNIVERSAL_DESCRIPTION),
        "parameters": render::parameters(&root::lowered(tool.input.source()), render::Dialect::Universal),
    })
}

fn langchain(tool: &CompiledTool) -> Value {
    json!({
        "name": snake_case(&tool.definition.ref_name),
        "description": tool.definition.description_or_name(),
        "schema": root::standalone(tool.input.source()),
    })
}

fn mcp(tool: &CompiledTool) -> Value {
    let definition = &tool.definition;
    let writes = tool.effects == SideEffects::Writes;
    let annotations = json!({
        "title": definition.display_name(),
        "readOnlyHint": !writes,
        // Whether a write adds or replaces is not declared, so the careful answer is given.
        "destructiveHint": writes,
        "idempotentHint": definition.idempotent,
        "openWorldHint": open_world(tool),
    });
    let fields = [
        ("name", Some(json!(mangle(&definition.ref_name)))),
        ("title", definition.name.as_ref().map(|title| json!(title))),
        ("description", Some(json!(definition.description_or_name()))),
        ("inputSchema", Some(root::json_schema(tool.input.source()))),
        ("outputSchema", root::object_output(tool.output.source())),
        ("annotations", Some(annotations)),
    ];
    fields.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))).collect()
}

/// Whether the tool meets things that this server does not hold.
fn open_world(tool: &CompiledTool) -> bool {
    match tool.definition.tool_type {
        ToolType::QuantumApi | ToolType::QuantumQuery => false,
        ToolType::Function => tool.effects != SideEffects::None,
        _ => true,
    }
}

fn openai(tool: &CompiledTool) -> Value {
    json!({
        "type": "function",
        "function": {
            "name": mangle(&tool.definition.ref_name),
            "description": tool.definition.description_or_name(),
            "parameters": root::json_schema(tool.input.source()),
        },
    })
}

fn anthropic(tool: &CompiledTool) -> Value {
    json!({
        "name": mangle(&tool.definition.ref_name),
        "description": tool.definition.description_or_name(),
        "input_schema": root::json_schema(tool.input.source()),
    })
}

/// `parameters` and not `parametersJsonSchema`: every version of the API reads it, and the `google-genai` package
/// checks it field by field, while it passes the other on unread.
fn gemini(tool: &CompiledTool) -> Value {
    json!({
        "name": mangle(&tool.definition.ref_name),
        "description": tool.definition.description_or_name(),
        "parameters": render::parameters(&root::lowered(tool.input.source()), render::Dialect::Gemini),
    })
}

/// At most `longest` characters of `text`.
fn cut(text: &str, longest: usize) -> String {
    if text.chars().count() <= longest {
        return text.to_owned();
    }
    text.chars().take(longest.saturating_sub(3)).chain("...".chars()).collect()
}
