//! Progress of a request, for a client that asked to hear of it.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use rmcp::model::{ProgressNotificationParam, ProgressToken};
use rmcp::service::RequestContext;
use rmcp::{Peer, RoleServer};

/// How often a request that has nothing to say says that it is under way.
pub(super) const HEARTBEAT: Duration = Duration::from_secs(5);

/// Tells a client how far a request is.
pub(super) struct Progress {
    peer: Peer<RoleServer>,
    token: Option<ProgressToken>,
    told: AtomicU64,
}

impl Progress {
    pub fn of(cx: &RequestContext<RoleServer>) -> Self {
        Self { peer: cx.peer.clone(), token: cx.meta.get_progress_token(), told: AtomicU64::new(0) }
    }

    /// Says what has just happened. The number only grows: how much there is to do, nobody knows.
    pub async fn say(&self, message: impl Into<String>) {
        let Some(token) = &self.token else { return };
        let step = self.told.fetch_add(1, Ordering::Relaxed) + 1;
        let step = f64::from(u32::try_from(step).unwrap_or(u32::MAX));
        let news = ProgressNotificationParam::new(token.clone(), step).with_message(message);
        // A client that has gone is noticed where its answer is sent.
        let _ = self.peer.notify_progress(news).await;
    }

    /// Says again and again that `what` is under way, while `work` is.
    pub async fn during<T>(&self, what: &str, work: impl Future<Output = T>) -> T {
        if self.token.is_none() {
            return work.await;
        }
        self.say(format!("{what} began")).await;
        let mut beat = tokio::time::interval_at(tokio::time::Instant::now() + HEARTBEAT, HEARTBEAT);
        let mut work = std::pin::pin!(work);
        loop {
            tokio::select! {
                result = &mut work => return result,
                _ = beat.tick() => self.say(format!("{what} is under way")).await,
            }
        }
    }
}
