//! Retries of requests to Restate.

use std::time::Duration;

use toolwright_types::RetryDelays;

/// The delays between attempts.
const DELAYS: RetryDelays = RetryDelays::exponential(Duration::from_millis(50), Duration::from_secs(1));

/// Repeats a request to `url` until it succeeds. `retry_for` returns how long the request is repeated after an error.
/// When this time has passed, returns the last error.
pub(crate) async fn retry<E, F>(url: &str, retry_for: impl Fn(&E) -> Duration, request: impl Fn() -> F) -> Result<(), E>
where
    E: std::error::Error + 'static,
    F: Future<Output = Result<(), E>>,
{
    let started = tokio::time::Instant::now();
    let mut retries = 0;
    loop {
        let Err(error) = request().await else { return Ok(()) };
        let delay = DELAYS.delay(retries);
        if started.elapsed() + delay > retry_for(&error) {
            return Err(error);
        }
        tracing::debug!(url, error = &error as &dyn std::error::Error, "a request to Restate is retried");
        tokio::time::sleep(delay).await;
        retries += 1;
    }
}
