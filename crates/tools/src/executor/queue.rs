//! Time that a call spends waiting for its turn, so that one that comes too late can say that it never had a chance.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;
use toolwright_types::ToolError;

/// How long a call has waited for its turn on this server. It is kept beside the attempt, which may be given up in the middle.
#[derive(Debug, Default)]
pub struct Queue(Mutex<Waits>);

#[derive(Debug, Default)]
struct Waits {
    over: Duration,
    since: Option<Instant>,
    remedy: &'static str,
}

impl Queue {
    /// The call waits from now on; `remedy` is what would make that shorter.
    pub fn enter(&self, remedy: &'static str) {
        let mut waits = self.lock();
        waits.since.get_or_insert_with(Instant::now);
        waits.remedy = remedy;
    }

    /// It has its turn.
    pub fn leave(&self) {
        let mut waits = self.lock();
        if let Some(since) = waits.since.take() {
            waits.over += since.elapsed();
        }
    }

    /// Adds to what is said about a call that ran out of time that it waited, if that was a good part of its time.
    pub(super) fn explain(&self, late: ToolError, limit: Duration) -> ToolError {
        let waits = self.lock();
        let waited = waits.over + waits.since.map(|since| since.elapsed()).unwrap_or_default();
        if waited < limit / 10 || waited.is_zero() {
            return late;
        }
        let millis = u64::try_from(waited.as_millis()).unwrap_or(u64::MAX);
        let message = format!("{}; for {millis} ms of that it waited for its turn: {}", late.message, waits.remedy);
        ToolError { message, ..late }.detail("queued_ms", millis)
    }

    /// What is behind the lock is whole after each statement, so a panic elsewhere does not spoil it.
    fn lock(&self) -> MutexGuard<'_, Waits> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use tokio::time::advance;
    use toolwright_types::ErrorCode;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn only_a_good_part_of_the_time_is_told() {
        let late = || ToolError::new(ErrorCode::Timeout, "late").reason("deadline");
        let limit = Duration::from_millis(1_000);
        let queue = Queue::default();
        assert_eq!(queue.explain(late(), limit), late());
        queue.enter("add more");
        advance(Duration::from_millis(60)).await;
        queue.leave();
        advance(Duration::from_millis(500)).await;
        assert_eq!(queue.explain(late(), limit), late());
        // The wait that is under way counts too.
        queue.enter("add more");
        advance(Duration::from_millis(340)).await;
        let told = queue.explain(late(), limit);
        assert_eq!(told.message, "late; for 400 ms of that it waited for its turn: add more");
        assert_eq!(told.details, Some(json!({ "reason": "deadline", "queued_ms": 400 })));
    }
}
