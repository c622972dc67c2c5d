//! gRPC over the HTTP client that every tool uses.

use std::task::{Context, Poll};

use futures::future::BoxFuture;
use http::{Request, Response};
use http_body_util::BodyExt;
use tonic::body::Body;
use tower_service::Service;

/// A connection to one provider, as `tonic` wants it. Cheap to clone; the client keeps the connections.
#[derive(Clone)]
pub(crate) struct Channel(reqwest::Client);

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ChannelError {
    #[error("the request cannot be made")]
    Request(#[from] tonic::Status),
    #[error("the request cannot be sent")]
    Send(#[from] reqwest::Error),
}

impl Channel {
    /// A channel through a client that speaks HTTP/2.
    pub fn new(client: reqwest::Client) -> Self {
        Self(client)
    }
}

impl Service<Request<Body>> for Channel {
    type Response = Response<reqwest::Body>;
    type Error = ChannelError;
    type Future = BoxFuture<'static, Result<Self::Response, ChannelError>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), ChannelError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let client = self.0.clone();
        Box::pin(async move {
            let (parts, body) = request.into_parts();
            // All that is sent is known before: tools have one message, and reflection asks one thing at a time.
            let body = body.collect().await?.to_bytes();
            let sent = client.request(parts.method, parts.uri.to_string()).headers(parts.headers).body(body);
            Ok(sent.send().await?.into())
        })
    }
}
