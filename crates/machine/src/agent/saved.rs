//! Saves a run as versioned JSON text, so that later releases can read it.

use serde::{Deserialize, Serialize};

use super::AgentRun;

const FORMAT_VERSION: u32 = 1;

#[derive(Serialize)]
struct SavedRun<'a> {
    v: u32,
    run: &'a AgentRun,
}

#[derive(Deserialize)]
struct Header {
    v: u32,
}

#[derive(Deserialize)]
struct SavedRunV1 {
    run: AgentRun,
}

/// The reason why a text cannot be restored to a run.
#[derive(Debug, thiserror::Error)]
pub enum RestoreError {
    /// The text is not a saved run of any version.
    #[error("the text is not a saved run")]
    Unreadable(#[source] serde_json::Error),
    /// The text was written by a newer release.
    #[error("the saved run has format version {0}, which this release does not support")]
    Version(u32),
    /// The version is known, but the content is damaged.
    #[error("the saved run of format version {version} is damaged")]
    Damaged {
        /// The version in the text.
        version: u32,
        /// The parse error.
        #[source]
        source: serde_json::Error,
    },
}

impl AgentRun {
    /// Saves the run as JSON.
    #[expect(
        clippy::expect_used,
        reason = "every map key is a string and every number finite; tests save after every event"
    )]
    pub fn save(&self) -> String {
        serde_json::to_string(&SavedRun { v: FORMAT_VERSION, run: self }).expect("a run serializes to JSON")
    }

    /// Restores a saved run. The saved text states which effects were issued. A driver that lost these effects gets
    /// them from [`AgentRun::pending`] or [`AgentRun::reissue_effects`].
    pub fn restore(text: &str) -> Result<Self, RestoreError> {
        let Header { v } = serde_json::from_str(text).map_err(RestoreError::Unreadable)?;
        match v {
            1 => serde_json::from_str::<SavedRunV1>(text)
                .map(|saved| saved.run)
                .map_err(|source| RestoreError::Damaged { version: v, source }),
            other => Err(RestoreError::Version(other)),
        }
    }
}
