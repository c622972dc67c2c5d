//! Calls by a principal that is here in person: REST, CLI and MCP.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use serde_json::Value;
use tokio::runtime::Handle;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use toolwright_tools::ports::Authorizer;
use toolwright_tools::{
    CallContext, CallRequest, CompiledTool, Executor, Hearing, Outcome, Prepared, ReadyCall, Step, Word,
};
use toolwright_types::{
    Document, DocumentId, RealmScope, RunId, Status, Surface, ToolDefinition, ToolEnvelope, ToolError,
    ToolProviderConfig, ToolType,
};
use tracing::Instrument;

use crate::Unavailable;
use crate::access::{Access, Session};
use crate::catalog::{Catalog, choose};
use crate::runs::{Called, DirectCall, Runs};

/// Makes calls. Cheap to clone.
#[derive(Clone)]
pub struct Calls(Arc<Inner>);

struct Inner {
    executor: Executor,
    catalog: Catalog,
    runs: Runs,
    access: Access,
    /// How long a client has to return a result.
    client_wait: Duration,
    under_way: TaskTracker,
    /// Cancels every call under way.
    stop: CancellationToken,
}

impl Calls {
    pub(crate) fn new(executor: Executor, catalog: Catalog, runs: Runs, access: Access, client_wait: Duration) -> Self {
        let (under_way, stop) = (TaskTracker::new(), CancellationToken::new());
        Self(Arc::new(Inner { executor, catalog, runs, access, client_wait, under_way, stop }))
    }

    /// The executor, for machines that decide for themselves.
    pub fn executor(&self) -> &Executor {
        &self.0.executor
    }

    /// Calls a tool; the run it makes is the call. When the caller goes away, which drops this, a call that only reads is
    /// cancelled, and any other goes on: a write that has begun is not left half done because a connection broke.
    pub async fn execute(&self, session: &Session, request: CallRequest) -> Result<(RunId, Called), Unavailable> {
        let direct = self.prepare(session, Surface::Tool, request).await;
        let (run, reads) = (direct.run(), direct.ready().is_some_and(|ready| !ready.reaches_out()));
        let called = match reads {
            true => direct.make_while_wanted().await?,
            false => direct.make(&CancellationToken::new()).await?,
        };
        Ok((run, called))
    }

    /// The first half of a call on a surface where somebody may have to agree before the second.
    pub async fn prepare(&self, session: &Session, surface: Surface, request: CallRequest) -> Direct {
        let (_, mut cx) = self.begin(session);
        cx.surface = surface;
        let (begun, input) = (self.0.runs.now(), request.input.clone());
        let prepared = self.0.executor.admit(&cx, request).await;
        let call = DirectCall { session: session.clone(), cx, begun, input, client_wait: self.0.client_wait };
        Direct { calls: self.clone(), call, prepared }
    }

    /// The tools that a session can call on a surface.
    pub async fn offered(&self, session: &Session, surface: Surface) -> Result<Vec<Arc<CompiledTool>>, Unavailable> {
        let callable = |tool: &&Arc<CompiledTool>| {
            let definition = &tool.definition;
            definition.enabled
                && definition.status == Status::Active
                && definition.available_as.contains(&surface)
                && tool.provider.as_ref().is_none_or(|provider| provider.config.enabled)
                && self.0.access.may_execute(&session.principal, &session.realm, tool).is_ok()
        };
        Ok(self.0.catalog.all(&session.realm).await?.iter().filter(callable).cloned().collect())
    }

    /// Waits for the calls under way for as long as `grace`, then cancels them: each still ends with an envelope.
    pub(crate) async fn finish(&self, grace: Duration) {
        self.0.under_way.close();
        if tokio::time::timeout(grace, self.0.under_way.wait()).await.is_err() {
            tracing::warn!(calls = self.0.under_way.len(), "calls did not finish in time and are cancelled");
            self.0.stop.cancel();
            self.0.under_way.wait().await;
        }
    }

    /// The tool that a name and requirement mean.
    pub async fn find(
        &self,
        realm: &RealmScope,
        tool: &str,
        version: Option<&semver::VersionReq>,
    ) -> Result<Option<Arc<CompiledTool>>, Unavailable> {
        Ok(choose(&self.0.catalog.versions(realm, tool).await?, version).cloned())
    }

    /// Whether a provider can be reached: a GET of its base URL through the ordinary path, as a tool nobody saved.
    pub async fn probe(
        &self,
        session: &Session,
        provider: &Document<ToolProviderConfig>,
    ) -> Result<Outcome, Unavailable> {
        let mut definition = ToolDefinition::new(provider.meta.ref_name.clone(), ToolType::ExternalRest);
        definition.invocation.method = Some("GET".into());
        definition.invocation.path = Some("/".into());
        definition.provider_ref = Some(provider.meta.ref_name.to_string());
        definition.default_retry_count = Some(0);
        self.execute_unsaved(session, definition, None).await
    }

    /// Calls a tool that nobody saved, of a provider that nobody need have saved, without arguments; otherwise the path is
    /// the ordinary one.
    pub async fn execute_unsaved(
        &self,
        session: &Session,
        definition: ToolDefinition,
        provider: Option<&ToolProviderConfig>,
    ) -> Result<Outcome, Unavailable> {
        let document = Document::unsaved(definition.ref_name.clone(), definition);
        let compiled = match provider {
            None => self.0.catalog.compile(&session.realm, document).await?,
            Some(provider) => self.0.catalog.compile_with(document, provider.clone()),
        };
        let tool = compiled.map_err(|issues| Unavailable::new("the provider cannot be probed")(Box::new(issues)))?;
        let (_, cx) = self.begin(session);
        Ok(self.0.executor.execute_tool(&cx, Arc::new(tool), Value::Object(Default::default())).await)
    }

    /// A run for one direct call, which ends with the server.
    fn begin(&self, session: &Session) -> (RunId, CallContext) {
        let run = RunId::generate();
        let mut cx = CallContext::direct(Arc::clone(&session.realm), Arc::clone(&session.principal), run);
        cx.cancel = self.0.stop.child_token();
        (run, cx)
    }
}

/// A direct call between its halves.
pub struct Direct {
    calls: Calls,
    call: DirectCall,
    prepared: Prepared,
}

impl Direct {
    /// The run that the call is.
    pub fn run(&self) -> RunId {
        self.call.cx.run
    }

    /// The call, if it can be made.
    pub fn ready(&self) -> Option<&ReadyCall> {
        match &self.prepared {
            Prepared::Ready(ready) => Some(ready),
            Prepared::Refused(_) => None,
        }
    }

    /// What cancels the call.
    pub fn cancels(&self) -> CancellationToken {
        self.call.cx.cancel.clone()
    }

    /// How far the call is, if it says so while it is made here.
    pub fn progress(&mut self) -> Hearing<Step> {
        let (word, hearing) = Word::new();
        self.call.cx.lent.progress = Some(word);
        hearing
    }

    /// Makes the call. Cancelling ends it, with an envelope; dropping the future does not.
    pub async fn make(self, cancel: &CancellationToken) -> Result<Called, Unavailable> {
        let (runs, ends) = (self.calls.0.runs.clone(), self.call.cx.cancel.clone());
        let (run, home) = (self.run(), Arc::clone(&self.call.session.realm));
        // Boxed, because a task is moved several times before it rests.
        let call = Box::pin(async move { runs.call(self.call, self.prepared).await });
        let mut call = self.calls.0.under_way.spawn(call.in_current_span());
        let called = tokio::select! {
            called = &mut call => called,
            () = cancel.cancelled() => {
                ends.cancel();
                self.calls.0.runs.cancel_call(run, &home).await;
                call.await
            }
        };
        called.map_err(|error| Unavailable::new("the call was lost")(Box::new(error)))?
    }

    /// Makes a call that only reads, for somebody who waits for it: dropping the future cancels it. It still ends with an
    /// envelope, in the journal.
    pub async fn make_while_wanted(self) -> Result<Called, Unavailable> {
        let Self { calls, call, prepared } = self;
        let (runs, cancel, under_way) = (calls.0.runs.clone(), call.cx.cancel.clone(), calls.0.under_way.clone());
        let _under_way = under_way.token();
        let call = Box::pin(async move { runs.call(call, prepared).await });
        Wanted { call: Some(call), cancel, under_way }.await
    }

    /// The receipt of a call that is not made after all.
    pub async fn refuse(self, error: ToolError) -> ToolEnvelope {
        let envelope = match self.prepared {
            Prepared::Ready(ready) => self.calls.0.executor.refuse(*ready, error),
            Prepared::Refused(envelope) => *envelope,
        };
        self.calls.0.runs.note_refused(self.call, envelope.clone()).await;
        envelope
    }
}

/// A call that is made where it is waited for: a task of its own would cost as much as the call. It gets one when nobody waits
/// any more, to come to its end.
struct Wanted<F: Future<Output = Result<Called, Unavailable>> + Send + 'static> {
    /// Absent when it has ended, or panicked.
    call: Option<Pin<Box<F>>>,
    cancel: CancellationToken,
    under_way: TaskTracker,
}

impl<F: Future<Output = Result<Called, Unavailable>> + Send + 'static> Future for Wanted<F> {
    type Output = Result<Called, Unavailable>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let Some(mut call) = self.call.take() else { return Poll::Pending };
        let called = call.as_mut().poll(cx);
        if called.is_pending() {
            self.call = Some(call);
        }
        called
    }
}

impl<F: Future<Output = Result<Called, Unavailable>> + Send + 'static> Drop for Wanted<F> {
    fn drop(&mut self) {
        // Without a runtime, everything ends here.
        if let (Some(call), Ok(runtime)) = (self.call.take(), Handle::try_current()) {
            self.cancel.cancel();
            self.under_way.spawn_on(call, &runtime);
        }
    }
}
