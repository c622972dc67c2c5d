//! Reads server-sent events.

use serde_json::Value;

use crate::harness::with_timeout;

/// A server-sent event.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct SseEvent {
    /// The id as a number, which is the number of a journal entry. `None` if the id is not a number.
    pub id: Option<u64>,
    /// The id as text.
    pub text_id: Option<String>,
    pub kind: String,
    pub data: Value,
}

impl SseEvent {
    /// Parses all events of a stream. Comments are skipped.
    pub(crate) fn all(text: &str) -> Vec<Self> {
        text.split("\n\n").filter(|block| block.contains("data:")).map(Self::parse).collect()
    }

    fn parse(block: &str) -> Self {
        let field = |name: &str| block.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
        Self {
            id: field("id:").and_then(|text| text.parse().ok()),
            text_id: field("id:").map(str::to_owned),
            kind: field("event:").unwrap().to_owned(),
            data: serde_json::from_str(field("data:").unwrap()).unwrap(),
        }
    }
}

/// An event stream that is read incrementally.
pub(crate) struct EventStream {
    response: reqwest::Response,
    text: String,
}

impl EventStream {
    pub(crate) fn new(response: reqwest::Response) -> Self {
        Self { response, text: String::new() }
    }

    /// Returns the next event, or `None` at the end of the stream.
    pub(crate) async fn next(&mut self) -> Option<SseEvent> {
        loop {
            if let Some((block, rest)) = self.text.split_once("\n\n") {
                let (event, rest) = (SseEvent::all(block).pop(), rest.to_owned());
                self.text = rest;
                if event.is_some() {
                    return event;
                }
                continue;
            }
            let chunk = self.response.chunk().await.unwrap()?;
            self.text.push_str(std::str::from_utf8(&chunk).unwrap());
        }
    }

    /// Reads events until one has the kind `kind`, and returns that event.
    pub(crate) async fn wait_for(&mut self, kind: &str) -> SseEvent {
        let found = with_timeout(async {
            loop {
                match self.next().await {
                    Some(event) if event.kind != kind => {}
                    other => return other,
                }
            }
        });
        found.await.unwrap_or_else(|| panic!("the stream ended before {kind}"))
    }

    /// Reads the remaining events.
    pub(crate) async fn rest(mut self) -> Vec<SseEvent> {
        with_timeout(async {
            let mut events = Vec::new();
            while let Some(event) = self.next().await {
                events.push(event);
            }
            events
        })
        .await
    }
}
