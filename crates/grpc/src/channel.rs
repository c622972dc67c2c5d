//! A `tonic` channel that sends its requests through the HTTP client of the tools.

use std::task::{Context, Poll};

use futures::future::BoxFuture;
use http::{Request, Response};
use http_body_util::BodyExt;
use tonic::body::Body;
use tower_service::Service;

/// A connection to one provider, as a `tower` service. Cheap to clone: the client pools the connections.
#[derive(Clone)]
pub(crate) struct Channel(reqwest::Client);

/// The reason why a request got no response.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ChannelError {
    #[error("cannot encode the request")]
    Request(#[from] tonic::Status),
    #[error("cannot send the request")]
    Send(#[from] reqwest::Error),
}

impl Channel {
    /// Creates a channel over a client that uses HTTP/2.
    pub(crate) fn new(client: reqwest::Client) -> Self {
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
            // Collects the whole body before sending it, because a tool sends only one message, and reflection sends
            // one request at a time.
            let body = body.collect().await?.to_bytes();
            let request = client.request(parts.method, parts.uri.to_string()).headers(parts.headers).body(body);
            Ok(request.send().await?.into())
        })
    }
}
