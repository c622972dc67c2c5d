//! What servers that drive runs change: journals and rows of runs, and whose a run is.
//!
//! A port, because whoever drives runs must be right under every failure of it, and only a ledger that fails on demand
//! can show that.

use std::collections::HashMap;
use std::future::Future;
use std::pin::Pin;

use toolwright_types::{RunId, Timestamp};

use crate::db::Unavailable;
use crate::runs::ServerId;
use crate::store::Store;
use crate::writer::{Change, WriteError, write_all};

/// The future of an answer.
pub type Answer<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Changes of one run that are written together or not at all.
pub type RunChanges<'a> = (RunId, &'a [Change]);

/// Where runs are written, and who may write them.
pub trait Ledger: Send + Sync {
    /// Writes everything in one transaction, or all but the runs that it gives back with their errors: those of which
    /// something is there already, which the server does not drive, or of which nobody knows whether they are written.
    fn write<'a>(
        &'a self,
        server: &'a ServerId,
        now: Timestamp,
        changes: &'a [RunChanges<'a>],
    ) -> Answer<'a, HashMap<RunId, WriteError>>;

    /// Lets a server drive runs until `until`, or longer if it may already.
    fn lease<'a>(&'a self, server: &'a ServerId, until: Timestamp) -> Answer<'a, Result<(), Unavailable>>;

    /// Ends a server's lease: what it drove may be taken up at once.
    fn end_lease<'a>(&'a self, server: &'a ServerId) -> Answer<'a, Result<(), Unavailable>>;

    /// Ends the leases of all servers, for the one that has the ledger to itself.
    fn end_all_leases(&self) -> Answer<'_, Result<(), Unavailable>>;

    /// Makes a server the one that drives a run; false when another does, or the run has ended.
    fn take_run<'a>(
        &'a self,
        run: RunId,
        server: &'a ServerId,
        now: Timestamp,
    ) -> Answer<'a, Result<bool, Unavailable>>;
}

impl Ledger for Store {
    fn write<'a>(
        &'a self,
        server: &'a ServerId,
        now: Timestamp,
        changes: &'a [RunChanges<'a>],
    ) -> Answer<'a, HashMap<RunId, WriteError>> {
        Box::pin(write_all(&self.db, server, now, changes))
    }

    fn lease<'a>(&'a self, server: &'a ServerId, until: Timestamp) -> Answer<'a, Result<(), Unavailable>> {
        Box::pin(Store::lease(self, server, until))
    }

    fn end_lease<'a>(&'a self, server: &'a ServerId) -> Answer<'a, Result<(), Unavailable>> {
        Box::pin(Store::end_lease(self, server))
    }

    fn end_all_leases(&self) -> Answer<'_, Result<(), Unavailable>> {
        Box::pin(Store::end_all_leases(self))
    }

    fn take_run<'a>(
        &'a self,
        run: RunId,
        server: &'a ServerId,
        now: Timestamp,
    ) -> Answer<'a, Result<bool, Unavailable>> {
        Box::pin(Store::take_run(self, run, server, now))
    }
}
