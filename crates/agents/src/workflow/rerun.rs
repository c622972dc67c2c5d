//! Runs a workflow again with the results of an earlier run: after a failure, from a step, or a single step.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use toolwright_authz::{Action, Resource};
use toolwright_catalog::Session;
use toolwright_machine::workflow::{ReusedStep, WorkflowGraph, WorkflowSpec};
use toolwright_runs::{CommandError, RunRecord};
use toolwright_types::{RunId, StepName};

use super::{StartedWorkflow, WorkflowCall};
use crate::Agents;
use crate::error::StartError;
use crate::spec::RunOrigin;

/// The steps that a new run executes. It reuses the results of all others.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RerunSteps {
    /// The steps that failed or did not run. With `items`, the completed items of a failed `forEach` are reused too.
    Failed {
        /// Whether completed items are reused.
        items: bool,
    },
    /// This step, and all steps that follow it.
    From(StepName),
    /// Only this step.
    Only(StepName),
}

/// Why a workflow could not be run again. Nothing was written.
#[derive(Debug, thiserror::Error)]
pub enum RerunError {
    /// The earlier run cannot be read.
    #[error(transparent)]
    Run(#[from] CommandError),
    /// The run cannot be started.
    #[error(transparent)]
    Start(#[from] StartError),
    /// The earlier run executes no workflow.
    #[error("run `{0}` executes no workflow")]
    NoWorkflow(RunId),
    /// The earlier run has not ended.
    #[error("run `{0}` has not ended; wait for it or cancel it first")]
    NotEnded(RunId),
    /// All steps of the earlier run have completed.
    #[error("run `{0}` has no failed step; name a step from which to run it again")]
    NothingFailed(RunId),
}

impl Agents {
    /// Starts a new run with the definition, the input and the results of an earlier run. With `latest`, the new run uses
    /// the current definition.
    pub async fn rerun_workflow(
        &self,
        session: &Session,
        run: RunId,
        steps: RerunSteps,
        latest: bool,
    ) -> Result<StartedWorkflow, RerunError> {
        let RunRecord { row, snapshot } = self.0.runs.get(session, run).await?;
        let earlier = snapshot.run.workflow().ok_or(RerunError::NoWorkflow(run))?;
        let name = snapshot.start.subject.as_str();
        let call = if latest {
            let workflow = self.find_workflow(&session.realm, name).await?;
            self.check_may_execute(session, &workflow)?;
            WorkflowCall::new(&workflow, earlier.input.clone()).await?
        } else {
            let denied = |error| RerunError::Start(StartError::Denied(error));
            self.0.access.require(session, Action::Execute, Resource::Workflow { name }).map_err(denied)?;
            recorded_call(earlier, &snapshot.start.definition_hash)
        };
        let only = matches!(steps, RerunSteps::Only(_));
        if snapshot.run.ending().is_none() && !only {
            return Err(RerunError::NotEnded(run));
        }
        let mut reused: BTreeMap<StepName, ReusedStep> = snapshot.run.reusable_steps().into_iter().collect();
        reused.retain(|step, _| call.graph.position(step).is_some());
        let unknown = |step: &StepName| StartError::UnknownStep { workflow: name.to_owned(), step: step.clone() };
        match &steps {
            RerunSteps::Failed { items } => {
                let is_complete = |step: &str| reused.get(step).is_some_and(|reused| reused.status.has_ended());
                if call.graph.steps().iter().all(|step| is_complete(&step.name)) {
                    return Err(RerunError::NothingFailed(run));
                }
                if !items {
                    reused.retain(|_, step| step.status.has_ended());
                }
            }
            RerunSteps::From(step) => {
                let position = call.graph.position(step).ok_or_else(|| unknown(step))?;
                for name in following(&call.graph, position) {
                    reused.remove(&name);
                }
            }
            RerunSteps::Only(step) => {
                call.graph.position(step).ok_or_else(|| unknown(step))?;
                reused.remove(step);
            }
        }
        let only = match steps {
            RerunSteps::Only(step) => Some(step),
            RerunSteps::Failed { .. } | RerunSteps::From(_) => None,
        };
        self.check_capacity()?;
        let forked_from = Some((run, row.state.journal_position.n));
        let call = WorkflowCall { reused, only, forked_from, durable: Some(snapshot.start.durable), ..call };
        let origin = RunOrigin::new(session, Arc::clone(&session.realm), Arc::clone(&session.principal));
        Ok(self.launch_workflow(call, origin).await?)
    }
}

/// The call that an earlier run executed, with its recorded definition.
fn recorded_call(earlier: &WorkflowSpec, definition_hash: &str) -> WorkflowCall {
    WorkflowCall {
        graph: Arc::clone(&earlier.graph),
        definition_hash: definition_hash.to_owned(),
        input: earlier.input.clone(),
        durable: None,
        reused: BTreeMap::new(),
        only: None,
        forked_from: None,
    }
}

/// A step and all steps that follow it, by name.
fn following(graph: &WorkflowGraph, first: u32) -> BTreeSet<StepName> {
    let (mut found, mut left) = (BTreeSet::new(), vec![first]);
    while let Some(at) = left.pop() {
        let step = usize::try_from(at).ok().and_then(|at| graph.steps().get(at));
        let Some(step) = step.filter(|step| found.insert(step.name.clone())) else { continue };
        left.extend(step.edges.iter().map(|edge| edge.to));
    }
    found
}
