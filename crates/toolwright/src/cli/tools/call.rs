//! `tools run`: calls a tool and shows the receipt.

use serde::Deserialize;
use serde_json::{Value, json};
use toolwright_types::ToolEnvelope;

use crate::cli::Context;
use crate::cli::client::{TOOLS, parse_name, path};
use crate::cli::exit::Exit;
use crate::cli::failure::Failure;
use crate::cli::input::InputArgs;

use super::receipt;

/// Which tool, and with what.
#[derive(clap::Args)]
#[command(disable_version_flag = true, after_long_help = crate::cli::exit::HELP)]
pub struct RunArgs {
    #[command(flatten)]
    target: Target,
}

/// A tool and an input for it.
#[derive(clap::Args)]
pub struct Target {
    /// The tool's refName or id
    #[arg(value_name = "REF", value_parser = parse_name)]
    pub reference: String,
    #[command(flatten)]
    input: InputArgs,
    /// An exact version or a requirement such as `^1.2`; the highest active one when absent
    #[arg(long, value_name = "VERSION")]
    version: Option<String>,
}

/// A call whose last step is the client's.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AwaitingClient {
    /// The run that waits.
    pub run_id: String,
    /// What the client is asked to do.
    pub client_actions: Vec<Value>,
}

impl Target {
    /// The body of a request that calls or checks.
    pub async fn body(&self, cx: &Context) -> Result<Value, Failure> {
        let base = self.input.base()?;
        let tool = if self.input.needs_definition() { self.definition(cx).await } else { None };
        let mut body = json!({ "input": self.input.merge_over(base, tool.as_ref())? });
        if let (Some(version), Some(fields)) = (&self.version, body.as_object_mut()) {
            fields.insert("version".into(), json!(version));
        }
        Ok(body)
    }

    /// The definition, if it can be had. Without it `-p` still works, and what is wrong with the tool or the
    /// connection is better told by the call itself.
    async fn definition(&self, cx: &Context) -> Option<Value> {
        let exact = self.version.iter().filter(|version| version.starts_with(|c: char| c.is_ascii_digit()));
        let query: Vec<_> = exact.map(|version| ("version", version.clone())).collect();
        let answer = cx.client.get(&path(TOOLS, &self.reference), &query).await.ok()?;
        answer.read().ok()
    }
}

/// Calls a tool.
pub async fn run(cx: &Context, args: RunArgs) -> Result<Exit, Failure> {
    let body = args.target.body(cx).await?;
    let answer = cx.client.call(&format!("{}/execute", path(TOOLS, &args.target.reference)), &body).await?;
    if answer.status == 202 {
        let waiting: AwaitingClient = answer.read()?;
        match cx.output.json {
            true => cx.output.line(answer.text.trim_end())?,
            false => receipt::show_waiting(&cx.output, &args.target.reference, &waiting)?,
        }
        return Ok(Exit::Ok);
    }
    let envelope: ToolEnvelope = answer.read()?;
    match cx.output.json {
        true => cx.output.line(answer.text.trim_end())?,
        false => receipt::show(&cx.output, &envelope)?,
    }
    Ok(if envelope.is_success() { Exit::Ok } else { Exit::Failed })
}
