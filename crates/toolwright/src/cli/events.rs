//! Implements `toolwright events`, which follows the changes of a realm.

use futures::StreamExt as _;
use toolwright_api::wire::EventView;

use super::Context;
use super::client::EVENTS;
use super::exit::Exit;
use super::failure::Failure;
use super::follow::{RETRY_DELAYS, SseStream, sse_events};
use super::output::sanitize_line;
use super::time::format_second;

/// Arguments of `events`.
#[derive(clap::Args)]
pub(crate) struct EventsArgs {
    /// Kinds of objects, separated by commas [default: all]
    #[arg(long, value_name = "KIND", value_delimiter = ',', value_parser = KINDS)]
    kinds: Vec<String>,
    /// Start after this event instead of now
    #[arg(long, value_name = "ID")]
    after: Option<String>,
}

const KINDS: [&str; 12] = [
    "runs",
    "approvals",
    "definitions",
    "tools",
    "providers",
    "agents",
    "fragments",
    "types",
    "workflows",
    "step-registrations",
    "condition-bindings",
    "drift",
];

/// Prints one line per event until the process is interrupted.
pub(super) async fn run(cx: &Context, args: EventsArgs) -> Result<Exit, Failure> {
    let path = match args.kinds.as_slice() {
        [] => EVENTS.to_owned(),
        kinds => format!("{EVENTS}?kinds={}", kinds.join(",")),
    };
    let mut last_event = args.after.unwrap_or_default();
    let mut events = sse_events(cx.client.get_stream(&path, &last_event).await?);
    loop {
        match events.next().await {
            Some(Ok(event)) => {
                print(cx, &event.data)?;
                last_event = event.id;
            }
            lost => {
                let cause = lost.and_then(Result::err).unwrap_or_else(|| "the server ended the stream".into());
                events = reconnect(cx, &path, &last_event, cause).await?;
            }
        }
    }
}

async fn reconnect(cx: &Context, path: &str, last_event: &str, cause: String) -> Result<SseStream, Failure> {
    cx.output.note(cx.output.err.dim(format!("connection lost: {}; reconnecting", sanitize_line(&cause))));
    for delay in RETRY_DELAYS {
        tokio::time::sleep(delay).await;
        match cx.client.get_stream(path, last_event).await {
            Ok(response) => return Ok(sse_events(response)),
            // A starting server, or a proxy in front of it, may fail for a while, so try again.
            Err(Failure::Unreachable { .. }) => {}
            Err(Failure::Refused(refusal)) if refusal.problem.status >= 500 => {}
            Err(other) => return Err(other),
        }
    }
    Err(Failure::Unreachable { url: cx.client.base_url().to_owned(), cause })
}

fn print(cx: &Context, data: &str) -> Result<(), Failure> {
    if cx.output.json {
        return Ok(cx.output.line(data)?);
    }
    let event: EventView = serde_json::from_str(data).map_err(|error| Failure::Unexpected {
        url: format!("{}{EVENTS}", cx.client.base_url()),
        cause: error.to_string(),
    })?;
    match event.event_type.as_str() {
        "READY" => {}
        "RESET" => cx.output.note(cx.output.err.dim("some events are no longer stored; the following are complete")),
        _ => cx.output.line(line(&event))?,
    }
    Ok(())
}

/// The time, type, name, status or revision, and id of an event.
fn line(event: &EventView) -> String {
    let at = event.at.map(format_second).unwrap_or_default();
    let text = |text: &Option<String>| text.as_deref().map(sanitize_line).unwrap_or_default();
    let state = event.revision.map_or_else(|| text(&event.status), |revision| format!("revision {revision}"));
    let id =
        [text(&event.run_id), text(&event.id)].into_iter().filter(|id| !id.is_empty()).collect::<Vec<_>>().join(" ");
    let columns = [at, sanitize_line(&event.event_type), text(&event.kind), text(&event.ref_name), state, id];
    columns.into_iter().filter(|column| !column.is_empty()).collect::<Vec<_>>().join("  ")
}
