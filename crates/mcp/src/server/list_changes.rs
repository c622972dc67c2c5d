//! Notifies a client when the list of its tools or prompts changes.

use std::sync::Arc;
use std::time::Duration;

use rmcp::RoleServer;
use rmcp::service::{Peer, SubscriptionContext, SubscriptionSendError};
use tokio::sync::watch;
use toolwright_catalog::Session;

use super::Server;
use super::tool_listing::ToolListing;
use crate::fixtures::ChangeCounts;

/// How often the server checks whether the transport of a session is closed.
const LIVENESS_INTERVAL: Duration = Duration::from_secs(60);
/// How long to wait for further changes before clients are notified. An import of a thousand tools should cause one
/// notification.
const DEBOUNCE: Duration = Duration::from_millis(100);

/// Compares the current lists with those that the server read when the session began.
pub(super) struct ListWatcher {
    server: Server,
    session: Option<Session>,
    generations: watch::Receiver<u64>,
    change_counts: Option<watch::Receiver<ChangeCounts>>,
    last_listing: Option<Arc<ToolListing>>,
    /// Whether the catalog changed before the first listing was read.
    changed_before_start: bool,
    /// Whether the catalog has changed and the lists were not compared yet. This is a field and not a variable of
    /// `next`, so that the information is kept if the future of `next` is dropped.
    refresh_due: bool,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct ListChanges {
    pub tools: bool,
    pub prompts: bool,
}

impl ListWatcher {
    pub(super) async fn new(server: Server, session: Option<Session>) -> Self {
        let generations = server.take_generation_watch();
        let change_counts = server.0.fixtures.as_ref().map(|fixtures| fixtures.change_counts());
        let mut watcher = Self {
            server,
            session,
            generations,
            change_counts,
            last_listing: None,
            changed_before_start: false,
            refresh_due: false,
        };
        watcher.refresh().await;
        watcher.changed_before_start = watcher.session.is_some() && watcher.generations.has_changed().unwrap_or(false);
        watcher
    }

    /// Waits until the lists that the client would receive have changed.
    pub(super) async fn next(&mut self) -> ListChanges {
        if std::mem::take(&mut self.changed_before_start) {
            self.generations.mark_unchanged();
            return ListChanges { tools: true, prompts: true };
        }
        loop {
            if !self.refresh_due {
                let before = self.change_counts.as_ref().map(|change_counts| *change_counts.borrow());
                tokio::select! {
                    changed = self.generations.changed() => {
                        if changed.is_err() {
                            return std::future::pending().await;
                        }
                        self.refresh_due = true;
                    }
                    () = fixture_changed(self.change_counts.as_mut()) => {
                        let after = self.change_counts.as_mut().map(|change_counts| *change_counts.borrow_and_update());
                        if let (Some(before), Some(after)) = (before, after) {
                            let tools = before.tools != after.tools;
                            return ListChanges { tools, prompts: before.prompts != after.prompts };
                        }
                        continue;
                    }
                }
            }
            tokio::time::sleep(DEBOUNCE).await;
            self.generations.mark_unchanged();
            let changed = self.refresh().await;
            self.refresh_due = false;
            if changed != ListChanges::default() {
                return changed;
            }
        }
    }

    /// Reads the current listing and compares it with the last one. A listing that cannot be read counts as unchanged.
    async fn refresh(&mut self) -> ListChanges {
        let Some(session) = &self.session else { return ListChanges::default() };
        let Ok(tool_listing) = self.server.tool_listing(session).await else { return ListChanges::default() };
        let changed = self.last_listing.as_ref().map(|before| tool_listing.changes_since(before));
        self.last_listing = Some(tool_listing);
        changed.unwrap_or_default()
    }
}

async fn fixture_changed(change_counts: Option<&mut watch::Receiver<ChangeCounts>>) {
    let Some(change_counts) = change_counts else { return std::future::pending().await };
    if change_counts.changed().await.is_err() {
        std::future::pending().await
    }
}

/// Notifies a client with an MCP session until the session ends.
pub(super) async fn notify_session(mut watcher: ListWatcher, peer: Peer<RoleServer>) {
    let stop = watcher.server.engine().shutdown_token();
    loop {
        let changed = tokio::select! {
            changed = watcher.next() => changed,
            () = tokio::time::sleep(LIVENESS_INTERVAL) => ListChanges::default(),
            () = stop.cancelled() => return,
        };
        let sent = async {
            if changed.tools {
                peer.notify_tool_list_changed().await?;
            }
            if changed.prompts {
                peer.notify_prompt_list_changed().await?;
            }
            Ok::<(), rmcp::ServiceError>(())
        };
        if sent.await.is_err() || peer.is_transport_closed() {
            return;
        }
    }
}

/// Notifies a client of protocol revision 2026-07-28 until it cancels its subscription.
pub(super) async fn notify_subscriber(mut watcher: ListWatcher, subscriber: &SubscriptionContext) {
    let stop = watcher.server.engine().shutdown_token();
    loop {
        let changed = tokio::select! {
            changed = watcher.next() => changed,
            () = subscriber.cancelled() => return,
            () = stop.cancelled() => return,
        };
        let mut sent = Vec::new();
        if changed.tools {
            sent.push(subscriber.sink().notify_tool_list_changed().await);
        }
        if changed.prompts {
            sent.push(subscriber.sink().notify_prompt_list_changed().await);
        }
        // `NotificationNotAccepted` means that the client has not subscribed to this notification. Any other error
        // means that the client has disconnected.
        let gone = |sent: &Result<(), SubscriptionSendError>| matches!(sent, Err(error) if !matches!(error, SubscriptionSendError::NotificationNotAccepted(_)));
        if sent.iter().any(gone) {
            return;
        }
    }
}
