//! Batches, which the revision 2025-03-26 alone has: each message is taken by itself, and all answers come on one stream.

use std::collections::HashSet;

use bytes::Bytes;
use futures::stream::select_all;
use http::header::CONTENT_TYPE;
use http::request::Parts;
use http::{HeaderValue, Method, Request, Response, StatusCode};
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, BodyStream, Empty, Full, StreamBody};
use rmcp::ErrorData;
use serde_json::Value;

use super::endpoint::SESSION_ID;
use super::{Answer, unread};

/// The revision that has them.
const REVISION: &str = "2025-03-26";
/// More messages than this are not taken at once.
const MOST: usize = 50;

/// Whether a request carries several messages.
pub(super) fn is_one(request: &Request<Bytes>) -> bool {
    let first = request.body().iter().find(|byte| !byte.is_ascii_whitespace());
    request.method() == Method::POST && first == Some(&b'[')
}

/// The messages of a batch, or why it cannot be taken.
pub(super) fn messages(parts: &Parts, body: &Bytes) -> Result<Vec<Value>, Answer> {
    let refused = |message: String| unread::written(&unread::error_of(ErrorData::invalid_request(message, None), None));
    let messages: Vec<Value> =
        serde_json::from_slice(body).map_err(|error| unread::written(&unread::error(&Err(error))))?;
    let version = parts.headers.get("mcp-protocol-version").map(HeaderValue::as_bytes);
    if version.is_some_and(|version| version != REVISION.as_bytes()) || !parts.headers.contains_key(SESSION_ID) {
        let message = format!("a batch is for sessions of revision {REVISION}; send one message in each request");
        return Err(refused(message));
    }
    if messages.is_empty() || messages.len() > MOST {
        return Err(refused(format!("a batch has 1 to {MOST} messages, and this one has {}", messages.len())));
    }
    let mut ids = HashSet::new();
    if !messages.iter().filter_map(|message| message.get("id")).all(|id| ids.insert(id.to_string())) {
        return Err(refused("two messages of the batch have the same `id`".to_owned()));
    }
    Ok(messages)
}

/// The answers to the messages of a batch as one.
#[derive(Default)]
pub(super) struct Answers(Vec<BoxBody<Bytes, std::convert::Infallible>>);

impl Answers {
    /// Adds the answer to one message. What concerns more than this message is the answer to all of them.
    pub fn add(&mut self, message: &Value, answer: Answer) -> Result<(), Answer> {
        match answer.status() {
            StatusCode::ACCEPTED => {}
            StatusCode::OK => self.0.push(answer.into_body()),
            StatusCode::UNSUPPORTED_MEDIA_TYPE => {
                let event = format!("data: {}\n\n", unread::error(&Ok(message.clone())));
                self.0.push(Full::new(Bytes::from(event)).boxed());
            }
            _ => return Err(answer),
        }
        Ok(())
    }

    /// One stream of all; each piece of a stream is a whole event, so they can be mixed.
    pub fn joined(self) -> Answer {
        if self.0.is_empty() {
            let mut response = Response::new(Empty::new().boxed());
            *response.status_mut() = StatusCode::ACCEPTED;
            return response;
        }
        let events = select_all(self.0.into_iter().map(BodyStream::new));
        let mut response = Response::new(StreamBody::new(events).boxed());
        response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
        response
    }
}
