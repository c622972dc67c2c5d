//! Measures how long a call waits in a queue, so that a timeout can report it.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;
use toolwright_types::ToolError;

/// The queue time of a call. It is stored outside of the attempt, so that it is known even if the attempt is dropped
/// midway.
#[derive(Debug, Default)]
pub struct QueueTimer(Mutex<Inner>);

#[derive(Debug, Default)]
struct Inner {
    total: Duration,
    since: Option<Instant>,
    remedy: &'static str,
}

impl QueueTimer {
    /// Starts a wait. `remedy` is the advice on how to shorten the wait, for the error message.
    pub fn enter(&self, remedy: &'static str) {
        let mut inner = self.lock();
        inner.since.get_or_insert_with(Instant::now);
        inner.remedy = remedy;
    }

    /// Ends the wait.
    pub fn leave(&self) {
        let mut inner = self.lock();
        if let Some(since) = inner.since.take() {
            inner.total += since.elapsed();
        }
    }

    /// Whether the call has spent at least a tenth of `limit` in the queue.
    pub fn waited_long(&self, limit: Duration) -> bool {
        self.lock().waited_long(limit).is_some()
    }

    /// Adds the queue time to a timeout error if the call spent at least a tenth of `limit` in the queue.
    pub(super) fn explain(&self, late: ToolError, limit: Duration) -> ToolError {
        let inner = self.lock();
        let Some(waited) = inner.waited_long(limit) else { return late };
        let millis = u64::try_from(waited.as_millis()).unwrap_or(u64::MAX);
        let message = format!("{}; it waited in a queue for {millis} ms: {}", late.message, inner.remedy);
        ToolError { message, ..late }.detail("queued_ms", millis)
    }

    /// A poisoned lock is usable, because every statement leaves the data consistent.
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inner {
    /// The queue time, if it is at least a tenth of `limit`.
    fn waited_long(&self, limit: Duration) -> Option<Duration> {
        let waited = self.total + self.since.map(|since| since.elapsed()).unwrap_or_default();
        (waited >= limit / 10 && !waited.is_zero()).then_some(waited)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use tokio::time::advance;
    use toolwright_types::ErrorCode;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn timeout_error_reports_a_long_wait_in_a_queue() {
        let late = || ToolError::new(ErrorCode::Timeout, "late").reason("deadline");
        let limit = Duration::from_millis(1_000);
        let queue = QueueTimer::default();
        assert_eq!(queue.explain(late(), limit), late());
        queue.enter("add more");
        advance(Duration::from_millis(60)).await;
        queue.leave();
        advance(Duration::from_millis(500)).await;
        assert_eq!(queue.explain(late(), limit), late());
        // A wait that has not ended counts too.
        queue.enter("add more");
        advance(Duration::from_millis(340)).await;
        let explained = queue.explain(late(), limit);
        assert_eq!(explained.message, "late; it waited in a queue for 400 ms: add more");
        assert_eq!(explained.details.unwrap(), json!({ "reason": "deadline", "queued_ms": 400 }));
    }
}
