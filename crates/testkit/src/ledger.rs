//! The records of a system behind one mutex, together with the audit and the replies given to keyed requests.
//!
//! A write is decided, carried out, counted and remembered under one lock, so two requests with the same
//! `Idempotency-Key` can never both write. Nothing here awaits.

use std::collections::{HashMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};

use jiff::Timestamp;

use crate::audit::Audit;
use crate::submission::{Reply, Submission};

/// Replies are remembered for this many of the newest keys.
const REMEMBERED_KEYS: usize = 10_000;

/// 2026-11-02T09:00:00Z: the time of the seed data, in seconds since 1970.
const SEEDED_AT: i64 = 1_793_610_000;

pub(crate) struct Ledger<R>(Mutex<Books<R>>);

/// What a change did: the records it touched, and what to tell the client.
pub(crate) struct Written {
    pub(crate) ids: Vec<String>,
    pub(crate) reply: Reply,
}

/// The key came before with another request, so neither answer would be right.
#[derive(Debug)]
pub(crate) struct KeyReused;

struct Books<R> {
    records: R,
    audit: Audit,
    replies: Replies,
}

impl<R> Ledger<R> {
    pub(crate) fn new(records: R) -> Self {
        Self(Mutex::new(Books { records, audit: Audit::default(), replies: Replies::default() }))
    }

    pub(crate) fn read<T>(&self, operation: &'static str, look: impl FnOnce(&R) -> T) -> T {
        let mut books = self.lock();
        books.audit.read(operation);
        look(&books.records)
    }

    /// Carries out `change` unless the request is a repeat; `change` gets the time of the write.
    ///
    /// Only a change that succeeded is remembered, so a rejected request may be corrected under the same key.
    // INVARIANT: `change` returns an error only before it has touched the records.
    pub(crate) fn write<E: From<KeyReused>>(
        &self,
        operation: &'static str,
        request: &Submission,
        change: impl FnOnce(&mut R, Timestamp) -> Result<Written, E>,
    ) -> Result<Reply, E> {
        let mut books = self.lock();
        if let Some(reply) = books.replies.recall(request)? {
            books.audit.replays += 1;
            return Ok(reply);
        }
        let reply = books.write(operation, request, change)?;
        books.replies.remember(request, &reply);
        Ok(reply)
    }

    /// Carries out `change` whenever it is asked to: the key is noted in the audit, and two requests with the same
    /// one are two writes.
    // INVARIANT: `change` returns an error only before it has touched the records.
    pub(crate) fn write_each<E>(
        &self,
        operation: &'static str,
        request: &Submission,
        change: impl FnOnce(&mut R, Timestamp) -> Result<Written, E>,
    ) -> Result<Reply, E> {
        self.lock().write(operation, request, change)
    }

    pub(crate) fn audit(&self) -> Audit {
        self.lock().audit.clone()
    }

    fn lock(&self) -> MutexGuard<'_, Books<R>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<R> Books<R> {
    fn write<E>(
        &mut self,
        operation: &'static str,
        request: &Submission,
        change: impl FnOnce(&mut R, Timestamp) -> Result<Written, E>,
    ) -> Result<Reply, E> {
        self.audit.request(operation);
        let at = time_of_write(self.audit.writes);
        let Written { ids, reply } = change(&mut self.records, at)?;
        for id in ids {
            self.audit.wrote(operation, id, request.key.as_deref());
        }
        Ok(reply)
    }
}

/// When the seed data was written.
pub(crate) fn seeded_at() -> Timestamp {
    Timestamp::from_second(SEEDED_AT).unwrap_or(Timestamp::UNIX_EPOCH)
}

/// One second after the write before it: real clocks would make the data differ from run to run.
fn time_of_write(earlier: u64) -> Timestamp {
    i64::try_from(earlier).ok().and_then(|n| Timestamp::from_second(SEEDED_AT + n + 1).ok()).unwrap_or(Timestamp::MAX)
}

#[derive(Default)]
struct Replies {
    by_key: HashMap<String, (Submission, Reply)>,
    oldest_first: VecDeque<String>,
}

impl Replies {
    fn recall(&self, request: &Submission) -> Result<Option<Reply>, KeyReused> {
        let earlier = request.key.as_ref().and_then(|key| self.by_key.get(key));
        match earlier {
            None => Ok(None),
            Some((first, reply)) if request.repeats(first) => Ok(Some(reply.again())),
            Some(_) => Err(KeyReused),
        }
    }

    fn remember(&mut self, request: &Submission, reply: &Reply) {
        let Some(key) = request.key.clone() else {
            return;
        };
        if self.oldest_first.len() == REMEMBERED_KEYS
            && let Some(oldest) = self.oldest_first.pop_front()
        {
            self.by_key.remove(&oldest);
        }
        self.oldest_first.push_back(key.clone());
        self.by_key.insert(key, (request.clone(), reply.clone()));
    }
}
