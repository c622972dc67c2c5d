//! The id that connects everything that one external request causes.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::RunId;

/// The maximum number of characters.
const MAX_CHARS: usize = 128;

/// A correlation id. All runs and calls that one external request causes have the same correlation id. The client may
/// choose it, so it neither identifies a client nor grants a permission. It has 1 to 128 visible ASCII characters, so
/// it is valid in a header.
#[derive(Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct CorrelationId(Arc<str>);

/// The error for a text that is not a valid correlation id. The error does not contain the text, because the text may
/// be long.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("a correlation id must have 1 to {MAX_CHARS} visible ASCII characters")]
pub struct InvalidCorrelationId;

impl CorrelationId {
    /// Returns the id of the run as its correlation id. Used if the start of the run recorded no correlation id.
    pub fn of_run(run: RunId) -> Self {
        Self(run.to_string().into())
    }

    /// The id as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for CorrelationId {
    type Err = InvalidCorrelationId;

    fn from_str(text: &str) -> Result<Self, InvalidCorrelationId> {
        let valid = (1..=MAX_CHARS).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_graphic());
        if valid { Ok(Self(text.into())) } else { Err(InvalidCorrelationId) }
    }
}

impl TryFrom<String> for CorrelationId {
    type Error = InvalidCorrelationId;

    fn try_from(text: String) -> Result<Self, InvalidCorrelationId> {
        text.parse()
    }
}

impl From<CorrelationId> for String {
    fn from(id: CorrelationId) -> Self {
        id.as_str().to_owned()
    }
}

impl fmt::Display for CorrelationId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for CorrelationId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn correlation_id_has_visible_ascii_characters_and_a_limited_length() {
        for (text, valid) in [
            ("order-7/retry=1", true),
            (&*"a".repeat(128), true),
            (&*"a".repeat(129), false),
            ("", false),
            ("two words", false),
            ("line\nbreak", false),
            ("ä", false),
        ] {
            assert_eq!(text.parse::<CorrelationId>().is_ok(), valid, "{text:?}");
        }
    }
}
