//! Timestamps, and a trait for the clock. Code receives its clock as a parameter, so that tests and replays control the
//! time.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// A point in time in UTC with microsecond precision, serialized as RFC 3339.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Timestamp(jiff::Timestamp);

impl Timestamp {
    /// Microseconds since 1970-01-01T00:00:00Z, the stored form of timestamps.
    pub fn as_micros(self) -> i64 {
        self.0.as_microsecond()
    }

    /// The inverse of [`Timestamp::as_micros`]; values out of range are clamped.
    pub fn from_micros(micros: i64) -> Self {
        let pinned = jiff::Timestamp::from_microsecond(micros).unwrap_or(if micros < 0 {
            jiff::Timestamp::MIN
        } else {
            jiff::Timestamp::MAX
        });
        Self(pinned)
    }

    /// Milliseconds from `earlier` to `self`; 0 if `earlier` is later.
    pub fn millis_since(self, earlier: Timestamp) -> u64 {
        u64::try_from((self.as_micros() - earlier.as_micros()) / 1000).unwrap_or(0)
    }

    /// The timestamp that is `by` later than this one, clamped to the representable range.
    pub fn saturating_add(self, by: Duration) -> Self {
        Self::from_micros(self.as_micros().saturating_add(i64::try_from(by.as_micros()).unwrap_or(i64::MAX)))
    }

    /// Converts to the `jiff` type.
    pub fn to_jiff(self) -> jiff::Timestamp {
        self.0
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Debug for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl FromStr for Timestamp {
    type Err = jiff::Error;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        text.parse().map(Self)
    }
}

/// A source of the current time.
pub trait Clock: Send + Sync {
    /// The current time.
    fn now(&self) -> Timestamp;
}

/// The system clock.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    #[expect(clippy::disallowed_methods, reason = "this is the one place that reads the machine's clock")]
    fn now(&self) -> Timestamp {
        Timestamp::from_micros(jiff::Timestamp::now().as_microsecond())
    }
}
