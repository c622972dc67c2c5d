//! Read access to the steps of a run.

use std::collections::{HashMap, HashSet};

use serde_json::Value;
use toolwright_types::StepName;

use crate::agent::call::CallState;
use crate::agent::run::AgentRun;
use crate::workflow::{
    ItemRef, ItemReport, ReusedItem, ReusedStep, StepReport, StepRun, StepStatus, Unit, UnitState, WorkflowSpec,
};

impl AgentRun {
    /// The workflow that the run executes.
    pub fn workflow(&self) -> Option<&WorkflowSpec> {
        self.spec.workflow.as_deref()
    }

    /// The output of a workflow run; null until the run has completed.
    pub fn workflow_output(&self) -> &Value {
        self.workflow.as_ref().map_or(&Value::Null, |state| &state.output)
    }

    /// Whether a workflow run is paused.
    pub fn is_paused(&self) -> bool {
        self.ending().is_none() && self.workflow.as_ref().is_some_and(|state| state.paused)
    }

    /// The states of the steps of a workflow run, in the order of the definition.
    pub fn step_reports(&self) -> Vec<StepReport> {
        let (Some(spec), Some(state)) = (&self.spec.workflow, &self.workflow) else { return Vec::new() };
        let waiting = self.waiting_items();
        let reports = (0_u32..).zip(spec.graph.steps().iter().zip(&state.steps));
        reports.map(|(at, (step, run))| report(at, &step.name, run, &waiting)).collect()
    }

    /// The number of steps of a workflow run in each status.
    pub fn step_counts(&self) -> HashMap<StepStatus, usize> {
        let mut counts = HashMap::new();
        for step in self.workflow.iter().flat_map(|state| &state.steps) {
            *counts.entry(step.status).or_default() += 1;
        }
        counts
    }

    /// The results of a workflow run that a new run of the same workflow can reuse: the steps that completed or were
    /// skipped, the failures that a step handled, and the completed items of failed steps. The new run executes only the
    /// other steps.
    pub fn reusable_steps(&self) -> HashMap<StepName, ReusedStep> {
        let (Some(spec), Some(state)) = (&self.spec.workflow, &self.workflow) else { return HashMap::new() };
        let steps = spec.graph.steps().iter().zip(&state.steps).zip(&spec.graph.definition().steps);
        let reusable = steps.filter_map(|((step, run), definition)| {
            let code = run.error.as_ref().map(|error| error.code);
            let handled = definition.on_error == toolwright_types::OnError::Continue
                || code.is_some_and(|code| definition.on_error.target(code).is_some());
            Some((step.name.clone(), reusable(run, handled)?))
        });
        reusable.collect()
    }

    /// The items whose calls wait for a person, a client or a child run.
    fn waiting_items(&self) -> HashSet<ItemRef> {
        let calls = self.batch().into_iter().flat_map(|batch| &batch.calls);
        let waiting = calls.filter(|call| {
            matches!(
                call.state,
                CallState::AwaitingApproval { .. }
                    | CallState::AwaitingClient { .. }
                    | CallState::ChildSuspended { .. }
            )
        });
        waiting.filter_map(|call| Some(call.step.as_ref()?.of)).collect()
    }
}

fn report(at: u32, name: &str, run: &StepRun, waiting: &HashSet<ItemRef>) -> StepReport {
    let unit_status = |item: u32, unit: &Unit| match unit.status() {
        StepStatus::Running if waiting.contains(&ItemRef { step: at, item }) => StepStatus::Waiting,
        status => status,
    };
    let statuses: Vec<StepStatus> = (0_u32..).zip(&run.units).map(|(item, unit)| unit_status(item, unit)).collect();
    let only_waits = statuses.contains(&StepStatus::Waiting) && !statuses.contains(&StepStatus::Running);
    let status = if run.status == StepStatus::Running && only_waits { StepStatus::Waiting } else { run.status };
    let signal = run.units.iter().find_map(|unit| match &unit.state {
        UnitState::AwaitingSignal(name) => Some(name.clone()),
        _ => None,
    });
    let outputs = run.output.as_array();
    let items = run.is_list.then(|| {
        let items = (0_u32..).zip(run.units.iter().zip(&statuses)).zip(0_usize..);
        let item = items.map(|((index, (unit, status)), position)| ItemReport {
            index,
            status: *status,
            output: outputs.and_then(|outputs| outputs.get(position)).unwrap_or(&unit.output).clone(),
            error: unit.error.as_deref().cloned(),
            attempts: unit.attempts,
            call_id: unit.call_id.clone(),
        });
        item.collect()
    });
    StepReport {
        name: name.to_owned(),
        status,
        output: run.output.clone(),
        error: run.error.as_deref().cloned(),
        attempts: run.units.iter().map(|unit| unit.attempts).sum(),
        call_id: run.units.last().and_then(|unit| unit.call_id.clone()),
        started_at: run.started_at,
        ended_at: run.ended_at,
        wakes_at: run.units.iter().filter_map(|unit| unit.timer).min(),
        signal,
        reused: run.reused,
        items,
    }
}

/// The result of a step for a new run, if the new run does not have to execute the whole step.
fn reusable(run: &StepRun, handled: bool) -> Option<ReusedStep> {
    let ended = |status| {
        let error = run.error.as_deref().cloned();
        Some(ReusedStep { status, output: run.output.clone(), error, items: Vec::new() })
    };
    match run.status {
        StepStatus::Completed | StepStatus::Skipped => ended(run.status),
        StepStatus::Failed if handled => ended(run.status),
        StepStatus::Failed if run.is_list => {
            let outputs = run.output.as_array()?;
            let completed = (0_u32..).zip(run.units.iter().zip(outputs));
            let completed = completed.filter(|(_, (unit, _))| unit.state == UnitState::Completed);
            let items = completed.map(|(index, (_, output))| ReusedItem { index, output: output.clone() }).collect();
            Some(ReusedStep { status: StepStatus::Pending, output: Value::Null, error: None, items })
        }
        _ => None,
    }
}
