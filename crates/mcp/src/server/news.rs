//! Tells clients that what they were shown has changed.

use std::sync::Arc;
use std::time::Duration;

use rmcp::RoleServer;
use rmcp::model::Prompt;
use rmcp::service::{Peer, SubscriptionContext, SubscriptionSendError};
use tokio::sync::watch;
use toolwright_engine::Session;

use super::Server;
use super::offer::Offer;
use crate::fixtures::Pokes;

/// How often it is looked whether a session is still there.
const LOOK: Duration = Duration::from_secs(60);

/// What a session has been shown, and what it is shown now.
pub(super) struct News {
    server: Server,
    session: Option<Session>,
    editions: watch::Receiver<u64>,
    pokes: Option<watch::Receiver<Pokes>>,
    tools: Option<Arc<Offer>>,
    prompts: Option<Vec<Prompt>>,
    /// What may have changed before the first look.
    missed: bool,
}

/// Which lists are not what they were.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Changed {
    pub tools: bool,
    pub prompts: bool,
}

impl News {
    pub async fn of(server: Server, session: Option<Session>) -> Self {
        let editions = server.promised();
        let pokes = server.0.fixtures.as_ref().map(|fixtures| fixtures.pokes());
        let mut news = Self { server, session, editions, pokes, tools: None, prompts: None, missed: false };
        news.look().await;
        news.missed = news.session.is_some() && news.editions.has_changed().unwrap_or(false);
        news
    }

    /// Waits until the session would be shown something else.
    pub async fn next(&mut self) -> Changed {
        if std::mem::take(&mut self.missed) {
            self.editions.mark_unchanged();
            return Changed { tools: true, prompts: true };
        }
        loop {
            let before = self.pokes.as_ref().map(|pokes| *pokes.borrow());
            tokio::select! {
                changed = self.editions.changed() => {
                    if changed.is_err() {
                        return std::future::pending().await;
                    }
                }
                () = poked(self.pokes.as_mut()) => {
                    let after = self.pokes.as_mut().map(|pokes| *pokes.borrow_and_update());
                    if let (Some(before), Some(after)) = (before, after) {
                        return Changed { tools: before.tools != after.tools, prompts: before.prompts != after.prompts };
                    }
                }
            }
            let changed = self.look().await;
            if changed != Changed::default() {
                return changed;
            }
        }
    }

    /// What is new since the last look. What cannot be read now is not news.
    async fn look(&mut self) -> Changed {
        let Some(session) = &self.session else { return Changed::default() };
        let mut changed = Changed::default();
        if let Ok(offer) = self.server.offer(session).await {
            changed.tools = self.tools.as_ref().is_some_and(|known| !known.looks_like(&offer));
            self.tools = Some(offer);
        }
        if let Ok((prompts, _)) = self.server.prompts(session, None).await {
            changed.prompts = self.prompts.as_ref().is_some_and(|known| *known != prompts);
            self.prompts = Some(prompts);
        }
        changed
    }
}

async fn poked(pokes: Option<&mut watch::Receiver<Pokes>>) {
    let Some(pokes) = pokes else { return std::future::pending().await };
    if pokes.changed().await.is_err() {
        std::future::pending().await
    }
}

/// Tells an older client for as long as its session lives.
pub(super) async fn tell(mut news: News, peer: Peer<RoleServer>) {
    let stop = news.server.engine().stopping();
    loop {
        let changed = tokio::select! {
            changed = news.next() => changed,
            () = tokio::time::sleep(LOOK) => Changed::default(),
            () = stop.cancelled() => return,
        };
        let told = async {
            if changed.tools {
                peer.notify_tool_list_changed().await?;
            }
            if changed.prompts {
                peer.notify_prompt_list_changed().await?;
            }
            Ok::<(), rmcp::ServiceError>(())
        };
        if told.await.is_err() || peer.is_transport_closed() {
            return;
        }
    }
}

/// Tells a client of 2026-07-28 for as long as it listens.
pub(super) async fn tell_listener(mut news: News, listener: &SubscriptionContext) {
    let stop = news.server.engine().stopping();
    loop {
        let changed = tokio::select! {
            changed = news.next() => changed,
            () = listener.cancelled() => return,
            () = stop.cancelled() => return,
        };
        let mut told = Vec::new();
        if changed.tools {
            told.push(listener.sink().notify_tool_list_changed().await);
        }
        if changed.prompts {
            told.push(listener.sink().notify_prompt_list_changed().await);
        }
        // What it did not ask for is not sent; anything else means that it is gone.
        let gone = |told: &Result<(), SubscriptionSendError>| matches!(told, Err(error) if !matches!(error, SubscriptionSendError::NotificationNotAccepted(_)));
        if told.iter().any(gone) {
            return;
        }
    }
}
