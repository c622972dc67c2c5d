//! The older HTTP+SSE transport of protocol version 2024-11-05. The server sends all messages over one event stream. The
//! first event of the stream contains the URL to which the client posts its messages.

use std::collections::HashMap;
use std::sync::Arc;

use bytes::Bytes;
use futures::StreamExt;
use futures::stream::BoxStream;
use http::{HeaderName, HeaderValue};
use rmcp::RoleClient;
use rmcp::service::{RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::Transport;
use rmcp::transport::streamable_http_client::StreamableHttpClient;
use sse_stream::{Error as SseError, Sse};
use url::Url;

use super::bounded_http::{BoundedHttpClient, PostError, unexpected};

/// The largest event, in bytes.
const MAX_EVENT_BYTES: usize = toolwright_budget::MAX_BYTES;

/// A connection to a server with the older transport.
pub(super) struct HttpSseTransport {
    client: BoundedHttpClient,
    headers: HashMap<HeaderName, HeaderValue>,
    /// The URL for the messages of the client.
    endpoint: Url,
    events: BoxStream<'static, Result<Sse, SseError>>,
}

impl HttpSseTransport {
    /// Opens the event stream and waits for its first event.
    pub(super) async fn connect(
        client: BoundedHttpClient,
        url: &Url,
        headers: HashMap<HeaderName, HeaderValue>,
    ) -> Result<Self, PostError> {
        let uri: Arc<str> = url.as_str().into();
        let mut events =
            client.get_stream_with_max_sse_event_size(uri, None, None, None, headers.clone(), MAX_EVENT_BYTES).await?;
        let first = events.next().await.ok_or_else(|| unexpected("the event stream ended before its first event"))?;
        let endpoint = endpoint(url, &first.map_err(|error| unexpected(format!("the event stream failed: {error}")))?)?;
        Ok(Self { client, headers, endpoint, events })
    }
}

/// Returns the URL in the first event. The URL must have the same origin as the event stream, because the provider's
/// credentials are sent to it.
fn endpoint(stream: &Url, event: &Sse) -> Result<Url, PostError> {
    if event.event.as_deref() != Some("endpoint") {
        return Err(unexpected("the first event is not `endpoint`, so the server does not speak HTTP+SSE"));
    }
    let text = event.data.as_deref().unwrap_or_default().trim();
    let url = stream.join(text).map_err(|error| unexpected(format!("the URL in the event `endpoint`: {error}")))?;
    if url.origin() != stream.origin() {
        return Err(unexpected("the URL in the event `endpoint` has another origin than the event stream"));
    }
    Ok(url)
}

impl Transport<RoleClient> for HttpSseTransport {
    type Error = PostError;

    fn send(
        &mut self,
        message: TxJsonRpcMessage<RoleClient>,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send + 'static {
        let (client, headers, endpoint) = (self.client.clone(), self.headers.clone(), self.endpoint.clone());
        async move { client.post_without_answer(endpoint, &message, headers).await }
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleClient>> {
        loop {
            let event = match self.events.next().await? {
                Ok(event) => event,
                Err(error) => {
                    tracing::warn!(%error, "event stream of an MCP server failed");
                    return None;
                }
            };
            if event.event.as_deref().is_some_and(|kind| kind != "message") {
                continue;
            }
            match toolwright_budget::parse(Bytes::from(event.data.unwrap_or_default())).await {
                Ok(message) => return Some(message),
                Err(error) => tracing::warn!(%error, "MCP server sent an event that is not a JSON-RPC message"),
            }
        }
    }

    async fn close(&mut self) -> Result<(), Self::Error> {
        self.events = futures::stream::empty().boxed();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use rmcp::transport::streamable_http_client::StreamableHttpError;

    use super::*;

    fn event(kind: &str, data: &str) -> Sse {
        Sse { event: Some(kind.to_owned()), data: Some(data.to_owned()), ..Sse::default() }
    }

    #[test]
    fn endpoint_url_is_resolved_against_the_stream_url_and_must_have_the_same_origin() {
        let stream = Url::parse("https://mcp.example/v1/sse").unwrap();
        for (data, expected) in [
            ("/message?sessionId=1", Some("https://mcp.example/message?sessionId=1")),
            ("message", Some("https://mcp.example/v1/message")),
            ("https://mcp.example/post", Some("https://mcp.example/post")),
            ("https://other.example/post", None),
            ("http://mcp.example/post", None),
            ("https://mcp.example:8443/post", None),
            ("https://", None),
        ] {
            let url = endpoint(&stream, &event("endpoint", data));
            assert_eq!(url.as_ref().map(Url::as_str).ok(), expected, "{data}");
        }
        let error = endpoint(&stream, &event("message", "{}")).unwrap_err();
        assert!(matches!(error, StreamableHttpError::UnexpectedServerResponse(_)), "{error}");
    }
}
