//! Retries: `retryAfter` and `retryLimit` of Arazzo, and the retry policy of a step.

use toolwright_types::{Backoff, DurationMs, ErrorCode, RetryPolicy};

/// The policy for a retry action. `after` is a number of seconds.
pub(super) fn policy(after: Option<f64>, limit: Option<u64>, on: Vec<ErrorCode>) -> Result<RetryPolicy, String> {
    let attempts = limit.unwrap_or(1).saturating_add(1);
    let max_attempts = u32::try_from(attempts).map_err(|_| format!("must be at most {}", u32::MAX - 1))?;
    let mut policy = RetryPolicy { max_attempts, delay: None, max_delay: None, backoff: None, on };
    match after {
        None => {}
        Some(0.0) => policy.backoff = Some(Backoff::None),
        Some(seconds) => {
            let delay = std::time::Duration::try_from_secs_f64(seconds).ok();
            let delay = delay.and_then(|delay| u64::try_from(delay.as_millis()).ok()).filter(|delay| *delay > 0);
            let delay = delay.ok_or("`retryAfter` must be 0, or at least 0.001")?;
            // A delay that cannot grow.
            (policy.delay, policy.max_delay) = (Some(DurationMs(delay)), Some(DurationMs(delay)));
        }
    }
    Ok(policy)
}

/// The seconds between attempts. `None` if the policy leaves them open.
pub(super) fn retry_after(policy: &RetryPolicy) -> Result<Option<f64>, String> {
    match (policy.delay, policy.max_delay, policy.backoff) {
        (None, None, None) => Ok(None),
        (None, None, Some(Backoff::None)) => Ok(Some(0.0)),
        (Some(delay), Some(most), None) if delay == most && delay.0 > 0 => u32::try_from(delay.0)
            .map(|ms| Some(f64::from(ms) / 1000.0))
            .map_err(|_| "the delay is too long".to_owned()),
        _ => Err(
            "Arazzo has no growing delays; set `maxDelay` to `delay` and omit `backoff`, or set only `backoff: none`"
                .to_owned(),
        ),
    }
}
