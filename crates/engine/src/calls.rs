//! Calls by a principal that is here in person: REST and CLI.

use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use toolwright_tools::{CallContext, CallRequest, CompiledTool, Executor, Outcome};
use toolwright_types::{Document, DocumentId, RealmScope, RunId, ToolDefinition, ToolProviderConfig, ToolType};
use tracing::Instrument;

use crate::Unavailable;
use crate::access::Session;
use crate::catalog::{Catalog, choose};
use crate::runs::{Called, Runs};

/// Makes calls. Cheap to clone.
#[derive(Clone)]
pub struct Calls {
    executor: Executor,
    catalog: Catalog,
    runs: Runs,
    /// How long a client has to return a result.
    client_wait: Duration,
    under_way: TaskTracker,
    /// Cancels every call under way.
    stop: CancellationToken,
}

impl Calls {
    pub(crate) fn new(executor: Executor, catalog: Catalog, runs: Runs, client_wait: Duration) -> Self {
        Self { executor, catalog, runs, client_wait, under_way: TaskTracker::new(), stop: CancellationToken::new() }
    }

    /// The executor, for machines that decide for themselves.
    pub fn executor(&self) -> &Executor {
        &self.executor
    }

    /// Calls a tool; the run it makes is the call. The call goes on when the caller goes away: a write that has begun
    /// is not left half done because a connection broke.
    pub async fn execute(&self, session: &Session, request: CallRequest) -> Result<(RunId, Called), Unavailable> {
        let (run, cx) = self.begin(session);
        let (runs, session, client_wait) = (self.runs.clone(), session.clone(), self.client_wait);
        let call = async move { runs.call(&session, cx, request, client_wait).await }.in_current_span();
        let called = self.under_way.spawn(call).await;
        Ok((run, called.map_err(|error| Unavailable::new("the call was lost")(Box::new(error)))??))
    }

    /// Waits for the calls under way for as long as `grace`, then cancels them: each still ends with an envelope.
    pub(crate) async fn finish(&self, grace: Duration) {
        self.under_way.close();
        if tokio::time::timeout(grace, self.under_way.wait()).await.is_err() {
            tracing::warn!(calls = self.under_way.len(), "calls did not finish in time and are cancelled");
            self.stop.cancel();
            self.under_way.wait().await;
        }
    }

    /// The tool that a name and requirement mean.
    pub async fn find(
        &self,
        realm: &RealmScope,
        tool: &str,
        version: Option<&semver::VersionReq>,
    ) -> Result<Option<Arc<CompiledTool>>, Unavailable> {
        Ok(choose(&self.catalog.versions(realm, tool).await?, version).cloned())
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
        let compiled =
            self.catalog.compile(&session.realm, Document::unsaved(definition.ref_name.clone(), definition)).await?;
        let tool = compiled.map_err(|issues| Unavailable::new("the provider cannot be probed")(Box::new(issues)))?;
        let (_, cx) = self.begin(session);
        Ok(self.executor.execute_tool(&cx, Arc::new(tool), Value::Object(Default::default())).await)
    }

    /// A run for one direct call, which ends with the server.
    fn begin(&self, session: &Session) -> (RunId, CallContext) {
        let run = RunId::generate();
        let mut cx = CallContext::direct(Arc::clone(&session.realm), Arc::clone(&session.principal), run);
        cx.cancel = self.stop.child_token();
        (run, cx)
    }
}
