//! Drops the late answer of a server that starts slowly.
//!
//! rmcp first sends `server/discover`. If the server does not answer within ten seconds, rmcp sends `initialize`, and then
//! the next message must be the answer to `initialize`. A program that takes longer to start, such as the first run of
//! `npx`, answers both requests.

use rmcp::RoleClient;
use rmcp::model::{ClientJsonRpcMessage, ClientRequest, RequestId, ServerJsonRpcMessage};
use rmcp::service::{RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::Transport;

/// A transport that drops the answer to `server/discover` if the client no longer waits for it.
pub(super) struct WithoutLateDiscovery<T> {
    transport: T,
    /// The id of the pending `server/discover` request.
    discovery: Option<RequestId>,
    /// The id of the `server/discover` request whose answer is dropped.
    abandoned: Option<RequestId>,
}

impl<T> WithoutLateDiscovery<T> {
    pub(super) fn new(transport: T) -> Self {
        Self { transport, discovery: None, abandoned: None }
    }

    fn note_sent(&mut self, message: &ClientJsonRpcMessage) {
        let ClientJsonRpcMessage::Request(request) = message else { return };
        match request.request {
            ClientRequest::DiscoverRequest(_) => self.discovery = Some(request.id.clone()),
            ClientRequest::InitializeRequest(_) => self.abandoned = self.discovery.take(),
            _ => {}
        }
    }

    fn is_late(&self, message: &ServerJsonRpcMessage) -> bool {
        let id = match message {
            ServerJsonRpcMessage::Response(response) => Some(&response.id),
            ServerJsonRpcMessage::Error(error) => error.id.as_ref(),
            _ => None,
        };
        id.is_some() && id == self.abandoned.as_ref()
    }
}

impl<T: Transport<RoleClient>> Transport<RoleClient> for WithoutLateDiscovery<T> {
    type Error = T::Error;

    fn send(
        &mut self,
        message: TxJsonRpcMessage<RoleClient>,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send + 'static {
        self.note_sent(&message);
        self.transport.send(message)
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleClient>> {
        loop {
            let message = self.transport.receive().await?;
            if !self.is_late(&message) {
                return Some(message);
            }
        }
    }

    async fn close(&mut self) -> Result<(), Self::Error> {
        self.transport.close().await
    }
}

#[cfg(test)]
mod tests {
    use rmcp::transport::async_rw::AsyncRwTransport;
    use serde_json::{Value, json};
    use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};

    use super::*;
    use crate::client::connection::lifecycle;

    /// A server that answers `server/discover` only when `initialize` has arrived.
    async fn answer_slowly(stream: tokio::io::DuplexStream) {
        let (read, mut write) = tokio::io::split(stream);
        let mut lines = BufReader::new(read).lines();
        let mut discovery = Value::Null;
        while let Some(line) = lines.next_line().await.unwrap() {
            let message: Value = serde_json::from_str(&line).unwrap();
            let mut answers = Vec::new();
            match message["method"].as_str() {
                Some("server/discover") => discovery = message["id"].clone(),
                Some("initialize") => {
                    let unknown = json!({ "code": -32601, "message": "Method not found" });
                    answers.push(json!({ "jsonrpc": "2.0", "id": discovery, "error": unknown }));
                    let result = json!({ "protocolVersion": "2025-06-18", "capabilities": {},
                        "serverInfo": { "name": "slow", "version": "1" } });
                    answers.push(json!({ "jsonrpc": "2.0", "id": message["id"], "result": result }));
                }
                _ => {}
            }
            for answer in answers {
                write.write_all(format!("{answer}\n").as_bytes()).await.unwrap();
            }
        }
    }

    #[tokio::test(start_paused = true)]
    async fn client_connects_to_a_server_that_answers_discovery_late() {
        let (client, server) = tokio::io::duplex(4096);
        let (read, write) = tokio::io::split(client);
        let transport = WithoutLateDiscovery::new(AsyncRwTransport::new(read, write));
        let connect = rmcp::serve_client_with_lifecycle((), transport, lifecycle());
        tokio::select! {
            connected = connect => drop(connected.unwrap()),
            () = answer_slowly(server) => panic!("the client closed the connection"),
        }
    }
}
