//! Connects a client on standard input and output to an MCP server on HTTP, and forwards the messages between them. The
//! bridge is used by MCP clients that can only start a server as a child process. Messages are not changed.

use std::collections::HashSet;
use std::time::Duration;

use futures::StreamExt;
use futures::future::BoxFuture;
use futures::stream::FuturesUnordered;
use rmcp::model::{ClientJsonRpcMessage, ClientNotification, ErrorData, RequestId, ServerJsonRpcMessage};
use rmcp::transport::async_rw::AsyncRwTransport;
use rmcp::transport::streamable_http_client::{StreamableHttpClientTransportConfig, StreamableHttpError};
use rmcp::transport::{StreamableHttpClientTransport, Transport};
use rmcp::{RoleClient, RoleServer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::{Instant, sleep_until, timeout};

use crate::client::{StreamFirstClient, is_unauthorized};

/// How long to wait for pending responses after the end of the client's messages.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(60);
/// How long it may take to send the last messages and to close the MCP session.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(2);

/// The HTTP server to which a bridge forwards messages.
pub struct HttpTarget {
    /// The HTTP client, with the caller's credentials.
    pub http: reqwest::Client,
    /// The URL of the server.
    pub url: String,
}

/// The reason why a bridge ended early.
#[derive(Debug, thiserror::Error)]
pub enum BridgeError {
    /// Writing to the client failed.
    #[error("write to the MCP client")]
    Local(#[source] std::io::Error),
    /// The server rejected the credentials.
    #[error("the server at {url} rejected the API key")]
    Unauthorized {
        /// The URL of the server.
        url: String,
    },
    /// The server could not be reached, or closed the connection.
    #[error("the server at {url} did not answer MCP requests: {cause}")]
    Remote {
        /// The URL of the server.
        url: String,
        /// The cause.
        cause: String,
    },
}

/// Forwards messages between a client, connected through `read` and `write`, and the server `target`. Ends when `read`
/// has ended and all requests of the client have a response.
pub async fn bridge<R, W>(read: R, write: W, target: HttpTarget) -> Result<(), BridgeError>
where
    R: AsyncRead + Send + Unpin + 'static,
    W: AsyncWrite + Send + Unpin + 'static,
{
    let config = StreamableHttpClientTransportConfig::with_uri(target.url.as_str());
    let mut bridge = Bridge {
        local: AsyncRwTransport::new_server(read, write),
        remote: StreamableHttpClientTransport::with_client(StreamFirstClient::new(target.http), config),
        sends: FuturesUnordered::new(),
        pending: HashSet::new(),
        failure: None,
    };
    let forwarded = bridge.forward().await;
    let connected = matches!(forwarded, Ok(true)) && bridge.failure.is_none();
    // Finish sending the last messages and close the MCP session. After the timeout, the bridge stops even if this is
    // not complete.
    let _ = timeout(CLOSE_TIMEOUT, bridge.finish(connected)).await;
    forwarded.map_err(BridgeError::Local)?;
    let url = target.url;
    match bridge.failure {
        Some(SendFailure { unauthorized: true, .. }) => Err(BridgeError::Unauthorized { url }),
        Some(SendFailure { cause, .. }) => Err(BridgeError::Remote { url, cause }),
        None if connected => Ok(()),
        None => Err(BridgeError::Remote { url, cause: "the connection was closed".to_owned() }),
    }
}

struct Bridge<R: AsyncRead, W: AsyncWrite> {
    local: AsyncRwTransport<RoleServer, R, W>,
    remote: StreamableHttpClientTransport<StreamFirstClient<reqwest::Client>>,
    sends: FuturesUnordered<BoxFuture<'static, SendOutcome>>,
    /// The ids of the client's requests that have no response yet.
    pending: HashSet<RequestId>,
    failure: Option<SendFailure>,
}

/// The outcome of sending one message. The id is set if the message was a request.
type SendOutcome = (Option<RequestId>, Result<(), StreamableHttpError<reqwest::Error>>);

/// A message that could not be sent.
struct SendFailure {
    cause: String,
    unauthorized: bool,
}

impl<R, W> Bridge<R, W>
where
    R: AsyncRead + Send + Unpin + 'static,
    W: AsyncWrite + Send + Unpin + 'static,
{
    /// Forwards messages until the client's messages have ended and no response is pending. Returns whether the server
    /// is still connected.
    async fn forward(&mut self) -> std::io::Result<bool> {
        let mut drain_until = None;
        while drain_until.is_none() || !self.sends.is_empty() || !self.pending.is_empty() {
            let deadline = drain_until.unwrap_or_else(Instant::now);
            tokio::select! {
                message = self.local.receive(), if drain_until.is_none() => match message {
                    Some(message) => self.send(message),
                    None => drain_until = Some(Instant::now() + DRAIN_TIMEOUT),
                },
                Some(sent) = self.sends.next() => self.handle_sent(sent).await?,
                answer = Transport::<RoleClient>::receive(&mut self.remote) => match answer {
                    Some(message) => {
                        self.remove_pending(&message);
                        self.local.send(message).await?;
                    }
                    None => return Ok(false),
                },
                () = sleep_until(deadline), if drain_until.is_some() => {
                    tracing::warn!(requests = self.pending.len(), "client closed its input before all requests were answered");
                    break;
                }
            }
        }
        Ok(true)
    }

    fn send(&mut self, message: ClientJsonRpcMessage) {
        let id = match &message {
            ClientJsonRpcMessage::Request(request) => Some(request.id.clone()),
            ClientJsonRpcMessage::Notification(notification) => {
                // A cancelled request gets no response.
                if let ClientNotification::CancelledNotification(cancelled) = &notification.notification
                    && let Some(id) = &cancelled.params.request_id
                {
                    self.pending.remove(id);
                }
                None
            }
            _ => None,
        };
        self.pending.extend(id.clone());
        let sent = Transport::<RoleClient>::send(&mut self.remote, message);
        self.sends.push(Box::pin(async move { (id, sent.await) }));
    }

    /// Records a failure to send a message to the server. If the message was a request, sends an error response to the
    /// client.
    async fn handle_sent(&mut self, (id, sent): SendOutcome) -> std::io::Result<()> {
        let Err(error) = sent else { return Ok(()) };
        tracing::warn!(%error, "message to the MCP server was not sent");
        let failure = SendFailure { cause: error.to_string(), unauthorized: is_unauthorized(&error) };
        let reply = id.filter(|id| self.pending.remove(id)).map(|id| {
            let message = match failure.unauthorized {
                true => "the server rejected the API key; check TOOLWRIGHT_API_KEY and TOOLWRIGHT_REALM".to_owned(),
                false => format!("the request could not be sent to the server: {}", failure.cause),
            };
            ServerJsonRpcMessage::error(ErrorData::internal_error(message, None), Some(id))
        });
        // Keep the first failure, because it usually causes the later ones.
        self.failure.get_or_insert(failure);
        match reply {
            Some(reply) => self.local.send(reply).await,
            None => Ok(()),
        }
    }

    fn remove_pending(&mut self, message: &ServerJsonRpcMessage) {
        match message {
            ServerJsonRpcMessage::Response(answer) => self.pending.remove(&answer.id),
            ServerJsonRpcMessage::Error(answer) => answer.id.as_ref().is_some_and(|id| self.pending.remove(id)),
            _ => false,
        };
    }

    async fn finish(&mut self, connected: bool) {
        while let Some(sent) = self.sends.next().await {
            let _ = self.handle_sent(sent).await;
        }
        if connected {
            let _ = Transport::<RoleClient>::close(&mut self.remote).await;
        }
    }
}
