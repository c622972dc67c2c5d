//! Implements `toolwright effects`, which lists, shows, resolves and undoes the writes to the outside world.

use serde_json::json;
use toolwright_api::wire::{AcceptedView, EffectView, UndoView};

use super::Context;
use super::client::{ApiResponse, EFFECTS, parse_name, path};
use super::exit::Exit;
use super::failure::Failure;
use super::fields;
use super::follow;
use super::output::sanitize_line;
use super::pages::{List, PageArgs};
use super::table::Table;
use super::time::format_minute;

/// Subcommands of `effects`.
#[derive(clap::Subcommand)]
pub(crate) enum EffectsCommand {
    /// List effects, newest first
    List(ListArgs),
    /// Show an effect
    #[command(visible_alias = "show")]
    Get(EffectArg),
    /// Set the outcome of an effect whose outcome is unknown
    Resolve(ResolveArgs),
    /// Undo an effect with the tool in `compensateToolRef`
    Undo(UndoArgs),
}

/// An effect.
#[derive(clap::Args)]
pub(crate) struct EffectArg {
    /// Effect ID, such as run_….call_…
    #[arg(value_name = "ID", value_parser = parse_name)]
    id: String,
}

/// Arguments of `effects list`.
#[derive(clap::Args)]
pub(crate) struct ListArgs {
    #[command(flatten)]
    page: PageArgs,
    /// Filter by outcome; may be repeated
    #[arg(long, value_parser = ["done", "failed", "unknown", "undone", "captured"])]
    outcome: Vec<String>,
    /// Filter by tool
    #[arg(long, value_name = "REF")]
    tool: Option<String>,
    /// Filter by agent
    #[arg(long, value_name = "REF")]
    agent: Option<String>,
    /// Filter by run
    #[arg(long, value_name = "ID")]
    run: Option<String>,
    /// Filter by the principal that the run acts as
    #[arg(long, value_name = "NAME")]
    principal: Option<String>,
    /// Earliest time of the outcome, such as 2026-01-31T12:00:00Z
    #[arg(long, value_name = "TIME")]
    since: Option<String>,
    /// Time before which the outcome was determined
    #[arg(long, value_name = "TIME")]
    before: Option<String>,
}

/// Arguments of `effects resolve`.
#[derive(clap::Args)]
pub(crate) struct ResolveArgs {
    #[command(flatten)]
    target: EffectArg,
    /// Whether the write took effect
    #[arg(long, value_parser = ["done", "failed"])]
    outcome: String,
    /// Remark, such as how you found out
    #[arg(long, value_name = "TEXT")]
    note: Option<String>,
}

/// Arguments of `effects undo`.
#[derive(clap::Args)]
pub(crate) struct UndoArgs {
    #[command(flatten)]
    target: EffectArg,
    /// Print the plan and undo nothing
    #[arg(long)]
    dry_run: bool,
}

/// Runs an `effects` subcommand.
pub(super) async fn run(cx: &Context, command: EffectsCommand) -> Result<Exit, Failure> {
    match command {
        EffectsCommand::List(args) => list(cx, args).await?,
        EffectsCommand::Get(args) => show(cx, &cx.client.get(&path(EFFECTS, &args.id), &[]).await?)?,
        EffectsCommand::Resolve(args) => {
            let address = format!("{}/resolve", path(EFFECTS, &args.target.id));
            let body = json!({ "outcome": args.outcome, "note": args.note });
            show(cx, &cx.client.call(&address, &body).await?)?;
        }
        EffectsCommand::Undo(args) => undo(cx, &args).await?,
    }
    Ok(Exit::Ok)
}

async fn list(cx: &Context, args: ListArgs) -> Result<(), Failure> {
    let query = [
        ("outcome", Some(args.outcome.join(",")).filter(|outcomes| !outcomes.is_empty())),
        ("toolRef", args.tool),
        ("agentRef", args.agent),
        ("runId", args.run),
        ("principal", args.principal),
        ("since", args.since),
        ("before", args.before),
    ];
    let query = query.into_iter().filter_map(|(name, value)| Some((name, value?))).collect();
    List { collection: EFFECTS, query, empty_message: "no effects" }.show(cx, &args.page, table).await
}

fn table(effects: &[EffectView]) -> Table {
    let mut table = Table::new(["ID", "OUTCOME", "TOOL", "INPUT", "ENDED", "PRINCIPAL", "APPROVED BY", "UNDO WITH"]);
    for effect in effects {
        table.row([
            &effect.id,
            &effect.outcome,
            &effect.tool_ref,
            &follow::format_input(&effect.input),
            &format_minute(effect.ended_at),
            effect.principal.as_deref().unwrap_or_default(),
            effect.approved_by.as_deref().unwrap_or_default(),
            effect.compensate_tool_ref.as_deref().filter(|_| effect.reversible).unwrap_or_default(),
        ]);
    }
    table
}

fn show(cx: &Context, response: &ApiResponse) -> Result<(), Failure> {
    if cx.output.json {
        return Ok(cx.output.document(response.text.trim_end())?);
    }
    let effect: EffectView = response.read()?;
    let optional = |text: Option<&str>| text.map(sanitize_line).unwrap_or_default();
    let resolved = effect.resolution.as_ref().map(|resolution| {
        let note = resolution.note.as_deref().map(|note| format!(": {note}")).unwrap_or_default();
        sanitize_line(&format!("{}, {}{note}", resolution.resolved_by, format_minute(resolution.resolved_at)))
    });
    let undone = effect.undone.as_ref().map(|undone| format!("{}, {}", undone.run_id, format_minute(undone.undone_at)));
    fields::print_labeled(
        &cx.output,
        &[
            ("id", sanitize_line(&effect.id)),
            ("outcome", sanitize_line(&effect.outcome)),
            ("error", optional(effect.error.as_deref())),
            ("tool", sanitize_line(&format!("{}@{}", effect.tool_ref, effect.version))),
            ("input", follow::format_input(&effect.input)),
            ("agent", optional(effect.agent_ref.as_deref())),
            ("principal", optional(effect.principal.as_deref())),
            ("approved by", optional(effect.approved_by.as_deref())),
            ("started", format_minute(effect.started_at)),
            ("ended", format_minute(effect.ended_at)),
            ("undo with", optional(effect.compensate_tool_ref.as_deref().filter(|_| effect.reversible))),
            ("resolved by", resolved.unwrap_or_default()),
            ("undone by", undone.as_deref().map(sanitize_line).unwrap_or_default()),
        ],
    )
}

async fn undo(cx: &Context, args: &UndoArgs) -> Result<(), Failure> {
    let address = format!("{}/undo", path(EFFECTS, &args.target.id));
    let response = cx.client.call(&address, &json!({ "dryRun": args.dry_run })).await?;
    if cx.output.json {
        return Ok(cx.output.document(response.text.trim_end())?);
    }
    if !args.dry_run {
        let started: AcceptedView = response.read()?;
        return Ok(cx.output.line(format!(
            "{} undone by {}",
            cx.output.out.good('✓'),
            sanitize_line(&started.run_id)
        ))?);
    }
    let plan: UndoView = response.read()?;
    cx.output.lines(plan.steps.iter().map(|step| sanitize_line(&format!("{}  undo with {}", step.tool, step.with))))?;
    Ok(cx
        .output
        .lines(plan.kept.iter().map(|kept| sanitize_line(&format!("{}  cannot be undone: {}", kept.tool, kept.why))))?)
}
