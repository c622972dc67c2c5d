//! Exports tools to the formats of model providers and frameworks.
//!
//! | format | name | schema |
//! |---|---|---|
//! | `universal` | [`snake_case`] | lowered to type, description, enum, default, items, properties, required |
//! | `langchain` | [`snake_case`] | JSON Schema with references inlined |
//! | `mcp`, `openai`, `anthropic` | [`mangle`] | JSON Schema 2020-12; references kept where the root allows it |
//! | `gemini` | [`mangle`] | lowered to the subset of OpenAPI that Gemini reads |
//!
//! The root of every schema is an object without `$ref`, `allOf`, `anyOf` or `oneOf`, because providers reject these
//! keywords at the root. `{}` becomes an object without properties. A schema that accepts no object, for example the
//! schema of a list, becomes an object with the single property [`WRAPPER_PROPERTY`]. [`unwrap_arguments`] reverses
//! this.
//!
//! An export only describes the input. The executor validates each call against the tool's own schema, including
//! constraints that the export cannot express. Property names are not changed, even if a provider does not accept them.
//!
//! [`export`] uses the names of the table. [`export_named`] uses the name in snake case in every format; [`code_snippets`]
//! and [`McpServer`] add code that calls tools under these names. HTTP routes are not part of this module.

mod description;
mod lower;
mod names;
mod normalize;
mod root;
mod shape;
mod snippets;

use std::fmt;
use std::str::FromStr;

use serde_json::{Value, json};
use toolwright_types::{SideEffects, ToolType};

use crate::CompiledTool;

pub(crate) use description::{MAX_DESCRIPTION_CHARS, agentic_description};
pub use names::{mangle, snake_case, unmangle};
pub use snippets::{CodeSnippets, McpResource, McpServer, ServerFiles, code_snippets};

/// The name of the property that contains the input of a tool whose schema accepts no object.
pub const WRAPPER_PROPERTY: &str = "value";

/// The maximum length of a description in the universal format, in characters.
const MAX_UNIVERSAL_DESCRIPTION_CHARS: usize = 2000;

/// An export format.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ExportFormat {
    /// Few keywords and a description of every property, for any framework.
    Universal,
    /// The arguments of LangChain's `StructuredTool`.
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

impl ExportFormat {
    /// All formats.
    pub const ALL: [ExportFormat; 6] = [
        ExportFormat::Universal,
        ExportFormat::LangChain,
        ExportFormat::Mcp,
        ExportFormat::OpenAi,
        ExportFormat::Anthropic,
        ExportFormat::Gemini,
    ];

    /// Returns the name that routes use for the format.
    pub fn as_str(self) -> &'static str {
        match self {
            ExportFormat::Universal => "universal",
            ExportFormat::LangChain => "langchain",
            ExportFormat::Mcp => "mcp",
            ExportFormat::OpenAi => "openai",
            ExportFormat::Anthropic => "anthropic",
            ExportFormat::Gemini => "gemini",
        }
    }

    /// Returns the names of the systems that read the format.
    pub fn compatible_with(self) -> &'static [&'static str] {
        match self {
            ExportFormat::Universal => &["openai", "anthropic", "gemini", "langchain", "mcp"],
            ExportFormat::LangChain => &["langchain-js", "langchain-python", "llamaindex"],
            ExportFormat::Mcp => &["claude-desktop", "mcp-client"],
            ExportFormat::OpenAi => &["openai"],
            ExportFormat::Anthropic => &["anthropic"],
            ExportFormat::Gemini => &["gemini"],
        }
    }
}

impl fmt::Display for ExportFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The error of an unknown format name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown export format `{0}`; use universal, langchain, mcp, openai, anthropic or gemini")]
pub struct UnknownFormat(String);

impl FromStr for ExportFormat {
    type Err = UnknownFormat;

    fn from_str(text: &str) -> Result<Self, UnknownFormat> {
        let found = ExportFormat::ALL.into_iter().find(|format| format.as_str() == text);
        found.ok_or_else(|| UnknownFormat(text.to_owned()))
    }
}

/// Exports `tool` in `format`.
pub fn export(tool: &CompiledTool, format: ExportFormat) -> Value {
    match format {
        ExportFormat::Universal | ExportFormat::LangChain => export_as(tool, format, tool.exported_name()),
        ExportFormat::Mcp | ExportFormat::OpenAi | ExportFormat::Anthropic | ExportFormat::Gemini => {
            export_as(tool, format, &mangle(&tool.definition.ref_name))
        }
    }
}

/// Exports `tool` in `format` under its name in snake case.
pub fn export_named(tool: &CompiledTool, format: ExportFormat) -> Value {
    export_as(tool, format, tool.exported_name())
}

/// Exports `tool` in `format` under a name.
fn export_as(tool: &CompiledTool, format: ExportFormat, name: &str) -> Value {
    match format {
        ExportFormat::Universal => universal(tool, name),
        ExportFormat::LangChain => langchain(tool, name),
        ExportFormat::Mcp => mcp(tool, name),
        ExportFormat::OpenAi => openai(tool, name),
        ExportFormat::Anthropic => anthropic(tool, name),
        ExportFormat::Gemini => gemini(tool, name),
    }
}

/// Returns the input of `tool` for `arguments` that follow an exported schema: removes the wrapper object, if there is
/// one.
pub fn unwrap_arguments(tool: &CompiledTool, mut arguments: Value) -> Value {
    if !tool.wraps_input.get_or_init(|| root::is_wrapped(tool.input.source())) {
        return arguments;
    }
    match arguments.get_mut(WRAPPER_PROPERTY) {
        Some(input) => input.take(),
        None => arguments,
    }
}

fn universal(tool: &CompiledTool, name: &str) -> Value {
    json!({
        "name": name,
        "description": truncate(tool.description(), MAX_UNIVERSAL_DESCRIPTION_CHARS),
        "parameters": lower::parameters(&root::lowered(tool.input.source()), lower::Dialect::Universal),
    })
}

fn langchain(tool: &CompiledTool, name: &str) -> Value {
    json!({
        "name": name,
        "description": tool.description(),
        "schema": root::standalone(tool.input.source()),
    })
}

fn mcp(tool: &CompiledTool, name: &str) -> Value {
    let definition = &tool.definition;
    let writes = tool.effects == SideEffects::Writes;
    let annotations = json!({
        "title": definition.display_name(),
        "readOnlyHint": !writes,
        // Definitions do not declare whether a write only adds data, so every write is marked as destructive.
        "destructiveHint": writes,
        "idempotentHint": definition.idempotent,
        "openWorldHint": open_world(tool),
    });
    let fields = [
        ("name", Some(json!(name))),
        ("title", definition.name.as_ref().map(|title| json!(title))),
        ("description", Some(json!(tool.description()))),
        ("inputSchema", Some(root::json_schema(tool.input.source()))),
        ("outputSchema", root::object_output(tool.output.source())),
        ("annotations", Some(annotations)),
    ];
    fields.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))).collect()
}

/// Whether the tool interacts with systems outside of this server.
fn open_world(tool: &CompiledTool) -> bool {
    match tool.definition.tool_type {
        ToolType::QuantumApi | ToolType::QuantumQuery => false,
        ToolType::Function => tool.effects != SideEffects::None,
        _ => true,
    }
}

fn openai(tool: &CompiledTool, name: &str) -> Value {
    json!({
        "type": "function",
        "function": {
            "name": name,
            "description": tool.description(),
            "parameters": root::json_schema(tool.input.source()),
        },
    })
}

fn anthropic(tool: &CompiledTool, name: &str) -> Value {
    json!({
        "name": name,
        "description": tool.description(),
        "input_schema": root::json_schema(tool.input.source()),
    })
}

/// Uses `parameters` and not `parametersJsonSchema`, because every version of the API reads `parameters`. The
/// `google-genai` package validates `parameters` field by field but does not read `parametersJsonSchema`.
fn gemini(tool: &CompiledTool, name: &str) -> Value {
    json!({
        "name": name,
        "description": tool.description(),
        "parameters": lower::parameters(&root::lowered(tool.input.source()), lower::Dialect::Gemini),
    })
}

fn truncate(text: &str, max_chars: usize) -> String {
    if text.chars().count() <= max_chars {
        return text.to_owned();
    }
    text.chars().take(max_chars.saturating_sub(3)).chain("...".chars()).collect()
}
