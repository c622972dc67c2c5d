//! Handles JSON-RPC batches, which exist only in protocol revision 2025-03-26. Each message is handled separately, and
//! all responses are sent in one event stream.

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
use super::{McpResponse, invalid_message};

/// The protocol revision with batches.
const BATCH_REVISION: &str = "2025-03-26";
/// The largest number of messages in a batch.
const MAX_MESSAGES: usize = 50;

/// Whether a request contains a batch.
pub(super) fn is_batch(request: &Request<Bytes>) -> bool {
    let first = request.body().iter().find(|byte| !byte.is_ascii_whitespace());
    request.method() == Method::POST && first == Some(&b'[')
}

/// Parses the messages of a batch.
pub(super) fn messages(parts: &Parts, body: &Bytes) -> Result<Vec<Value>, McpResponse> {
    let rejected = |message: String| {
        invalid_message::bad_request(&invalid_message::error_message(ErrorData::invalid_request(message, None), None))
    };
    let messages: Vec<Value> = serde_json::from_slice(body)
        .map_err(|error| invalid_message::bad_request(&invalid_message::message_error(&Err(error))))?;
    let version = parts.headers.get("mcp-protocol-version").map(HeaderValue::as_bytes);
    if version.is_some_and(|version| version != BATCH_REVISION.as_bytes()) || !parts.headers.contains_key(SESSION_ID) {
        let message = format!(
            "batches are only supported in sessions of revision {BATCH_REVISION}; send one message per request"
        );
        return Err(rejected(message));
    }
    if messages.is_empty() || messages.len() > MAX_MESSAGES {
        return Err(rejected(format!(
            "a batch must have between 1 and {MAX_MESSAGES} messages, got {}",
            messages.len()
        )));
    }
    let mut ids = HashSet::new();
    if !messages.iter().filter_map(|message| message.get("id")).all(|id| ids.insert(id.to_string())) {
        return Err(rejected("`id` must be unique within a batch".to_owned()));
    }
    Ok(messages)
}

/// The responses to the messages of a batch.
#[derive(Default)]
pub(super) struct BatchResponses(Vec<BoxBody<Bytes, std::convert::Infallible>>);

impl BatchResponses {
    /// Adds the response to one message. A response with a status other than 200, 202 or 415 rejects the HTTP request
    /// as a whole. That response is returned as the error and becomes the response to the batch.
    pub(super) fn add(&mut self, message: &Value, answer: McpResponse) -> Result<(), McpResponse> {
        match answer.status() {
            StatusCode::ACCEPTED => {}
            StatusCode::OK => self.0.push(answer.into_body()),
            StatusCode::UNSUPPORTED_MEDIA_TYPE => {
                let event = format!("data: {}\n\n", invalid_message::message_error(&Ok(message.clone())));
                self.0.push(Full::new(Bytes::from(event)).boxed());
            }
            _ => return Err(answer),
        }
        Ok(())
    }

    /// Merges the responses into one stream. Each frame is a complete event, so frames of different responses can be
    /// interleaved.
    pub(super) fn into_response(self) -> McpResponse {
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
