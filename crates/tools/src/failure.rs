//! How a tool says that it failed, and who should act on it.

use std::time::Duration;

use toolwright_types::{ErrorCode, ToolError};

use crate::executor::Redactor;

/// A failed attempt: what the envelope will say, and whether another attempt can help.
#[derive(Debug, Clone)]
pub struct ToolFailure {
    /// What the envelope will say.
    pub error: ToolError,
    /// Whether the same call may succeed later.
    pub retryable: bool,
    /// The upstream's HTTP status, if it answered.
    pub http_status: Option<u16>,
    /// What the attempt cost all the same, where that is known.
    pub cost_usd: Option<f64>,
}

impl ToolFailure {
    /// The call is wrong: the model or the caller should change it.
    pub fn invalid(message: impl Into<String>) -> Self {
        Self::fatal(ErrorCode::ValidationError, message)
    }

    /// The system behind the tool failed; another attempt may succeed, after `after` if known.
    pub fn retry(message: impl Into<String>, after: Option<Duration>) -> Self {
        let mut error = ToolError::new(ErrorCode::ProviderError, message);
        error.retry_after_s = after.map(|wait| wait.as_secs_f64());
        Self { error, retryable: true, http_status: None, cost_usd: None }
    }

    /// The call failed for good.
    pub fn fatal(code: ErrorCode, message: impl Into<String>) -> Self {
        Self { error: ToolError::new(code, message), retryable: false, http_status: None, cost_usd: None }
    }

    pub(crate) fn redacted(mut self, redactor: &Redactor) -> Self {
        redactor.error(&mut self.error);
        self
    }

    /// The same failure with `details.reason`.
    pub fn reason(mut self, reason: &str) -> Self {
        self.error = self.error.reason(reason);
        self
    }
}

impl From<ToolError> for ToolFailure {
    fn from(error: ToolError) -> Self {
        let retryable = matches!(error.code, ErrorCode::NetworkError | ErrorCode::RateLimit | ErrorCode::Timeout);
        Self { error, retryable, http_status: None, cost_usd: None }
    }
}
