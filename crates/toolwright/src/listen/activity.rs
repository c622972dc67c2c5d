//! Decides when a connection has been idle for too long.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// When idle connections are closed.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Deadlines {
    /// The maximum time from the accept to the first complete request head.
    pub first_request: Duration,
    /// The maximum time without a request in progress. Also the maximum time for which a client may stop reading a
    /// pending response.
    pub idle: Duration,
}

/// The activity on one connection.
///
/// A connection is busy while a request is in progress: from its complete head to the end of its response. So tool
/// calls and event streams may take any time. The exception is a client that does not read its response.
pub(super) struct Activity {
    deadlines: Deadlines,
    state: Mutex<State>,
}

struct State {
    requests: usize,
    had_request: bool,
    /// Whether the server waits for the client to read.
    blocked: bool,
    last_active: Instant,
}

impl Activity {
    pub(super) fn new(deadlines: Deadlines) -> Self {
        let state = State { requests: 0, had_request: false, blocked: false, last_active: Instant::now() };
        Self { deadlines, state: Mutex::new(state) }
    }

    pub(super) fn request_started(&self) {
        self.update(|state| {
            state.requests += 1;
            state.had_request = true;
        });
    }

    pub(super) fn request_ended(&self) {
        self.update(|state| state.requests = state.requests.saturating_sub(1));
    }

    /// Records that the socket accepts no more data, because the client does not read.
    pub(super) fn write_blocked(&self) {
        self.update(|state| state.blocked = true);
    }

    /// Records that the client has read, so that the socket accepts data again.
    pub(super) fn write_unblocked(&self) {
        self.update(|state| state.blocked = false);
    }

    /// The time at which the connection expires if nothing happens until then. The deadline of a busy connection is
    /// always in the future.
    pub(super) fn deadline(&self) -> Instant {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        match (state.requests > 0 && !state.blocked, state.had_request) {
            (true, _) => Instant::now() + self.deadlines.idle,
            (false, true) => state.last_active + self.deadlines.idle,
            (false, false) => state.last_active + self.deadlines.first_request,
        }
    }

    pub(super) fn is_expired(&self) -> bool {
        self.deadline() <= Instant::now()
    }

    fn update(&self, change: impl FnOnce(&mut State)) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        change(&mut state);
        state.last_active = Instant::now();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DEADLINES: Deadlines = Deadlines { first_request: Duration::from_secs(15), idle: Duration::from_secs(75) };

    #[tokio::test(start_paused = true)]
    async fn connection_without_a_request_expires_after_the_first_request_deadline() {
        let activity = Activity::new(DEADLINES);
        tokio::time::advance(Duration::from_secs(14)).await;
        assert!(!activity.is_expired());
        tokio::time::advance(Duration::from_secs(1)).await;
        assert!(activity.is_expired());
    }

    #[tokio::test(start_paused = true)]
    async fn connection_does_not_expire_during_a_request_and_the_idle_time_starts_at_its_end() {
        let activity = Activity::new(DEADLINES);
        activity.request_started();
        tokio::time::advance(Duration::from_secs(100_000)).await;
        assert!(!activity.is_expired());
        activity.request_ended();
        tokio::time::advance(Duration::from_secs(74)).await;
        assert!(!activity.is_expired());
        tokio::time::advance(Duration::from_secs(1)).await;
        assert!(activity.is_expired());
    }

    #[tokio::test(start_paused = true)]
    async fn client_that_reads_slowly_keeps_its_connection_and_a_client_that_stops_reading_does_not() {
        let activity = Activity::new(DEADLINES);
        activity.request_started();
        for _ in 0..100 {
            activity.write_blocked();
            tokio::time::advance(Duration::from_secs(74)).await;
            assert!(!activity.is_expired());
            activity.write_unblocked();
        }
        activity.write_blocked();
        tokio::time::advance(Duration::from_secs(75)).await;
        assert!(activity.is_expired());
    }
}
