//! Starts the items of steps, and applies the results of their calls. A step without a `forEach` has one item.

use serde_json::Value;
use toolwright_types::{Arguments, ErrorCode, RequestedCall, SideEffects, ToolError};

use super::evaluate::expression_error;
use super::steps::StepResult;
use super::{STEP_TIMEOUT, Steps};
use crate::agent::call::{Call, CallState};
use crate::agent::depth::limit_arguments_depth;
use crate::workflow::{GraphStep, HandlerKind, ItemRef, StepCall, StepContext, StepStatus, UnitState};

impl Steps<'_> {
    /// Starts the items that can start: computes values, and requests calls as far as the limit for concurrent calls
    /// allows.
    pub(super) fn request_calls(&mut self) {
        loop {
            self.start_local_items();
            let requested = self.requests();
            self.prepare(requested);
            // An item whose input cannot be evaluated fails at once, which can let other steps run.
            self.start_steps();
            if self.is_ending() || self.state.startable_local.is_empty() {
                break;
            }
        }
    }

    fn start_local_items(&mut self) {
        while !self.is_ending()
            && let Some(at) = self.state.startable_local.pop_first()
        {
            while !self.is_ending()
                && let Some(of) = self.next_item(at)
            {
                self.run_local(of);
            }
            self.start_steps();
        }
    }

    /// Takes the next item of a step, unless its limit for concurrent items is reached.
    fn next_item(&mut self, at: u32) -> Option<ItemRef> {
        let (step, _) = self.spec.graph.step(at)?;
        let concurrency = step.items.as_ref().map_or(1, |items| items.concurrency);
        let item = self.state.step_mut(at)?.take_next(concurrency)?;
        Some(ItemRef { step: at, item })
    }

    /// Returns the calls that can be requested now.
    fn requests(&mut self) -> Vec<StepCall> {
        let mut free = self.free_calls();
        let mut requests = Vec::new();
        while free > 0 && !self.is_ending() {
            let of = match self.state.due_retries.pop_front() {
                Some(of) => of,
                None => {
                    let Some(at) = self.state.startable.first().copied() else { break };
                    let Some(of) = self.next_item(at) else {
                        self.state.startable.remove(&at);
                        continue;
                    };
                    of
                }
            };
            if let Some(call) = self.request(of) {
                requests.push(call);
                free -= 1;
            }
        }
        if self.is_ending() {
            return Vec::new();
        }
        requests
    }

    /// The number of calls that can be requested. Twice the limit for concurrent calls is prepared, so that the next
    /// calls are ready when calls end.
    fn free_calls(&mut self) -> usize {
        let most = self.run.spec.max_concurrent_calls().saturating_mul(2);
        let preparing: usize = self.state.preparing.values().map(Vec::len).sum();
        let is_active = |call: &&Call| {
            matches!(call.state, CallState::Queued | CallState::Running | CallState::Interrupted | CallState::Approved)
        };
        let active = self.batch().map_or(0, |batch| batch.calls.iter().filter(is_active).count());
        most.saturating_sub(preparing).saturating_sub(active)
    }

    /// Evaluates the input of an item and requests its call.
    fn request(&mut self, of: ItemRef) -> Option<StepCall> {
        let spec = self.spec;
        let (step, _) = spec.graph.step(of.step)?;
        let HandlerKind::Call { tool, .. } = &step.kind else { return None };
        let input = self.input(of, step).and_then(|input| match &step.mappings {
            Some(mappings) => {
                mappings.tool_input(input).map_err(|error| expression_error("input_mapping", error.to_string()))
            }
            None => Ok(input),
        });
        let unit = self.state.unit_mut(of)?;
        unit.attempts += 1;
        unit.state = UnitState::Calling;
        match input {
            Ok(input) => {
                let is_list = self.state.step(of.step).is_some_and(|run| run.is_list);
                let id = if is_list { format!("{}[{}]", step.name, of.item) } else { step.name.clone() };
                let arguments = limit_arguments_depth(Arguments::Json(input));
                Some(StepCall { of, requested: RequestedCall { id, name: tool.clone(), arguments } })
            }
            Err(error) => {
                self.finish_item(of, Err(error));
                None
            }
        }
    }

    /// Evaluates the input of an item. A call without an input gets an empty object.
    pub(super) fn input(&self, of: ItemRef, step: &GraphStep) -> Result<Value, ToolError> {
        let run = self.state.step(of.step).filter(|run| run.is_list);
        let item = run.and_then(|run| run.list.get(usize::try_from(of.item).ok()?));
        let index = Value::from(of.item);
        let context = StepContext { spec: self.spec, state: self.state, item: item.map(|item| (item, &index)) };
        let input = context.evaluate(&step.input).map_err(|error| expression_error("input", error.to_string()))?;
        let is_call = matches!(step.kind, HandlerKind::Call { .. });
        Ok(if is_call && input.is_null() { Value::Object(serde_json::Map::new()) } else { input })
    }

    /// Applies the result of a call to its item. If the retry policy of the step allows it, the item gets another
    /// attempt.
    pub(super) fn apply_result(&mut self, call: &Call) {
        let Some(of) = call.step.as_ref().map(|step| step.of) else { return };
        let Some(envelope) = self.run.ledger.envelope(&call.call_id) else { return };
        let (output, error) = (envelope.output.clone(), envelope.error.clone());
        let Some(unit) = self.state.unit_mut(of).filter(|unit| unit.state == UnitState::Calling) else { return };
        unit.call_id = Some(call.call_id.clone());
        let attempts = unit.attempts;
        self.state.set_timer(of, None);
        let Some(error) = error else {
            let output = self.step_output(of, output);
            return self.finish_item(of, output);
        };
        let retry = self.spec.graph.step(of.step).and_then(|(step, _)| step.retry.as_ref());
        let retry = retry.filter(|retry| attempts < retry.max_attempts && retry.codes.contains(&error.code));
        match retry {
            Some(retry) if is_repeatable(call) && !self.is_ending() => {
                let at = self.run.now.saturating_add(retry.delays.delay(attempts.saturating_sub(1)));
                if let Some(unit) = self.state.unit_mut(of) {
                    unit.state = UnitState::Retrying;
                    unit.error = Some(Box::new(error));
                }
                self.state.set_timer(of, Some(at));
            }
            _ => self.finish_item(of, Err(error)),
        }
    }

    fn step_output(&self, of: ItemRef, output: Value) -> Result<Value, ToolError> {
        match self.spec.graph.step(of.step).and_then(|(step, _)| step.mappings.as_ref()) {
            Some(mappings) => {
                mappings.step_output(output).map_err(|error| expression_error("output_mapping", error.to_string()))
            }
            None => Ok(output),
        }
    }

    /// Ends an item, and its step after the last item.
    pub(super) fn finish_item(&mut self, of: ItemRef, result: Result<Value, ToolError>) {
        self.state.set_timer(of, None);
        let Some(run) = self.state.step_mut(of.step) else { return };
        let is_list = run.is_list;
        run.in_progress = run.in_progress.saturating_sub(1);
        run.ended += 1;
        let Some(unit) = usize::try_from(of.item).ok().and_then(|item| run.units.get_mut(item)) else { return };
        unit.state = if result.is_ok() { UnitState::Completed } else { UnitState::Failed };
        if !is_list {
            unit.error = None;
            return self.end_step(
                of.step,
                match result {
                    Ok(output) => StepResult::completed(output),
                    Err(error) => StepResult::failed(error),
                },
            );
        }
        match result {
            Ok(output) => (unit.output, unit.error) = (output, None),
            Err(error) => unit.error = Some(Box::new(error)),
        }
        if run.is_complete() {
            self.end_list(of.step);
        } else if run.has_more() {
            match self.spec.graph.step(of.step).map(|(step, _)| &step.kind) {
                Some(HandlerKind::Call { .. }) => self.state.startable.insert(of.step),
                _ => self.state.startable_local.insert(of.step),
            };
        }
    }

    /// Ends a step with a `forEach` whose items have ended. Its output is the list of the outputs; null for each failed
    /// item.
    pub(super) fn end_list(&mut self, at: u32) {
        let Some(run) = self.state.step_mut(at) else { return };
        let count = run.units.len();
        let outputs: Vec<Value> = run.units.iter_mut().map(|unit| std::mem::take(&mut unit.output)).collect();
        let failed = run.units.iter().filter(|unit| unit.state == UnitState::Failed).count();
        let first = run.units.iter().find_map(|unit| unit.error.as_deref().cloned());
        let error = first.filter(|_| failed > 0).map(|first| {
            let message = format!("{failed} of {count} items failed; the first error: {}", first.message);
            ToolError::new(first.code, message).reason("items_failed").detail("failed", failed).detail("items", count)
        });
        let status = if failed == 0 { StepStatus::Completed } else { StepStatus::Failed };
        self.end_step(at, StepResult { status, output: Value::Array(outputs), error });
    }

    /// Starts an item without a call.
    fn run_local(&mut self, of: ItemRef) {
        if let Some(unit) = self.state.unit_mut(of) {
            unit.attempts += 1;
        }
        let spec = self.spec;
        let Some((step, definition)) = spec.graph.step(of.step) else { return };
        let result = match step.kind {
            HandlerKind::Branch => self.branch(step).map(Some),
            HandlerKind::Join => Ok(Some(self.join(definition))),
            HandlerKind::Sleep => self.sleep(of, step),
            HandlerKind::WaitForSignal => self.await_signal(of, step),
            HandlerKind::Transform | HandlerKind::Call { .. } => {
                self.input(of, step).map(|value| Some(crate::agent::depth::limit_depth(value)))
            }
        };
        match result {
            Ok(Some(output)) => self.finish_item(of, Ok(output)),
            // The item waits for a timer or a signal.
            Ok(None) => {}
            Err(error) => self.finish_item(of, Err(error)),
        }
    }
}

/// Whether a failed call can be made again. A write that may have taken effect is repeated only if it is idempotent.
fn is_repeatable(call: &Call) -> bool {
    let writes = call.facts.as_ref().is_some_and(|facts| facts.effects == SideEffects::Writes && !facts.idempotent);
    call.intended_at.is_none() || !writes
}

/// The error of an attempt that took longer than the time limit of its step.
pub(super) fn timeout_error(timeout_ms: u64) -> ToolError {
    let message = format!("the step did not end within its time limit of {timeout_ms} ms");
    ToolError::new(ErrorCode::Timeout, message).reason(STEP_TIMEOUT)
}
