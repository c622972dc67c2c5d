//! Starts steps whose dependencies have ended, and applies the ends of steps to the steps that depend on them.

use serde_json::Value;
use toolwright_types::{ErrorCode, OnError, ToolError};

use super::Steps;
use super::evaluate::expression_error;
use crate::workflow::{
    EdgeKind, GraphStep, HandlerKind, ReusedItem, StepContext, StepRun, StepStatus, Unit, UnitState,
};
use crate::{Ending, RunStatus};

/// The reason code of a run in which a step has failed.
const STEP_FAILED: &str = "step_failed";

/// The result of a step.
pub(super) struct StepResult {
    pub status: StepStatus,
    pub output: Value,
    pub error: Option<ToolError>,
}

impl StepResult {
    pub(super) fn completed(output: Value) -> Self {
        Self { status: StepStatus::Completed, output, error: None }
    }

    pub(super) fn failed(error: ToolError) -> Self {
        Self { status: StepStatus::Failed, output: Value::Null, error: Some(error) }
    }

    fn skipped() -> Self {
        Self { status: StepStatus::Skipped, output: Value::Null, error: None }
    }
}

/// How a step continues whose dependencies have ended.
enum Beginning {
    /// The step has its result already.
    End(StepResult),
    /// The step runs: once, or for each item of a list.
    Run(Option<Vec<Value>>),
}

impl Steps<'_> {
    /// Starts the steps whose dependencies have ended.
    pub(super) fn start_steps(&mut self) {
        while !self.is_ending()
            && let Some(at) = self.state.ready.pop_front()
        {
            let spec = self.spec;
            let Some((step, _)) = spec.graph.step(at) else { continue };
            match self.beginning(at, step) {
                Beginning::End(result) => self.end_step(at, result),
                Beginning::Run(list) => self.begin(at, step, list),
            }
        }
    }

    /// Decides whether a step runs.
    fn beginning(&mut self, at: u32, step: &GraphStep) -> Beginning {
        if let Some(reused) = self.spec.reused.get(&step.name).filter(|reused| reused.status.has_ended()) {
            if let Some(run) = self.state.step_mut(at) {
                run.reused = true;
            }
            let (output, error) = (reused.output.clone(), reused.error.clone());
            return Beginning::End(StepResult { status: reused.status, output, error });
        }
        let activated = step.dependencies == 0 || self.state.step(at).is_some_and(|run| run.activated);
        // The only step of a run is executed even if the steps before it have no results.
        let runs = self.spec.only.as_ref().map_or(activated, |only| *only == step.name);
        if !runs {
            return Beginning::End(StepResult::skipped());
        }
        let context = StepContext { spec: self.spec, state: self.state, item: None };
        for (_, condition) in &step.conditions {
            match context.condition(condition) {
                Ok(true) => {}
                Ok(false) => return Beginning::End(StepResult::skipped()),
                Err(message) => return Beginning::End(StepResult::failed(expression_error("condition", message))),
            }
        }
        let Some(items) = &step.items else { return Beginning::Run(None) };
        let most = self.spec.graph.definition().limits.max_items.unwrap_or(toolwright_types::WorkflowLimits::MAX_ITEMS);
        match context.evaluate(&items.list) {
            Ok(Value::Array(list)) if u32::try_from(list.len()).is_ok_and(|count| count <= most) => {
                Beginning::Run(Some(list))
            }
            Ok(Value::Array(list)) => {
                let message = format!("the list has {} items, but `maxItems` is {most}", list.len());
                Beginning::End(StepResult::failed(
                    ToolError::new(ErrorCode::PolicyDenied, message).reason("too_many_items"),
                ))
            }
            Ok(_) => {
                let message = "the value of `forEach` must be a list".to_owned();
                Beginning::End(StepResult::failed(expression_error("not_a_list", message)))
            }
            Err(error) => Beginning::End(StepResult::failed(expression_error("items", error.to_string()))),
        }
    }

    fn begin(&mut self, at: u32, step: &GraphStep, list: Option<Vec<Value>>) {
        let spec = self.spec;
        let now = self.run.now;
        let Some(run) = self.state.step_mut(at) else { return };
        run.status = StepStatus::Running;
        run.started_at = Some(now);
        run.is_list = list.is_some();
        run.units = vec![Unit::default(); list.as_ref().map_or(1, Vec::len)];
        run.list = list.unwrap_or_default();
        if let Some(reused) = spec.reused.get(&step.name) {
            reuse_items(run, reused);
        }
        if run.is_complete() {
            return self.end_list(at);
        }
        match step.kind {
            HandlerKind::Call { .. } => self.state.startable.insert(at),
            _ => self.state.startable_local.insert(at),
        };
    }

    /// Ends a step, and starts the steps that waited only for it.
    pub(super) fn end_step(&mut self, at: u32, result: StepResult) {
        let spec = self.spec;
        let Some((step, definition)) = spec.graph.step(at) else { return };
        let now = self.run.now;
        let StepResult { status, output, error } = result;
        let handled_by = match (status, &error) {
            (StepStatus::Failed, Some(error)) => {
                definition.on_error.target(error.code).and_then(|name| spec.graph.position(name))
            }
            _ => None,
        };
        let failed = status == StepStatus::Failed;
        let continues = failed && definition.on_error == OnError::Continue;
        for edge in &step.edges {
            let lets_run = match &edge.kind {
                EdgeKind::Dependency => status == StepStatus::Completed || continues,
                EdgeKind::Case(case) => {
                    status == StepStatus::Completed && output.get("case").and_then(Value::as_str) == Some(case)
                }
                EdgeKind::Error => handled_by == Some(edge.to),
            };
            let is_error_target = spec.graph.step(edge.to).is_some_and(|(to, _)| to.is_error_target);
            let Some(target) = self.state.step_mut(edge.to) else { continue };
            target.waits_for = target.waits_for.saturating_sub(1);
            target.activated |= lets_run && (!is_error_target || edge.kind == EdgeKind::Error);
            if target.waits_for == 0 {
                self.state.ready.push_back(edge.to);
            }
        }
        let message = error.as_ref().map(|error| format!("step `{}` failed: {}", step.name, error.message));
        if let Some(run) = self.state.step_mut(at) {
            (run.status, run.output, run.error) = (status, output, error.map(Box::new));
            run.ended_at = Some(now);
            run.list = Vec::new();
        }
        self.state.unfinished = self.state.unfinished.saturating_sub(1);
        let is_unhandled = failed && !continues && handled_by.is_none();
        // A run of a single step reuses the failures of other steps.
        if is_unhandled && spec.only.as_ref().is_none_or(|only| *only == step.name) {
            let message = message.unwrap_or_else(|| format!("step `{}` failed", step.name));
            self.stop(STEP_FAILED, Ending::with_reason(RunStatus::Error, STEP_FAILED, message));
        }
    }
}

/// Completes the items that an earlier run completed.
fn reuse_items(run: &mut StepRun, reused: &crate::workflow::ReusedStep) {
    for ReusedItem { index, output } in &reused.items {
        let unit = usize::try_from(*index).ok().and_then(|index| run.units.get_mut(index));
        if let Some(unit) = unit.filter(|unit| unit.state == UnitState::Pending) {
            unit.state = UnitState::Completed;
            unit.output = output.clone();
            run.ended += 1;
        }
    }
}
