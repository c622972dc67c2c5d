//! A layer that adds a request id and a correlation id to each request that has none, logs one line per request, and
//! converts panics of handlers to responses.
//!
//! Both ids are in the response. All log lines of the request contain the request id. The log line about the request
//! and the log lines of its runs contain the correlation id. The tracing span contains only the request id, because a
//! span is created for every request and must be cheap. All other data about the request is in its log line.
//!
//! An invalid id is replaced, not refused: a proxy may have set it, and it does not change what the request does. The
//! response shows the id that is used.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, ready};
use std::time::Instant;

use axum::extract::Request;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, Uri};
use axum::response::{IntoResponse, Response};
use pin_project_lite::pin_project;
use toolwright_catalog::Session;
use toolwright_types::{CorrelationId, DocumentId as _, RunId};
use tower_layer::Layer;
use tower_service::Service;
use tracing::Instrument;
use tracing::instrument::Instrumented;

use crate::problem::{Code, Problem};

const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
const CORRELATION_ID: HeaderName = HeaderName::from_static("x-correlation-id");

/// A layer that logs requests.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LogLayer;

impl<S> Layer<S> for LogLayer {
    type Service = LogService<S>;

    fn layer(&self, inner: S) -> LogService<S> {
        LogService { inner }
    }
}

/// The session of a request, set by the handler that authenticates it.
#[derive(Debug, Clone, Default)]
pub(crate) struct SessionSlot(Arc<OnceLock<Session>>);

impl SessionSlot {
    pub(crate) fn set(&self, session: &Session) {
        // Setting fails if the request was already authenticated. In that case the slot already contains the same
        // session.
        let _ = self.0.set(session.clone());
    }
}

/// A service that logs its requests.
#[derive(Debug, Clone)]
pub(crate) struct LogService<S> {
    inner: S,
}

impl<S: Service<Request, Response = Response>> Service<Request> for LogService<S> {
    type Response = Response;
    type Error = S::Error;
    type Future = ResponseFuture<S::Future>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, mut request: Request) -> Self::Future {
        let session_slot = SessionSlot::default();
        let id = header_id(request.headers(), &REQUEST_ID).unwrap_or_else(new_id);
        let correlation = header_id(request.headers(), &CORRELATION_ID).unwrap_or_else(|| id.clone());
        request.extensions_mut().insert(session_slot.clone());
        request.extensions_mut().insert(correlation.clone());
        let request_log = RequestLog {
            id,
            correlation,
            method: request.method().clone(),
            uri: request.uri().clone(),
            started_at: Instant::now(),
            session_slot,
        };
        let span = tracing::info_span!("request", id = request_log.id.as_str());
        ResponseFuture { inner: self.inner.call(request).instrument(span), request_log }
    }
}

/// Returns a random UUID. It is not a secret, so the thread-local random number generator is good enough.
fn new_id() -> CorrelationId {
    let id = uuid::Builder::from_random_bytes(rand::random()).into_uuid();
    let mut text = uuid::Uuid::encode_buffer();
    // INVARIANT: 36 hexadecimal digits and hyphens are a valid id.
    id.hyphenated().encode_lower(&mut text).parse().unwrap_or_else(|_| CorrelationId::of_run(RunId::generate()))
}

/// Returns the id in a header. `None` if it is absent or invalid.
fn header_id(headers: &HeaderMap, name: &HeaderName) -> Option<CorrelationId> {
    headers.get(name)?.to_str().ok()?.parse().ok()
}

fn header_value(id: &CorrelationId) -> HeaderValue {
    // INVARIANT: visible ASCII characters are valid in a header.
    HeaderValue::from_str(id.as_str()).unwrap_or(HeaderValue::from_static(""))
}

/// The fields of the log line about a request.
struct RequestLog {
    id: CorrelationId,
    correlation: CorrelationId,
    method: Method,
    uri: Uri,
    started_at: Instant,
    session_slot: SessionSlot,
}

pin_project! {
    /// The future of a response.
    pub struct ResponseFuture<F> {
        #[pin]
        inner: Instrumented<F>,
        request_log: RequestLog,
    }
}

impl<F: Future<Output = Result<Response, E>>, E> Future for ResponseFuture<F> {
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        let mut this = self.project();
        let response = match catch_unwind(AssertUnwindSafe(|| this.inner.as_mut().poll(cx))) {
            Ok(response) => Some(ready!(response)?),
            Err(_) => None,
        };
        let RequestLog { id, correlation, method, uri, started_at, session_slot } = &*this.request_log;
        let _entered = this.inner.span().enter();
        let mut response = response.unwrap_or_else(|| {
            // A panic fails only this request. The server continues.
            tracing::error!("handler panicked");
            Problem::new(Code::Internal, "the server failed unexpectedly; the cause is in its log").into_response()
        });
        let session = session_slot.0.get();
        tracing::info!(
            %method,
            path = uri.path(),
            principal = session.map(|session| session.principal.name.as_str()),
            realm = session.map(|session| session.realm.name.as_str()),
            status = response.status().as_u16(),
            correlation = correlation.as_str(),
            micros = started_at.elapsed().as_micros(),
            "answered"
        );
        let headers = response.headers_mut();
        headers.entry(REQUEST_ID).or_insert_with(|| header_value(id));
        headers.entry(CORRELATION_ID).or_insert_with(|| header_value(correlation));
        Poll::Ready(Ok(response))
    }
}

#[cfg(test)]
mod tests {
    use axum::Router;
    use axum::body::Body;
    use axum::http::StatusCode;
    use axum::routing::get;

    use super::*;

    async fn panics() -> StatusCode {
        panic!("on purpose")
    }

    #[tokio::test]
    async fn panic_in_a_handler_fails_only_its_request() {
        let mut router = Router::new().route("/", get(panics)).route("/fine", get(|| async {})).layer(LogLayer);
        for (path, status) in [("/", 500), ("/fine", 200), ("/", 500)] {
            let request = Request::builder().uri(path).header(REQUEST_ID, "mine").body(Body::empty()).unwrap();
            let response = router.call(request).await.unwrap();
            assert_eq!(response.status().as_u16(), status);
            assert_eq!(response.headers()[REQUEST_ID], "mine");
            let body = axum::body::to_bytes(response.into_body(), usize::MAX).await.unwrap();
            assert_eq!(String::from_utf8_lossy(&body).contains("internal"), status == 500, "{body:?}");
        }
    }
}
