//! A result cache and rate limits in Redis, which several servers share.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::future::BoxFuture;
use redis::aio::{ConnectionManager, ConnectionManagerConfig};
use redis::{AsyncCommands, RedisError, Script};
use toolwright_tools::executor::{CacheKey, MemoryRateLimiter};
use toolwright_tools::ports::{RateLimiter, ResultCache};
use toolwright_types::RateLimit;

use crate::status::RedisPing;

/// The response timeout. If Redis is slower, the call continues without Redis.
const RESPONSE_TIMEOUT: Duration = Duration::from_millis(500);

pub(crate) async fn connect(url: &str) -> Result<ConnectionManager, RedisError> {
    let config = ConnectionManagerConfig::new()
        .set_response_timeout(Some(RESPONSE_TIMEOUT))
        .set_connection_timeout(Some(Duration::from_secs(5)))
        .set_number_of_retries(1);
    ConnectionManager::new_with_config(redis::Client::open(url)?, config).await
}

/// Returns a function that checks that Redis answers.
pub(crate) fn ping(connection: ConnectionManager) -> RedisPing {
    Arc::new(move || {
        let mut connection = connection.clone();
        Box::pin(async move {
            let answer: Result<String, RedisError> = redis::cmd("PING").query_async(&mut connection).await;
            answer.map(drop).map_err(Into::into)
        })
    })
}

/// A result cache in Redis. If Redis fails, every lookup is a cache miss.
pub(crate) struct RedisCache(ConnectionManager);

impl RedisCache {
    pub(crate) fn new(connection: ConnectionManager) -> Self {
        Self(connection)
    }
}

fn redis_key(key: &CacheKey) -> String {
    format!("toolwright:result:{key}")
}

impl ResultCache for RedisCache {
    fn get<'a>(&'a self, key: &'a CacheKey) -> BoxFuture<'a, Option<Bytes>> {
        Box::pin(async move {
            let found: Result<Option<Vec<u8>>, RedisError> = self.0.clone().get(redis_key(key)).await;
            found.inspect_err(|error| tracing::warn!(%error, "could not read the result cache")).ok()?.map(Bytes::from)
        })
    }

    fn put<'a>(&'a self, key: CacheKey, value: Bytes, ttl: Option<Duration>) -> BoxFuture<'a, ()> {
        Box::pin(async move {
            let mut connection = self.0.clone();
            let stored: Result<(), RedisError> = match ttl {
                Some(ttl) => connection.set_ex(redis_key(&key), value.as_ref(), ttl.as_secs().max(1)).await,
                None => connection.set(redis_key(&key), value.as_ref()).await,
            };
            if let Err(error) = stored {
                tracing::warn!(%error, "could not cache a result");
            }
        })
    }
}

/// Rate limits in Redis. If Redis fails, each server applies the limits on its own.
pub(crate) struct RedisRateLimiter {
    connection: ConnectionManager,
    script: Script,
    fallback: MemoryRateLimiter,
}

/// A Lua script with the generic cell rate algorithm (GCRA). It stores one number per key: the time at which the full
/// burst is available again. It uses the clock of Redis, so that the clocks of the servers need not be synchronized.
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

impl RedisRateLimiter {
    pub(crate) fn new(connection: ConnectionManager) -> Self {
        Self { connection, script: Script::new(GCRA), fallback: MemoryRateLimiter::default() }
    }
}

impl RateLimiter for RedisRateLimiter {
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
                    tracing::warn!(%error, "could not check the shared rate limit; this server applies the limit on its own");
                    self.fallback.admit(key, limit).await
                }
            }
        })
    }
}
