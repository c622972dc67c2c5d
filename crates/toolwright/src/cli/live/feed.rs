//! The events of a run, across lost connections.

use std::time::Duration;

use eventsource_stream::{Event, EventStreamError, Eventsource};
use futures::stream::{self, BoxStream, Stream, StreamExt};
use reqwest::Response;
use serde_json::Value;

use super::wire::{Happening, Told};
use crate::cli::client::{Client, RUNS, innermost, path};
use crate::cli::failure::Failure;

/// The server says every 15 s that it is alive; after this long it is not.
const SILENCE: Duration = Duration::from_secs(50);
/// How long to wait before each attempt to come back.
const PAUSES: [Duration; 6] = [
    Duration::from_millis(200),
    Duration::from_millis(500),
    Duration::from_secs(1),
    Duration::from_secs(2),
    Duration::from_secs(4),
    Duration::from_secs(8),
];

/// What comes out of a feed.
pub enum Fed {
    /// Something happened in the run.
    Told(Box<Told>),
    /// The connection was lost; the next item says whether it could be made again.
    Lost,
    /// The connection is there again.
    Found,
}

/// A feed ends with the run, or with a failure.
pub type Feed = BoxStream<'static, Result<Fed, Failure>>;

/// Starts an agent and tells what happens.
pub async fn start(client: &Client, address: &str, body: &Value) -> Result<Feed, Failure> {
    let response = client.post_stream(address, body).await?;
    Ok(Line::new(client, String::new(), events(response)).feed())
}

/// Tells what happens in a run, from its beginning.
pub async fn watch(client: &Client, run: &str) -> Result<Feed, Failure> {
    let response = client.get_stream(&address(run), "").await?;
    Ok(Line::new(client, run.to_owned(), events(response)).feed())
}

/// A connection that is made again when it is lost.
struct Line {
    client: Client,
    run: String,
    last_event: String,
    state: State,
}

enum State {
    Connected(BoxStream<'static, Result<Event, String>>),
    Lost { cause: String, attempts: usize },
    Over,
}

impl Line {
    fn new(client: &Client, run: String, events: BoxStream<'static, Result<Event, String>>) -> Self {
        Self { client: client.clone(), run, last_event: String::new(), state: State::Connected(events) }
    }

    fn feed(self) -> Feed {
        stream::unfold(self, |mut line| async move { line.next().await.map(|fed| (fed, line)) }).boxed()
    }

    async fn next(&mut self) -> Option<Result<Fed, Failure>> {
        loop {
            match &mut self.state {
                State::Over => return None,
                State::Connected(events) => match events.next().await {
                    Some(Ok(event)) => return Some(self.hear(&event)),
                    ended => {
                        let cause = ended.and_then(Result::err).unwrap_or_else(|| "the stream ended early".into());
                        self.state = State::Lost { cause, attempts: 0 };
                        return Some(Ok(Fed::Lost));
                    }
                },
                State::Lost { attempts, cause } => match PAUSES.get(*attempts) {
                    Some(pause) if !self.run.is_empty() => {
                        *attempts += 1;
                        tokio::time::sleep(*pause).await;
                        if let Some(fed) = self.reconnect().await {
                            return Some(fed);
                        }
                    }
                    _ => {
                        let cause = std::mem::take(cause);
                        return Some(
                            Err(self.over(Failure::Unreachable { url: self.client.base().to_owned(), cause })),
                        );
                    }
                },
            }
        }
    }

    fn hear(&mut self, event: &Event) -> Result<Fed, Failure> {
        let unexpected = |error: serde_json::Error| {
            let url = format!("{}{}", self.client.base(), address(&self.run));
            Failure::Unexpected { url, cause: error.to_string() }
        };
        let told: Told = match serde_json::from_str(&event.data) {
            Ok(told) => told,
            Err(error) => {
                let failure = unexpected(error);
                return Err(self.over(failure));
            }
        };
        self.run.clone_from(&told.run_id);
        self.last_event.clone_from(&event.id);
        if matches!(told.what, Happening::Done | Happening::Error) {
            self.state = State::Over;
        }
        Ok(Fed::Told(Box::new(told)))
    }

    /// Tries once. None if it should be tried again.
    async fn reconnect(&mut self) -> Option<Result<Fed, Failure>> {
        match self.client.get_stream(&address(&self.run), &self.last_event).await {
            Ok(response) => {
                self.state = State::Connected(events(response));
                Some(Ok(Fed::Found))
            }
            // A server that is just starting, or a proxy before it, may refuse for a while.
            Err(Failure::Unreachable { .. }) => None,
            Err(Failure::Refused(problem)) if problem.status >= 500 => None,
            Err(other) => Some(Err(self.over(other))),
        }
    }

    fn over(&mut self, failure: Failure) -> Failure {
        self.state = State::Over;
        failure
    }
}

fn address(run: &str) -> String {
    format!("{}/events", path(RUNS, run))
}

fn events(response: Response) -> BoxStream<'static, Result<Event, String>> {
    let told = chunks(response).eventsource();
    told.map(|event| {
        event.map_err(|error| match error {
            EventStreamError::Transport(cause) => cause,
            other => other.to_string(),
        })
    })
    .boxed()
}

/// The bytes of an answer while they arrive. Silence counts as a broken connection.
fn chunks(response: Response) -> impl Stream<Item = Result<impl AsRef<[u8]>, String>> {
    stream::unfold(Some(response), |response| async move {
        let mut response = response?;
        match tokio::time::timeout(SILENCE, response.chunk()).await {
            Ok(Ok(Some(bytes))) => Some((Ok(bytes), Some(response))),
            Ok(Ok(None)) => None,
            Ok(Err(error)) => Some((Err(innermost(&error)), None)),
            Err(_) => Some((Err("the server fell silent".into()), None)),
        }
    })
}

#[cfg(test)]
mod tests;
