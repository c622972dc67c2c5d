//! MCP over standard input and output, for clients that start their servers: every message is carried to a server over HTTP
//! and back. Nothing is decided here.

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

use crate::client::{Listening, is_refused};

/// How long answers are waited for when the client has nothing more to say.
const LAST_ANSWERS: Duration = Duration::from_secs(60);
/// How long the bridge may take to end after that.
const LAST_WORDS: Duration = Duration::from_secs(2);

/// A server, and how it is reached.
pub struct HttpTarget {
    /// What sends requests, with whatever proves who is asking.
    pub http: reqwest::Client,
    /// Where it is.
    pub url: String,
}

/// Why the bridge ended early.
#[derive(Debug, thiserror::Error)]
pub enum BridgeError {
    /// The client cannot be written to.
    #[error("write to the MCP client")]
    Local(#[source] std::io::Error),
    /// The server does not let us in.
    #[error("the server at {url} wants another key")]
    Refused {
        /// Where.
        url: String,
    },
    /// The server is not there.
    #[error("the server at {url} does not answer MCP requests: {cause}")]
    Remote {
        /// Where.
        url: String,
        /// What was wrong.
        cause: String,
    },
}

/// Carries messages between a client at `read` and `write` and the server at `target`, until the client has gone and has all
/// its answers.
pub async fn bridge<R, W>(read: R, write: W, target: HttpTarget) -> Result<(), BridgeError>
where
    R: AsyncRead + Send + Unpin + 'static,
    W: AsyncWrite + Send + Unpin + 'static,
{
    let config = StreamableHttpClientTransportConfig::with_uri(target.url.as_str());
    let mut bridge = Bridge {
        local: AsyncRwTransport::new_server(read, write),
        remote: StreamableHttpClientTransport::with_client(Listening::new(target.http), config),
        sending: FuturesUnordered::new(),
        owed: HashSet::new(),
        lost: None,
    };
    let carried = bridge.carry().await;
    let there = matches!(carried, Ok(true)) && bridge.lost.is_none();
    // What was said last still goes out, and the session ends, if that does not take long.
    let _ = timeout(LAST_WORDS, bridge.finish(there)).await;
    carried.map_err(BridgeError::Local)?;
    let url = target.url;
    match bridge.lost {
        Some(Lost { refused: true, .. }) => Err(BridgeError::Refused { url }),
        Some(Lost { cause, .. }) => Err(BridgeError::Remote { url, cause }),
        None if there => Ok(()),
        None => Err(BridgeError::Remote { url, cause: "the connection was closed".to_owned() }),
    }
}

struct Bridge<R: AsyncRead, W: AsyncWrite> {
    local: AsyncRwTransport<RoleServer, R, W>,
    remote: StreamableHttpClientTransport<Listening<reqwest::Client>>,
    sending: FuturesUnordered<BoxFuture<'static, Sent>>,
    /// The client's requests that have no answer yet.
    owed: HashSet<RequestId>,
    lost: Option<Lost>,
}

/// What became of a message that went out, and which request it was.
type Sent = (Option<RequestId>, Result<(), StreamableHttpError<reqwest::Error>>);

/// Why a message was not taken.
struct Lost {
    cause: String,
    refused: bool,
}

impl<R, W> Bridge<R, W>
where
    R: AsyncRead + Send + Unpin + 'static,
    W: AsyncWrite + Send + Unpin + 'static,
{
    /// Carries messages until there is nothing more to carry. Says whether the server is still there.
    async fn carry(&mut self) -> std::io::Result<bool> {
        let mut ends = None;
        while ends.is_none() || !self.sending.is_empty() || !self.owed.is_empty() {
            let too_late = ends.unwrap_or_else(Instant::now);
            tokio::select! {
                said = self.local.receive(), if ends.is_none() => match said {
                    Some(message) => self.send(message),
                    None => ends = Some(Instant::now() + LAST_ANSWERS),
                },
                Some(sent) = self.sending.next() => self.sent(sent).await?,
                answer = Transport::<RoleClient>::receive(&mut self.remote) => match answer {
                    Some(message) => {
                        self.answered(&message);
                        self.local.send(message).await?;
                    }
                    None => return Ok(false),
                },
                () = sleep_until(too_late), if ends.is_some() => {
                    tracing::warn!(requests = self.owed.len(), "the client left before all was answered");
                    break;
                }
            }
        }
        Ok(true)
    }

    fn send(&mut self, message: ClientJsonRpcMessage) {
        let id = match &message {
            ClientJsonRpcMessage::Request(request) => Some(request.id.clone()),
            ClientJsonRpcMessage::Notification(said) => {
                // Nobody answers what its client does not want any more.
                if let ClientNotification::CancelledNotification(cancelled) = &said.notification
                    && let Some(id) = &cancelled.params.request_id
                {
                    self.owed.remove(id);
                }
                None
            }
            _ => None,
        };
        self.owed.extend(id.clone());
        let sent = Transport::<RoleClient>::send(&mut self.remote, message);
        self.sending.push(Box::pin(async move { (id, sent.await) }));
    }

    /// Tells the client of a request that did not get through.
    async fn sent(&mut self, (id, sent): Sent) -> std::io::Result<()> {
        let Err(error) = sent else { return Ok(()) };
        tracing::warn!(%error, "a message was not taken");
        let lost = Lost { cause: error.to_string(), refused: is_refused(&error) };
        let told = id.filter(|id| self.owed.remove(id)).map(|id| {
            let message = match lost.refused {
                true => "the server does not let you in; look at TOOLWRIGHT_API_KEY and TOOLWRIGHT_REALM".to_owned(),
                false => format!("the server did not take the request: {}", lost.cause),
            };
            ServerJsonRpcMessage::error(ErrorData::internal_error(message, None), Some(id))
        });
        // What came first is the cause of the rest.
        self.lost.get_or_insert(lost);
        match told {
            Some(told) => self.local.send(told).await,
            None => Ok(()),
        }
    }

    fn answered(&mut self, message: &ServerJsonRpcMessage) {
        match message {
            ServerJsonRpcMessage::Response(answer) => self.owed.remove(&answer.id),
            ServerJsonRpcMessage::Error(answer) => answer.id.as_ref().is_some_and(|id| self.owed.remove(id)),
            _ => false,
        };
    }

    async fn finish(&mut self, there: bool) {
        while let Some(sent) = self.sending.next().await {
            let _ = self.sent(sent).await;
        }
        if there {
            let _ = Transport::<RoleClient>::close(&mut self.remote).await;
        }
    }
}
