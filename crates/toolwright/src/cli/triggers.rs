//! Implements `toolwright triggers`.

use serde_json::Value;

use super::client::{TRIGGERS, parse_name, path};
use super::definitions::ResourceKind;
use super::exit::Exit;
use super::failure::Failure;
use super::fields::{self, revision, text, timestamp};
use super::pages::{List, PageArgs};
use super::table::Table;
use super::time::{format_minute, format_second};
use super::{Context, apply, delete, export, revisions};

/// Subcommands of `triggers`.
#[derive(clap::Subcommand)]
pub(crate) enum TriggersCommand {
    /// List triggers
    List(ListArgs),
    /// Show a trigger, its next times and its last firing
    #[command(visible_alias = "show")]
    Get(TriggerArg),
    /// Create or update triggers and other definitions from files
    Apply(apply::ApplyArgs),
    /// Start a run of a trigger now, also if the trigger is paused
    Fire(FireArgs),
    /// List the firings of a trigger, most recent first
    Firings(FiringsArgs),
    /// Pause a trigger; times that pass while it is paused are not run later
    Pause(TriggerArg),
    /// Resume a paused trigger
    Resume(TriggerArg),
    /// Print the definition of a trigger
    Export(export::JsonExportArgs),
    /// List the revisions of a trigger, or compare two of them
    Revisions(revisions::RevisionsArgs),
    /// Delete triggers
    Delete(delete::DeleteArgs),
}

/// Arguments of `triggers list`.
#[derive(clap::Args)]
pub(crate) struct ListArgs {
    #[command(flatten)]
    page: PageArgs,
}

/// The trigger argument.
#[derive(clap::Args)]
pub(crate) struct TriggerArg {
    /// Name or ID of the trigger
    #[arg(value_name = "REF", value_parser = parse_name)]
    reference: String,
}

/// Arguments of `triggers fire`.
#[derive(clap::Args)]
pub(crate) struct FireArgs {
    #[command(flatten)]
    trigger: TriggerArg,
    /// The body of the webhook as JSON, for a trigger of the kind `webhook`
    #[arg(long, value_name = "JSON", value_parser = parse_body)]
    body: Option<Value>,
}

/// Arguments of `triggers firings`.
#[derive(clap::Args)]
pub(crate) struct FiringsArgs {
    #[command(flatten)]
    trigger: TriggerArg,
    /// Filter by status
    #[arg(long, value_parser = ["PENDING", "STARTED", "FAILED", "SKIPPED"], ignore_case = true)]
    status: Option<String>,
    #[command(flatten)]
    page: PageArgs,
}

fn parse_body(text: &str) -> Result<Value, String> {
    serde_json::from_str(text).map_err(|error| format!("must be JSON: {error}"))
}

/// Runs a `triggers` subcommand.
pub(super) async fn run(cx: &Context, command: TriggersCommand) -> Result<Exit, Failure> {
    let kind = ResourceKind::Trigger;
    match command {
        TriggersCommand::List(args) => list(cx, args).await,
        TriggersCommand::Get(args) => get(cx, args).await,
        TriggersCommand::Apply(args) => apply::run(cx, args, Some(kind)).await,
        TriggersCommand::Fire(args) => fire(cx, args).await,
        TriggersCommand::Firings(args) => firings(cx, args).await,
        TriggersCommand::Pause(args) => set_state(cx, TRIGGERS, &args.reference, "pause").await,
        TriggersCommand::Resume(args) => set_state(cx, TRIGGERS, &args.reference, "resume").await,
        TriggersCommand::Export(args) => export::run_json(cx, kind, args).await,
        TriggersCommand::Revisions(args) => revisions::run(cx, TRIGGERS, args).await,
        TriggersCommand::Delete(args) => delete::run(cx, TRIGGERS, args).await,
    }
}

async fn list(cx: &Context, args: ListArgs) -> Result<Exit, Failure> {
    let list = List { collection: TRIGGERS, query: Vec::new(), empty_message: "no triggers found" };
    list.show(cx, &args.page, table).await?;
    Ok(Exit::Ok)
}

fn table(items: &[Value]) -> Table {
    let mut table = Table::new(["NAME", "FIRES", "STARTS", "AS", "STATE"]);
    for view in items {
        table.row([&text(view, "refName"), &cause(view), &target(view), &text(view, "principalRef"), state(view)]);
    }
    table
}

/// What causes a trigger to fire: its cron expression, or a webhook.
fn cause(view: &Value) -> String {
    match (text(view, "cron"), text(view, "timeZone")) {
        (cron, _) if cron.is_empty() => text(view, "kind"),
        (cron, zone) if zone.is_empty() => cron,
        (cron, zone) => format!("{cron} ({zone})"),
    }
}

fn target(view: &Value) -> String {
    let target = view.get("target").and_then(Value::as_object);
    let named = target.and_then(|target| target.iter().next());
    named.map(|(kind, name)| format!("{kind} {}", name.as_str().unwrap_or_default())).unwrap_or_default()
}

/// Whether a trigger or webhook is enabled.
pub(super) fn state(view: &Value) -> &'static str {
    if view.get("enabled") == Some(&Value::Bool(false)) { "paused" } else { "enabled" }
}

async fn get(cx: &Context, args: TriggerArg) -> Result<Exit, Failure> {
    let response = cx.client.get(&path(TRIGGERS, &args.reference), &[]).await?;
    if cx.output.json {
        cx.output.document(response.text.trim_end())?;
        return Ok(Exit::Ok);
    }
    let view: Value = response.read()?;
    let now: Value = cx.client.get(&format!("{}/state", path(TRIGGERS, &args.reference)), &[]).await?.read()?;
    cx.output.line(cx.output.out.good(text(&view, "refName")))?;
    let times = now.get("nextRuns").and_then(Value::as_array).into_iter().flatten();
    let times = times.filter_map(|at| Some(format_minute(at.as_str()?.parse().ok()?))).collect::<Vec<_>>();
    let hook = match text(&now, "hookPath") {
        path if path.is_empty() => String::new(),
        path => format!("{}{path}", cx.client.base_url()),
    };
    let last = now.get("lastFiring").filter(|firing| !firing.is_null()).map(describe).unwrap_or_default();
    let next_runs = if times.is_empty() { String::new() } else { format!("{} UTC", times.join(", ")) };
    let fields = [
        ("description", text(&view, "description")),
        ("state", state(&view).to_owned()),
        ("fires", cause(&view)),
        ("next runs", next_runs),
        ("address", hook),
        ("secret", text(&view, "secretRef")),
        ("starts", target(&view)),
        ("input", text(&view, "input")),
        ("acts as", text(&view, "principalRef")),
        ("missed runs", text(&view, "missedRuns")),
        ("overlap", text(&view, "overlap")),
        ("last firing", last),
        ("revision", revision(&view)),
    ];
    fields::print_labeled(&cx.output, &fields)?;
    Ok(Exit::Ok)
}

/// Describes a firing on one line.
fn describe(firing: &Value) -> String {
    let at = timestamp(firing, "firedAt").map(format_second).unwrap_or_default();
    let outcome = match (text(firing, "runId"), text(firing, "error")) {
        (run, _) if !run.is_empty() => run,
        (_, error) => error,
    };
    format!("{at} {} {outcome}", text(firing, "status")).trim_end().to_owned()
}

async fn fire(cx: &Context, args: FireArgs) -> Result<Exit, Failure> {
    let path = format!("{}/fire", path(TRIGGERS, &args.trigger.reference));
    let response = cx.client.post(&path, &args.body.unwrap_or_default()).await?;
    if cx.output.json {
        cx.output.document(response.text.trim_end())?;
        return Ok(Exit::Ok);
    }
    let firing: Value = response.read()?;
    match text(&firing, "runId") {
        run if run.is_empty() => cx.output.line(describe(&firing))?,
        run => {
            cx.output.line(&run)?;
            cx.output.note(format!("started; `toolwright runs get {run}` shows the run"));
        }
    }
    Ok(Exit::Ok)
}

async fn firings(cx: &Context, args: FiringsArgs) -> Result<Exit, Failure> {
    let collection = format!("{}/firings", path(TRIGGERS, &args.trigger.reference));
    let query = args.status.map(|status| ("status", status.to_uppercase())).into_iter().collect();
    let list = List { collection: &collection, query, empty_message: "no firings found" };
    list.show(cx, &args.page, firing_table).await?;
    Ok(Exit::Ok)
}

fn firing_table(items: &[Value]) -> Table {
    let mut table = Table::new(["FIRED (UTC)", "STATUS", "RUN", "CAUSE", "REASON"]);
    for firing in items {
        let at = timestamp(firing, "firedAt").map(format_second).unwrap_or_default();
        table.row([
            &at,
            &text(firing, "status"),
            &text(firing, "runId"),
            &text(firing, "cause"),
            &text(firing, "error"),
        ]);
    }
    table
}

/// Pauses or resumes a trigger or webhook.
pub(super) async fn set_state(cx: &Context, collection: &str, reference: &str, action: &str) -> Result<Exit, Failure> {
    let response = cx.client.post(&format!("{}/{action}", path(collection, reference)), &Value::Null).await?;
    if cx.output.json {
        cx.output.document(response.text.trim_end())?;
        return Ok(Exit::Ok);
    }
    let view: Value = response.read()?;
    cx.output.note(format!("`{}` is {}", text(&view, "refName"), state(&view)));
    Ok(Exit::Ok)
}
