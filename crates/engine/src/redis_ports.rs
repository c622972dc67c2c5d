//! Result cache and rate limits that several servers share.

use std::time::Duration;

use bytes::Bytes;
use futures::future::BoxFuture;
use redis::aio::{ConnectionManager, ConnectionManagerConfig};
use redis::{AsyncCommands, RedisError, Script};
use toolwright_tools::executor::MemoryLimiter;
use toolwright_tools::ports::{RateLimiter, ResultCache};
use toolwright_types::RateLimit;

/// A Redis that does not answer in this time is treated as absent; a call should not wait for its cache.
const PATIENCE: Duration = Duration::from_millis(500);

pub(crate) async fn connect(url: &str) -> Result<ConnectionManager, RedisError> {
    let config = ConnectionManagerConfig::new()
        .set_response_timeout(Some(PATIENCE))
        .set_connection_timeout(Some(Duration::from_secs(5)))
        .set_number_of_retries(1);
    ConnectionManager::new_with_config(redis::Client::open(url)?, config).await
}

/// Results in Redis. When it fails, every lookup is a miss.
pub(crate) struct RedisCache(ConnectionManager);

impl RedisCache {
    pub fn new(connection: ConnectionManager) -> Self {
        Self(connection)
    }
}

fn name(key: &str) -> String {
    format!("toolwright:result:{key}")
}

impl ResultCache for RedisCache {
    fn get<'a>(&'a self, key: &'a str) -> BoxFuture<'a, Option<Bytes>> {
        Box::pin(async move {
            let found: Result<Option<Vec<u8>>, RedisError> = self.0.clone().get(name(key)).await;
            found.inspect_err(|error| tracing::warn!(%error, "the result cache did not answer")).ok()?.map(Bytes::from)
        })
    }

    fn put<'a>(&'a self, key: String, value: Bytes, ttl: Option<Duration>) -> BoxFuture<'a, ()> {
        Box::pin(async move {
            let mut connection = self.0.clone();
            let stored: Result<(), RedisError> = match ttl {
                Some(ttl) => connection.set_ex(name(&key), value.as_ref(), ttl.as_secs().max(1)).await,
                None => connection.set(name(&key), value.as_ref()).await,
            };
            if let Err(error) = stored {
                tracing::warn!(%error, "a result could not be cached");
            }
        })
    }
}

/// Rate limits in Redis. When it fails, each server counts for itself.
pub(crate) struct RedisLimiter {
    connection: ConnectionManager,
    script: Script,
    alone: MemoryLimiter,
}

/// The generic cell rate algorithm: one number per key, the moment at which the allowance is full again.
/// Redis's own clock is used, so that servers need not agree on the time.
const GCRA: &str = r"
local now = redis.call('TIME')
now = tonumber(now[1]) * 1000000 + tonumber(now[2])
local period, tolerance = tonumber(ARGV[1]), tonumber(ARGV[2])
local full = math.max(tonumber(redis.call('GET', KEYS[1]) or now), now)
local wait = full - tolerance - now
if wait > 0 then return wait end
local next = full + period
redis.call('SET', KEYS[1], string.format('%.0f', next), 'PX', math.ceil((next - now) / 1000) + 1000)
return 0
";

impl RedisLimiter {
    pub fn new(connection: ConnectionManager) -> Self {
        Self { connection, script: Script::new(GCRA), alone: MemoryLimiter::default() }
    }
}

impl RateLimiter for RedisLimiter {
    fn admit<'a>(&'a self, key: &'a str, limit: RateLimit) -> BoxFuture<'a, Result<(), Duration>> {
        Box::pin(async move {
            let period = (1_000_000.0 / limit.per_second).ceil();
            let tolerance = period * f64::from(limit.burst.saturating_sub(1));
            let mut connection = self.connection.clone();
            let mut call = self.script.key(format!("toolwright:limit:{key}"));
            let wait: Result<f64, RedisError> = call.arg(period).arg(tolerance).invoke_async(&mut connection).await;
            match wait {
                Ok(wait) if wait > 0.0 => Err(Duration::from_secs_f64(wait / 1_000_000.0)),
                Ok(_) => Ok(()),
                Err(error) => {
                    tracing::warn!(%error, "shared rate limits did not answer; this server counts alone");
                    self.alone.admit(key, limit).await
                }
            }
        })
    }
}
