//! Implements `agentic-tools update`, `enable` and `disable`.

use std::path::PathBuf;

use serde_json::{Value, json};

use crate::cli::Context;
use crate::cli::client::{AGENTIC_TOOLS, ApiResponse, parse_name, path};
use crate::cli::definitions::read_documents;
use crate::cli::exit::Exit;
use crate::cli::failure::Failure;
use crate::cli::fields::text;
use crate::cli::input::{InputParameter, parse_parameter};
use crate::cli::output::sanitize_line;

/// Arguments of `agentic-tools update`.
#[derive(clap::Args)]
pub(crate) struct UpdateArgs {
    /// refName or ID of the agentic tool
    #[arg(value_name = "REF", value_parser = parse_name)]
    reference: String,
    /// File with the fields to change as JSON or YAML, or `-` for standard input; other fields are kept
    #[arg(short, long, value_name = "FILE")]
    file: Option<PathBuf>,
    #[command(flatten)]
    set: SetArgs,
}

/// Options that set fields.
#[derive(clap::Args)]
pub(super) struct SetArgs {
    /// Set a field; may be repeated. A dotted name sets a nested field. The value is parsed as JSON if possible, and
    /// `null` removes the field
    #[arg(long, value_name = "FIELD=JSON", value_parser = parse_parameter)]
    set: Vec<InputParameter>,
}

impl SetArgs {
    /// Sets the fields.
    pub(super) fn merge_into(&self, body: &mut Value) -> Result<(), Failure> {
        self.set.iter().try_for_each(|field| field.merge_into(body, "--set"))
    }
}

/// Changes fields of an agentic tool.
pub(super) async fn run(cx: &Context, args: &UpdateArgs) -> Result<Exit, Failure> {
    if args.file.is_none() && args.set.set.is_empty() {
        let message = "give the fields to change: `-f FILE` with JSON or YAML, or `--set FIELD=JSON`";
        return Err(Failure::Usage(message.to_owned()));
    }
    let (mut patch, mut source) = (json!({}), None);
    if let Some(file) = &args.file {
        let mut documents = read_documents(std::slice::from_ref(file))?;
        let document = documents.pop().filter(|_| documents.is_empty());
        let document =
            document.ok_or_else(|| Failure::Usage(format!("`{}` must contain one agentic tool", file.display())))?;
        patch = document.body;
        source = Some((file.display().to_string(), document.lines));
    }
    args.set.merge_into(&mut patch)?;
    match cx.client.patch(&path(AGENTIC_TOOLS, &args.reference), &patch).await {
        Ok(response) => show(cx, &response, "updated"),
        Err(Failure::Refused(mut refusal)) => {
            refusal.source = source;
            Err(Failure::Refused(refusal))
        }
        Err(other) => Err(other),
    }
}

/// Sets the status of an agentic tool: `active` or `disabled`.
pub(super) async fn set_status(cx: &Context, tool: &str, status: &str) -> Result<Exit, Failure> {
    let response = cx.client.patch(&path(AGENTIC_TOOLS, tool), &json!({ "status": status })).await?;
    show(cx, &response, if status == "active" { "enabled" } else { "disabled" })
}

fn show(cx: &Context, response: &ApiResponse, change: &str) -> Result<Exit, Failure> {
    if cx.output.json {
        cx.output.document(response.text.trim_end())?;
        return Ok(Exit::Ok);
    }
    let tool: Value = response.read()?;
    show_saved(cx, &tool, change)?;
    Ok(Exit::Ok)
}

/// Prints that an agentic tool was saved, and the warnings of the tool.
pub(super) fn show_saved(cx: &Context, tool: &Value, change: &str) -> Result<(), Failure> {
    let (name, status, revision) = (text(tool, "slug"), text(tool, "status"), text(tool, "revision"));
    let state = cx.output.out.dim(format!("{status}, revision {revision}"));
    cx.output.line(format!("{} {change:<9}  agentic tool {name}  {state}", cx.output.out.good('✓')))?;
    for warning in warnings(tool) {
        cx.output.note(cx.output.err.warn(format!("  warning: {}", sanitize_line(warning))));
    }
    Ok(())
}

/// The warnings of a saved agentic tool.
pub(super) fn warnings(tool: &Value) -> Vec<&str> {
    let warnings = tool.get("warnings").and_then(Value::as_array);
    warnings.into_iter().flatten().filter_map(Value::as_str).collect()
}
