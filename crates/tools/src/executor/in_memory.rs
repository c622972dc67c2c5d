//! A result cache and a rate limiter in the memory of one process.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures::future::BoxFuture;
use governor::clock::{Clock as _, DefaultClock};
use governor::{DefaultDirectRateLimiter, Quota};
use moka::Expiry;
use toolwright_types::RateLimit;

use super::CacheKey;
use crate::ports::{RateLimiter, ResultCache};

/// A result cache whose size in bytes is bounded. Rarely used entries are evicted first.
pub struct MemoryCache(moka::sync::Cache<CacheKey, Entry>);

#[derive(Clone)]
struct Entry {
    bytes: Bytes,
    ttl: Option<Duration>,
}

struct EntryExpiry;

impl Expiry<CacheKey, Entry> for EntryExpiry {
    fn expire_after_create(&self, _key: &CacheKey, entry: &Entry, _now: Instant) -> Option<Duration> {
        entry.ttl
    }

    fn expire_after_update(
        &self,
        _key: &CacheKey,
        entry: &Entry,
        _now: Instant,
        _left: Option<Duration>,
    ) -> Option<Duration> {
        entry.ttl
    }
}

impl MemoryCache {
    /// Creates a cache with a maximum size of `bytes`.
    pub fn new(bytes: u64) -> Self {
        let weight = |key: &CacheKey, entry: &Entry| u32::try_from(key.size() + entry.bytes.len()).unwrap_or(u32::MAX);
        Self(moka::sync::Cache::builder().max_capacity(bytes).weigher(weight).expire_after(EntryExpiry).build())
    }
}

impl Default for MemoryCache {
    fn default() -> Self {
        Self::new(64 << 20)
    }
}

impl ResultCache for MemoryCache {
    fn get<'a>(&'a self, key: &'a CacheKey) -> BoxFuture<'a, Option<Bytes>> {
        Box::pin(async move { self.0.get(key).map(|entry| entry.bytes) })
    }

    fn put<'a>(&'a self, key: CacheKey, bytes: Bytes, ttl: Option<Duration>) -> BoxFuture<'a, ()> {
        self.0.insert(key, Entry { bytes, ttl });
        Box::pin(async {})
    }
}

/// The longest interval between two calls that a rate limit can require. A lower rate counts as one call per day.
const MAX_PERIOD: Duration = Duration::from_secs(86_400);

/// A rate limiter that counts the calls of this process. A limit that is not used for an hour is reset.
pub struct MemoryRateLimiter {
    limits: moka::sync::Cache<String, Arc<DefaultDirectRateLimiter>>,
    clock: DefaultClock,
}

impl Default for MemoryRateLimiter {
    fn default() -> Self {
        let limits = moka::sync::Cache::builder().max_capacity(100_000).time_to_idle(Duration::from_secs(3600)).build();
        Self { limits, clock: DefaultClock::default() }
    }
}

impl RateLimiter for MemoryRateLimiter {
    fn admit<'a>(&'a self, key: &'a str, limit: RateLimit) -> BoxFuture<'a, Result<(), Duration>> {
        Box::pin(async move {
            let limiter = match self.limits.get(key) {
                Some(limiter) => limiter,
                None => {
                    self.limits.get_with(key.to_owned(), || Arc::new(DefaultDirectRateLimiter::direct(quota(limit))))
                }
            };
            limiter.check().map_err(|not_until| not_until.wait_time_from(self.clock.now()))
        })
    }
}

fn quota(limit: RateLimit) -> Quota {
    let period = Duration::try_from_secs_f64(1.0 / limit.per_second)
        .unwrap_or(MAX_PERIOD)
        .clamp(Duration::from_nanos(1), MAX_PERIOD);
    // INVARIANT: `burst * period` in nanoseconds fits into u64, because `governor` panics if the product overflows. The
    // maximum here is half of the range of u64, which is 292 years in nanoseconds.
    let max_burst = (u128::from(u64::MAX / 2) / period.as_nanos()).try_into().unwrap_or(u32::MAX);
    let burst = NonZeroU32::new(limit.burst.min(max_burst)).unwrap_or(NonZeroU32::MIN);
    Quota::with_period(period).unwrap_or(Quota::per_second(NonZeroU32::MAX)).allow_burst(burst)
}
