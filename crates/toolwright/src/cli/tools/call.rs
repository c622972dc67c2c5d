//! `tools run`: calls a tool and prints the envelope.

use serde_json::{Value, json};
use toolwright_api::wire::AwaitingClientView;
use toolwright_types::ToolEnvelope;

use crate::cli::Context;
use crate::cli::client::{TOOLS, parse_name, path};
use crate::cli::exit::Exit;
use crate::cli::failure::Failure;
use crate::cli::input::InputArgs;
use crate::cli::output::sanitize_line;

use super::envelope;

/// Arguments of `tools run`.
#[derive(clap::Args)]
#[command(disable_version_flag = true, after_long_help = crate::cli::exit::HELP)]
pub(crate) struct RunArgs {
    #[command(flatten)]
    target: Target,
}

/// A tool and an input for it.
#[derive(clap::Args)]
pub(super) struct Target {
    /// refName or ID of the tool
    #[arg(value_name = "REF", value_parser = parse_name)]
    pub reference: String,
    #[command(flatten)]
    input: InputArgs,
    /// Version or requirement such as `^1.2` [default: the highest active version]
    #[arg(long, value_name = "VERSION")]
    version: Option<String>,
}

impl Target {
    /// Builds the body of an execute or validate request.
    pub(super) async fn body(&self, cx: &Context) -> Result<Value, Failure> {
        let base = self.input.base()?;
        let tool = if self.input.needs_tool_schema() { self.definition(cx).await } else { None };
        for message in tool.iter().flat_map(|tool| self.input.unknown_parameters(tool)) {
            cx.output.note(cx.output.err.warn(format!("! {}", sanitize_line(&message))));
        }
        let mut body = json!({ "input": self.input.merge_parameters(base, tool.as_ref())? });
        if let (Some(version), Some(fields)) = (&self.version, body.as_object_mut()) {
            fields.insert("version".into(), json!(version));
        }
        Ok(body)
    }

    /// Fetches the tool's definition. Errors are ignored, because `-p` works without the definition, and the call
    /// itself reports problems with the tool or the connection.
    async fn definition(&self, cx: &Context) -> Option<Value> {
        let exact = self.version.iter().filter(|version| version.starts_with(|c: char| c.is_ascii_digit()));
        let query: Vec<_> = exact.map(|version| ("version", version.clone())).collect();
        let response = cx.client.get(&path(TOOLS, &self.reference), &query).await.ok()?;
        response.read().ok()
    }
}

/// Calls a tool.
pub(super) async fn run(cx: &Context, args: RunArgs) -> Result<Exit, Failure> {
    let body = args.target.body(cx).await?;
    let response = cx.client.call(&format!("{}/execute", path(TOOLS, &args.target.reference)), &body).await?;
    if response.status == 202 {
        let waiting: AwaitingClientView = response.read()?;
        match cx.output.json {
            true => cx.output.document(response.text.trim_end())?,
            false => envelope::show_waiting(&cx.output, &args.target.reference, &waiting)?,
        }
        return Ok(Exit::Ok);
    }
    let envelope: ToolEnvelope = response.read()?;
    match cx.output.json {
        true => cx.output.document(response.text.trim_end())?,
        false => envelope::show(&cx.output, &envelope)?,
    }
    Ok(if envelope.is_success() { Exit::Ok } else { Exit::Failed })
}
