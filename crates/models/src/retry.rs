//! Retries after transient errors, then falls back to another model.

use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use toolwright_types::{ModelReply, ModelRequest, RetryDelays};

use crate::{ErrorKind, Model, ModelError, Sink};

/// The number of retries and the delays between them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RetryPolicy {
    /// The maximum number of retries after the first attempt.
    pub max_retries: u32,
    /// The delays between retries. If a provider asks for a longer wait than the maximum delay, there are no further
    /// retries.
    pub delays: RetryDelays,
}

impl Default for RetryPolicy {
    fn default() -> Self {
        Self { max_retries: 3, delays: RetryDelays::exponential(Duration::from_millis(500), Duration::from_secs(30)) }
    }
}

impl RetryPolicy {
    /// Returns the delay before retry `n`, counted from 0; `None` ends the retries. `jitter` is a random number between
    /// 0 and 1.
    fn delay(&self, n: u32, error: &ModelError, jitter: f64) -> Option<Duration> {
        if n >= self.max_retries || !error.is_retryable() {
            return None;
        }
        let requested = error.retry_after().unwrap_or_default();
        (requested <= self.delays.max).then(|| self.delays.jittered(n, jitter).max(requested))
    }
}

/// A model that retries after transient errors, and uses a fallback model when the retries are exhausted.
///
/// Before a retry, [`Sink::restart`] discards the deltas of the failed attempt.
#[derive(Clone)]
pub struct RetryingModel {
    model: Arc<dyn Model>,
    fallback: Option<Arc<dyn Model>>,
    policy: RetryPolicy,
}

impl RetryingModel {
    /// Wraps `model` with a retry policy.
    pub fn new(model: Arc<dyn Model>, policy: RetryPolicy) -> Self {
        Self { model, fallback: None, policy }
    }

    /// Sets the model to use when the first one fails. The same policy applies to it.
    pub fn with_fallback(mut self, fallback: Arc<dyn Model>) -> Self {
        self.fallback = Some(fallback);
        self
    }

    async fn complete_with_fallback(
        &self,
        request: &ModelRequest,
        sink: &mut TrackingSink<'_>,
    ) -> Result<ModelReply, ModelError> {
        let error = match self.complete_with_retries(&*self.model, request, sink).await {
            Ok(reply) => return Ok(reply),
            Err(error) => error,
        };
        match &self.fallback {
            Some(fallback) if fallback_may_help(&error) => {
                tracing::warn!(%error, kind = error.kind.as_str(), "model failed; using the fallback model");
                sink.discard();
                self.complete_with_retries(&**fallback, request, sink).await
            }
            _ => Err(error),
        }
    }

    async fn complete_with_retries(
        &self,
        model: &dyn Model,
        request: &ModelRequest,
        sink: &mut TrackingSink<'_>,
    ) -> Result<ModelReply, ModelError> {
        let mut retries = 0;
        loop {
            let error = match model.complete(request, sink).await {
                Ok(reply) => return Ok(reply),
                Err(error) => error,
            };
            let Some(delay) = self.policy.delay(retries, &error, rand::random()) else {
                return Err(error);
            };
            retries += 1;
            tracing::warn!(%error, kind = error.kind.as_str(), retries, ?delay, "model failed; retrying");
            sink.discard();
            tokio::time::sleep(delay).await;
        }
    }
}

/// Returns whether a fallback model may succeed. The fallback is not used if the request itself is invalid. It is also
/// not used if an operator must act, because a successful fallback would hide the problem.
fn fallback_may_help(error: &ModelError) -> bool {
    error.is_retryable() || matches!(error.kind, ErrorKind::Malformed | ErrorKind::Unsupported)
}

impl Model for RetryingModel {
    fn complete<'a>(
        &'a self,
        request: &'a ModelRequest,
        sink: &'a mut dyn Sink,
    ) -> BoxFuture<'a, Result<ModelReply, ModelError>> {
        Box::pin(
            async move { self.complete_with_fallback(request, &mut TrackingSink { sink, has_output: false }).await },
        )
    }

    fn supports_images(&self) -> bool {
        self.model.supports_images() || self.fallback.as_ref().is_some_and(|fallback| fallback.supports_images())
    }
}

/// A sink that tracks whether it received output since the last restart.
struct TrackingSink<'a> {
    sink: &'a mut dyn Sink,
    has_output: bool,
}

impl TrackingSink<'_> {
    /// Restarts the inner sink if it has received output.
    fn discard(&mut self) {
        if std::mem::take(&mut self.has_output) {
            self.sink.restart();
        }
    }
}

impl Sink for TrackingSink<'_> {
    fn text(&mut self, delta: &str) {
        self.has_output = true;
        self.sink.text(delta);
    }

    fn thinking(&mut self, delta: &str) {
        self.has_output = true;
        self.sink.thinking(delta);
    }

    fn restart(&mut self) {
        self.discard();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rate_limit(seconds: Option<u64>) -> ModelError {
        ModelError::new(ErrorKind::RateLimit { retry_after: seconds.map(Duration::from_secs) }, "")
    }

    #[test]
    fn requested_wait_over_the_maximum_delay_ends_the_retries() {
        let policy = RetryPolicy::default();
        assert_eq!(policy.delay(0, &rate_limit(Some(7)), 1.0), Some(Duration::from_secs(7)));
        assert_eq!(policy.delay(0, &rate_limit(Some(31)), 1.0), None);
        assert_eq!(policy.delay(3, &rate_limit(None), 1.0), None);
        assert_eq!(policy.delay(0, &ModelError::new(ErrorKind::Auth, ""), 1.0), None);
    }
}
