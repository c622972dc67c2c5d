//! Records the effects of a scheduled run as tasks instead of executing them.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use tokio_util::sync::CancellationToken;
use toolwright_machine::agent::{CallToPrepare, CallToRun, EffectId};
use toolwright_tools::{Allowance, ReadyCall};
use toolwright_types::{CallId, ModelRequest, Timestamp};

use crate::ports::{EffectExecutor, EffectOutcome};
use crate::registry::RunHandle;

/// The executor of a cached run. It records model calls, tool calls and verifications as tasks instead of executing
/// them. It prepares calls at once, because the machine needs the result to continue.
pub(super) struct TaskRecorder {
    pub executor: Arc<dyn EffectExecutor>,
    tasks: Mutex<Vec<RecordedTask>>,
    /// Calls that this server prepared and has not executed yet.
    ready: Mutex<HashMap<CallId, ReadyCall>>,
    /// Cancelled when the run has ended.
    pub ended: CancellationToken,
}

pub(super) struct RecordedTask {
    pub effect: EffectId,
    pub name: String,
    pub allowance: Option<Allowance>,
}

impl TaskRecorder {
    pub(super) fn new(executor: Arc<dyn EffectExecutor>) -> Self {
        Self { executor, tasks: Mutex::default(), ready: Mutex::default(), ended: CancellationToken::new() }
    }

    fn record(
        &self,
        effect: EffectId,
        name: String,
        allowance: Option<Allowance>,
    ) -> BoxFuture<'static, EffectOutcome> {
        self.tasks().push(RecordedTask { effect, name, allowance });
        std::future::ready(EffectOutcome::Scheduled).boxed()
    }

    pub(super) fn tasks(&self) -> MutexGuard<'_, Vec<RecordedTask>> {
        self.tasks.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn take_ready(&self, call: &CallId) -> Option<ReadyCall> {
        self.ready.lock().unwrap_or_else(PoisonError::into_inner).remove(call)
    }
}

impl EffectExecutor for TaskRecorder {
    fn ask(
        self: Arc<Self>,
        _: Arc<RunHandle>,
        iteration: u32,
        _: Box<ModelRequest>,
    ) -> BoxFuture<'static, EffectOutcome> {
        self.record(EffectId::Model(iteration), format!("model {iteration}"), None)
    }

    fn prepare_all(self: Arc<Self>, iteration: u32, calls: Vec<CallToPrepare>) -> BoxFuture<'static, EffectOutcome> {
        Arc::clone(&self.executor).prepare_all(iteration, calls)
    }

    fn prepare_again(self: Arc<Self>, call_id: CallId, call: CallToPrepare) -> BoxFuture<'static, EffectOutcome> {
        Arc::clone(&self.executor).prepare_again(call_id, call)
    }

    fn call(
        self: Arc<Self>,
        call: Box<CallToRun>,
        ready: Option<ReadyCall>,
        allowance: Option<Allowance>,
    ) -> BoxFuture<'static, EffectOutcome> {
        let mut prepared = self.ready.lock().unwrap_or_else(PoisonError::into_inner);
        prepared.extend(ready.map(|ready| (call.call_id.clone(), ready)));
        drop(prepared);
        let name = format!("call {} {}", call.facts.name, call.call_id);
        self.record(EffectId::Call(call.call_id.clone()), name, allowance)
    }

    fn verify(self: Arc<Self>, call: Box<CallToRun>, _: Timestamp) -> BoxFuture<'static, EffectOutcome> {
        let name = format!("verify {} {}", call.facts.name, call.call_id);
        self.record(EffectId::Verify(call.call_id.clone()), name, None)
    }

    fn time_limit(&self, call: &CallToRun) -> Duration {
        self.executor.time_limit(call)
    }

    fn starts_run(&self, call: &CallToRun) -> bool {
        self.executor.starts_run(call)
    }

    fn cancel(&self) {
        self.ended.cancel();
        self.executor.cancel();
    }
}
