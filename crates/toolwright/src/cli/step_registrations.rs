//! Implements `toolwright step-registrations`.

use serde_json::Value;

use super::client::{STEP_REGISTRATIONS, parse_name, path};
use super::definitions::ResourceKind;
use super::exit::Exit;
use super::failure::Failure;
use super::fields::{self, revision, text};
use super::output::sanitize_line;
use super::pages::{List, PageArgs};
use super::table::Table;
use super::{Context, apply, delete, export, revisions};

/// Subcommands of `step-registrations`.
#[derive(clap::Subcommand)]
pub(crate) enum StepRegistrationsCommand {
    /// List step registrations
    List(ListArgs),
    /// Show a step registration
    #[command(visible_alias = "show")]
    Get(GetArgs),
    /// Create or update step registrations and other definitions from files
    Apply(apply::ApplyArgs),
    /// Print the definition of a step registration
    Export(export::JsonExportArgs),
    /// List the revisions of a step registration, or compare two of them
    Revisions(revisions::RevisionsArgs),
    /// Delete step registrations
    Delete(delete::DeleteArgs),
}

/// Arguments of `step-registrations list`.
#[derive(clap::Args)]
pub(crate) struct ListArgs {
    #[command(flatten)]
    page: PageArgs,
}

/// Arguments of `step-registrations get`.
#[derive(clap::Args)]
pub(crate) struct GetArgs {
    /// Name or ID of the step registration
    #[arg(value_name = "REF", value_parser = parse_name)]
    reference: String,
}

/// Runs a `step-registrations` subcommand.
pub(super) async fn run(cx: &Context, command: StepRegistrationsCommand) -> Result<Exit, Failure> {
    let kind = ResourceKind::StepRegistration;
    match command {
        StepRegistrationsCommand::List(args) => list(cx, args).await,
        StepRegistrationsCommand::Get(args) => get(cx, args).await,
        StepRegistrationsCommand::Apply(args) => apply::run(cx, args, Some(kind)).await,
        StepRegistrationsCommand::Export(args) => export::run_json(cx, kind, args).await,
        StepRegistrationsCommand::Revisions(args) => revisions::run(cx, STEP_REGISTRATIONS, args).await,
        StepRegistrationsCommand::Delete(args) => delete::run(cx, STEP_REGISTRATIONS, args).await,
    }
}

async fn list(cx: &Context, args: ListArgs) -> Result<Exit, Failure> {
    let list = List { collection: STEP_REGISTRATIONS, query: Vec::new(), empty_message: "no step registrations found" };
    list.show(cx, &args.page, table).await?;
    Ok(Exit::Ok)
}

fn table(items: &[Value]) -> Table {
    let mut table = Table::new(["NAME", "TOOL", "STATE", "DESCRIPTION"]);
    for view in items {
        table.row([&text(view, "name"), &text(view, "toolRef"), state(view), &text(view, "description")]);
    }
    table
}

fn state(view: &Value) -> &'static str {
    if view.get("enabled") == Some(&Value::Bool(false)) { "disabled" } else { "enabled" }
}

async fn get(cx: &Context, args: GetArgs) -> Result<Exit, Failure> {
    let response = cx.client.get(&path(STEP_REGISTRATIONS, &args.reference), &[]).await?;
    if cx.output.json {
        cx.output.document(response.text.trim_end())?;
        return Ok(Exit::Ok);
    }
    let view: Value = response.read()?;
    let out = &cx.output;
    out.line(format!("{}  {}", out.out.good(text(&view, "name")), state(&view)))?;
    let fields = [
        ("description", text(&view, "description")),
        ("tool", text(&view, "toolRef")),
        ("input", mapping(&view, "inputMapping")),
        ("output", mapping(&view, "outputMapping")),
        ("revision", revision(&view)),
    ];
    fields::print_labeled(out, &fields)?;
    Ok(Exit::Ok)
}

/// Formats a mapping as `field = text` entries.
fn mapping(view: &Value, field: &str) -> String {
    let entries = view.get(field).and_then(Value::as_object).into_iter().flatten();
    let entries = entries.map(|(name, value)| format!("{name} = {}", value.as_str().unwrap_or_default()));
    sanitize_line(&entries.collect::<Vec<_>>().join(", "))
}
