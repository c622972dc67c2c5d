//! Code that calls exported tools: files for TypeScript and Python that run as they are.
//!
//! The files in `snippets/` are templates. They are valid programs. [`fill`] sets the values of their constants and
//! replaces the import of `invoke` by its code, so that a file needs no other file.

use std::collections::BTreeSet;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::{Map, Value, json};

use super::{ExportFormat, export_named};
use crate::CompiledTool;

const INVOKE_TS: &str = include_str!("snippets/invoke.ts");
const INVOKE_PY: &str = include_str!("snippets/invoke.py");
const TOOLS_TS: &str = include_str!("snippets/tools.ts");
const TOOLS_PY: &str = include_str!("snippets/tools.py");
const LANGCHAIN_TS: &str = include_str!("snippets/langchain_tools.ts");
const LANGCHAIN_PY: &str = include_str!("snippets/langchain_tools.py");
const MCP_TS: &str = include_str!("snippets/mcp_server.ts");
const MCP_PY: &str = include_str!("snippets/mcp_server.py");

/// The characters that are escaped in a segment of a URI.
const SEGMENT: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~');

/// The name of the server file in the package and in the configuration of the client.
const SERVER_FILE: &str = "server.ts";

/// Programs that offer the same tools in two languages.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CodeSnippets {
    /// A module for TypeScript.
    pub typescript: String,
    /// A module for Python.
    pub python: String,
}

/// The files of an MCP server that calls the tools.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerFiles {
    /// The server in TypeScript.
    pub typescript: String,
    /// The server in Python.
    pub python: String,
    /// The `package.json` of the server in TypeScript.
    pub package_json: String,
    /// The part of the configuration of Claude Desktop that starts the server.
    pub claude_desktop_config: String,
}

/// An MCP server with exported tools.
#[derive(Debug, Clone, PartialEq)]
pub struct McpServer {
    /// The name of the server.
    pub name: String,
    /// The version of the server.
    pub version: String,
    /// The tools, in the form of `tools/list`.
    pub tools: Vec<Value>,
    /// Reference data of the providers of the tools.
    pub resources: Vec<McpResource>,
    ref_names: Value,
}

/// Reference data as a resource of an MCP server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct McpResource {
    /// `toolwright://PROVIDER/TYPE`.
    pub uri: String,
    /// The name.
    pub name: String,
    /// What the data is.
    pub description: String,
}

impl McpResource {
    /// The media type of all resources.
    pub const MEDIA_TYPE: &'static str = "application/json";
}

/// Returns modules that offer `tools` in `format`.
pub fn code_snippets<'a>(
    tools: impl IntoIterator<Item = &'a CompiledTool> + Clone,
    format: ExportFormat,
) -> CodeSnippets {
    let exported: Value = tools.clone().into_iter().map(|tool| export_named(tool, format)).collect();
    let constants = [("TOOLS", exported), ("REF_NAMES", ref_names(tools))];
    let (typescript, python) = match format {
        ExportFormat::LangChain => (LANGCHAIN_TS, LANGCHAIN_PY),
        _ => (TOOLS_TS, TOOLS_PY),
    };
    CodeSnippets {
        typescript: fill(typescript, Language::TypeScript, &constants),
        python: fill(python, Language::Python, &constants),
    }
}

impl McpServer {
    /// Returns a server with one tool. Its version is that of the tool.
    pub fn of_tool(tool: &CompiledTool) -> Self {
        let name = format!("toolwright-{}", tool.exported_name().replace('_', "-"));
        Self::new(name, tool.definition.version.to_string(), [tool])
    }

    /// Returns a server with several tools. Its version is that of this program.
    pub fn of_tools<'a>(tools: impl IntoIterator<Item = &'a CompiledTool> + Clone) -> Self {
        Self::new("toolwright".to_owned(), env!("CARGO_PKG_VERSION").to_owned(), tools)
    }

    fn new<'a>(name: String, version: String, tools: impl IntoIterator<Item = &'a CompiledTool> + Clone) -> Self {
        let mut resources = Vec::new();
        for resource in tools.clone().into_iter().flat_map(reference_data) {
            if !resources.contains(&resource) {
                resources.push(resource);
            }
        }
        let exported = tools.clone().into_iter().map(|tool| export_named(tool, ExportFormat::Mcp)).collect();
        Self { name, version, tools: exported, resources, ref_names: ref_names(tools) }
    }

    /// Returns the capabilities that the server declares.
    pub fn capabilities(&self) -> Value {
        if self.resources.is_empty() { json!({ "tools": {} }) } else { json!({ "tools": {}, "resources": {} }) }
    }

    /// Returns the files of the server.
    pub fn files(&self) -> ServerFiles {
        let resources = self.resources.iter().map(|resource| {
            let McpResource { uri, name, description } = resource;
            json!({ "uri": uri, "name": name, "description": description, "mimeType": McpResource::MEDIA_TYPE })
        });
        let constants = [
            ("NAME", json!(self.name)),
            ("VERSION", json!(self.version)),
            ("TOOLS", json!(self.tools)),
            ("REF_NAMES", self.ref_names.clone()),
            ("RESOURCES", resources.collect()),
        ];
        ServerFiles {
            typescript: fill(MCP_TS, Language::TypeScript, &constants),
            python: fill(MCP_PY, Language::Python, &constants),
            package_json: self.package_json(),
            claude_desktop_config: self.claude_desktop_config(),
        }
    }

    fn package_json(&self) -> String {
        let package = json!({
            "name": self.name,
            "version": self.version,
            "private": true,
            "type": "module",
            "scripts": { "start": format!("tsx {SERVER_FILE}") },
            "dependencies": { "@modelcontextprotocol/sdk": "^1.32.0", "tsx": "^4.23.0" },
            "devDependencies": { "@types/node": "^20.0.0" },
        });
        format!("{package:#}\n")
    }

    fn claude_desktop_config(&self) -> String {
        let entry = json!({
            "command": "npx",
            "args": ["--prefix", "/path/to/the/server", "tsx", format!("/path/to/the/server/{SERVER_FILE}")],
            "env": { "TOOLWRIGHT_URL": "http://127.0.0.1:7411", "TOOLWRIGHT_API_KEY": "your API key" },
        });
        let servers = Map::from_iter([(self.name.clone(), entry)]);
        format!("{:#}\n", json!({ "mcpServers": servers }))
    }
}

/// Returns the reference data of a tool's provider as resources. Returns none for an agentic tool, whose provider is
/// internal.
fn reference_data(tool: &CompiledTool) -> Vec<McpResource> {
    let Some(provider) = tool.provider.as_deref().filter(|_| tool.definition.agentic.is_none()) else {
        return Vec::new();
    };
    let config = &provider.config;
    let segment = |text: &str| utf8_percent_encode(text, SEGMENT).to_string();
    let resource = |data_type: &str| McpResource {
        uri: format!("toolwright://{}/{}", segment(config.ref_name.as_str()), segment(data_type)),
        name: format!("{} {data_type}", config.ref_name),
        description: format!("The names and ids of type `{data_type}` that inputs may contain."),
    };
    config.reference_data.iter().map(|source| resource(&source.data_type)).collect()
}

/// Returns a map from the exported names of the tools to their names on this server.
fn ref_names<'a>(tools: impl IntoIterator<Item = &'a CompiledTool>) -> Value {
    let named = tools.into_iter().map(|tool| (tool.exported_name().to_owned(), json!(tool.definition.ref_name)));
    Value::Object(named.collect())
}

#[derive(Clone, Copy)]
enum Language {
    TypeScript,
    Python,
}

/// Returns a template with the values of its constants, and with the code of `invoke`. A constant is a line such as
/// `const TOOLS: Tool[] = [];` or `TOOLS = json.loads("[]")`.
fn fill(template: &str, language: Language, constants: &[(&str, Value)]) -> String {
    let mut filled = String::new();
    for line in template.lines() {
        let declared = line.split_once(" = ").and_then(|(declaration, _)| {
            let name = declaration.strip_prefix("export ").unwrap_or(declaration);
            let name = name.strip_prefix("const ").unwrap_or(name).split(':').next()?;
            let (_, value) = constants.iter().find(|(constant, _)| *constant == name)?;
            Some((declaration, value))
        });
        let line = match (declared, language) {
            (Some((declaration, value)), Language::TypeScript) => format!("{declaration} = {};", typescript(value)),
            (Some((declaration, value)), Language::Python) => format!("{declaration} = {}", python(value)),
            (None, Language::TypeScript) if line.ends_with("from \"./invoke.js\";") => {
                format!("\n{}", INVOKE_TS.replace("export ", "").trim_end())
            }
            (None, Language::Python) if line.starts_with("from invoke import ") => {
                let code = INVOKE_PY.lines().skip_while(|line| line.starts_with("import ") || line.is_empty());
                format!("\n{}\n", Vec::from_iter(code).join("\n"))
            }
            (None, _) => line.to_owned(),
        };
        filled.push_str(&line);
        filled.push('\n');
    }
    match language {
        Language::TypeScript => filled,
        Language::Python => with_imports(&filled),
    }
}

/// Merges the imports of `invoke` into those of a template, which start with `import json`.
fn with_imports(template: &str) -> String {
    let is_import = |line: &&str| line.starts_with("import ");
    let own = template.lines().skip_while(|line| *line != "import json").take_while(is_import);
    let own: Vec<&str> = own.collect();
    let all: BTreeSet<&str> = own.iter().copied().chain(INVOKE_PY.lines().filter(is_import)).collect();
    template.replacen(&own.join("\n"), &Vec::from_iter(all).join("\n"), 1)
}

/// Writes a value as an expression. In a literal, the key `__proto__` would set the prototype of the object.
fn typescript(value: &Value) -> String {
    format!("{value:#}").replace("\"__proto__\":", "[\"__proto__\"]:")
}

/// Writes a value as an expression. A JSON string is a Python string too. Other values are JSON in a raw string, which
/// keeps its escapes and never contains three quotes in a row.
fn python(value: &Value) -> String {
    if value.is_string() { value.to_string() } else { format!("json.loads(r\"\"\"{value:#}\"\"\")") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_template_declares_its_constants_and_imports_invoke() {
        let common = ["TOOLS", "REF_NAMES"];
        let server = ["NAME", "VERSION", "TOOLS", "REF_NAMES", "RESOURCES"];
        let templates: [(&str, Language, &[&str]); 6] = [
            (TOOLS_TS, Language::TypeScript, &common),
            (TOOLS_PY, Language::Python, &common),
            (LANGCHAIN_TS, Language::TypeScript, &common),
            (LANGCHAIN_PY, Language::Python, &common),
            (MCP_TS, Language::TypeScript, &server),
            (MCP_PY, Language::Python, &server),
        ];
        for (template, language, names) in templates {
            let constants: Vec<(&str, Value)> = names.iter().map(|name| (*name, json!(format!("<{name}>")))).collect();
            let filled = fill(template, language, &constants);
            for name in names {
                assert_eq!(filled.matches(&format!("\"<{name}>\"")).count(), 1, "{name}: {filled}");
            }
            assert!(!filled.contains("./invoke.js") && !filled.contains("from invoke import"), "{filled}");
            assert_eq!(filled.matches("/api/v1/tools/invoke").count(), 1, "{filled}");
        }
    }

    #[test]
    fn special_texts_remain_data_in_both_languages() {
        let value = json!({ "__proto__": "\"\"\" + \\ `${x}` \u{2028} \"__proto__\":", "empty": ["", ""] });
        assert!(
            typescript(&value).starts_with("{\n  [\"__proto__\"]: \"\\\"\\\"\\\" + \\\\"),
            "{}",
            typescript(&value)
        );
        assert_eq!(python(&json!("a\"b")), r#""a\"b""#);
        let python = python(&value);
        assert_eq!(python.matches("\"\"\"").count(), 2, "{python}");
    }
}
