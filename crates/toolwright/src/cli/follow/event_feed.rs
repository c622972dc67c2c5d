//! The events of a run as a stream that reconnects after a lost connection.

use std::time::Duration;

use eventsource_stream::{Event, EventStreamError, Eventsource};
use futures::stream::{self, BoxStream, Stream, StreamExt};
use reqwest::Response;
use serde_json::Value;
use toolwright_api::wire::{StreamEventKind, StreamEventView};

use crate::cli::client::{ApiClient, RUNS, path, root_cause};
use crate::cli::failure::Failure;

/// How long a connection may be silent. The server sends a keep-alive every 15 s.
const IDLE_TIMEOUT: Duration = Duration::from_secs(50);
/// The delay before each attempt to reconnect.
pub(crate) const RETRY_DELAYS: [Duration; 6] = [
    Duration::from_millis(200),
    Duration::from_millis(500),
    Duration::from_secs(1),
    Duration::from_secs(2),
    Duration::from_secs(4),
    Duration::from_secs(8),
];

/// An item of an [`EventFeed`].
pub(crate) enum FeedItem {
    /// An event of the run.
    Event(Box<StreamEventView>),
    /// The connection was lost. The next item is [`FeedItem::Reconnected`] or an error.
    Disconnected,
    /// The connection was restored.
    Reconnected,
}

/// The events of a run. The stream ends with the run or with the first error.
pub(crate) type EventFeed = BoxStream<'static, Result<FeedItem, Failure>>;

/// The server-sent events of one response. The stream ends with the connection.
pub(crate) type SseStream = BoxStream<'static, Result<Event, String>>;

/// Starts a run and returns its events.
pub(crate) async fn start_run(client: &ApiClient, execute_path: &str, body: &Value) -> Result<EventFeed, Failure> {
    let response = client.post_stream(execute_path, body).await?;
    Ok(ReconnectingStream::new(client, String::new(), sse_events(response)).into_feed())
}

/// Starts a run with a correlation id and returns its events.
pub(crate) async fn start_correlated_run(
    client: &ApiClient,
    execute_path: &str,
    body: &Value,
    correlation: &str,
) -> Result<EventFeed, Failure> {
    let response = client.post_correlated_stream(execute_path, body, correlation).await?;
    Ok(ReconnectingStream::new(client, String::new(), sse_events(response)).into_feed())
}

/// Returns the events of an existing run from its beginning.
pub(crate) async fn watch_run(client: &ApiClient, run: &str) -> Result<EventFeed, Failure> {
    let response = client.get_stream(&events_path(run), "").await?;
    Ok(ReconnectingStream::new(client, run.to_owned(), sse_events(response)).into_feed())
}

/// An event stream that reconnects with the id of the last event.
struct ReconnectingStream {
    client: ApiClient,
    run: String,
    last_event: String,
    state: StreamState,
}

enum StreamState {
    Connected(SseStream),
    Lost { cause: String, attempts: usize },
    Ended,
}

impl ReconnectingStream {
    fn new(client: &ApiClient, run: String, events: SseStream) -> Self {
        Self { client: client.clone(), run, last_event: String::new(), state: StreamState::Connected(events) }
    }

    fn into_feed(self) -> EventFeed {
        stream::unfold(self, |mut state| async move { state.next().await.map(|item| (item, state)) }).boxed()
    }

    async fn next(&mut self) -> Option<Result<FeedItem, Failure>> {
        loop {
            match &mut self.state {
                StreamState::Ended => return None,
                StreamState::Connected(events) => match events.next().await {
                    Some(Ok(event)) => return Some(self.handle_event(&event)),
                    ended => {
                        let cause =
                            ended.and_then(Result::err).unwrap_or_else(|| "the stream ended before the run".into());
                        self.state = StreamState::Lost { cause, attempts: 0 };
                        return Some(Ok(FeedItem::Disconnected));
                    }
                },
                StreamState::Lost { attempts, cause } => match RETRY_DELAYS.get(*attempts) {
                    Some(delay) if !self.run.is_empty() => {
                        *attempts += 1;
                        tokio::time::sleep(*delay).await;
                        if let Some(item) = self.reconnect().await {
                            return Some(item);
                        }
                    }
                    _ => {
                        let cause = std::mem::take(cause);
                        return Some(Err(
                            self.fail(Failure::Unreachable { url: self.client.base_url().to_owned(), cause })
                        ));
                    }
                },
            }
        }
    }

    fn handle_event(&mut self, event: &Event) -> Result<FeedItem, Failure> {
        let unexpected = |error: serde_json::Error| {
            let url = format!("{}{}", self.client.base_url(), events_path(&self.run));
            Failure::Unexpected { url, cause: error.to_string() }
        };
        let run_event: StreamEventView = match serde_json::from_str(&event.data) {
            Ok(run_event) => run_event,
            Err(error) => {
                let failure = unexpected(error);
                return Err(self.fail(failure));
            }
        };
        self.run.clone_from(&run_event.run_id);
        self.last_event.clone_from(&event.id);
        if matches!(run_event.kind, StreamEventKind::Done | StreamEventKind::Error) {
            self.state = StreamState::Ended;
        }
        Ok(FeedItem::Event(Box::new(run_event)))
    }

    /// Tries to reconnect once. Returns `None` if the caller should try again.
    async fn reconnect(&mut self) -> Option<Result<FeedItem, Failure>> {
        match self.client.get_stream(&events_path(&self.run), &self.last_event).await {
            Ok(response) => {
                self.state = StreamState::Connected(sse_events(response));
                Some(Ok(FeedItem::Reconnected))
            }
            // A starting server, or a proxy in front of it, may fail for a while, so try again.
            Err(Failure::Unreachable { .. }) => None,
            Err(Failure::Refused(refusal)) if refusal.problem.status >= 500 => None,
            Err(other) => Some(Err(self.fail(other))),
        }
    }

    fn fail(&mut self, failure: Failure) -> Failure {
        self.state = StreamState::Ended;
        failure
    }
}

fn events_path(run: &str) -> String {
    format!("{}/events", path(RUNS, run))
}

/// Parses the events of a response.
pub(crate) fn sse_events(response: Response) -> SseStream {
    let events = chunks(response).eventsource();
    events
        .map(|event| {
            event.map_err(|error| match error {
                EventStreamError::Transport(cause) => cause,
                other => other.to_string(),
            })
        })
        .boxed()
}

/// Streams the response body. A connection that is silent for too long counts as broken.
fn chunks(response: Response) -> impl Stream<Item = Result<impl AsRef<[u8]>, String>> {
    stream::unfold(Some(response), |response| async move {
        let mut response = response?;
        match tokio::time::timeout(IDLE_TIMEOUT, response.chunk()).await {
            Ok(Ok(Some(bytes))) => Some((Ok(bytes), Some(response))),
            Ok(Ok(None)) => None,
            Ok(Err(error)) => Some((Err(root_cause(&error)), None)),
            Err(_) => Some((Err("no data received for 50 s".into()), None)),
        }
    })
}

#[cfg(test)]
mod tests;
