//! Calls the tools that read records from an API, on behalf of a principal or of another call.

use toolwright_catalog::Session;
use toolwright_tools::{CallContext, CallRequest, Executor};
use toolwright_types::{DocumentId, RunId, ToolEnvelope, ToolError};

/// Calls the tools that read records from an API.
pub struct ToolCaller {
    executor: Executor,
    /// The call to the tool that accesses the records; `None` if a principal requested the records directly.
    parent: Option<CallContext>,
}

impl ToolCaller {
    /// Creates a tool caller for a request for records that comes directly from a principal.
    pub fn direct(executor: &Executor) -> Self {
        Self { executor: executor.clone(), parent: None }
    }

    /// Creates a tool caller for a tool call that accesses records. The tools are called as nested calls of that tool
    /// call, with the same surface and trial.
    pub fn nested(executor: &Executor, parent: &CallContext) -> Self {
        Self { executor: executor.clone(), parent: Some(parent.clone()) }
    }

    /// Calls a tool that only reads.
    pub(super) async fn read(&self, session: &Session, request: CallRequest) -> Result<Box<ToolEnvelope>, ToolError> {
        match &self.parent {
            Some(parent) => self.executor.read_nested(parent, request).await,
            None => {
                let (realm, principal) = (session.realm.clone(), session.principal.clone());
                let mut cx = CallContext::direct(realm, principal, RunId::generate());
                cx.caller.correlation_id.clone_from(&session.correlation);
                self.executor.read_nested(&cx, request).await
            }
        }
    }
}
