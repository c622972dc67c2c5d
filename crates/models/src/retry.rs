//! Asks again where that can help, then asks another model.

use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use toolwright_types::{ModelReply, ModelRequest};

use crate::{ErrorKind, Model, ModelError, Sink};

/// How often and how patiently a model is asked again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RetryPolicy {
    /// How often, beside the first time.
    pub retries: u32,
    /// The pause before the first retry; each further one is twice as long.
    pub first_pause: Duration,
    /// The longest pause. A provider that wants to be left alone for longer is not asked again.
    pub longest_pause: Duration,
}

impl Default for RetryPolicy {
    fn default() -> Self {
        Self { retries: 3, first_pause: Duration::from_millis(500), longest_pause: Duration::from_secs(30) }
    }
}

impl RetryPolicy {
    /// The pause before retry `n`, counted from 0; None when there is to be no further one. `chance` is from 0 to 1:
    /// between half of the nominal pause and all of it, so that many clients do not come back at once.
    fn pause(&self, n: u32, error: &ModelError, chance: f64) -> Option<Duration> {
        if n >= self.retries || !error.can_retry() {
            return None;
        }
        let nominal = self.first_pause.saturating_mul(2u32.saturating_pow(n)).min(self.longest_pause);
        let own = nominal.mul_f64(0.5 + chance.clamp(0.0, 1.0) / 2.0);
        let asked = error.retry_after().unwrap_or_default();
        (asked <= self.longest_pause).then(|| own.max(asked))
    }
}

/// A model that is asked again after passing trouble, and replaced by a fallback when that does not end.
///
/// Pieces that the sink has already heard are taken back by [`Sink::restart`] before anything is asked again.
#[derive(Clone)]
pub struct Retrying {
    model: Arc<dyn Model>,
    fallback: Option<Arc<dyn Model>>,
    policy: RetryPolicy,
}

impl Retrying {
    /// `model`, asked again by this policy.
    pub fn new(model: Arc<dyn Model>, policy: RetryPolicy) -> Self {
        Self { model, fallback: None, policy }
    }

    /// With another model for when the first cannot be had. It is asked with the same patience.
    pub fn with_fallback(mut self, fallback: Arc<dyn Model>) -> Self {
        self.fallback = Some(fallback);
        self
    }

    async fn ask(&self, request: &ModelRequest, sink: &mut Watched<'_>) -> Result<ModelReply, ModelError> {
        let failed = match self.persist(&*self.model, request, sink).await {
            Ok(reply) => return Ok(reply),
            Err(error) => error,
        };
        match &self.fallback {
            Some(fallback) if another_may_do(&failed) => {
                tracing::warn!(error = %failed, kind = failed.kind.as_str(), "the model failed; asking its fallback");
                sink.begin_anew();
                self.persist(&**fallback, request, sink).await
            }
            _ => Err(failed),
        }
    }

    async fn persist(
        &self,
        model: &dyn Model,
        request: &ModelRequest,
        sink: &mut Watched<'_>,
    ) -> Result<ModelReply, ModelError> {
        let mut retries = 0;
        loop {
            let error = match model.complete(request, sink).await {
                Ok(reply) => return Ok(reply),
                Err(error) => error,
            };
            let Some(pause) = self.policy.pause(retries, &error, rand::random()) else {
                return Err(error);
            };
            retries += 1;
            tracing::warn!(error = %error, kind = error.kind.as_str(), retries, ?pause, "the model failed; asking again");
            sink.begin_anew();
            tokio::time::sleep(pause).await;
        }
    }
}

/// Whether another model may succeed where this one failed: not when the request itself is wrong, and not when an
/// operator must act, because a fallback would hide that for ever.
fn another_may_do(error: &ModelError) -> bool {
    error.can_retry() || matches!(error.kind, ErrorKind::Malformed | ErrorKind::Unsupported)
}

impl Model for Retrying {
    fn complete<'a>(
        &'a self,
        request: &'a ModelRequest,
        sink: &'a mut dyn Sink,
    ) -> BoxFuture<'a, Result<ModelReply, ModelError>> {
        Box::pin(async move { self.ask(request, &mut Watched { sink, heard: false }).await })
    }

    fn sees_images(&self) -> bool {
        self.model.sees_images() || self.fallback.as_ref().is_some_and(|fallback| fallback.sees_images())
    }
}

/// A sink that knows whether it has heard anything since the last restart.
struct Watched<'a> {
    sink: &'a mut dyn Sink,
    heard: bool,
}

impl Watched<'_> {
    fn begin_anew(&mut self) {
        if std::mem::take(&mut self.heard) {
            self.sink.restart();
        }
    }
}

impl Sink for Watched<'_> {
    fn text(&mut self, delta: &str) {
        self.heard = true;
        self.sink.text(delta);
    }

    fn thinking(&mut self, delta: &str) {
        self.heard = true;
        self.sink.thinking(delta);
    }

    fn restart(&mut self) {
        self.begin_anew();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limited(seconds: Option<u64>) -> ModelError {
        ModelError::new(ErrorKind::RateLimit { retry_after: seconds.map(Duration::from_secs) }, "")
    }

    #[test]
    fn pauses_double_up_to_the_longest_and_vary() {
        let policy = RetryPolicy { retries: 9, ..RetryPolicy::default() };
        let millis = |n, chance| policy.pause(n, &limited(None), chance).unwrap().as_millis();
        assert_eq!((millis(0, 0.0), millis(0, 1.0)), (250, 500));
        assert_eq!((millis(1, 1.0), millis(2, 1.0), millis(3, 0.5)), (1000, 2000, 3000));
        assert_eq!(millis(8, 1.0), 30_000);
    }

    #[test]
    fn a_wait_that_the_provider_asks_for_is_kept_unless_it_is_too_long() {
        let policy = RetryPolicy::default();
        assert_eq!(policy.pause(0, &limited(Some(7)), 1.0), Some(Duration::from_secs(7)));
        assert_eq!(policy.pause(0, &limited(Some(31)), 1.0), None);
        assert_eq!(policy.pause(3, &limited(None), 1.0), None);
        assert_eq!(policy.pause(0, &ModelError::new(ErrorKind::Auth, ""), 1.0), None);
    }
}
