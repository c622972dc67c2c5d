//! Sends progress notifications for a request if the client sent a progress token.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use rmcp::model::{ProgressNotificationParam, ProgressToken};
use rmcp::service::RequestContext;
use rmcp::{Peer, RoleServer};
use toolwright_tools::{CallProgress, UpdateReceiver};

/// The interval at which a heartbeat is sent while a request reports no progress.
pub(super) const HEARTBEAT: Duration = Duration::from_secs(5);

/// The amount by which a heartbeat increases the progress. It is tiny, because only the tool knows the real progress.
const HEARTBEAT_INCREMENT: f64 = 0.001;

/// The progress that was reported for one request. It never decreases, as MCP requires.
pub(super) struct ProgressTracker {
    token: ProgressToken,
    reported: f64,
    /// The total that the tool reported last.
    total: Option<f64>,
}

impl ProgressTracker {
    pub(super) fn new(token: ProgressToken) -> Self {
        Self { token, reported: 0.0, total: None }
    }

    /// Returns the notification for the start of a request or of one of its steps.
    fn started(&mut self, subject: &str) -> ProgressNotificationParam {
        let done = if self.reported > 0.0 { self.reported + HEARTBEAT_INCREMENT } else { 0.0 };
        self.move_to(done).with_message(format!("{subject} started"))
    }

    /// Returns the notification that the request is still running.
    pub(super) fn heartbeat(&mut self, subject: &str) -> ProgressNotificationParam {
        self.move_to(self.reported + HEARTBEAT_INCREMENT).with_message(format!("{subject} is running"))
    }

    /// Returns the notification of an event, for requests whose progress is the number of events.
    fn event(&mut self, message: String) -> ProgressNotificationParam {
        self.move_to(self.reported.floor() + 1.0).with_message(message)
    }

    /// Returns the notification of progress that the tool reported. `None` if the progress did not increase, for
    /// example after a retry.
    pub(super) fn forward(&mut self, update: CallProgress) -> Option<ProgressNotificationParam> {
        if update.done <= self.reported {
            return None;
        }
        self.total = update.total;
        let mut notification = self.move_to(update.done);
        notification.message = update.message;
        Some(notification)
    }

    fn move_to(&mut self, done: f64) -> ProgressNotificationParam {
        self.reported = done;
        let mut notification = ProgressNotificationParam::new(self.token.clone(), done);
        notification.total = self.total;
        notification
    }
}

/// Sends progress notifications of one request.
pub(super) struct Progress {
    peer: Peer<RoleServer>,
    tracker: Option<Mutex<ProgressTracker>>,
}

impl Progress {
    pub(super) fn from_context(cx: &RequestContext<RoleServer>) -> Self {
        let tracker = cx.meta.get_progress_token().map(|token| Mutex::new(ProgressTracker::new(token)));
        Self { peer: cx.peer.clone(), tracker }
    }

    /// Reports an event.
    pub(super) async fn report(&self, message: String) {
        self.send(|tracker| Some(tracker.event(message))).await;
    }

    /// Runs `work` and reports its progress: the received updates, and heartbeats about `subject` while no updates
    /// arrive.
    pub(super) async fn report_during<T>(
        &self,
        subject: &str,
        mut updates: UpdateReceiver<CallProgress>,
        work: impl Future<Output = T>,
    ) -> T {
        if self.tracker.is_none() {
            return work.await;
        }
        self.send(|tracker| Some(tracker.started(subject))).await;
        let mut heartbeat = tokio::time::interval_at(tokio::time::Instant::now() + HEARTBEAT, HEARTBEAT);
        let mut work = std::pin::pin!(work);
        loop {
            tokio::select! {
                biased;
                update = updates.next() => {
                    self.send(|tracker| tracker.forward(update)).await;
                    heartbeat.reset();
                }
                result = &mut work => return result,
                _ = heartbeat.tick() => self.send(|tracker| Some(tracker.heartbeat(subject))).await,
            }
        }
    }

    async fn send(&self, notification: impl FnOnce(&mut ProgressTracker) -> Option<ProgressNotificationParam>) {
        let Some(tracker) = &self.tracker else { return };
        let notification = notification(&mut tracker.lock().unwrap_or_else(PoisonError::into_inner));
        if let Some(notification) = notification {
            // Errors can be ignored: if the client has disconnected, sending the response will fail.
            let _ = self.peer.notify_progress(notification).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use rmcp::model::NumberOrString;

    use super::*;

    #[test]
    fn reported_progress_never_decreases() {
        let mut tracker = ProgressTracker::new(ProgressToken(NumberOrString::Number(7)));
        let update = |done| CallProgress { done, total: Some(2.0), message: None };
        assert_eq!(tracker.started("t").progress, 0.0);
        assert_eq!(tracker.heartbeat("t").progress, HEARTBEAT_INCREMENT);
        assert_eq!(
            tracker.forward(update(0.5)).map(|notification| (notification.progress, notification.total)),
            Some((0.5, Some(2.0)))
        );
        assert!(tracker.forward(update(0.5)).is_none(), "the progress did not increase");
        assert!(tracker.forward(update(0.1)).is_none(), "the tool restarted");
        let heartbeat = tracker.heartbeat("t");
        assert_eq!(
            (heartbeat.progress, heartbeat.total),
            (0.5 + HEARTBEAT_INCREMENT, Some(2.0)),
            "a heartbeat repeats the total"
        );
        assert_eq!(tracker.forward(update(1.0)).map(|notification| notification.progress), Some(1.0));
        assert_eq!(tracker.event("next".into()).progress, 2.0);
        assert_eq!(tracker.started("the rest").progress, 2.0 + HEARTBEAT_INCREMENT);
    }
}
