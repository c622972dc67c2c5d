//! Time as a value that is asked for, so that tests and replay decide what time it is.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// A moment in UTC with microsecond precision, written as RFC 3339.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Timestamp(jiff::Timestamp);

impl Timestamp {
    /// Microseconds since 1970-01-01T00:00:00Z; the form timestamps are stored in.
    pub fn as_micros(self) -> i64 {
        self.0.as_microsecond()
    }

    /// The inverse of [`Timestamp::as_micros`]; values beyond the calendar are pinned to its ends.
    pub fn from_micros(micros: i64) -> Self {
        let pinned = jiff::Timestamp::from_microsecond(micros).unwrap_or(if micros < 0 {
            jiff::Timestamp::MIN
        } else {
            jiff::Timestamp::MAX
        });
        Self(pinned)
    }

    /// How much later `self` is than `earlier`, in milliseconds; never negative.
    pub fn millis_since(self, earlier: Timestamp) -> u64 {
        u64::try_from((self.as_micros() - earlier.as_micros()) / 1000).unwrap_or(0)
    }

    /// The moment that is `by` later.
    pub fn later(self, by: Duration) -> Self {
        Self::from_micros(self.as_micros().saturating_add(i64::try_from(by.as_micros()).unwrap_or(i64::MAX)))
    }

    /// The civil time of this moment in UTC.
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

/// Where time comes from.
pub trait Clock: Send + Sync {
    /// The present moment.
    fn now(&self) -> Timestamp;
}

/// The machine's clock.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    #[expect(clippy::disallowed_methods, reason = "this is the one place that reads the machine's clock")]
    fn now(&self) -> Timestamp {
        Timestamp::from_micros(jiff::Timestamp::now().as_microsecond())
    }
}
