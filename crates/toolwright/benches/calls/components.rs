//! Measures the components of a call separately.

use std::hint::black_box;
use std::time::Instant;

use toolwright_authz::{Action, Authorizer, Resource};
use toolwright_catalog::Session;
use toolwright_engine::Engine;
use toolwright_tools::Schema;
use toolwright_tools::executor::{Audience, CacheKey, MemoryCache, MemoryRateLimiter};
use toolwright_tools::ports::{RateLimiter, ResultCache};
use toolwright_types::{CallId, RateLimit};

const ROUNDS: usize = 20_000;

/// The components that every call executes, even if its tool has no cache and no rate limit.
pub(crate) const IN_EVERY_CALL: [&str; 4] = [
    "schema validation, input",
    "schema validation, output",
    "canonical JSON and SHA-256 (call id)",
    "permission, cached",
];

pub(crate) async fn measure(engine: &Engine, session: &Session) -> Vec<(&'static str, f64)> {
    let tool = engine.calls.find(&session.realm, "bench", None).await.unwrap().unwrap();
    let input = crate::input();
    let text = input.to_string();
    let authorizer = Authorizer::with_default_policies().unwrap();
    let (cache, limiter) = (MemoryCache::default(), MemoryRateLimiter::default());
    let key = CacheKey::new(&session.realm, Audience::Realm, "key");
    cache.put(key.clone(), bytes::Bytes::from_static(b"value"), None).await;
    let limit = RateLimit { per_second: 1e9, burst: u32::MAX };
    let schema = tool.input.source().clone();
    vec![
        ("JSON parse of the input", median(|| drop(black_box(serde_json::from_str::<serde_json::Value>(&text))))),
        ("schema validation, input", median(|| drop(black_box(tool.input.check(&input))))),
        ("schema validation, output", median(|| drop(black_box(tool.output.check(&input))))),
        (
            "canonical JSON and SHA-256 (call id)",
            median(|| drop(black_box(CallId::derive("bench", "1.0.0", &input, 0)))),
        ),
        (
            "permission, evaluated by Cedar (once per request)",
            median(|| {
                let resource = Resource::Tool { category: None, name: "bench" };
                drop(black_box(authorizer.authorize(&session.principal, &session.realm, Action::Execute, resource)));
            }),
        ),
        ("permission, cached", median(|| drop(black_box(engine.registry.may_read(session, &tool.definition))))),
        ("result cache, hit", median(|| drop(black_box(futures::executor::block_on(cache.get(&key)))))),
        ("rate limit", median(|| assert!(futures::executor::block_on(limiter.admit("key", limit)).is_ok()))),
        ("schema compilation (never in a call)", median(|| drop(black_box(Schema::compile(schema.clone()))))),
    ]
}

/// Returns the median duration of `component` in microseconds. Ten executions are timed together, to reduce the cost of
/// reading the clock.
fn median(mut component: impl FnMut()) -> f64 {
    let mut micros: Vec<f64> = (0..ROUNDS / 10)
        .map(|_| {
            let start = Instant::now();
            for _ in 0..10 {
                component();
            }
            start.elapsed().as_secs_f64() * 1e6 / 10.0
        })
        .collect();
    micros.sort_by(f64::total_cmp);
    micros[micros.len() / 2]
}
