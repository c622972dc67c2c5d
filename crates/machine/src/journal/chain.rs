//! The hash chain of a journal: each entry's hash covers the entry and everything before it.
//!
//! Changing, dropping or moving an entry breaks the chain at that entry. An attacker who also rewrites all later
//! entries leaves a valid chain. To detect such an attack, keep a copy of the last hash elsewhere, because the last
//! hash covers the whole journal.

use sha2::{Digest, Sha256};
use toolwright_types::{RunId, Timestamp};

/// The hash of an entry.
pub type Hash = [u8; 32];

/// The hash that the first entry of a run uses as the previous hash. It differs between runs.
pub fn origin(run: RunId) -> Hash {
    let mut hash = Sha256::new();
    hash.update(b"toolwright journal 1\n");
    hash.update(run.to_string());
    hash.finalize().into()
}

/// The hash of an entry, computed from its content and the hash of the previous entry.
pub fn link(previous: &Hash, n: u64, at: Timestamp, body: &str) -> Hash {
    let mut hash = Sha256::new();
    hash.update(previous);
    hash.update(n.to_be_bytes());
    hash.update(at.as_micros().to_be_bytes());
    hash.update(body);
    hash.finalize().into()
}
