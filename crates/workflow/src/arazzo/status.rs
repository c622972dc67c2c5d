//! Conditions on the HTTP status. A tool has succeeded or failed with an error code, and its status is not part of its
//! output. A condition on the status can be converted if it asks for just that.

use toolwright_types::ErrorCode;

use super::condition::Condition;

/// The name of the status in a condition.
pub(super) const STATUS: &str = "$statusCode";
/// The condition that holds for each call that succeeded.
pub(super) const SUCCEEDED: &str = "$statusCode >= 200 && $statusCode < 300";

/// What a condition says about the statuses for which it could be asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    Always,
    Never,
    Sometimes,
}

/// The statuses for which a condition holds.
#[derive(Debug, Clone)]
pub(super) struct Statuses(Vec<u16>);

impl Statuses {
    /// The statuses for which a condition holds. `None` if the condition reads other values.
    pub(crate) fn of(condition: &Condition) -> Option<Self> {
        let mut statuses = Vec::new();
        for status in 100..600 {
            if condition.evaluate(STATUS, f64::from(status))? {
                statuses.push(status);
            }
        }
        Some(Self(statuses))
    }

    /// The statuses of a call that succeeded.
    pub(crate) fn succeeded() -> Self {
        Self((200..300).collect())
    }

    /// The statuses that both have.
    pub(crate) fn intersection(&self, other: &Self) -> Self {
        Self(self.0.iter().copied().filter(|status| other.0.contains(status)).collect())
    }

    /// What a condition says about these statuses. `None` if the condition reads other values.
    pub(crate) fn verdict(&self, condition: &Condition) -> Option<Verdict> {
        let holds = Self::of(condition)?.intersection(self).0.len();
        Some(match holds {
            0 => Verdict::Never,
            count if count == self.0.len() => Verdict::Always,
            _ => Verdict::Sometimes,
        })
    }

    /// Checks that the statuses are those of success. Returns a warning if they are only some of them.
    pub(crate) fn check_success(&self) -> Result<Option<String>, String> {
        if let Some(other) = self.0.iter().find(|status| !(200..300).contains(*status)) {
            return Err(format!("a tool fails after status {other}; only a status from 200 to 299 is a success"));
        }
        match self.0.len() {
            0 => Err("no status from 200 to 299 satisfies the criteria".to_owned()),
            100 => Ok(None),
            _ => Ok(Some("every status from 200 to 299 is a success, not only those of the criteria".to_owned())),
        }
    }

    /// The error codes of calls that failed with these statuses.
    pub(crate) fn error_codes(&self) -> Result<Vec<ErrorCode>, String> {
        let mut codes = Vec::new();
        for code in CODES {
            let own: Vec<u16> = (400..600).filter(|status| error_code(*status) == code).collect();
            match own.iter().filter(|status| self.0.contains(status)).count() {
                0 => {}
                count if count == own.len() => codes.push(code),
                _ => return Err(OTHER_STATUS.to_owned()),
            }
        }
        match codes.is_empty() || self.0.iter().any(|status| *status < 300) {
            true => Err(OTHER_STATUS.to_owned()),
            false => Ok(codes),
        }
    }
}

const OTHER_STATUS: &str = "this status has no error code of its own: the code is RATE_LIMIT after \
                            429, AUTH_REQUIRED after 401 and 403, and PROVIDER_ERROR after every other status from 400";

/// The error codes of HTTP statuses.
const CODES: [ErrorCode; 3] = [ErrorCode::RateLimit, ErrorCode::AuthRequired, ErrorCode::ProviderError];

fn error_code(status: u16) -> ErrorCode {
    match status {
        429 => ErrorCode::RateLimit,
        401 | 403 => ErrorCode::AuthRequired,
        _ => ErrorCode::ProviderError,
    }
}

/// The condition for an error code. `None` if the code has no statuses of its own.
pub(super) fn condition_of(code: &str) -> Option<&'static str> {
    match code {
        "RATE_LIMIT" => Some("$statusCode == 429"),
        "AUTH_REQUIRED" => Some("$statusCode == 401 || $statusCode == 403"),
        "PROVIDER_ERROR" => {
            Some("$statusCode >= 400 && $statusCode != 401 && $statusCode != 403 && $statusCode != 429")
        }
        _ => None,
    }
}
