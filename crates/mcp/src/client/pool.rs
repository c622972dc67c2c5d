//! A pool of shared connections, with a backoff after failures.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Mutex;
use tokio::time::Instant;
use toolwright_tools::ToolFailure;
use toolwright_types::RetryDelays;

use super::connection::Connection;
use super::{PROCESS_LIMIT, unreachable_server};

/// How long an unused connection is kept.
const IDLE_TIMEOUT: Duration = Duration::from_secs(600);
/// The age at which a connection counts as stable. The end of a stable connection is not a failure.
const STABLE_AFTER: Duration = Duration::from_secs(30);
/// The delays between attempts to connect.
const RETRY_DELAYS: RetryDelays = RetryDelays::exponential(Duration::from_millis(200), Duration::from_secs(30));

/// The connections, by key. The key is a hash of the realm, the provider's configuration and its secrets, so calls with
/// different secrets never share a connection.
pub(super) struct ConnectionPool(moka::sync::Cache<String, Arc<Slot>>);

impl Default for ConnectionPool {
    fn default() -> Self {
        Self(moka::sync::Cache::builder().max_capacity(1_000).time_to_idle(IDLE_TIMEOUT).build())
    }
}

impl ConnectionPool {
    pub(super) fn slot(&self, key: String) -> Arc<Slot> {
        self.0.get_with(key, Arc::default)
    }

    /// Closes connections that were unused for [`IDLE_TIMEOUT`]. This call is needed because the cache evicts entries
    /// only when it is accessed.
    pub(super) fn evict_idle(&self) {
        self.0.run_pending_tasks();
    }

    pub(super) fn clear(&self) {
        self.0.invalidate_all();
        self.evict_idle();
    }
}

/// The pool's entry for one connection.
#[derive(Default)]
pub(super) struct Slot(Mutex<State>);

#[derive(Default)]
struct State {
    connection: Option<Arc<Connection>>,
    failures: Failures,
}

impl Slot {
    /// Returns the open connection. Opens a connection if no connection is open.
    pub(super) async fn get(
        &self,
        connect: impl Future<Output = Result<Connection, ToolFailure>>,
    ) -> Result<Arc<Connection>, ToolFailure> {
        let mut state = self.0.lock().await;
        if let Some(connection) = state.connection.as_ref().filter(|connection| !connection.is_closed()) {
            return Ok(Arc::clone(connection));
        }
        if let Some(dead) = state.connection.take() {
            state.failures.record_end(dead.age());
        }
        if let Some(wait) = state.failures.backoff() {
            let message = format!("the MCP server failed repeatedly; retry in {:.1} s", wait.as_secs_f64());
            let mut failure = unreachable_server(message, "restarting");
            failure.error.retry_after_s = Some(wait.as_secs_f64());
            return Err(failure);
        }
        match connect.await {
            Ok(connection) => {
                let connection = Arc::new(connection);
                state.connection = Some(Arc::clone(&connection));
                Ok(connection)
            }
            Err(failure) => {
                // A reached process limit is not a failure of the server, so it causes no backoff.
                if failure.error.details.as_ref().and_then(|details| details.get("reason")?.as_str())
                    != Some(PROCESS_LIMIT)
                {
                    state.failures.record_end(Duration::ZERO);
                }
                Err(failure)
            }
        }
    }
}

/// The number of consecutive connections that failed or were short-lived, and the time at which the last one ended.
#[derive(Default)]
struct Failures {
    consecutive: u32,
    last_at: Option<Instant>,
}

impl Failures {
    fn record_end(&mut self, age: Duration) {
        self.consecutive = if age >= STABLE_AFTER { 0 } else { self.consecutive.saturating_add(1) };
        self.last_at = Some(Instant::now());
    }

    /// Returns how long the next attempt must still wait, or `None` if it may start now. The first retry never waits.
    fn backoff(&self) -> Option<Duration> {
        let full = RETRY_DELAYS.delay(self.consecutive.checked_sub(2)?);
        let left = full.saturating_sub(self.last_at?.elapsed());
        (!left.is_zero()).then_some(left)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn backoff_grows_with_each_failure_and_resets_after_a_stable_connection() {
        let mut failures = Failures::default();
        assert_eq!(failures.backoff(), None);
        failures.record_end(Duration::ZERO);
        assert_eq!(failures.backoff(), None, "the first retry is immediate");
        failures.record_end(Duration::ZERO);
        assert_eq!(failures.backoff(), Some(RETRY_DELAYS.initial));
        failures.record_end(Duration::ZERO);
        assert_eq!(failures.backoff(), Some(2 * RETRY_DELAYS.initial));
        tokio::time::advance(2 * RETRY_DELAYS.initial).await;
        assert_eq!(failures.backoff(), None);
        (0..40).for_each(|_| failures.record_end(Duration::ZERO));
        assert_eq!(failures.backoff(), Some(RETRY_DELAYS.max));
        failures.record_end(STABLE_AFTER);
        assert_eq!(failures.backoff(), None);
    }
}
