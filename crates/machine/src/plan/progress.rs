//! The progress of a plan: which calls come next, and the results of the steps so far.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use toolwright_types::{ToolEnvelope, ToolError};

use super::report::{StepReport, StepStatus};
use super::step::{AfterCalls, PlanScope, StepInProgress, is_invalid_input};
use super::{Plan, PlanSpec, PlannedStep};
use crate::Ending;

/// A plan that is being executed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PlanProgress {
    plan: Plan,
    /// The index of the current step in the list of steps: the step in progress, or the next step.
    position: usize,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    current: Option<StepInProgress>,
    /// The results of the finished steps by step number, in the form that expressions read.
    results: Value,
    reports: Vec<StepReport>,
}

/// The next action of a plan.
#[derive(Debug, Clone, PartialEq)]
pub enum NextCalls {
    /// Call the tool once with each of these inputs.
    Call {
        /// The tool.
        tool: String,
        /// The inputs, at least one.
        inputs: Vec<Value>,
    },
    /// All steps are finished.
    Done,
    /// The maximum number of steps is reached, and more steps are planned.
    StepLimit,
}

/// A step that failed.
#[derive(Debug, Clone, PartialEq)]
pub struct StepFailure {
    /// The number of the step.
    pub step: u32,
    /// The tool of the step.
    pub tool: String,
    /// The error.
    pub error: ToolError,
    /// Whether the parameters of the step are wrong and the step has changed nothing. A new plan can correct them.
    pub repairable: bool,
}

/// The result of one call.
#[derive(Debug, Clone, Copy)]
pub struct CallResult<'a> {
    /// The envelope.
    pub envelope: &'a ToolEnvelope,
    /// Whether the tool writes.
    pub writes: bool,
}

impl PlanProgress {
    /// Starts a plan that has no issues.
    pub fn new(plan: Plan) -> Self {
        Self { plan, position: 0, current: None, results: Value::Object(Map::new()), reports: Vec::new() }
    }

    /// The plan.
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// The finished steps, in the order of their execution.
    pub fn reports(&self) -> &[StepReport] {
        &self.reports
    }

    /// The results of the finished steps by step number.
    pub fn results(&self) -> &Value {
        &self.results
    }

    /// Returns the calls that come next. A step needs no call if its condition is false or if its list has no items.
    pub fn next_calls(&mut self, spec: &PlanSpec) -> Result<NextCalls, Box<StepFailure>> {
        while let Some(step) = self.plan.steps.get(self.position).cloned() {
            if self.current.is_none() {
                let executed = self.reports.iter().filter(|report| report.status != StepStatus::Skipped).count();
                if u32::try_from(executed).is_ok_and(|executed| executed >= spec.max_steps) {
                    return Ok(NextCalls::StepLimit);
                }
                if !self.try_step(spec, &step, |cx, step| cx.condition(step))? {
                    self.finish(spec, &step, StepStatus::Skipped, None);
                    continue;
                }
                self.current = Some(self.try_step(spec, &step, |cx, step| cx.start(step))?);
            }
            let scope = PlanScope { spec, results: &self.results };
            let inputs = self.current.as_ref().map_or(Ok(Vec::new()), |current| current.next_inputs(&step, &scope));
            let inputs = inputs.map_err(|error| self.fail(spec, &step, error))?;
            if !inputs.is_empty() {
                let tool = spec.tool(step.step).unwrap_or_default().to_owned();
                return Ok(NextCalls::Call { tool, inputs });
            }
            self.finish(spec, &step, StepStatus::Completed, None);
        }
        Ok(NextCalls::Done)
    }

    /// Applies the results of the calls that [`next_calls`](Self::next_calls) returned, in the same order.
    pub fn apply(&mut self, spec: &PlanSpec, results: &[CallResult<'_>]) -> Result<(), Box<StepFailure>> {
        let (Some(step), Some(mut current)) = (self.plan.steps.get(self.position).cloned(), self.current.take()) else {
            return Ok(());
        };
        let after = current.apply(&step, results, &PlanScope { spec, results: &self.results });
        self.current = Some(current);
        match after {
            AfterCalls::Continue => {}
            AfterCalls::Completed => self.finish(spec, &step, StepStatus::Completed, None),
            AfterCalls::Failed(error) => return Err(self.fail(spec, &step, error)),
        }
        Ok(())
    }

    /// Ends the step in progress, because the run ended with `ending`. `results` are the results of the step's latest
    /// calls.
    pub fn interrupt(&mut self, spec: &PlanSpec, results: &[CallResult<'_>], ending: &Ending) {
        let Some(step) = self.plan.steps.get(self.position).cloned() else { return };
        let Some(current) = &mut self.current else { return };
        let interrupted = current.interrupt(results, ending);
        self.finish(spec, &step, StepStatus::Interrupted, None);
        if let Some(report) = self.reports.last_mut() {
            report.failed = interrupted.failed;
            report.interrupted = Some(Box::new(interrupted));
        }
    }

    /// Continues with another plan after the last finished step. The results of finished steps remain.
    pub fn replace_remaining(&mut self, plan: Plan) {
        let executed = self.reports.iter().filter(|report| report.status != StepStatus::Failed);
        let last = executed.map(|report| report.step).max().unwrap_or(0);
        self.reports.retain(|report| report.status != StepStatus::Failed);
        self.position = plan.steps.iter().take_while(|step| step.step <= last).count();
        self.current = None;
        self.plan = plan;
    }

    /// Runs `act` for a step. If `act` fails, the step fails.
    fn try_step<T>(
        &mut self,
        spec: &PlanSpec,
        step: &PlannedStep,
        act: impl FnOnce(&PlanScope<'_>, &PlannedStep) -> Result<T, ToolError>,
    ) -> Result<T, Box<StepFailure>> {
        let result = act(&PlanScope { spec, results: &self.results }, step);
        result.map_err(|error| self.fail(spec, step, error))
    }

    fn fail(&mut self, spec: &PlanSpec, step: &PlannedStep, error: ToolError) -> Box<StepFailure> {
        let wrote = self.current.as_ref().is_some_and(|current| current.wrote);
        let tool = spec.tool(step.step).unwrap_or_default().to_owned();
        let repairable = !wrote && is_invalid_input(Some(&error));
        self.finish(spec, step, StepStatus::Failed, Some(error.clone()));
        Box::new(StepFailure { step: step.step, tool, error, repairable })
    }

    fn finish(&mut self, spec: &PlanSpec, step: &PlannedStep, status: StepStatus, error: Option<ToolError>) {
        let current = self.current.take();
        let (calls, failed) = current.as_ref().map_or((0, 0), |current| (current.calls, current.errors.len()));
        let result = match current {
            Some(current) => current.into_result(status.as_str()),
            None => json!({ "status": status.as_str(), "output": null, "items": [], "errors": [] }),
        };
        let tool = spec.tool(step.step).unwrap_or_default().to_owned();
        self.reports.push(StepReport { step: step.step, tool, status, calls, failed, error, interrupted: None });
        if let Some(results) = self.results.as_object_mut() {
            results.insert(step.step.to_string(), result);
        }
        self.position += 1;
    }
}
