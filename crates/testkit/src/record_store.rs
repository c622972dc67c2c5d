//! The records of a fixture system, its audit, and the replies to requests with an idempotency key. One mutex protects
//! all of them.
//!
//! A write is checked, executed, counted and stored for replay while the mutex is locked. Two requests with the same
//! `Idempotency-Key` can therefore never both write. The module contains no async code.

use std::collections::{HashMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};

use jiff::Timestamp;

use crate::audit::Audit;
use crate::keyed_request::{KeyedRequest, Reply};

/// The maximum number of idempotency keys whose replies are stored.
const MAX_STORED_KEYS: usize = 10_000;

/// The time of the seed data, 2026-11-02T09:00:00Z, in seconds since 1970.
const SEEDED_AT: i64 = 1_793_610_000;

pub(crate) struct RecordStore<R>(Mutex<Shared<R>>);

/// The result of a change: the ids of the changed records, and the reply that the client gets.
pub(crate) struct WriteOutcome {
    pub(crate) ids: Vec<String>,
    pub(crate) reply: Reply,
}

/// The idempotency key was used before with a different request.
#[derive(Debug)]
pub(crate) struct KeyReused;

struct Shared<R> {
    records: R,
    audit: Audit,
    replies: Replies,
}

impl<R> RecordStore<R> {
    pub(crate) fn new(records: R) -> Self {
        Self(Mutex::new(Shared { records, audit: Audit::default(), replies: Replies::default() }))
    }

    pub(crate) fn read<T>(&self, operation: &'static str, query: impl FnOnce(&R) -> T) -> T {
        let mut shared = self.lock();
        shared.audit.record_read(operation);
        query(&shared.records)
    }

    /// Executes `change` unless the request repeats an earlier request. The argument of `change` is the time of the
    /// write.
    ///
    /// Only the reply to a successful change is stored for later repetitions. A client may therefore correct a rejected
    /// request and send it with the same key.
    // INVARIANT: if `change` returns an error, it has not changed the records.
    pub(crate) fn write<E: From<KeyReused>>(
        &self,
        operation: &'static str,
        request: &KeyedRequest,
        change: impl FnOnce(&mut R, Timestamp) -> Result<WriteOutcome, E>,
    ) -> Result<Reply, E> {
        let mut shared = self.lock();
        if let Some(reply) = shared.replies.lookup_reply(request)? {
            shared.audit.replays += 1;
            return Ok(reply);
        }
        let reply = shared.write(operation, request, change)?;
        shared.replies.store_reply(request, &reply);
        Ok(reply)
    }

    /// Executes `change` even if the request repeats an earlier request. The idempotency key appears only in the audit,
    /// so two requests with the same key are two writes.
    // INVARIANT: if `change` returns an error, it has not changed the records.
    pub(crate) fn write_without_dedup<E>(
        &self,
        operation: &'static str,
        request: &KeyedRequest,
        change: impl FnOnce(&mut R, Timestamp) -> Result<WriteOutcome, E>,
    ) -> Result<Reply, E> {
        self.lock().write(operation, request, change)
    }

    pub(crate) fn audit(&self) -> Audit {
        self.lock().audit.clone()
    }

    fn lock(&self) -> MutexGuard<'_, Shared<R>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<R> Shared<R> {
    fn write<E>(
        &mut self,
        operation: &'static str,
        request: &KeyedRequest,
        change: impl FnOnce(&mut R, Timestamp) -> Result<WriteOutcome, E>,
    ) -> Result<Reply, E> {
        self.audit.record_request(operation);
        let at = write_time(self.audit.writes);
        let WriteOutcome { ids, reply } = change(&mut self.records, at)?;
        for id in ids {
            self.audit.record_write(operation, id, request.key.as_deref());
        }
        Ok(reply)
    }
}

/// Returns the time of the seed data.
pub(crate) fn seeded_at() -> Timestamp {
    Timestamp::from_second(SEEDED_AT).unwrap_or(Timestamp::UNIX_EPOCH)
}

/// Returns the time of a write: one second after the previous write. The time is not read from a real clock, so that
/// the data is the same in each test run.
fn write_time(previous_writes: u64) -> Timestamp {
    i64::try_from(previous_writes)
        .ok()
        .and_then(|n| Timestamp::from_second(SEEDED_AT + n + 1).ok())
        .unwrap_or(Timestamp::MAX)
}

#[derive(Default)]
struct Replies {
    by_key: HashMap<String, (KeyedRequest, Reply)>,
    oldest_first: VecDeque<String>,
}

impl Replies {
    fn lookup_reply(&self, request: &KeyedRequest) -> Result<Option<Reply>, KeyReused> {
        let earlier = request.key.as_ref().and_then(|key| self.by_key.get(key));
        match earlier {
            None => Ok(None),
            Some((first, reply)) if request.is_repeat_of(first) => Ok(Some(reply.replayed())),
            Some(_) => Err(KeyReused),
        }
    }

    fn store_reply(&mut self, request: &KeyedRequest, reply: &Reply) {
        let Some(key) = request.key.clone() else {
            return;
        };
        if self.oldest_first.len() == MAX_STORED_KEYS
            && let Some(oldest) = self.oldest_first.pop_front()
        {
            self.by_key.remove(&oldest);
        }
        self.oldest_first.push_back(key.clone());
        self.by_key.insert(key, (request.clone(), reply.clone()));
    }
}
