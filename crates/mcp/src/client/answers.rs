//! What servers are told when they ask back. Nobody is here to be asked, so everything is declined, in words.

#![expect(deprecated, reason = "older servers may ask for what is deprecated, and are declined")]

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

use super::following::Followed;

/// Declines, and notes that a server's tools have changed.
#[derive(Clone)]
pub(crate) struct Answers {
    /// Whether the last listing is out of date.
    pub stale: Arc<AtomicBool>,
    pub changed: Arc<Notify>,
    /// The calls whose progress somebody wants to hear.
    pub followed: Followed,
}

/// Who we are, and that we can be asked nothing.
pub(crate) fn identity() -> ClientConfig {
    let us = Implementation::new("toolwright", env!("CARGO_PKG_VERSION"));
    ClientConfig::new(ClientCapabilities::default(), us)
}

impl ClientHandler for Answers {
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

    async fn on_progress(&self, news: ProgressNotificationParam, _cx: NotificationContext<RoleClient>) {
        self.followed.tell(news);
    }

    async fn on_logging_message(&self, message: LoggingMessageNotificationParam, _cx: NotificationContext<RoleClient>) {
        tracing::debug!(logger = message.logger, "an MCP server logs");
    }
}

pub(super) fn declined(what: &str) -> ErrorData {
    ErrorData::new(ErrorCode::METHOD_NOT_FOUND, format!("{what} is declined by this client's policy"), None)
}
