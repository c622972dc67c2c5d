//! Implements `toolwright providers`.

use std::path::PathBuf;

use serde_json::{Value, json};
use toolwright_api::wire::ProviderTestView;

use super::client::{PROVIDERS, parse_name, path};
use super::definitions::{self, Format, ResourceKind};
use super::exit::Exit;
use super::failure::Failure;
use super::fields::{self, revision, text};
use super::follow::pluralize;
use super::output::sanitize_line;
use super::pages::{List, PageArgs};
use super::table::Table;
use super::{Context, delete, ready, uses};

/// Subcommands of `providers`.
#[derive(clap::Subcommand)]
pub(crate) enum ProvidersCommand {
    /// List providers
    List(ListArgs),
    /// Show a provider
    #[command(visible_alias = "show")]
    Get(ReferenceArgs),
    /// Create providers from files; fails if a provider exists
    Create(CreateArgs),
    /// Delete providers
    Delete(delete::DeleteArgs),
    /// Test the connection to a provider
    Test(ReferenceArgs),
    /// Check whether a provider works for you: secrets, connection and accepted tools
    Ready(ready::ReadyArgs),
    /// List the definitions that use a provider
    Uses(uses::UsesArgs),
}

/// Arguments of `providers list`.
#[derive(clap::Args)]
pub(crate) struct ListArgs {
    #[command(flatten)]
    page: PageArgs,
}

/// Arguments of the subcommands for one provider.
#[derive(clap::Args)]
pub(crate) struct ReferenceArgs {
    /// refName or ID of the provider
    #[arg(value_name = "REF", value_parser = parse_name)]
    reference: String,
}

/// Arguments of `providers create`.
#[derive(clap::Args)]
pub(crate) struct CreateArgs {
    /// Files or directories with providers, or `-` for standard input
    #[arg(short, long = "file", value_name = "PATH", required = true, num_args = 1..)]
    files: Vec<PathBuf>,
    /// Format of standard input [default: detected]
    #[arg(long, value_name = "FORMAT")]
    format: Option<Format>,
}

/// Runs a `providers` subcommand.
pub(super) async fn run(cx: &Context, command: ProvidersCommand) -> Result<Exit, Failure> {
    match command {
        ProvidersCommand::List(args) => {
            let list = List { collection: PROVIDERS, query: Vec::new(), empty_message: "no providers found" };
            list.show(cx, &args.page, table).await?;
            Ok(Exit::Ok)
        }
        ProvidersCommand::Get(args) => get(cx, &args).await,
        ProvidersCommand::Create(args) => create(cx, &args).await,
        ProvidersCommand::Delete(args) => delete::run(cx, PROVIDERS, args).await,
        ProvidersCommand::Test(args) => test(cx, &args).await,
        ProvidersCommand::Ready(args) => ready::run(cx, PROVIDERS, args).await,
        ProvidersCommand::Uses(args) => uses::run(cx, PROVIDERS, args).await,
    }
}

fn table(providers: &[Value]) -> Table {
    let mut table = Table::new(["NAME", "TYPE", "STATE", "URL", "DESCRIPTION"]);
    for provider in providers {
        let address = [text(provider, "baseUrl"), text(provider, "command")].into_iter().find(|one| !one.is_empty());
        table.row([
            &text(provider, "refName"),
            &text(provider, "providerType"),
            state(provider),
            &address.unwrap_or_default(),
            &text(provider, "description"),
        ]);
    }
    table
}

fn state(provider: &Value) -> &'static str {
    if provider.get("enabled") == Some(&Value::Bool(false)) { "disabled" } else { "enabled" }
}

async fn get(cx: &Context, args: &ReferenceArgs) -> Result<Exit, Failure> {
    let response = cx.client.get(&path(PROVIDERS, &args.reference), &[]).await?;
    if cx.output.json {
        cx.output.document(response.text.trim_end())?;
        return Ok(Exit::Ok);
    }
    let provider: Value = response.read()?;
    let auth = provider.get("auth").cloned().unwrap_or_default();
    cx.output.line(format!("{}  {}", cx.output.out.good(text(&provider, "refName")), state(&provider)))?;
    let fields = [
        ("description", text(&provider, "description")),
        ("type", text(&provider, "providerType")),
        ("url", text(&provider, "baseUrl")),
        ("command", text(&provider, "command")),
        ("auth", text(&auth, "authType")),
        ("secret", text(&auth, "secretRef")),
        ("revision", revision(&provider)),
    ];
    fields::print_labeled(&cx.output, &fields)?;
    Ok(Exit::Ok)
}

/// Creates providers one after the other. If the server rejects one, the others are still created.
async fn create(cx: &Context, args: &CreateArgs) -> Result<Exit, Failure> {
    let (found, _) = definitions::read(&args.files, args.format, Some(ResourceKind::Provider))?;
    if let Some(other) = found.iter().find(|definition| definition.kind != ResourceKind::Provider) {
        let (location, kind) = (&other.location, other.kind.noun());
        let message =
            format!("{location}: must be a provider, got a {kind}; use `toolwright tools apply` for all kinds");
        return Err(Failure::InvalidDefinitions(vec![message]));
    }
    let mut exit = Exit::Ok;
    let mut results = Vec::new();
    for provider in &found {
        match cx.client.post(PROVIDERS, &provider.body).await {
            Ok(_) => {
                if !cx.output.json {
                    cx.output.line(format!("{} created    provider {}", cx.output.out.good('✓'), provider.name))?;
                }
                results.push(json!({ "ref": provider.name, "outcome": "created" }));
            }
            Err(Failure::Refused(refusal)) if refusal.problem.status != 401 => {
                results.push(json!({ "ref": provider.name, "outcome": "failed", "problem": refusal.document() }));
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

async fn test(cx: &Context, args: &ReferenceArgs) -> Result<Exit, Failure> {
    let response = cx.client.call(&format!("{}/test", path(PROVIDERS, &args.reference)), &json!({})).await?;
    let test: ProviderTestView = response.read()?;
    if cx.output.json {
        cx.output.document(response.text.trim_end())?;
    } else {
        let status = test.http_status.map(|status| format!(", HTTP {status}")).unwrap_or_default();
        let tools = test.tool_count.map(|count| format!(", {}", pluralize(count, "tool"))).unwrap_or_default();
        let (mark, text) = match &test.error {
            None => (cx.output.out.good('✓'), "answered".to_owned()),
            Some(error) => (cx.output.out.bad('✗'), sanitize_line(&error.message)),
        };
        cx.output.line(format!("{mark} {}  {text} ({} ms{status}{tools})", args.reference, test.duration_ms))?;
    }
    Ok(if test.ok { Exit::Ok } else { Exit::Failed })
}
