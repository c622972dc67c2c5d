//! Handles requests and notifications that MCP servers send to the client. The client has no user, so it declines every
//! request for input.

#![expect(deprecated, reason = "servers of older revisions may send deprecated requests, which are declined")]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rmcp::model::{
    ClientCapabilities, ClientConfig, CreateMessageRequestParams, CreateMessageResult, ElicitRequestParams,
    ElicitResult, ElicitationAction, ErrorCode, Implementation, ListRootsResult, LoggingMessageNotificationParam,
    ProgressNotificationParam,
};
use rmcp::service::{NotificationContext, RequestContext};
use rmcp::{ClientHandler, ErrorData, RoleClient};
use tokio::sync::Notify;

use super::call::ProgressSubscriptions;

/// Declines requests for input, and notes when the server reports that its tools have changed.
#[derive(Clone)]
pub(crate) struct PeerHandler {
    /// Whether the last listing is out of date.
    pub stale: Arc<AtomicBool>,
    pub changed: Arc<Notify>,
    /// The progress subscriptions of the calls that use this connection.
    pub progress: ProgressSubscriptions,
}

/// The client's name and version, without optional capabilities.
pub(crate) fn identity() -> ClientConfig {
    let implementation = Implementation::new("toolwright", env!("CARGO_PKG_VERSION"));
    ClientConfig::new(ClientCapabilities::default(), implementation)
}

impl ClientHandler for PeerHandler {
    fn get_info(&self) -> ClientConfig {
        identity()
    }

    async fn create_message(
        &self,
        _params: CreateMessageRequestParams,
        _cx: RequestContext<RoleClient>,
    ) -> Result<CreateMessageResult, ErrorData> {
        Err(declined("sampling"))
    }

    async fn create_elicitation(
        &self,
        _params: ElicitRequestParams,
        _cx: RequestContext<RoleClient>,
    ) -> Result<ElicitResult, ErrorData> {
        Ok(ElicitResult::new(ElicitationAction::Decline))
    }

    async fn list_roots(&self, _cx: RequestContext<RoleClient>) -> Result<ListRootsResult, ErrorData> {
        Err(declined("listing roots"))
    }

    async fn on_tool_list_changed(&self, _cx: NotificationContext<RoleClient>) {
        self.stale.store(true, Ordering::Release);
        self.changed.notify_one();
    }

    async fn on_progress(&self, update: ProgressNotificationParam, _cx: NotificationContext<RoleClient>) {
        self.progress.dispatch(update);
    }

    async fn on_logging_message(&self, _: LoggingMessageNotificationParam, _cx: NotificationContext<RoleClient>) {
        tracing::debug!("MCP server sent a log message");
    }
}

pub(super) fn declined(what: &str) -> ErrorData {
    ErrorData::new(ErrorCode::METHOD_NOT_FOUND, format!("{what} is not supported by this client"), None)
}
