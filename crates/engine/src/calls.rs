//! Calls by a principal that is here in person: REST and CLI.

use std::sync::Arc;

use serde_json::Value;
use tokio_util::task::TaskTracker;
use toolwright_tools::{CallContext, CallRequest, CompiledTool, Executor, Outcome};
use toolwright_types::{Document, DocumentId, RealmScope, RunId, ToolDefinition, ToolProviderConfig, ToolType};
use tracing::Instrument;

use crate::Unavailable;
use crate::access::Session;
use crate::catalog::{Catalog, choose};

/// Makes calls. Cheap to clone.
#[derive(Clone)]
pub struct Calls {
    executor: Executor,
    catalog: Catalog,
    tasks: TaskTracker,
}

impl Calls {
    pub(crate) fn new(executor: Executor, catalog: Catalog, tasks: TaskTracker) -> Self {
        Self { executor, catalog, tasks }
    }

    /// The executor, for machines that decide for themselves.
    pub fn executor(&self) -> &Executor {
        &self.executor
    }

    /// Calls a tool; the run it makes is the call. The call goes on when the caller goes away: a write that has begun
    /// is not left half done because a connection broke.
    pub async fn execute(&self, session: &Session, request: CallRequest) -> Result<(RunId, Outcome), Unavailable> {
        let run = RunId::generate();
        let cx = CallContext::direct(Arc::clone(&session.realm), Arc::clone(&session.principal), run);
        let executor = self.executor.clone();
        let call = async move { executor.execute(&cx, request).await }.in_current_span();
        let outcome = self.tasks.spawn(call).await;
        Ok((run, outcome.map_err(|error| Unavailable::new("the call was lost")(Box::new(error)))?))
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
        let compiled = self.catalog.compile(&session.realm, crate::registry::unsaved(&definition)).await?;
        let tool = compiled.map_err(|issues| Unavailable::new("the provider cannot be probed")(Box::new(issues)))?;
        let cx = CallContext::direct(Arc::clone(&session.realm), Arc::clone(&session.principal), RunId::generate());
        Ok(self.executor.execute_tool(&cx, Arc::new(tool), Value::Object(Default::default())).await)
    }
}
