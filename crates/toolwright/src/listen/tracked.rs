//! Wraps the stream, the service and the response bodies of a connection, to report its [`Activity`].

use std::convert::Infallible;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use axum::body::{Body, Bytes, HttpBody};
use axum::extract::Request;
use axum::response::Response;
use axum::routing::future::RouteFuture;
use axum::{BoxError, Router};
use http_body::{Frame, SizeHint};
use pin_project_lite::pin_project;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tower_service::Service;

use super::activity::Activity;

/// A request in progress: from its complete head until its response has been handed to the connection.
struct RequestGuard(Arc<Activity>);

impl RequestGuard {
    fn new(activity: Arc<Activity>) -> Self {
        activity.request_started();
        Self(activity)
    }
}

impl Drop for RequestGuard {
    fn drop(&mut self) {
        self.0.request_ended();
    }
}

/// Reports the requests of a connection.
#[derive(Clone)]
pub(super) struct TrackedService {
    app: Router,
    activity: Arc<Activity>,
}

impl TrackedService {
    pub(super) fn new(app: Router, activity: Arc<Activity>) -> Self {
        Self { app, activity }
    }
}

impl<B> Service<Request<B>> for TrackedService
where
    B: HttpBody<Data = Bytes> + Send + 'static,
    B::Error: Into<BoxError>,
{
    type Response = Response<TrackedBody>;
    type Error = Infallible;
    type Future = TrackedResponse;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Service::<Request<B>>::poll_ready(&mut self.app, cx)
    }

    fn call(&mut self, request: Request<B>) -> TrackedResponse {
        let guard = Some(RequestGuard::new(Arc::clone(&self.activity)));
        TrackedResponse { response: self.app.call(request), guard }
    }
}

pin_project! {
    /// The response of the app. The end of its body is the end of the request.
    pub(super) struct TrackedResponse {
        #[pin]
        response: RouteFuture<Infallible>,
        guard: Option<RequestGuard>,
    }
}

impl Future for TrackedResponse {
    type Output = Result<Response<TrackedBody>, Infallible>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        let response = ready!(this.response.poll(cx));
        let guard = this.guard.take();
        Poll::Ready(response.map(|response| response.map(|body| TrackedBody { body, _guard: guard })))
    }
}

/// A response body. The request ends when the body is dropped.
pub(super) struct TrackedBody {
    body: Body,
    _guard: Option<RequestGuard>,
}

impl HttpBody for TrackedBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// A stream that reports when the client does not read, and when it reads again.
pub(super) struct TrackedStream<S> {
    stream: S,
    activity: Arc<Activity>,
    blocked: bool,
}

impl<S> TrackedStream<S> {
    pub(super) fn new(stream: S, activity: Arc<Activity>) -> Self {
        Self { stream, activity, blocked: false }
    }

    fn report(&mut self, written: Poll<io::Result<usize>>) -> Poll<io::Result<usize>> {
        if written.is_pending() != self.blocked {
            self.blocked = written.is_pending();
            if self.blocked { self.activity.write_blocked() } else { self.activity.write_unblocked() }
        }
        written
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for TrackedStream<S> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for TrackedStream<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, data: &[u8]) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(cx, data);
        self.report(written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        data: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(cx, data);
        self.report(written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
