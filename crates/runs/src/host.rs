//! Implements [`DriverHost`] for this server.

use std::sync::{Arc, PoisonError};

use futures::future::BoxFuture;
use tokio_util::sync::CancellationToken;
use toolwright_catalog::Unavailable;
use toolwright_machine::journal::RunStart;
use toolwright_store::Writer;
use toolwright_types::{CallId, Clock, RealmScope, RunId};
use tracing::Instrument;

use super::Inner;
use super::command::RunCommand;
use super::lease::Lease;
use super::ports::{DriverHost, LoadedRun, ParentCommand};
use super::registry::{RunHandle, RunRegistry};

impl DriverHost for Inner {
    fn clock(&self) -> &dyn Clock {
        &*self.clock
    }

    fn lease(&self) -> &Lease {
        &self.lease
    }

    fn writer(&self) -> &Writer {
        &self.writer
    }

    fn registry(&self) -> &RunRegistry {
        &self.registry
    }

    fn spawn(&self, run: RunId, task: BoxFuture<'static, ()>) {
        self.drivers.spawn(task.instrument(tracing::info_span!("run", %run, correlation = tracing::field::Empty)));
    }

    fn load_run<'a>(
        &'a self,
        handle: &'a Arc<RunHandle>,
        home: &'a Arc<RealmScope>,
    ) -> BoxFuture<'a, Result<Option<LoadedRun>, Unavailable>> {
        Box::pin(Inner::load_run(self, handle, home))
    }

    fn stop(&self) -> &CancellationToken {
        &self.stop
    }

    fn run_suspended(&self) {
        self.suspended.notify_one();
    }

    fn recover_later(&self, run: RunId, home: &Arc<RealmScope>, command: RunCommand) {
        self.unwritten.lock().unwrap_or_else(PoisonError::into_inner).insert(run, (Arc::clone(home), command));
    }

    fn has_ended<'a>(&'a self, home: &'a RealmScope, run: RunId) -> BoxFuture<'a, bool> {
        Box::pin(async move {
            match self.load(home, run).await {
                Ok(loaded) => loaded.snapshot.run.ending().is_some(),
                Err(error) => {
                    tracing::warn!(%run, %error, "a run that another waits for cannot be read");
                    false
                }
            }
        })
    }

    fn cancel_children<'a>(
        self: Arc<Self>,
        handle: &'a RunHandle,
        home: &'a Arc<RealmScope>,
        start: &'a RunStart,
    ) -> BoxFuture<'a, ()> {
        Box::pin(async move { Inner::cancel_children(&self, handle, home, start).await })
    }

    fn abandon_children<'a>(
        self: Arc<Self>,
        handle: &'a RunHandle,
        home: &'a Arc<RealmScope>,
        calls: &'a [CallId],
    ) -> BoxFuture<'a, ()> {
        Box::pin(async move { Inner::abandon_children(&self, handle, home, calls).await })
    }

    fn notify_parent(self: Arc<Self>, start: &RunStart, home: &Arc<RealmScope>, command: ParentCommand) {
        Inner::notify_parent(&self, start, home, command);
    }
}
