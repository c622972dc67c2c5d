//! Implements `toolwright webhooks`.

use serde_json::Value;

use super::client::{WEBHOOKS, encode_segment, parse_name, path};
use super::definitions::ResourceKind;
use super::exit::Exit;
use super::failure::Failure;
use super::fields::{self, revision, text, timestamp};
use super::pages::{List, PageArgs};
use super::table::Table;
use super::time::format_second;
use super::triggers::{set_state, state};
use super::{Context, apply, delete, export, revisions};

/// Subcommands of `webhooks`.
#[derive(clap::Subcommand)]
pub(crate) enum WebhooksCommand {
    /// List webhooks
    List(ListArgs),
    /// Show a webhook
    #[command(visible_alias = "show")]
    Get(WebhookArg),
    /// Create or update webhooks and other definitions from files
    Apply(apply::ApplyArgs),
    /// Send a test event to a webhook, also if the webhook is paused
    Test(WebhookArg),
    /// List the deliveries to a webhook, most recent first
    Deliveries(DeliveriesArgs),
    /// Attempt a delivery again, also if all its attempts have failed
    Retry(RetryArgs),
    /// Pause a webhook; events that occur while it is paused are not sent later
    Pause(WebhookArg),
    /// Resume a paused webhook
    Resume(WebhookArg),
    /// Print the definition of a webhook
    Export(export::JsonExportArgs),
    /// List the revisions of a webhook, or compare two of them
    Revisions(revisions::RevisionsArgs),
    /// Delete webhooks
    Delete(delete::DeleteArgs),
}

/// Arguments of `webhooks list`.
#[derive(clap::Args)]
pub(crate) struct ListArgs {
    #[command(flatten)]
    page: PageArgs,
}

/// The webhook argument.
#[derive(clap::Args)]
pub(crate) struct WebhookArg {
    /// Name or ID of the webhook
    #[arg(value_name = "REF", value_parser = parse_name)]
    reference: String,
}

/// Arguments of `webhooks deliveries`.
#[derive(clap::Args)]
pub(crate) struct DeliveriesArgs {
    #[command(flatten)]
    webhook: WebhookArg,
    /// Filter by status; `DEAD` lists the deliveries whose attempts have all failed
    #[arg(long, value_parser = ["PENDING", "DELIVERED", "DEAD"], ignore_case = true)]
    status: Option<String>,
    #[command(flatten)]
    page: PageArgs,
}

/// Arguments of `webhooks retry`.
#[derive(clap::Args)]
pub(crate) struct RetryArgs {
    #[command(flatten)]
    webhook: WebhookArg,
    /// ID of the delivery, such as msg_01J…
    #[arg(value_name = "DELIVERY", value_parser = parse_name)]
    delivery: String,
}

/// Runs a `webhooks` subcommand.
pub(super) async fn run(cx: &Context, command: WebhooksCommand) -> Result<Exit, Failure> {
    let kind = ResourceKind::Webhook;
    match command {
        WebhooksCommand::List(args) => list(cx, args).await,
        WebhooksCommand::Get(args) => get(cx, args).await,
        WebhooksCommand::Apply(args) => apply::run(cx, args, Some(kind)).await,
        WebhooksCommand::Test(args) => attempt(cx, &format!("{}/test", path(WEBHOOKS, &args.reference))).await,
        WebhooksCommand::Deliveries(args) => deliveries(cx, args).await,
        WebhooksCommand::Retry(args) => {
            let delivery = encode_segment(&args.delivery);
            let webhook = path(WEBHOOKS, &args.webhook.reference);
            attempt(cx, &format!("{webhook}/deliveries/{delivery}/retry")).await
        }
        WebhooksCommand::Pause(args) => set_state(cx, WEBHOOKS, &args.reference, "pause").await,
        WebhooksCommand::Resume(args) => set_state(cx, WEBHOOKS, &args.reference, "resume").await,
        WebhooksCommand::Export(args) => export::run_json(cx, kind, args).await,
        WebhooksCommand::Revisions(args) => revisions::run(cx, WEBHOOKS, args).await,
        WebhooksCommand::Delete(args) => delete::run(cx, WEBHOOKS, args).await,
    }
}

async fn list(cx: &Context, args: ListArgs) -> Result<Exit, Failure> {
    let list = List { collection: WEBHOOKS, query: Vec::new(), empty_message: "no webhooks found" };
    list.show(cx, &args.page, table).await?;
    Ok(Exit::Ok)
}

fn table(items: &[Value]) -> Table {
    let mut table = Table::new(["NAME", "URL", "EVENTS", "STATE"]);
    for view in items {
        table.row([&text(view, "refName"), &text(view, "url"), &text(view, "events"), state(view)]);
    }
    table
}

async fn get(cx: &Context, args: WebhookArg) -> Result<Exit, Failure> {
    let response = cx.client.get(&path(WEBHOOKS, &args.reference), &[]).await?;
    if cx.output.json {
        cx.output.document(response.text.trim_end())?;
        return Ok(Exit::Ok);
    }
    let view: Value = response.read()?;
    cx.output.line(cx.output.out.good(text(&view, "refName")))?;
    let fields = [
        ("description", text(&view, "description")),
        ("state", state(&view).to_owned()),
        ("url", text(&view, "url")),
        ("events", text(&view, "events")),
        ("statuses", text(&view, "statuses")),
        ("subjects", text(&view, "subjects")),
        ("secret", text(&view, "secretRef")),
        ("revision", revision(&view)),
    ];
    fields::print_labeled(&cx.output, &fields)?;
    Ok(Exit::Ok)
}

async fn deliveries(cx: &Context, args: DeliveriesArgs) -> Result<Exit, Failure> {
    let collection = format!("{}/deliveries", path(WEBHOOKS, &args.webhook.reference));
    let query = args.status.map(|status| ("status", status.to_uppercase())).into_iter().collect();
    let list = List { collection: &collection, query, empty_message: "no deliveries found" };
    list.show(cx, &args.page, delivery_table).await?;
    Ok(Exit::Ok)
}

fn delivery_table(items: &[Value]) -> Table {
    let mut table = Table::new(["ID", "CREATED (UTC)", "EVENT", "STATUS", "ATTEMPTS", "REASON"]);
    for delivery in items {
        let at = timestamp(delivery, "createdAt").map(format_second).unwrap_or_default();
        table.row([
            &text(delivery, "id"),
            &at,
            &text(delivery, "eventType"),
            &text(delivery, "status"),
            &text(delivery, "attempts"),
            &text(delivery, "error"),
        ]);
    }
    table
}

/// Attempts a delivery and prints the outcome. Fails if the receiver did not accept the event.
async fn attempt(cx: &Context, path: &str) -> Result<Exit, Failure> {
    let response = cx.client.post(path, &Value::Null).await?;
    let delivery: Value = response.read()?;
    let is_delivered = text(&delivery, "status") == "DELIVERED";
    if cx.output.json {
        cx.output.document(response.text.trim_end())?;
    } else {
        let outcome = match (is_delivered, text(&delivery, "responseStatus"), text(&delivery, "error")) {
            (true, status, _) => format!("delivered; the receiver responded with {status}"),
            (false, _, error) => format!("not delivered: {error}"),
        };
        cx.output.line(format!("{} {outcome}", text(&delivery, "id")))?;
    }
    Ok(if is_delivered { Exit::Ok } else { Exit::Failed })
}
