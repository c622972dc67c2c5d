//! The delays between the attempts of an operation.

use std::time::Duration;

use crate::Backoff;

/// Computes how long to wait before each retry. All code that retries uses this type. The caller decides which failures
/// are retried.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RetryDelays {
    /// The delay before the first retry.
    pub initial: Duration,
    /// The longest delay.
    pub max: Duration,
    /// How the delay grows.
    pub backoff: Backoff,
}

impl RetryDelays {
    /// Delays that double with each retry.
    pub const fn exponential(initial: Duration, max: Duration) -> Self {
        Self { initial, max, backoff: Backoff::Exponential }
    }

    /// Returns the delay before retry `n`, counted from 0.
    pub fn delay(&self, n: u32) -> Duration {
        let delay = match self.backoff {
            Backoff::None => Duration::ZERO,
            Backoff::Linear => self.initial.saturating_mul(n.saturating_add(1)),
            Backoff::Exponential => self.initial.saturating_mul(2u32.saturating_pow(n)),
        };
        delay.min(self.max)
    }

    /// Returns a delay between 50 % and 100 % of [`Self::delay`]. Callers that failed at the same time then retry at
    /// different times. `random` is between 0 and 1.
    pub fn jittered(&self, n: u32, random: f64) -> Duration {
        self.delay(n).mul_f64(0.5 + random.clamp(0.0, 1.0) / 2.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DELAYS: RetryDelays = RetryDelays::exponential(Duration::from_millis(200), Duration::from_secs(30));

    #[test]
    fn retry_delay_grows_up_to_the_maximum() {
        for (backoff, n, millis) in [
            (Backoff::None, 5, 0),
            (Backoff::Linear, 0, 200),
            (Backoff::Linear, 2, 600),
            (Backoff::Linear, u32::MAX, 30_000),
            (Backoff::Exponential, 0, 200),
            (Backoff::Exponential, 3, 1600),
            (Backoff::Exponential, u32::MAX, 30_000),
        ] {
            let delays = RetryDelays { backoff, ..DELAYS };
            assert_eq!(delays.delay(n), Duration::from_millis(millis), "{backoff:?} {n}");
        }
    }

    #[test]
    fn jittered_delay_is_between_half_and_the_full_delay() {
        for (random, millis) in [(-1.0, 100), (0.0, 100), (0.5, 150), (1.0, 200), (2.0, 200)] {
            assert_eq!(DELAYS.jittered(0, random), Duration::from_millis(millis), "{random}");
        }
    }
}
