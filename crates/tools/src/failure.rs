//! The failure of one attempt, and whether a retry can help.

use std::time::Duration;

use toolwright_types::{ChildRun, ErrorCode, ToolError};

/// A failed attempt: the error for the envelope, and whether another attempt can help.
#[derive(Debug, Clone)]
pub struct ToolFailure {
    /// The error that the envelope will carry.
    pub error: ToolError,
    /// Whether the same call may succeed later.
    pub retryable: bool,
    /// The upstream's HTTP status, if it responded.
    pub http_status: Option<u16>,
    /// The cost of the failed attempt, if known.
    pub cost_usd: Option<f64>,
    /// The run that the attempt started.
    pub child_run: Option<Box<ChildRun>>,
}

impl ToolFailure {
    /// Creates the failure of a call with invalid input, which the model or the caller should correct.
    pub fn invalid(message: impl Into<String>) -> Self {
        Self::fatal(ErrorCode::ValidationError, message)
    }

    /// Creates the failure of an upstream that is temporarily unavailable. A retry may succeed if it waits at least
    /// `after`.
    pub fn retry(message: impl Into<String>, after: Option<Duration>) -> Self {
        let mut error = ToolError::new(ErrorCode::ProviderError, message);
        error.retry_after_s = after.map(|wait| wait.as_secs_f64());
        Self { error, retryable: true, http_status: None, cost_usd: None, child_run: None }
    }

    /// Creates a failure that a retry cannot resolve.
    pub fn fatal(code: ErrorCode, message: impl Into<String>) -> Self {
        Self {
            error: ToolError::new(code, message),
            retryable: false,
            http_status: None,
            cost_usd: None,
            child_run: None,
        }
    }

    /// Sets `details.reason`.
    pub fn reason(mut self, reason: &str) -> Self {
        self.error = self.error.reason(reason);
        self
    }
}

impl From<ToolError> for ToolFailure {
    fn from(error: ToolError) -> Self {
        let retryable = matches!(error.code, ErrorCode::NetworkError | ErrorCode::RateLimit | ErrorCode::Timeout);
        Self { error, retryable, http_status: None, cost_usd: None, child_run: None }
    }
}
