//! The chain that makes a journal one piece: each entry's hash covers the entry and everything before it.
//!
//! Whoever changes, drops or moves an entry breaks the chain there. Whoever can rewrite everything behind it too can
//! only be told by a hash that was kept elsewhere; the last one stands for the whole journal.

use sha2::{Digest, Sha256};
use toolwright_types::{RunId, Timestamp};

/// The hash of an entry.
pub type Hash = [u8; 32];

/// What the first entry of a run is chained to; no two runs have the same.
pub fn origin(run: RunId) -> Hash {
    let mut hash = Sha256::new();
    hash.update(b"toolwright journal 1\n");
    hash.update(run.to_string());
    hash.finalize().into()
}

/// The hash of an entry as it is written, after the one before it.
pub fn link(previous: &Hash, n: u64, at: Timestamp, body: &str) -> Hash {
    let mut hash = Sha256::new();
    hash.update(previous);
    hash.update(n.to_be_bytes());
    hash.update(at.as_micros().to_be_bytes());
    hash.update(body);
    hash.finalize().into()
}
