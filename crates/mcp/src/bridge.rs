//! MCP over standard input and output, for clients that start their servers: every message is carried to a server over HTTP
//! and back. Nothing is decided here.

use std::time::Duration;

use futures::StreamExt;
use futures::stream::FuturesUnordered;
use rmcp::model::{ClientJsonRpcMessage, ErrorData, RequestId, ServerJsonRpcMessage};
use rmcp::transport::async_rw::AsyncRwTransport;
use rmcp::transport::streamable_http_client::StreamableHttpClientTransportConfig;
use rmcp::transport::{StreamableHttpClientTransport, Transport};
use rmcp::{RoleClient, RoleServer};
use tokio::io::{AsyncRead, AsyncWrite};

/// How long the bridge may take to end when its client has gone.
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
    /// The server is not there, or does not let us in.
    #[error("the server at {url} does not answer MCP requests: {cause}")]
    Remote {
        /// Where.
        url: String,
        /// What was wrong.
        cause: String,
    },
}

/// Carries messages between a client at `read` and `write` and the server at `target`, until the client has gone.
pub async fn bridge<R, W>(read: R, write: W, target: HttpTarget) -> Result<(), BridgeError>
where
    R: AsyncRead + Send + Unpin + 'static,
    W: AsyncWrite + Send + Unpin + 'static,
{
    let HttpTarget { http, url } = target;
    let config = StreamableHttpClientTransportConfig::with_uri(url.as_str());
    let mut local = AsyncRwTransport::<RoleServer, _, _>::new_server(read, write);
    let mut remote = StreamableHttpClientTransport::with_client(http, config);
    let mut sending = FuturesUnordered::new();
    let mut lost = None;
    loop {
        tokio::select! {
            said = local.receive() => match said {
                Some(message) => {
                    let id = id_of(&message);
                    let sent = Transport::<RoleClient>::send(&mut remote, message);
                    sending.push(async move { (id, sent.await) });
                }
                None => break,
            },
            Some((id, sent)) = sending.next(), if !sending.is_empty() => {
                let Err(error) = sent else { continue };
                tracing::warn!(%error, "a message was not taken");
                let cause = error.to_string();
                if let Some(id) = id {
                    let refused = ErrorData::internal_error(format!("the server did not take the request: {cause}"), None);
                    let refused = ServerJsonRpcMessage::error(refused, Some(id));
                    local.send(refused).await.map_err(BridgeError::Local)?;
                }
                lost = Some(cause);
            },
            answer = Transport::<RoleClient>::receive(&mut remote) => match answer {
                Some(message) => local.send(message).await.map_err(BridgeError::Local)?,
                None => {
                    let cause = lost.unwrap_or_else(|| "the connection was closed".to_owned());
                    return Err(BridgeError::Remote { url, cause });
                }
            },
        }
    }
    // What the client said last still goes out, and its session ends, if that does not take long.
    let last_words = async {
        while let Some((_, sent)) = sending.next().await {
            lost = sent.err().map(|error| error.to_string()).or(lost.take());
        }
        if lost.is_none() {
            let _ = Transport::<RoleClient>::close(&mut remote).await;
        }
    };
    let _ = tokio::time::timeout(LAST_WORDS, last_words).await;
    match lost {
        Some(cause) => Err(BridgeError::Remote { url, cause }),
        None => Ok(()),
    }
}

fn id_of(message: &ClientJsonRpcMessage) -> Option<RequestId> {
    match message {
        ClientJsonRpcMessage::Request(request) => Some(request.id.clone()),
        _ => None,
    }
}
