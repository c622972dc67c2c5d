//! Tells clients that what they were shown has changed.

use std::sync::Arc;
use std::time::Duration;

use rmcp::RoleServer;
use rmcp::service::{Peer, SubscriptionContext, SubscriptionSendError};
use tokio::sync::watch;
use toolwright_engine::Session;

use super::Server;
use super::offer::Offer;
use crate::fixtures::Pokes;

/// How often it is looked whether a session is still there.
const LOOK: Duration = Duration::from_secs(60);
/// How long changes are let come before a session looks at them: an import of a thousand tools is one piece of news.
const SETTLE: Duration = Duration::from_millis(100);

/// What a session has been shown, and what it is shown now.
pub(super) struct News {
    server: Server,
    session: Option<Session>,
    editions: watch::Receiver<u64>,
    pokes: Option<watch::Receiver<Pokes>>,
    shown: Option<Arc<Offer>>,
    /// What may have changed before the first look.
    missed: bool,
    /// There is a change that was not looked at: whoever stops waiting for news and asks again still hears of it.
    due: bool,
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
        let mut news = Self { server, session, editions, pokes, shown: None, missed: false, due: false };
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
            if !self.due {
                let before = self.pokes.as_ref().map(|pokes| *pokes.borrow());
                tokio::select! {
                    changed = self.editions.changed() => {
                        if changed.is_err() {
                            return std::future::pending().await;
                        }
                        self.due = true;
                    }
                    () = poked(self.pokes.as_mut()) => {
                        let after = self.pokes.as_mut().map(|pokes| *pokes.borrow_and_update());
                        if let (Some(before), Some(after)) = (before, after) {
                            let tools = before.tools != after.tools;
                            return Changed { tools, prompts: before.prompts != after.prompts };
                        }
                        continue;
                    }
                }
            }
            tokio::time::sleep(SETTLE).await;
            self.editions.mark_unchanged();
            let changed = self.look().await;
            self.due = false;
            if changed != Changed::default() {
                return changed;
            }
        }
    }

    /// What is new since the last look. What cannot be read now is not news.
    async fn look(&mut self) -> Changed {
        let Some(session) = &self.session else { return Changed::default() };
        let Ok(offer) = self.server.offer(session).await else { return Changed::default() };
        let changed = self.shown.as_ref().map(|shown| offer.news_since(shown));
        self.shown = Some(offer);
        changed.unwrap_or_default()
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
