//! One connection for everybody who may share it, and a pause after one that failed.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Mutex;
use tokio::time::Instant;
use toolwright_tools::ToolFailure;

use super::connection::Connection;
use super::unreachable;

/// How long a connection that nobody uses is kept.
const IDLE: Duration = Duration::from_secs(600);
/// A connection that lived this long had nothing wrong with it.
const STABLE: Duration = Duration::from_secs(30);
const SHORTEST_PAUSE: Duration = Duration::from_millis(200);
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

/// Places for connections. The key holds the realm, the provider as it is configured now, and the secrets it is used
/// with: whoever has other secrets gets another connection.
pub(super) struct Slots(moka::sync::Cache<String, Arc<Slot>>);

impl Default for Slots {
    fn default() -> Self {
        Self(moka::sync::Cache::builder().max_capacity(1_000).time_to_idle(IDLE).build())
    }
}

impl Slots {
    pub fn of(&self, key: String) -> Arc<Slot> {
        self.0.get_with(key, Arc::default)
    }

    /// Lets go of connections that nobody has used for long; without this they would stay until somebody uses another.
    pub fn tidy(&self) {
        self.0.run_pending_tasks();
    }

    pub fn clear(&self) {
        self.0.invalidate_all();
        self.tidy();
    }
}

/// A place for one connection.
#[derive(Default)]
pub(super) struct Slot(Mutex<State>);

#[derive(Default)]
struct State {
    connection: Option<Arc<Connection>>,
    failures: Failures,
}

impl Slot {
    /// The connection, made anew if it is not there or no longer good.
    pub async fn get(
        &self,
        connect: impl Future<Output = Result<Connection, ToolFailure>>,
    ) -> Result<Arc<Connection>, ToolFailure> {
        let mut state = self.0.lock().await;
        if let Some(connection) = state.connection.as_ref().filter(|connection| !connection.is_closed()) {
            return Ok(Arc::clone(connection));
        }
        if let Some(dead) = state.connection.take() {
            state.failures.ended(dead.age());
        }
        if let Some(wait) = state.failures.pause() {
            let message = format!("the MCP server failed; it is tried again in {:.1} s", wait.as_secs_f64());
            let mut failure = unreachable(message, "restarting");
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
                state.failures.ended(Duration::ZERO);
                Err(failure)
            }
        }
    }
}

/// How often in a row connections did not last, and when the last one ended.
#[derive(Default)]
struct Failures {
    row: u32,
    last: Option<Instant>,
}

impl Failures {
    fn ended(&mut self, age: Duration) {
        self.row = if age >= STABLE { 0 } else { self.row.saturating_add(1) };
        self.last = Some(Instant::now());
    }

    /// How long the next attempt has to wait. The first one after a failure does not.
    fn pause(&self) -> Option<Duration> {
        let nominal = SHORTEST_PAUSE.saturating_mul(2u32.saturating_pow(self.row.checked_sub(2)?)).min(LONGEST_PAUSE);
        let left = nominal.saturating_sub(self.last?.elapsed());
        (!left.is_zero()).then_some(left)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn pauses_grow_until_a_connection_lasts() {
        let mut failures = Failures::default();
        assert_eq!(failures.pause(), None);
        failures.ended(Duration::ZERO);
        assert_eq!(failures.pause(), None, "one failure may be chance");
        failures.ended(Duration::ZERO);
        assert_eq!(failures.pause(), Some(SHORTEST_PAUSE));
        failures.ended(Duration::ZERO);
        assert_eq!(failures.pause(), Some(2 * SHORTEST_PAUSE));
        tokio::time::advance(2 * SHORTEST_PAUSE).await;
        assert_eq!(failures.pause(), None);
        (0..40).for_each(|_| failures.ended(Duration::ZERO));
        assert_eq!(failures.pause(), Some(LONGEST_PAUSE));
        failures.ended(STABLE);
        assert_eq!(failures.pause(), None);
    }
}
