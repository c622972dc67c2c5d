//! What a system saw: the numbers that tests compare with what a tool claims to have done.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use axum::extract::State;
use axum::routing::get;
use axum::{Json, Router};
use serde::Serialize;

/// The log keeps this many of the newest writes; the counters go on.
const LOG_CAPACITY: usize = 10_000;

/// Counters and log of one system, as `GET /audit` shows them.
///
/// Requests that were refused by authentication or rate limit are not counted anywhere.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Audit {
    /// Records changed. A batch update of five deals is five writes.
    pub writes: u64,
    /// Requests of reading operations, found or not.
    pub reads: u64,
    /// Requests answered from an earlier one with the same `Idempotency-Key`; they change nothing.
    pub replays: u64,
    /// Requests per operation, whatever their answer, without replays. A batch update is one request.
    pub by_operation: BTreeMap<&'static str, u64>,
    /// One line per changed record, oldest first; only the newest ten thousand.
    pub log: VecDeque<Entry>,
}

/// One changed record in the log of an [`Audit`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Entry {
    /// Number of the write, from 1.
    pub n: u64,
    /// Operation that changed the record, e.g. `deals.update`.
    pub operation: &'static str,
    /// Id of the record.
    pub id: String,
    /// Key that the client sent, if it sent one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub idempotency_key: Option<String>,
}

/// A system that counts what it does.
pub trait Audited {
    /// The counters as they stand now.
    fn audit(&self) -> Audit;
}

impl Audit {
    pub(crate) fn read(&mut self, operation: &'static str) {
        self.reads += 1;
        self.request(operation);
    }

    pub(crate) fn request(&mut self, operation: &'static str) {
        *self.by_operation.entry(operation).or_default() += 1;
    }

    pub(crate) fn wrote(&mut self, operation: &'static str, id: String, key: Option<&str>) {
        self.writes += 1;
        if self.log.len() == LOG_CAPACITY {
            self.log.pop_front();
        }
        self.log.push_back(Entry { n: self.writes, operation, id, idempotency_key: key.map(str::to_owned) });
    }
}

/// `GET /audit`, without authentication: it is for the person or test that looks on from outside.
pub(crate) fn routes<S: Audited + Send + Sync + 'static>() -> Router<Arc<S>> {
    Router::new().route("/audit", get(|State(system): State<Arc<S>>| async move { Json(system.audit()) }))
}
