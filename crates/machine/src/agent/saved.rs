//! A run as text, with a version, so that a later release can still read it.

use serde::{Deserialize, Serialize};

use super::AgentRun;

const VERSION: u32 = 1;

#[derive(Serialize)]
struct Saving<'a> {
    v: u32,
    run: &'a AgentRun,
}

#[derive(Deserialize)]
struct Header {
    v: u32,
}

#[derive(Deserialize)]
struct V1 {
    run: AgentRun,
}

/// Why a text is not a saved run.
#[derive(Debug, thiserror::Error)]
pub enum RestoreError {
    /// Not a saved run of any version.
    #[error("not a saved run")]
    Unreadable(#[source] serde_json::Error),
    /// Written by a later release.
    #[error("a saved run of version {0}, which this release does not know")]
    Version(u32),
    /// Of a known version, but damaged.
    #[error("a saved run of version {version} that does not fit it")]
    Damaged {
        /// The version it says it has.
        version: u32,
        /// What does not fit.
        #[source]
        source: serde_json::Error,
    },
}

impl AgentRun {
    /// The run as JSON.
    #[expect(
        clippy::expect_used,
        reason = "every map key is a string and every number finite; tests save at every step"
    )]
    pub fn save(&self) -> String {
        serde_json::to_string(&Saving { v: VERSION, run: self }).expect("a run is JSON")
    }

    /// The run from that. It knows which effects were handed out; a driver that lost them begins with
    /// [`AgentRun::pending`] or [`AgentRun::reissue`].
    pub fn restore(text: &str) -> Result<Self, RestoreError> {
        let Header { v } = serde_json::from_str(text).map_err(RestoreError::Unreadable)?;
        match v {
            1 => serde_json::from_str::<V1>(text)
                .map(|saved| saved.run)
                .map_err(|source| RestoreError::Damaged { version: v, source }),
            other => Err(RestoreError::Version(other)),
        }
    }
}
