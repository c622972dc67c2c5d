//! Implements `agentic-tools create`: from files, from options, or with questions at a terminal.

use std::io::IsTerminal;
use std::path::PathBuf;

use serde_json::{Value, json};

use crate::cli::Context;
use crate::cli::client::AGENTIC_TOOLS;
use crate::cli::definitions::read_documents;
use crate::cli::exit::Exit;
use crate::cli::failure::Failure;
use crate::cli::fields::text;

use super::draft::{Draft, parse_mode};
use super::update::{SetArgs, show_saved, warnings};
use super::wizard;

/// Arguments of `agentic-tools create`.
#[derive(clap::Args)]
pub(crate) struct CreateArgs {
    /// Files with agentic tools as JSON or YAML, or `-` for standard input
    #[arg(
        short, long = "file", value_name = "FILE", num_args = 1..,
        conflicts_with_all = ["name", "mode", "allocated", "description", "model", "status", "set"]
    )]
    files: Vec<PathBuf>,
    /// Name
    #[arg(long)]
    name: Option<String>,
    /// Whether the model plans a fixed sequence of tools, or selects the tools itself
    #[arg(long, value_parser = ["deterministic", "agentic"])]
    mode: Option<String>,
    /// Tool that the model may use; may be repeated, in the order of execution
    #[arg(long = "tool", value_name = "REF")]
    allocated: Vec<String>,
    /// What the tool does
    #[arg(long, value_name = "TEXT")]
    description: Option<String>,
    /// Embedded model, such as anthropic/claude-sonnet-4 [default: the model of the server]
    #[arg(long)]
    model: Option<String>,
    /// Status of the new tool [default: active]
    #[arg(long, value_parser = ["draft", "active"])]
    status: Option<String>,
    #[command(flatten)]
    set: SetArgs,
}

/// Creates agentic tools.
pub(super) async fn run(cx: &Context, args: CreateArgs) -> Result<Exit, Failure> {
    if !args.files.is_empty() {
        return create_from_files(cx, &args.files).await;
    }
    let CreateArgs { name, mode, allocated, description, model, status, set, .. } = args;
    let draft = Draft {
        name: name.unwrap_or_default(),
        mode: mode.as_deref().and_then(parse_mode),
        model,
        tools: allocated.into_iter().map(Into::into).collect(),
        description,
        ..Draft::default()
    };
    let missing = draft.missing();
    let can_ask = std::io::stdin().is_terminal() && cx.output.width.is_some() && !cx.output.json;
    if can_ask && !(missing.is_empty() && status.is_some()) {
        return wizard::run(cx, draft, &set, status.as_deref()).await;
    }
    if !missing.is_empty() {
        let message = "give a definition with --file, or --name, --mode and --tool; only a terminal asks for them";
        return Err(Failure::Usage(format!("{message}; missing: {}", missing.join(", "))));
    }
    let mut body = draft.body();
    set_status(&mut body, status.as_deref().unwrap_or("active"));
    set.merge_into(&mut body)?;
    let tool = create(cx, &body).await?;
    if cx.output.json {
        cx.output.document(json!({ "items": [result(&tool)] }))?;
    }
    Ok(Exit::Ok)
}

/// Sends a definition, prints that the tool was created, and returns the tool.
pub(super) async fn create(cx: &Context, body: &Value) -> Result<Value, Failure> {
    let tool: Value = cx.client.post(AGENTIC_TOOLS, body).await?.read()?;
    if !cx.output.json {
        show_saved(cx, &tool, "created")?;
    }
    Ok(tool)
}

pub(super) fn set_status(body: &mut Value, status: &str) {
    if let Some(fields) = body.as_object_mut() {
        fields.insert("status".into(), json!(status));
    }
}

/// Creates agentic tools one after the other. If the server rejects one, the others are still created.
async fn create_from_files(cx: &Context, files: &[PathBuf]) -> Result<Exit, Failure> {
    let (mut exit, mut results) = (Exit::Ok, Vec::new());
    for document in read_documents(files)? {
        match create(cx, &document.body).await {
            Ok(tool) => results.push(result(&tool)),
            // A 401 response would be the same for all definitions, so it stops the command.
            Err(Failure::Refused(mut refusal)) if refusal.problem.status != 401 => {
                let name = ["slug", "refName", "name"].map(|field| text(&document.body, field));
                let name = name.into_iter().find(|name| !name.is_empty()).unwrap_or_default();
                refusal.source = Some((document.location.file.display().to_string(), document.lines));
                results.push(json!({ "ref": name, "outcome": "failed", "problem": refusal.document() }));
                if !cx.output.json {
                    let failed =
                        format!("{} failed     agentic tool {name}  {}", cx.output.out.bad('✗'), document.location);
                    cx.output.line(failed)?;
                }
                exit = exit.or(Failure::Refused(refusal).print(&cx.output));
            }
            Err(other) => return Err(other),
        }
    }
    if cx.output.json {
        cx.output.document(json!({ "items": results }))?;
    }
    Ok(exit)
}

/// Returns the item for a created tool in the output of `--json`.
fn result(tool: &Value) -> Value {
    let warnings = warnings(tool);
    let name = text(tool, "slug");
    match warnings.is_empty() {
        true => json!({ "ref": name, "outcome": "created" }),
        false => json!({ "ref": name, "outcome": "created", "warnings": warnings }),
    }
}
