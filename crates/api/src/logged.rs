//! Requests in the log: each has an id, which its lines and its answer carry, and one line that says how it went.
//!
//! What is said of a request is said once, in that line. A span has to be written down for every request, also for those
//! about which nothing else is logged, so it holds the id alone.

use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, ready};
use std::time::Instant;

use axum::extract::Request;
use axum::http::{HeaderName, HeaderValue, Method, Response, Uri};
use pin_project_lite::pin_project;
use toolwright_engine::Session;
use tower_layer::Layer;
use tower_service::Service;
use tracing::Instrument;
use tracing::instrument::Instrumented;

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

impl<S: Service<Request, Response = Response<B>>, B> Service<Request> for Logged<S> {
    type Response = Response<B>;
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

impl<F: Future<Output = Result<Response<B>, E>>, B, E> Future for Answering<F> {
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        let mut this = self.project();
        let mut response = ready!(this.answer.as_mut().poll(cx))?;
        let (span, Asked { id, method, uri, at, sender }) = (this.answer.span(), &*this.asked);
        let session = sender.0.get();
        tracing::info!(
            parent: span,
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
