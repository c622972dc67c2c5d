//! A token bucket: admits a burst of requests and refills at a steady rate.

use std::sync::{Mutex, PoisonError};
use std::time::Instant;

/// The request rate that a system admits.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RateLimit {
    /// The sustained number of requests per second. If it is zero, the bucket is never refilled, which makes a test
    /// independent of time.
    pub per_second: f64,
    /// The number of requests that may arrive at the same time.
    pub burst: u32,
}

impl Default for RateLimit {
    fn default() -> Self {
        Self { per_second: 100.0, burst: 100 }
    }
}

#[derive(Debug)]
pub(crate) struct TokenBucket {
    limit: RateLimit,
    level: Mutex<Level>,
}

#[derive(Debug)]
struct Level {
    tokens: f64,
    filled_at: Instant,
}

impl TokenBucket {
    pub(crate) fn full(limit: RateLimit, now: Instant) -> Self {
        let level = Mutex::new(Level { tokens: f64::from(limit.burst), filled_at: now });
        Self { limit, level }
    }

    /// Takes one token. Returns false if the bucket is empty.
    pub(crate) fn take(&self, now: Instant) -> bool {
        let mut level = self.level.lock().unwrap_or_else(PoisonError::into_inner);
        let elapsed = now.saturating_duration_since(level.filled_at).as_secs_f64();
        let refilled = level.tokens + elapsed * self.limit.per_second;
        level.tokens = refilled.min(f64::from(self.limit.burst));
        level.filled_at = now;
        let admitted = level.tokens >= 1.0;
        if admitted {
            level.tokens -= 1.0;
        }
        admitted
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn requests_after_the_burst_are_admitted_only_at_the_sustained_rate() {
        let start = Instant::now();
        let limit = RateLimit { per_second: 2.0, burst: 3 };
        let token_bucket = TokenBucket::full(limit, start);
        let admitted_at = |ms| token_bucket.take(start + Duration::from_millis(ms));

        assert_eq!([0, 0, 0, 0].map(admitted_at), [true, true, true, false]);
        assert_eq!([499, 500, 501].map(admitted_at), [false, true, false]);
    }

    #[test]
    fn bucket_never_holds_more_tokens_than_the_burst() {
        let start = Instant::now();
        let limit = RateLimit { per_second: 100.0, burst: 2 };
        let token_bucket = TokenBucket::full(limit, start);
        let later = start + Duration::from_secs(60);
        assert_eq!([later; 3].map(|now| token_bucket.take(now)), [true, true, false]);
    }
}
