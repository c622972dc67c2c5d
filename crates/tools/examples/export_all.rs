//! Exports the built-in tools, the demo's tools and the fixtures of the export tests in every format, into a directory.
//!
//! ```text
//! cargo run -p toolwright-tools --example export_all -- DIR
//! ```
//!
//! Writes `DIR/<format>/<name>.json`, and `DIR/examples/<name>.json` with the example inputs of the definition.
//! `scripts/check-exports` loads the files with the Python packages of each format.

use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use toolwright_testkit::definitions::{BaseUrls, DefinitionKind, demo};
use toolwright_tools::export::{ExportFormat, export, snake_case};
use toolwright_tools::{CompiledTool, Library, builtin};
use toolwright_types::{DefinitionSource, Document, DocumentMeta, Timestamp, ToolDefinition};

fn main() -> Result<(), Box<dyn Error>> {
    let target = PathBuf::from(std::env::args_os().nth(1).ok_or("usage: export_all DIR")?);
    let library = builtin::library();
    for tool in builtin::tools(&library).values() {
        write(&target, tool)?;
    }
    let urls = BaseUrls { crm: "http://127.0.0.1:1", orders: "http://127.0.0.1:2", web: "http://127.0.0.1:3" };
    let is_tool = |kind| matches!(kind, DefinitionKind::Tool | DefinitionKind::AgenticTool);
    let demo = demo(urls).into_iter().filter(|entry| is_tool(entry.kind)).map(|entry| entry.body);
    let fixtures: Vec<Value> = serde_json::from_str(include_str!("../tests/export/definitions.json"))?;
    for body in demo.chain(fixtures) {
        write(&target, &compile(body, &library)?)?;
    }
    Ok(())
}

fn compile(body: Value, library: &Library) -> Result<CompiledTool, Box<dyn Error>> {
    let definition: ToolDefinition = serde_json::from_value(body)?;
    let meta = DocumentMeta {
        id: definition.ref_name.to_string(),
        ref_name: definition.ref_name.clone(),
        source: DefinitionSource::Manual,
        apply_set: None,
        revision: 1,
        content_hash: String::new(),
        created_by: String::new(),
        created_at: Timestamp::from_micros(0),
        updated_by: String::new(),
        updated_at: Timestamp::from_micros(0),
    };
    Ok(CompiledTool::compile(Document { meta, body: definition }, None, library)?)
}

fn write(target: &Path, tool: &CompiledTool) -> Result<(), Box<dyn Error>> {
    let file = format!("{}.json", snake_case(&tool.definition.ref_name));
    let inputs: Vec<Value> = tool.definition.examples.iter().map(|example| json!(example.input)).collect();
    let exports = ExportFormat::ALL.map(|format| (format.as_str(), export(tool, format)));
    for (folder, content) in exports.into_iter().chain([("examples", json!(inputs))]) {
        let folder = target.join(folder);
        fs::create_dir_all(&folder)?;
        fs::write(folder.join(&file), serde_json::to_vec_pretty(&content)?)?;
    }
    Ok(())
}
