//! The input of an agentic tool on the command line: a task, parameters, or JSON.

use serde_json::{Value, json};

use crate::cli::Context;
use crate::cli::client::{AGENTIC_TOOLS, path};
use crate::cli::failure::Failure;
use crate::cli::input::{InputArgs, read_stdin};
use crate::cli::output::sanitize_line;

/// Options that build the input of an agentic tool.
#[derive(clap::Args)]
pub(super) struct TaskArgs {
    /// Task in natural language, or `-` to read standard input; sets the parameter `task`
    #[arg(value_name = "TASK")]
    task: Option<String>,
    #[command(flatten)]
    input: InputArgs,
}

impl TaskArgs {
    /// Returns the input.
    pub(super) async fn params(&self, cx: &Context, tool: &str) -> Result<Value, Failure> {
        let mut input = self.input.base()?;
        if let Some(task) = &self.task {
            let task = if task == "-" { read_stdin()? } else { task.clone() };
            let fields = input.as_object_mut();
            let fields = fields.ok_or_else(|| Failure::Usage("--input must be an object if TASK is given".into()))?;
            fields.insert("task".into(), json!(task));
        }
        let schema = if self.input.needs_tool_schema() { input_schema(cx, tool).await } else { None };
        for message in schema.iter().flat_map(|schema| self.input.unknown_parameters(schema)) {
            cx.output.note(cx.output.err.warn(format!("! {}", sanitize_line(&message))));
        }
        self.input.merge_parameters(input, schema.as_ref())
    }
}

/// Fetches the input schema of an agentic tool. Errors are ignored, because parameters work without the schema, and the
/// call itself reports problems with the tool or the connection.
async fn input_schema(cx: &Context, tool: &str) -> Option<Value> {
    let response = cx.client.get(&path(AGENTIC_TOOLS, without_version(tool)), &[]).await.ok()?;
    let view: Value = response.read().ok()?;
    Some(json!({ "inputJsonSchema": view.get("inputSchema")? }))
}

/// Returns the name in a reference such as `name@1.2.0`.
pub(super) fn without_version(reference: &str) -> &str {
    reference.split_once('@').map_or(reference, |(name, _)| name)
}
