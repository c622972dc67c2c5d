//! The end of a run that executes a workflow.

use serde_json::Value;
use toolwright_types::{ErrorCode, OnError, ToolError, WorkflowStep};

use super::Steps;
use crate::agent::call::Call;
use crate::agent::depth::limit_depth;
use crate::agent::run::AgentRun;
use crate::workflow::{StepContext, StepRun, StepStatus, UnitState};
use crate::{Ending, RunStatus};

impl Steps<'_> {
    /// Computes the output of a run whose steps have all ended.
    pub(super) fn complete(&mut self) -> Ending {
        let graph = &self.spec.graph;
        let output = match &graph.output {
            Some(output) => StepContext { spec: self.spec, state: self.state, item: None }.evaluate(output),
            None => {
                let leaves = graph.leaves.iter().filter_map(|at| Some((graph.step(*at)?, self.state.step(*at)?)));
                // After a failure that another step handles, the output of that step takes the place of this one.
                let has_output = |definition: &WorkflowStep, run: &StepRun| {
                    let continues = run.status == StepStatus::Failed && definition.on_error == OnError::Continue;
                    run.status == StepStatus::Completed || continues
                };
                let outputs = leaves.filter(|((_, definition), run)| has_output(definition, run));
                let outputs = outputs.map(|((step, _), run)| (step.name.clone(), run.output.clone()));
                Ok(Value::Object(outputs.collect()))
            }
        };
        match output {
            Ok(output) => {
                self.state.output = limit_depth(output);
                self.run.response = self.state.output.to_string();
                Ending::completed()
            }
            Err(error) => {
                Ending::with_reason(RunStatus::Error, "output", format!("the output cannot be computed: {error}"))
            }
        }
    }
}

/// Records the ends of the steps in progress when the run ends.
pub(in crate::agent) fn record_end(run: &mut AgentRun, calls: &[Call], ending: &Ending) {
    let Some(mut state) = run.workflow.take() else { return };
    let why = ending.message.as_deref().unwrap_or("the run ended");
    let error = ToolError::new(ErrorCode::Unknown, format!("{why} before this step ended"))
        .reason(ending.reason.as_deref().unwrap_or("ended"));
    for call in calls {
        let unit = call.step.as_ref().and_then(|step| state.unit_mut(step.of));
        if let Some(unit) = unit.filter(|unit| unit.state == UnitState::Calling) {
            unit.call_id = Some(call.call_id.clone());
            unit.error = run.ledger.envelope(&call.call_id).and_then(|envelope| envelope.error.clone()).map(Box::new);
        }
    }
    for step in state.steps.iter_mut().filter(|step| step.status == StepStatus::Running) {
        for unit in step.units.iter_mut().filter(|unit| !unit.has_ended() && unit.state != UnitState::Pending) {
            unit.state = UnitState::Failed;
            unit.timer = None;
            unit.error.get_or_insert_with(|| Box::new(error.clone()));
        }
        let own = step.units.iter_mut().find_map(|unit| unit.error.as_mut());
        step.error = Some(own.map_or_else(|| Box::new(error.clone()), |own| own.clone()));
        step.status = StepStatus::Failed;
        step.ended_at = Some(run.now);
        step.list = Vec::new();
        if step.is_list {
            step.output = step.units.iter_mut().map(|unit| std::mem::take(&mut unit.output)).collect();
        }
    }
    state.ready.clear();
    state.startable.clear();
    state.startable_local.clear();
    state.due_retries.clear();
    state.preparing.clear();
    state.timers.clear();
    state.awaiting.clear();
    run.workflow = Some(state);
}
