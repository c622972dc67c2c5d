//! Runs over SSE. An event's `id` is the number of a journal entry, and only its last event carries it, so that
//! `Last-Event-ID` never cuts an entry in two.

use std::convert::Infallible;
use std::time::Duration;

use axum::response::sse::{Event, KeepAlive, Sse};
use futures::stream::{self, Stream, StreamExt};
use tokio_util::sync::CancellationToken;
use toolwright_engine::runs::{Seen, Watch};
use toolwright_machine::timeline::{Moment, Told};
use toolwright_types::RunStatus;

use crate::run_views::{ClientActionView, StreamEventView};

/// How often a silent stream says that it is alive.
const HEARTBEAT: Duration = Duration::from_secs(15);

/// The events of a watched run, until it ends or the server stops.
pub fn events(
    watch: Watch,
    run: String,
    agent: String,
    stop: CancellationToken,
) -> Sse<impl Stream<Item = Result<Event, Infallible>>> {
    let seen = stream::unfold(watch, |mut watch| async move { watch.next().await.map(|seen| (seen, watch)) });
    let events = seen.flat_map(move |seen| stream::iter(told(&run, &agent, seen).into_iter().map(Ok)));
    Sse::new(events.take_until(stop.cancelled_owned())).keep_alive(KeepAlive::new().interval(HEARTBEAT))
}

fn told(run: &str, agent: &str, seen: Seen) -> Vec<Event> {
    let delta = |kind, iteration, content: Option<String>| {
        vec![event(StreamEventView { kind, content, iteration, run_id: run.to_owned(), ..StreamEventView::default() })]
    };
    match seen {
        Seen::Text { iteration, delta: text } => delta("TEXT_DELTA", iteration, Some(text)),
        Seen::Thinking { iteration, delta: text } => delta("THINKING", iteration, Some(text)),
        Seen::Restart { iteration } => delta("TEXT_RESET", iteration, None),
        Seen::Entry { n, moments } => {
            let last = moments.len().saturating_sub(1);
            let views = moments.into_iter().map(|moment| view(run, agent, moment)).enumerate();
            views.map(|(at, view)| if at == last { event(view).id(n.to_string()) } else { event(view) }).collect()
        }
    }
}

fn event(view: StreamEventView) -> Event {
    let kind = view.kind;
    // The view is made of strings, numbers and JSON values: it can be written.
    Event::default().event(kind).data(serde_json::to_string(&view).unwrap_or_default())
}

fn view(run: &str, agent: &str, moment: Moment) -> StreamEventView {
    let empty = StreamEventView::default();
    let view = match moment.what {
        Told::Thinking => StreamEventView { kind: "THINKING", ..empty },
        Told::Text(text) => StreamEventView { kind: "TEXT_DELTA", content: Some(text), ..empty },
        Told::Usage { usage, cost_usd } => StreamEventView { kind: "USAGE", usage: Some(usage), cost_usd, ..empty },
        Told::CallStarted(call) => StreamEventView {
            kind: "TOOL_CALL_START",
            content: Some(call.invocation.tool_ref.clone()),
            tool_invocation: Some(call),
            ..empty
        },
        Told::CallEnded(call) => StreamEventView {
            kind: "TOOL_CALL_END",
            content: Some(call.invocation.tool_ref.clone()),
            tool_invocation: Some(call),
            ..empty
        },
        Told::ApprovalRequired(asked) => StreamEventView::approval(run, agent, *asked),
        Told::ClientAction(action) => {
            StreamEventView { kind: "CLIENT_ACTION", client_action: Some(ClientActionView::new(run, *action)), ..empty }
        }
        Told::Ended { status: RunStatus::Error, reason, message, .. } => {
            StreamEventView { kind: "ERROR", content: message, status: Some(RunStatus::Error), reason, ..empty }
        }
        Told::Ended { status, reason, response, .. } => {
            StreamEventView { kind: "DONE", content: Some(response), status: Some(status), reason, ..empty }
        }
    };
    StreamEventView { iteration: moment.iteration, run_id: run.to_owned(), ..view }
}
