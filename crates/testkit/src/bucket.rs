//! A token bucket: so many requests at once, refilled at a steady rate.

use std::sync::{Mutex, PoisonError};
use std::time::Instant;

/// How many requests a system admits.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RateLimit {
    /// Requests per second in the long run. Zero never refills, which makes a test independent of time.
    pub per_second: f64,
    /// Requests that may come at once.
    pub burst: u32,
}

impl Default for RateLimit {
    fn default() -> Self {
        Self { per_second: 100.0, burst: 100 }
    }
}

#[derive(Debug)]
pub(crate) struct Bucket {
    limit: RateLimit,
    level: Mutex<Level>,
}

#[derive(Debug)]
struct Level {
    tokens: f64,
    filled_at: Instant,
}

impl Bucket {
    pub(crate) fn full(limit: RateLimit, now: Instant) -> Self {
        let level = Mutex::new(Level { tokens: f64::from(limit.burst), filled_at: now });
        Self { limit, level }
    }

    /// Takes one token, if there is one.
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
    fn admits_the_burst_and_then_the_rate() {
        let start = Instant::now();
        let limit = RateLimit { per_second: 2.0, burst: 3 };
        let bucket = Bucket::full(limit, start);
        let admitted_at = |ms| bucket.take(start + Duration::from_millis(ms));

        assert_eq!([0, 0, 0, 0].map(admitted_at), [true, true, true, false]);
        assert_eq!([499, 500, 501].map(admitted_at), [false, true, false]);
    }

    #[test]
    fn never_holds_more_than_the_burst() {
        let start = Instant::now();
        let limit = RateLimit { per_second: 100.0, burst: 2 };
        let bucket = Bucket::full(limit, start);
        let later = start + Duration::from_secs(60);
        assert_eq!([later; 3].map(|now| bucket.take(now)), [true, true, false]);
    }
}
