//! Steps that need no call: branches, joins and waits.

use std::collections::VecDeque;
use std::time::Duration;

use serde_json::{Map, Value, json};
use toolwright_types::{DurationMs, ErrorCode, Timestamp, ToolError, WorkflowStep};

use super::Steps;
use crate::workflow::{GraphStep, ItemRef, StepContext, UnitState};

impl Steps<'_> {
    /// Selects the first case whose condition is true.
    pub(super) fn branch(&self, step: &GraphStep) -> Result<Value, ToolError> {
        let context = StepContext { spec: self.spec, state: self.state, item: None };
        let Some(branch) = &step.branch else { return Ok(Value::Null) };
        for (name, when) in &branch.cases {
            if context.condition(when).map_err(|message| expression_error("case", message))? {
                return Ok(json!({ "case": name }));
            }
        }
        Ok(json!({ "case": branch.default }))
    }

    /// Collects the outputs of the dependencies of a step, by name.
    pub(super) fn join(&self, step: &WorkflowStep) -> Value {
        let names = step.depends_on.iter().map(|name| name.split_once('.').map_or(name.as_str(), |(name, _)| name));
        let output = |name: &str| {
            let run = self.spec.graph.position(name).and_then(|at| self.state.step(at));
            run.map_or(Value::Null, |run| run.output.clone())
        };
        Value::Object(names.map(|name| (name.to_owned(), output(name))).collect::<Map<_, _>>())
    }

    /// Waits until a time. Returns the output at once if the time has passed.
    pub(super) fn sleep(&mut self, of: ItemRef, step: &GraphStep) -> Result<Option<Value>, ToolError> {
        let input = self.input(of, step)?;
        let until = wake_time(&input, self.run.now)
            .ok_or_else(|| expression_error("sleep", format!("{SLEEP_RULE}, got {input}")))?;
        if until <= self.run.now {
            return Ok(Some(slept(until)));
        }
        if let Some(unit) = self.state.unit_mut(of) {
            unit.state = UnitState::Sleeping;
        }
        self.state.set_timer(of, Some(until));
        Ok(None)
    }

    /// Waits for a signal. Returns the payload at once if the signal has arrived before.
    pub(super) fn await_signal(&mut self, of: ItemRef, step: &GraphStep) -> Result<Option<Value>, ToolError> {
        let input = self.input(of, step)?;
        let Some(name) = input.get("signal").and_then(Value::as_str).filter(|name| !name.is_empty()) else {
            let message = format!("the input must have `signal`, the name of the signal, got {input}");
            return Err(expression_error("signal", message));
        };
        let buffered = self.state.signals.get_mut(name).and_then(VecDeque::pop_front);
        if self.state.signals.get(name).is_some_and(VecDeque::is_empty) {
            self.state.signals.remove(name);
        }
        if buffered.is_some() {
            return Ok(buffered);
        }
        self.state.awaiting.entry(name.to_owned()).or_default().push_back(of);
        if let Some(unit) = self.state.unit_mut(of) {
            unit.state = UnitState::AwaitingSignal(name.to_owned());
        }
        self.set_timeout(of);
        Ok(None)
    }

    /// Sets the timer for the time limit of a step.
    pub(super) fn set_timeout(&mut self, of: ItemRef) {
        let timeout = self.spec.graph.step(of.step).and_then(|(step, _)| step.timeout_ms);
        let at = timeout.map(|timeout| self.run.now.saturating_add(Duration::from_millis(timeout)));
        self.state.set_timer(of, at);
    }
}

const SLEEP_RULE: &str = "the input must have `duration`, such as `30s` or a number of milliseconds, or `until`, a time \
                          such as `2027-01-31T09:00:00Z`";

/// The time at which a sleeping step continues.
fn wake_time(input: &Value, now: Timestamp) -> Option<Timestamp> {
    if let Some(duration) = input.get("duration") {
        let DurationMs(duration) = serde_json::from_value(duration.clone()).ok()?;
        return Some(now.saturating_add(Duration::from_millis(duration)));
    }
    serde_json::from_value(input.get("until")?.clone()).ok()
}

/// The output of a step that has slept.
pub(super) fn slept(until: Timestamp) -> Value {
    json!({ "until": until })
}

/// The error of a step whose expression cannot be evaluated, or has an unusable value.
pub(super) fn expression_error(reason: &str, message: String) -> ToolError {
    ToolError::new(ErrorCode::ValidationError, message).reason(reason)
}
