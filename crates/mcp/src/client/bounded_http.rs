//! An HTTP client that limits the size of the answers from an MCP server. The client of rmcp limits the size of events,
//! but reads a JSON answer of any size.

use std::collections::HashMap;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use futures::StreamExt;
use futures::stream::BoxStream;
use http::header::{ACCEPT, CONTENT_TYPE, RETRY_AFTER, WWW_AUTHENTICATE};
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use reqwest::Response;
use rmcp::model::{ClientJsonRpcMessage, ClientRequest, ErrorData, ServerJsonRpcMessage};
use rmcp::transport::streamable_http_client::{
    AuthRequiredError, HttpStatusError, InsufficientScopeError, StreamableHttpClient, StreamableHttpError,
    StreamableHttpPostResponse,
};
use sse_stream::{Error as SseError, Sse, SseStream};
use toolwright_budget::{JsonError, LimitExceeded, NodeCounter};
use url::Url;

const SESSION_HEADER: &str = "mcp-session-id";
/// The maximum size of the body of an error, in bytes.
const MAX_ERROR_BYTES: usize = 64 << 10;

/// The error of a request to an MCP server.
pub(super) type PostError = StreamableHttpError<reqwest::Error>;

/// A `reqwest` client that rejects answers above the budget for foreign data.
#[derive(Clone)]
pub(crate) struct BoundedHttpClient(pub reqwest::Client);

impl BoundedHttpClient {
    /// Posts a message whose answer arrives on the event stream. Ignores the body of the HTTP response.
    pub(super) async fn post_without_answer(
        &self,
        url: Url,
        message: &ClientJsonRpcMessage,
        headers: HashMap<HeaderName, HeaderValue>,
    ) -> Result<(), PostError> {
        let headers: HeaderMap = headers.into_iter().collect();
        let response = self.0.post(url).headers(headers).json(message).send().await?;
        let status = response.status();
        if status.is_success() {
            return Ok(());
        }
        match rejection(response, message, true).await {
            Err(error) => Err(error),
            Ok(_) => Err(unexpected(format!("HTTP {status}"))),
        }
    }
}

impl StreamableHttpClient for BoundedHttpClient {
    type Error = reqwest::Error;

    async fn post_message(
        &self,
        uri: Arc<str>,
        message: ClientJsonRpcMessage,
        session: Option<Arc<str>>,
        auth: Option<String>,
        headers: HashMap<HeaderName, HeaderValue>,
    ) -> Result<StreamableHttpPostResponse, PostError> {
        self.post_message_with_max_sse_event_size(uri, message, session, auth, headers, usize::MAX).await
    }

    async fn post_message_with_max_sse_event_size(
        &self,
        uri: Arc<str>,
        message: ClientJsonRpcMessage,
        session: Option<Arc<str>>,
        auth: Option<String>,
        headers: HashMap<HeaderName, HeaderValue>,
        max_event_bytes: usize,
    ) -> Result<StreamableHttpPostResponse, PostError> {
        let mut request = self.0.post(uri.as_ref()).header(ACCEPT, "text/event-stream, application/json");
        if let Some(token) = auth {
            request = request.bearer_auth(token);
        }
        for (name, value) in headers {
            request = request.header(name, value);
        }
        if let Some(session) = &session {
            request = request.header(SESSION_HEADER, session.as_ref());
        }
        let response = request.json(&message).send().await?;
        let status = response.status();
        match status {
            StatusCode::ACCEPTED | StatusCode::NO_CONTENT => Ok(StreamableHttpPostResponse::Accepted),
            StatusCode::NOT_FOUND if session.is_some() => Err(StreamableHttpError::SessionExpired),
            _ if status.is_success() => answer(response, &message, max_event_bytes).await,
            _ => rejection(response, &message, session.is_some()).await,
        }
    }

    async fn delete_session(
        &self,
        uri: Arc<str>,
        session: Arc<str>,
        auth: Option<String>,
        headers: HashMap<HeaderName, HeaderValue>,
    ) -> Result<(), PostError> {
        self.0.delete_session(uri, session, auth, headers).await
    }

    async fn get_stream(
        &self,
        uri: Arc<str>,
        session: Option<Arc<str>>,
        last_event: Option<String>,
        auth: Option<String>,
        headers: HashMap<HeaderName, HeaderValue>,
    ) -> Result<BoxStream<'static, Result<Sse, SseError>>, PostError> {
        Ok(bounded_events(self.0.get_stream(uri, session, last_event, auth, headers).await?))
    }

    async fn get_stream_with_max_sse_event_size(
        &self,
        uri: Arc<str>,
        session: Option<Arc<str>>,
        last_event: Option<String>,
        auth: Option<String>,
        headers: HashMap<HeaderName, HeaderValue>,
        max_event_bytes: usize,
    ) -> Result<BoxStream<'static, Result<Sse, SseError>>, PostError> {
        let events =
            self.0.get_stream_with_max_sse_event_size(uri, session, last_event, auth, headers, max_event_bytes).await?;
        Ok(bounded_events(events))
    }
}

/// Reads the answer to a message: JSON or a stream of events.
async fn answer(
    response: Response,
    message: &ClientJsonRpcMessage,
    max_event_bytes: usize,
) -> Result<StreamableHttpPostResponse, PostError> {
    let session = header(&response, SESSION_HEADER);
    let content_type = header(&response, CONTENT_TYPE.as_str());
    let is_request = matches!(message, ClientJsonRpcMessage::Request(_));
    match content_type.as_deref() {
        Some(kind) if kind.starts_with("text/event-stream") => {
            let mut limit = EventLimit { max_bytes: max_event_bytes, bytes: 0, line_is_empty: true };
            let bytes = response.bytes_stream().map(move |part| {
                let part = part.map_err(std::io::Error::other)?;
                limit.add(&part).map_err(std::io::Error::other)?;
                Ok::<_, std::io::Error>(part)
            });
            let events = SseStream::from_bytes_stream(bytes).boxed();
            Ok(StreamableHttpPostResponse::Sse(bounded_events(events), session))
        }
        Some(kind) if kind.starts_with("application/json") => {
            let body = read(response).await?;
            match toolwright_budget::parse(body).await {
                Ok(parsed) => Ok(StreamableHttpPostResponse::Json(parsed, session)),
                Err(JsonError::Limit(limit)) => Err(over_limit(limit)),
                // Only a request needs an answer.
                Err(_) if !is_request => Ok(StreamableHttpPostResponse::Accepted),
                Err(error) => Err(unexpected(format!("the answer is not a JSON-RPC message: {error}"))),
            }
        }
        // Some servers answer a notification with 200 and no body.
        None if !is_request => Ok(StreamableHttpPostResponse::Accepted),
        _ if !is_request && response.content_length() == Some(0) => Ok(StreamableHttpPostResponse::Accepted),
        _ => Err(StreamableHttpError::UnexpectedContentType(content_type)),
    }
}

/// Converts an HTTP response with an error status. Returns the JSON-RPC error in the body if there is one, otherwise an
/// error with the same text as in rmcp.
async fn rejection(
    response: Response,
    message: &ClientJsonRpcMessage,
    has_session: bool,
) -> Result<StreamableHttpPostResponse, PostError> {
    let status = response.status();
    let is_refused = matches!(status, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN);
    if let Some(challenge) = header(&response, WWW_AUTHENTICATE.as_str()).filter(|_| is_refused) {
        return Err(match status {
            StatusCode::UNAUTHORIZED => StreamableHttpError::AuthRequired(AuthRequiredError::new(challenge)),
            _ => StreamableHttpError::InsufficientScope(InsufficientScopeError::new(challenge, None)),
        });
    }
    let is_json = header(&response, CONTENT_TYPE.as_str()).is_some_and(|kind| kind.starts_with("application/json"));
    let retryable = status == StatusCode::TOO_MANY_REQUESTS || status.is_server_error();
    let retry_after = header(&response, RETRY_AFTER.as_str());
    let status_error = || HttpStatusError::new(status.as_u16(), retry_after.clone());
    if retryable && (!is_json || status == StatusCode::TOO_MANY_REQUESTS) {
        return Err(status_error().into());
    }
    let session = header(&response, SESSION_HEADER);
    let body = read_error(response).await;
    let error = match serde_json::from_slice::<ServerJsonRpcMessage>(&body) {
        Ok(ServerJsonRpcMessage::Error(error)) => Some(error),
        _ => None,
    };
    let text = String::from_utf8_lossy(&body);
    // A server that does not know `server/discover` rejects it with any text. rmcp needs an error with the id of the
    // request to continue with the older handshake.
    if let ClientJsonRpcMessage::Request(request) = message
        && matches!(request.request, ClientRequest::DiscoverRequest(_))
        && status.is_client_error()
        && !is_refused
        && !has_session
    {
        let rejected =
            || ErrorData::invalid_request(format!("server/discover rejected with HTTP {status}: {text}"), None);
        let error = error.map_or_else(rejected, |error| error.error);
        return Ok(StreamableHttpPostResponse::Json(
            ServerJsonRpcMessage::error(error, Some(request.id.clone())),
            None,
        ));
    }
    match error.filter(|_| is_json && !is_refused) {
        Some(error) => Ok(StreamableHttpPostResponse::Json(ServerJsonRpcMessage::Error(error), session)),
        None if retryable => Err(status_error().into()),
        None => Err(unexpected(format!("HTTP {status}: {text}"))),
    }
}

/// Reads a JSON body within the budget.
async fn read(mut response: Response) -> Result<Bytes, PostError> {
    let (mut body, mut counter) = (BytesMut::new(), NodeCounter::default());
    while let Some(part) = response.chunk().await? {
        counter.add(&part).map_err(over_limit)?;
        body.extend_from_slice(&part);
        tokio::task::coop::consume_budget().await;
    }
    Ok(body.freeze())
}

/// Reads the beginning of the body of an error.
async fn read_error(mut response: Response) -> Bytes {
    let mut body = BytesMut::new();
    while let Ok(Some(part)) = response.chunk().await {
        let rest = MAX_ERROR_BYTES.saturating_sub(body.len());
        body.extend_from_slice(part.get(..rest.min(part.len())).unwrap_or_default());
        if body.len() == MAX_ERROR_BYTES {
            break;
        }
    }
    body.freeze()
}

/// Ends a stream at an event with too many nodes, before the event is parsed.
fn bounded_events(events: BoxStream<'static, Result<Sse, SseError>>) -> BoxStream<'static, Result<Sse, SseError>> {
    let check = |event: Result<Sse, SseError>| {
        let event = event?;
        let data = event.data.as_deref().unwrap_or_default();
        toolwright_budget::check(data.as_bytes()).map_err(|limit| SseError::Body(Box::new(limit)))?;
        Ok(event)
    };
    events.map(check).boxed()
}

/// Limits the bytes of each event of a stream.
struct EventLimit {
    max_bytes: usize,
    /// The number of bytes since the last empty line. An empty line ends an event.
    bytes: usize,
    line_is_empty: bool,
}

impl EventLimit {
    fn add(&mut self, part: &[u8]) -> Result<(), LimitExceeded> {
        for byte in part {
            self.bytes = if *byte == b'\n' && self.line_is_empty { 0 } else { self.bytes + 1 };
            self.line_is_empty = *byte == b'\n' || *byte == b'\r' && self.line_is_empty;
            if self.bytes > self.max_bytes {
                return Err(LimitExceeded::Bytes);
            }
        }
        Ok(())
    }
}

fn header(response: &Response, name: &str) -> Option<String> {
    response.headers().get(name).and_then(|value| value.to_str().ok()).map(str::to_owned)
}

fn over_limit(limit: LimitExceeded) -> PostError {
    StreamableHttpError::Io(std::io::Error::other(limit))
}

pub(super) fn unexpected(message: impl Into<std::borrow::Cow<'static, str>>) -> PostError {
    StreamableHttpError::UnexpectedServerResponse(message.into())
}
