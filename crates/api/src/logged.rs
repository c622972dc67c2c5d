//! Around every request: it has an id, which its log lines and its answer carry, one line that says how it went, and an answer
//! even if its handler panics.
//!
//! What is said of a request is said once, in that line. A span has to be written down for every request, also for those
//! about which nothing else is logged, so it holds the id alone.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, ready};
use std::time::Instant;

use axum::extract::Request;
use axum::http::{HeaderName, HeaderValue, Method, Uri};
use axum::response::{IntoResponse, Response};
use pin_project_lite::pin_project;
use toolwright_engine::Session;
use tower_layer::Layer;
use tower_service::Service;
use tracing::Instrument;
use tracing::instrument::Instrumented;

use crate::problem::{Code, Problem};

const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// Logs what goes through.
#[derive(Debug, Clone, Copy)]
pub struct LogLayer;

impl<S> Layer<S> for LogLayer {
    type Service = Logged<S>;

    fn layer(&self, inner: S) -> Logged<S> {
        Logged { inner }
    }
}

/// Who sent a request, once that is known.
#[derive(Debug, Clone, Default)]
pub struct Sender(Arc<OnceLock<Session>>);

impl Sender {
    /// It was this one.
    pub fn is(&self, session: &Session) {
        // Found out twice, it is the same.
        let _ = self.0.set(session.clone());
    }
}

/// A service whose requests are logged.
#[derive(Debug, Clone)]
pub struct Logged<S> {
    inner: S,
}

impl<S: Service<Request, Response = Response>> Service<Request> for Logged<S> {
    type Response = Response;
    type Error = S::Error;
    type Future = Answering<S::Future>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, mut request: Request) -> Self::Future {
        let sender = Sender::default();
        request.extensions_mut().insert(sender.clone());
        let asked = Asked {
            id: request.headers().get(REQUEST_ID).cloned().unwrap_or_else(new_id),
            method: request.method().clone(),
            uri: request.uri().clone(),
            at: Instant::now(),
            sender,
        };
        let span = tracing::info_span!("request", id = asked.id.to_str().ok());
        Answering { answer: self.inner.call(request).instrument(span), asked }
    }
}

/// A UUID. Not a secret, so the kernel need not be asked for each.
fn new_id() -> HeaderValue {
    let id = uuid::Builder::from_random_bytes(rand::random()).into_uuid();
    let mut text = uuid::Uuid::encode_buffer();
    // INVARIANT: hexadecimal digits and hyphens can stand in a header.
    HeaderValue::from_str(id.hyphenated().encode_lower(&mut text)).unwrap_or(HeaderValue::from_static(""))
}

/// What the line says of the request.
struct Asked {
    id: HeaderValue,
    method: Method,
    uri: Uri,
    at: Instant,
    sender: Sender,
}

pin_project! {
    /// A request that is being answered.
    pub struct Answering<F> {
        #[pin]
        answer: Instrumented<F>,
        asked: Asked,
    }
}

impl<F: Future<Output = Result<Response, E>>, E> Future for Answering<F> {
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        let mut this = self.project();
        let answer = match catch_unwind(AssertUnwindSafe(|| this.answer.as_mut().poll(cx))) {
            Ok(answer) => Some(ready!(answer)?),
            Err(_) => None,
        };
        let Asked { id, method, uri, at, sender } = &*this.asked;
        let _here = this.answer.span().enter();
        let mut response = answer.unwrap_or_else(|| {
            // A defect costs one request, not the server.
            tracing::error!("a handler panicked");
            Problem::new(Code::Internal, "this is a defect of the server; its log has the cause").into_response()
        });
        let session = sender.0.get();
        tracing::info!(
            %method,
            path = uri.path(),
            principal = session.map(|session| session.principal.name.as_str()),
            realm = session.map(|session| session.realm.name.as_str()),
            status = response.status().as_u16(),
            micros = at.elapsed().as_micros(),
            "answered"
        );
        response.headers_mut().entry(REQUEST_ID).or_insert_with(|| id.clone());
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
    async fn a_handler_that_panics_costs_one_request() {
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
