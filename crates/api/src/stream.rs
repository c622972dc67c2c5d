//! Streams runs as server-sent events. The `id` of an event is the number of a journal entry. Only the last event of an
//! entry has an id, so a client that reconnects with `Last-Event-ID` continues after a whole entry.

use std::convert::Infallible;
use std::time::Duration;

use axum::response::sse::{Event, KeepAlive, Sse};
use futures::stream::{self, Stream, StreamExt};
use tokio_util::sync::CancellationToken;
use toolwright_catalog::identity::KeyWatch;
use toolwright_machine::timeline::{RunUpdate, RunUpdateKind};
use toolwright_runs::{RunWatch, WatchEvent};
use toolwright_types::{RunStatus, Timestamp};

use crate::run_views::ClientActionView;
use crate::stream_views::{StreamEventKind, StreamEventView};

/// How often an idle stream sends a comment, to keep the connection open.
pub(crate) const HEARTBEAT: Duration = Duration::from_secs(15);

/// Returns the events of a run as a response, until the run ends, the key of the request is rejected, or the server
/// stops. Only the end of the run sends a final event. In the other cases the client must connect again, and the
/// response to that request contains the reason.
pub(crate) fn events(
    watch: RunWatch,
    run: String,
    agent: String,
    key: KeyWatch,
    stop: CancellationToken,
) -> Sse<impl Stream<Item = Result<Event, Infallible>>> {
    let observed =
        stream::unfold(watch, |mut watch| async move { watch.next().await.map(|observed| (observed, watch)) });
    let events =
        observed.flat_map(move |observed| stream::iter(sse_events(&run, &agent, observed).into_iter().map(Ok)));
    let closed = async move { stop.run_until_cancelled(key.rejected()).await };
    Sse::new(events.take_until(closed)).keep_alive(KeepAlive::new().interval(HEARTBEAT))
}

fn sse_events(run: &str, agent: &str, observed: WatchEvent) -> Vec<Event> {
    let delta = |kind, at, iteration, content: Option<String>| {
        let run_id = run.to_owned();
        vec![event(StreamEventView { kind, content, iteration, run_id, at: Some(at), ..StreamEventView::default() })]
    };
    match observed {
        WatchEvent::Text { at, iteration, delta: text } => delta(StreamEventKind::TextDelta, at, iteration, Some(text)),
        WatchEvent::Thinking { at, iteration, delta: text } => {
            delta(StreamEventKind::Thinking, at, iteration, Some(text))
        }
        WatchEvent::Restart { at, iteration } => delta(StreamEventKind::TextReset, at, iteration, None),
        WatchEvent::Entry { n, at, updates } => {
            let last = updates.len().saturating_sub(1);
            let views = updates.into_iter().map(|update| view(run, agent, at, update)).enumerate();
            views.map(|(at, view)| if at == last { event(view).id(n.to_string()) } else { event(view) }).collect()
        }
    }
}

fn event(view: StreamEventView) -> Event {
    let kind = view.kind.as_str();
    // Strings, numbers and JSON values always serialize.
    Event::default().event(kind).data(serde_json::to_string(&view).unwrap_or_default())
}

fn view(run: &str, agent: &str, at: Timestamp, update: RunUpdate) -> StreamEventView {
    let empty = StreamEventView::default();
    let view = match update.kind {
        RunUpdateKind::Thinking => StreamEventView { kind: StreamEventKind::Thinking, ..empty },
        RunUpdateKind::Text(text) => StreamEventView { kind: StreamEventKind::TextDelta, content: Some(text), ..empty },
        RunUpdateKind::Usage { usage, cost_usd } => {
            StreamEventView { kind: StreamEventKind::Usage, usage: Some(usage), cost_usd, ..empty }
        }
        RunUpdateKind::CallStarted(call) => StreamEventView {
            kind: StreamEventKind::ToolCallStart,
            content: Some(call.invocation.tool_ref.clone()),
            tool_invocation: Some(call),
            ..empty
        },
        RunUpdateKind::CallEnded(call) => StreamEventView {
            kind: StreamEventKind::ToolCallEnd,
            content: Some(call.invocation.tool_ref.clone()),
            tool_invocation: Some(call),
            ..empty
        },
        RunUpdateKind::ApprovalRequired(approval) => StreamEventView::approval(run, agent, *approval),
        RunUpdateKind::ClientAction(action) => StreamEventView {
            kind: StreamEventKind::ClientAction,
            client_action: Some(ClientActionView::new(run, *action)),
            ..empty
        },
        RunUpdateKind::ChildWaiting(child) => StreamEventView {
            kind: StreamEventKind::ChildWaiting,
            content: Some(child.tool.clone()),
            child_run: Some(child.into()),
            ..empty
        },
        RunUpdateKind::Ended { status: RunStatus::Error, reason, message, .. } => StreamEventView {
            kind: StreamEventKind::Error,
            content: message,
            status: Some(RunStatus::Error),
            reason,
            ..empty
        },
        RunUpdateKind::Ended { status, reason, response, .. } => StreamEventView {
            kind: StreamEventKind::Done,
            content: Some(response),
            status: Some(status),
            reason,
            ..empty
        },
    };
    StreamEventView { iteration: update.iteration, run_id: run.to_owned(), at: Some(at), ..view }
}
