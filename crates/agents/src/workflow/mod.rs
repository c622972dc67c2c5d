//! Starts runs that execute a workflow.

mod draft;
mod outcome;
mod rerun;
mod steps;

use std::sync::Arc;

use serde_json::Value;
use toolwright_authz::{Action, Resource, SecurityUri};
use toolwright_catalog::{CompiledWorkflow, Session, execution_target};
use toolwright_runs::RunHandle;
use toolwright_types::{Principal, RealmScope, RunId, StepName, ToolStatus};

use crate::error::StartError;
use crate::spec::RunOrigin;
use crate::start::LaunchError;
use crate::{Agents, Unavailable};

pub(crate) use draft::WorkflowCall;
pub(crate) use outcome::{agent_outcome, workflow_outcome};
pub use rerun::{RerunError, RerunSteps};

/// A request to run a workflow.
#[derive(Debug, Clone, Default)]
pub struct WorkflowRequest {
    /// The input of the workflow.
    pub input: Value,
    /// Whether the run is durable. `None` means the setting of the workflow.
    pub durable: Option<bool>,
    /// The only step to execute, without the steps before it.
    pub only: Option<StepName>,
    /// The principal to act as. `None` means the principal of the session.
    pub principal: Option<Arc<Principal>>,
    /// The id of the run. `None` means a new id.
    pub run: Option<RunId>,
}

/// A workflow run that was started.
pub struct StartedWorkflow {
    /// The run.
    pub run: RunId,
    /// The handle of the run, to watch the run or to wait for it.
    pub handle: Arc<RunHandle>,
}

impl Agents {
    /// Starts a run of a workflow. The run continues if the caller disconnects.
    pub async fn start_workflow(
        &self,
        session: &Session,
        workflow: &str,
        request: WorkflowRequest,
    ) -> Result<StartedWorkflow, StartError> {
        let workflow = self.find_workflow(&session.realm, workflow).await?;
        self.check_may_execute(session, &workflow)?;
        self.check_capacity()?;
        let WorkflowRequest { input, durable, only, principal, run } = request;
        if let Some(step) = &only
            && workflow.graph.position(step).is_none()
        {
            return Err(StartError::UnknownStep {
                workflow: workflow.document.meta.ref_name.to_string(),
                step: step.clone(),
            });
        }
        let principal = principal.unwrap_or_else(|| Arc::clone(&session.principal));
        let origin = RunOrigin::new(session, Arc::clone(&session.realm), principal).with_id(run);
        let call = WorkflowCall { durable, only, ..WorkflowCall::new(&workflow, input).await? };
        self.launch_workflow(call, origin).await
    }

    /// Returns the workflow with this name, if it can run.
    pub(crate) async fn find_workflow(
        &self,
        realm: &RealmScope,
        name: &str,
    ) -> Result<Arc<CompiledWorkflow>, StartError> {
        match self.0.resolver.catalog.workflow(realm, name).await? {
            Some(Ok(workflow)) => Ok(workflow),
            Some(Err(issues)) => Err(StartError::InvalidWorkflow(issues)),
            None => Err(StartError::UnknownWorkflow { workflow: name.to_owned(), realm: realm.name.to_string() }),
        }
    }

    async fn launch_workflow(&self, call: WorkflowCall, origin: RunOrigin) -> Result<StartedWorkflow, StartError> {
        let run = origin.run;
        let draft = Box::pin(self.draft_workflow(call, origin)).await?;
        match self.launch(draft, Vec::new()).await {
            Ok(handle) => Ok(StartedWorkflow { run, handle }),
            Err(LaunchError::Write(error)) => Err(Unavailable::from(error).into()),
        }
    }

    /// Checks that the session may execute the workflow and that the workflow is enabled.
    pub(crate) fn check_may_execute(&self, session: &Session, workflow: &CompiledWorkflow) -> Result<(), StartError> {
        let definition = &workflow.document.body;
        self.0.access.require(session, Action::Execute, Resource::Workflow { name: definition.ref_name.as_str() })?;
        if let Some(uri) = definition.security_uri.as_deref().and_then(|text| text.parse::<SecurityUri>().ok())
            && let Some(target) = execution_target(&uri)
        {
            self.0.access.require(session, Action::Execute, target)?;
        }
        let name = definition.ref_name.to_string();
        match (definition.enabled, definition.status) {
            (false, _) => Err(StartError::WorkflowDisabled(name)),
            (true, ToolStatus::Blocked) => {
                Err(StartError::WorkflowBlocked { workflow: name, version: definition.version.to_string() })
            }
            (true, _) => Ok(()),
        }
    }
}
