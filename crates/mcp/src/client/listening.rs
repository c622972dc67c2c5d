//! Nothing is asked of a server before it can ask back.
//!
//! Where a session has a stream for what the server says of itself, the library opens it beside the first requests. What
//! a server says before the stream is there is lost: a question that a call waits for, or the news that its tools have
//! changed.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use futures::stream::BoxStream;
use http::{HeaderName, HeaderValue};
use rmcp::model::ClientJsonRpcMessage;
use rmcp::transport::streamable_http_client::{StreamableHttpClient, StreamableHttpError, StreamableHttpPostResponse};
use sse_stream::{Error as SseError, Sse};
use tokio::sync::watch;

/// How long requests wait for the stream. Some servers say nothing at all there before they have something to say.
const PATIENCE: Duration = Duration::from_secs(2);

/// A client whose requests wait until the stream of their session was answered, be it with a refusal.
#[derive(Clone)]
pub(crate) struct Listening<C> {
    client: C,
    /// The session whose stream was answered last.
    answered: Arc<watch::Sender<Option<Arc<str>>>>,
}

impl<C> Listening<C> {
    pub fn new(client: C) -> Self {
        Self { client, answered: Arc::default() }
    }

    async fn heard(&self, session: &Arc<str>) {
        let mut answered = self.answered.subscribe();
        let known = answered.wait_for(|answered| answered.as_ref() == Some(session));
        if tokio::time::timeout(PATIENCE, known).await.is_err() {
            self.note(session);
        }
    }

    fn note(&self, session: &Arc<str>) {
        self.answered.send_replace(Some(Arc::clone(session)));
    }
}

/// The library uses the forms with a limit; those without stand for them.
impl<C: StreamableHttpClient + Sync> StreamableHttpClient for Listening<C> {
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
        most: usize,
    ) -> Result<StreamableHttpPostResponse, StreamableHttpError<Self::Error>> {
        if let (ClientJsonRpcMessage::Request(_), Some(session)) = (&message, &session) {
            self.heard(session).await;
        }
        self.client.post_message_with_max_sse_event_size(uri, message, session, auth, headers, most).await
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
        most: usize,
    ) -> Result<BoxStream<'static, Result<Sse, SseError>>, StreamableHttpError<Self::Error>> {
        // With an event's id, it is the rest of the answer to one request.
        let own = session.clone().filter(|_| last_event.is_none());
        let stream =
            self.client.get_stream_with_max_sse_event_size(uri, session, last_event, auth, headers, most).await;
        if let Some(session) = own {
            self.note(&session);
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
        /// Answers the stream: whether it has one.
        answer: Arc<Mutex<Option<oneshot::Receiver<bool>>>>,
    }

    #[derive(Debug, thiserror::Error)]
    #[error("no")]
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

    fn server() -> (Listening<Server>, oneshot::Sender<bool>) {
        let (say, answer) = oneshot::channel();
        (Listening::new(Server { answer: Arc::new(Mutex::new(Some(answer))) }), say)
    }

    fn ask() -> ClientJsonRpcMessage {
        ClientJsonRpcMessage::request(ClientRequest::PingRequest(Default::default()), RequestId::Number(1))
    }

    async fn post(client: &Listening<Server>, message: ClientJsonRpcMessage, session: Option<&str>) {
        client.post_message("u".into(), message, session.map(Arc::from), None, HashMap::new()).await.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn requests_wait_until_the_stream_is_answered_or_refused() {
        for has_one in [true, false] {
            let (client, say) = server();
            let mut asked = Box::pin(post(&client, ask(), Some("s")));
            let mut stream = Box::pin(client.get_stream("u".into(), Some("s".into()), None, None, HashMap::new()));
            assert!(poll!(&mut stream).is_pending());
            assert!(poll!(&mut asked).is_pending(), "asked before the server can ask back");
            say.send(has_one).unwrap();
            assert_eq!(stream.await.is_ok(), has_one);
            assert!(poll!(&mut asked).is_ready());
            assert!(poll!(Box::pin(post(&client, ask(), Some("s")))).is_ready(), "the next one does not wait");
            assert!(poll!(Box::pin(post(&client, ask(), Some("t")))).is_pending(), "another session has its own");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_server_that_keeps_silent_there_is_waited_for_once() {
        let (client, _say) = server();
        let begin = tokio::time::Instant::now();
        post(&client, ask(), Some("s")).await;
        assert_eq!(begin.elapsed(), PATIENCE);
        post(&client, ask(), Some("s")).await;
        assert_eq!(begin.elapsed(), PATIENCE);
    }

    #[tokio::test(start_paused = true)]
    async fn what_needs_no_stream_goes_at_once() {
        let (client, _say) = server();
        assert!(poll!(Box::pin(post(&client, ask(), None))).is_ready(), "a version without sessions");
        let answer = ClientJsonRpcMessage::response(ClientResult::EmptyResult(EmptyResult {}), RequestId::Number(1));
        assert!(poll!(Box::pin(post(&client, answer, Some("s")))).is_ready(), "an answer");
    }
}
