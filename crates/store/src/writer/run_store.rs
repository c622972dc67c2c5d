//! The trait through which servers write runs and obtain leases.
//!
//! It is a trait so that the simulation tests can replace the database by one that fails on demand. The tests then
//! check that drivers neither lose nor repeat work after a failure.

use std::collections::HashMap;
use std::future::Future;
use std::pin::Pin;

use toolwright_types::{RunId, Timestamp};

use super::{RunChange, WriteError, write_all};
use crate::db::StoreError;
use crate::runs::ServerId;
use crate::store::Store;

/// A boxed future; the same type as `futures::future::BoxFuture`.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// The changes of one run. Either all of them are written or none.
pub type RunChanges<'a> = (RunId, &'a [RunChange]);

/// Stores runs and the leases of servers.
pub trait RunStore: Send + Sync {
    /// Writes the changes of all runs in one transaction. Returns the runs whose changes were not written, with the
    /// errors. The changes of a run fail if a row that they insert already exists or if the server does not drive the
    /// run. All changes fail if it is unknown whether the transaction was committed.
    fn write<'a>(
        &'a self,
        server: &'a ServerId,
        now: Timestamp,
        changes: &'a [RunChanges<'a>],
    ) -> BoxFuture<'a, HashMap<RunId, WriteError>>;

    /// Extends a server's lease to `until`. Never shortens the lease.
    fn lease<'a>(&'a self, server: &'a ServerId, until: Timestamp) -> BoxFuture<'a, Result<(), StoreError>>;

    /// Ends a server's lease. Other servers may claim its runs at once.
    fn end_lease<'a>(&'a self, server: &'a ServerId) -> BoxFuture<'a, Result<(), StoreError>>;

    /// Ends the leases of all servers. A server calls this only if it shares the database with no other server.
    fn end_all_leases(&self) -> BoxFuture<'_, Result<(), StoreError>>;

    /// Makes the server the driver of a run. Returns `false` if the run has ended, or if the external scheduler or
    /// another server with a valid lease drives it.
    fn claim_run<'a>(
        &'a self,
        run: RunId,
        server: &'a ServerId,
        now: Timestamp,
    ) -> BoxFuture<'a, Result<bool, StoreError>>;
}

impl RunStore for Store {
    fn write<'a>(
        &'a self,
        server: &'a ServerId,
        now: Timestamp,
        changes: &'a [RunChanges<'a>],
    ) -> BoxFuture<'a, HashMap<RunId, WriteError>> {
        Box::pin(write_all(self, server, now, changes))
    }

    fn lease<'a>(&'a self, server: &'a ServerId, until: Timestamp) -> BoxFuture<'a, Result<(), StoreError>> {
        Box::pin(Store::lease(self, server, until))
    }

    fn end_lease<'a>(&'a self, server: &'a ServerId) -> BoxFuture<'a, Result<(), StoreError>> {
        Box::pin(Store::end_lease(self, server))
    }

    fn end_all_leases(&self) -> BoxFuture<'_, Result<(), StoreError>> {
        Box::pin(Store::end_all_leases(self))
    }

    fn claim_run<'a>(
        &'a self,
        run: RunId,
        server: &'a ServerId,
        now: Timestamp,
    ) -> BoxFuture<'a, Result<bool, StoreError>> {
        Box::pin(Store::claim_run(self, run, server, now))
    }
}
