//! An HTTP client that opens a session's event stream before it sends requests.
//!
//! By itself, rmcp opens that stream concurrently with the first requests. Messages that the server sends before the
//! stream is open are lost. Such a message can be a request that a call waits for, or the notification that the
//! server's tools have changed.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use futures::stream::BoxStream;
use http::{HeaderName, HeaderValue};
use rmcp::model::ClientJsonRpcMessage;
use rmcp::transport::streamable_http_client::{StreamableHttpClient, StreamableHttpError, StreamableHttpPostResponse};
use sse_stream::{Error as SseError, Sse};
use tokio::sync::watch;

/// How long requests wait for the stream. The time is limited, because some servers send the response headers of the
/// stream only with the first event.
const STREAM_TIMEOUT: Duration = Duration::from_secs(2);

/// An HTTP client whose requests wait until the server has accepted or rejected the event stream of their MCP session.
#[derive(Clone)]
pub(crate) struct StreamFirstClient<C> {
    client: C,
    /// The MCP session whose stream was accepted or rejected last.
    ready_session: Arc<watch::Sender<Option<Arc<str>>>>,
}

impl<C> StreamFirstClient<C> {
    pub(crate) fn new(client: C) -> Self {
        Self { client, ready_session: Arc::default() }
    }

    async fn wait_for_stream(&self, session: &Arc<str>) {
        let mut ready_session = self.ready_session.subscribe();
        let ready = ready_session.wait_for(|ready_session| ready_session.as_ref() == Some(session));
        if tokio::time::timeout(STREAM_TIMEOUT, ready).await.is_err() {
            self.mark_ready(session);
        }
    }

    fn mark_ready(&self, session: &Arc<str>) {
        self.ready_session.send_replace(Some(Arc::clone(session)));
    }
}

/// rmcp calls only the methods with an event size limit. The methods without a limit call the methods with a limit.
impl<C: StreamableHttpClient + Sync> StreamableHttpClient for StreamFirstClient<C> {
    type Error = C::Error;

    async fn post_message(
        &self,
        uri: Arc<str>,
        message: ClientJsonRpcMessage,
        session: Option<Arc<str>>,
        auth: Option<String>,
        headers: HashMap<HeaderName, HeaderValue>,
    ) -> Result<StreamableHttpPostResponse, StreamableHttpError<Self::Error>> {
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
    ) -> Result<StreamableHttpPostResponse, StreamableHttpError<Self::Error>> {
        if let (ClientJsonRpcMessage::Request(_), Some(session)) = (&message, &session) {
            self.wait_for_stream(session).await;
        }
        self.client.post_message_with_max_sse_event_size(uri, message, session, auth, headers, max_event_bytes).await
    }

    async fn delete_session(
        &self,
        uri: Arc<str>,
        session: Arc<str>,
        auth: Option<String>,
        headers: HashMap<HeaderName, HeaderValue>,
    ) -> Result<(), StreamableHttpError<Self::Error>> {
        self.client.delete_session(uri, session, auth, headers).await
    }

    async fn get_stream(
        &self,
        uri: Arc<str>,
        session: Option<Arc<str>>,
        last_event: Option<String>,
        auth: Option<String>,
        headers: HashMap<HeaderName, HeaderValue>,
    ) -> Result<BoxStream<'static, Result<Sse, SseError>>, StreamableHttpError<Self::Error>> {
        self.get_stream_with_max_sse_event_size(uri, session, last_event, auth, headers, usize::MAX).await
    }

    async fn get_stream_with_max_sse_event_size(
        &self,
        uri: Arc<str>,
        session: Option<Arc<str>>,
        last_event: Option<String>,
        auth: Option<String>,
        headers: HashMap<HeaderName, HeaderValue>,
        max_event_bytes: usize,
    ) -> Result<BoxStream<'static, Result<Sse, SseError>>, StreamableHttpError<Self::Error>> {
        // A request with a last event id resumes the response to one request. It is not the event stream of the MCP
        // session.
        let session_stream = session.clone().filter(|_| last_event.is_none());
        let stream = self
            .client
            .get_stream_with_max_sse_event_size(uri, session, last_event, auth, headers, max_event_bytes)
            .await;
        if let Some(session) = session_stream {
            self.mark_ready(&session);
        }
        stream
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use futures::{StreamExt, poll};
    use rmcp::model::{ClientRequest, ClientResult, EmptyResult, RequestId};
    use tokio::sync::oneshot;

    use super::*;

    #[derive(Clone, Default)]
    struct Server {
        /// The answer to the request for the stream, which the test sends. `true` means that the server offers a
        /// stream.
        answer: Arc<Mutex<Option<oneshot::Receiver<bool>>>>,
    }

    #[derive(Debug, thiserror::Error)]
    #[error("not supported")]
    struct No;

    impl StreamableHttpClient for Server {
        type Error = No;

        async fn post_message(
            &self,
            _: Arc<str>,
            _: ClientJsonRpcMessage,
            _: Option<Arc<str>>,
            _: Option<String>,
            _: HashMap<HeaderName, HeaderValue>,
        ) -> Result<StreamableHttpPostResponse, StreamableHttpError<No>> {
            Ok(StreamableHttpPostResponse::Accepted)
        }

        async fn delete_session(
            &self,
            _: Arc<str>,
            _: Arc<str>,
            _: Option<String>,
            _: HashMap<HeaderName, HeaderValue>,
        ) -> Result<(), StreamableHttpError<No>> {
            Ok(())
        }

        async fn get_stream(
            &self,
            _: Arc<str>,
            _: Option<Arc<str>>,
            _: Option<String>,
            _: Option<String>,
            _: HashMap<HeaderName, HeaderValue>,
        ) -> Result<BoxStream<'static, Result<Sse, SseError>>, StreamableHttpError<No>> {
            let answer = self.answer.lock().unwrap().take().unwrap();
            match answer.await.unwrap() {
                true => Ok(futures::stream::empty().boxed()),
                false => Err(StreamableHttpError::ServerDoesNotSupportSse),
            }
        }
    }

    fn server() -> (StreamFirstClient<Server>, oneshot::Sender<bool>) {
        let (respond, answer) = oneshot::channel();
        (StreamFirstClient::new(Server { answer: Arc::new(Mutex::new(Some(answer))) }), respond)
    }

    fn ping() -> ClientJsonRpcMessage {
        ClientJsonRpcMessage::request(ClientRequest::PingRequest(Default::default()), RequestId::Number(1))
    }

    async fn post(client: &StreamFirstClient<Server>, message: ClientJsonRpcMessage, session: Option<&str>) {
        client.post_message("u".into(), message, session.map(Arc::from), None, HashMap::new()).await.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn request_waits_until_the_stream_is_accepted_or_rejected() {
        for has_stream in [true, false] {
            let (client, respond) = server();
            let mut request = Box::pin(post(&client, ping(), Some("s")));
            let mut stream = Box::pin(client.get_stream("u".into(), Some("s".into()), None, None, HashMap::new()));
            assert!(poll!(&mut stream).is_pending());
            assert!(poll!(&mut request).is_pending(), "the request was sent before the stream was open");
            respond.send(has_stream).unwrap();
            assert_eq!(stream.await.is_ok(), has_stream);
            assert!(poll!(&mut request).is_ready());
            assert!(poll!(Box::pin(post(&client, ping(), Some("s")))).is_ready(), "the next request must not wait");
            assert!(
                poll!(Box::pin(post(&client, ping(), Some("t")))).is_pending(),
                "another session waits for its own stream"
            );
        }
    }

    #[tokio::test(start_paused = true)]
    async fn unanswered_stream_request_delays_only_the_first_message() {
        let (client, _respond) = server();
        let begin = tokio::time::Instant::now();
        post(&client, ping(), Some("s")).await;
        assert_eq!(begin.elapsed(), STREAM_TIMEOUT);
        post(&client, ping(), Some("s")).await;
        assert_eq!(begin.elapsed(), STREAM_TIMEOUT);
    }

    #[tokio::test(start_paused = true)]
    async fn only_requests_with_a_session_wait_for_the_stream() {
        let (client, _respond) = server();
        assert!(poll!(Box::pin(post(&client, ping(), None))).is_ready(), "a request without a session");
        let answer = ClientJsonRpcMessage::response(ClientResult::EmptyResult(EmptyResult {}), RequestId::Number(1));
        assert!(poll!(Box::pin(post(&client, answer, Some("s")))).is_ready(), "a response");
    }
}
