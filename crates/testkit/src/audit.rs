//! The audit of a fixture system: counts the requests and writes that the system received, so that a test can compare
//! them with the result of a tool.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use axum::extract::State;
use axum::routing::get;
use axum::{Json, Router};
use serde::Serialize;

/// The maximum number of writes in the log. Older writes are removed from the log, but not from the counters.
const LOG_CAPACITY: usize = 10_000;

/// The counters and the log of one system, as `GET /audit` returns them.
///
/// Requests that authentication or the rate limit rejects are not counted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Audit {
    /// The number of record changes. A batch update of five deals is five writes.
    pub writes: u64,
    /// The number of requests to read operations, including requests that found no record.
    pub reads: u64,
    /// The number of requests that repeated an earlier `Idempotency-Key`. They change nothing.
    pub replays: u64,
    /// The number of requests per operation, including failed requests but not replays. A batch update is one request.
    pub by_operation: BTreeMap<&'static str, u64>,
    /// One entry per record change, oldest first. Only the newest ten thousand are kept.
    pub log: VecDeque<AuditEntry>,
}

/// One record change in the log of an [`Audit`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct AuditEntry {
    /// The number of the write, counted from 1.
    pub n: u64,
    /// The operation that changed the record, e.g. `deals.update`.
    pub operation: &'static str,
    /// The id of the record.
    pub id: String,
    /// The idempotency key that the client sent, if any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub idempotency_key: Option<String>,
}

/// A system with an audit.
pub trait Audited {
    /// Returns the current audit.
    fn audit(&self) -> Audit;
}

impl Audit {
    pub(crate) fn record_read(&mut self, operation: &'static str) {
        self.reads += 1;
        self.record_request(operation);
    }

    pub(crate) fn record_request(&mut self, operation: &'static str) {
        *self.by_operation.entry(operation).or_default() += 1;
    }

    pub(crate) fn record_write(&mut self, operation: &'static str, id: String, key: Option<&str>) {
        self.writes += 1;
        if self.log.len() == LOG_CAPACITY {
            self.log.pop_front();
        }
        self.log.push_back(AuditEntry { n: self.writes, operation, id, idempotency_key: key.map(str::to_owned) });
    }
}

/// Returns the route `GET /audit`. It requires no authentication, because only tests and people use it.
pub(crate) fn routes<S: Audited + Send + Sync + 'static>() -> Router<Arc<S>> {
    Router::new().route("/audit", get(|State(system): State<Arc<S>>| async move { Json(system.audit()) }))
}
