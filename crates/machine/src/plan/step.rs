//! The step in progress of a plan: creates the inputs of the step's calls and evaluates their results.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use toolwright_expr::{EvalError, Evaluation, Scope, Template, ValueTemplate};
use toolwright_types::{ErrorCode, ToolError};

use super::interruption::{CallProgress, InterruptedCalls};
use super::{CallResult, PlanSpec, PlannedStep};
use crate::Ending;

/// The maximum number of calls that are prepared together. A longer list is processed in several batches, so that
/// journal entries stay small.
const BATCH_CALLS: usize = 50;

/// The reason code of an error in a plan.
pub(super) const INVALID_PLAN: &str = "INVALID_GENERATED_PARAMETERS";
/// The reason code of a list with too many items.
const MAX_ITEMS_EXCEEDED: &str = "MAX_ITEMS_EXCEEDED";

/// A step in progress.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct StepInProgress {
    work: Work,
    /// The number of calls that have ended.
    pub calls: usize,
    /// The output of the last successful call.
    output: Value,
    /// With `paging`, the items of all pages. With `forEach`, the outputs of all successful calls.
    items: Vec<Value>,
    /// The items whose calls failed.
    pub errors: Vec<Value>,
    /// Whether a call of the step may have changed something.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub wrote: bool,
}

/// The calls that a step makes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Work {
    /// One call.
    Single,
    /// One call for each item of a list.
    Items(Vec<Value>),
    /// One call for each page. Contains the input of the next call.
    Pages { input: Value },
}

/// What happens to a step after its calls have ended.
pub(super) enum AfterCalls {
    /// The step makes more calls.
    Continue,
    /// The step is complete.
    Completed,
    /// The step failed.
    Failed(ToolError),
}

/// The values that expressions of a plan can read.
pub(super) struct PlanScope<'a> {
    pub spec: &'a PlanSpec,
    /// The results of earlier steps by step number.
    pub results: &'a Value,
}

impl<'a> PlanScope<'a> {
    fn scope(&self) -> Scope<'a> {
        Scope::new(&self.spec.input).with("steps", self.results)
    }

    /// Returns whether the step is executed.
    pub(super) fn condition(&self, step: &PlannedStep) -> Result<bool, ToolError> {
        let Some(text) = &step.when else { return Ok(true) };
        match self.expression("when", text, &self.scope())? {
            Value::Bool(holds) => Ok(holds),
            other => Err(invalid(format!("`when` must be true or false, got {}", shortened(&other)))),
        }
    }

    /// Starts a step.
    pub(super) fn start(&self, step: &PlannedStep) -> Result<StepInProgress, ToolError> {
        let work = match (&step.for_each, &step.paging) {
            (Some(list), _) => Work::Items(self.list(list)?),
            (None, Some(_)) => {
                Work::Pages { input: existing("parameters", self.parameters(step)?.render(&self.scope()))? }
            }
            (None, None) => Work::Single,
        };
        Ok(StepInProgress { work, calls: 0, output: Value::Null, items: Vec::new(), errors: Vec::new(), wrote: false })
    }

    fn list(&self, text: &str) -> Result<Vec<Value>, ToolError> {
        let max_items = self.spec.max_items;
        match self.expression("forEach", text, &self.scope())? {
            Value::Array(items) if exceeds(items.len(), max_items) => Err(too_many(items.len(), max_items)),
            Value::Array(items) => Ok(items),
            other => Err(invalid(format!("`forEach` must be a list, got {}", shortened(&other)))),
        }
    }

    /// Compiles the parameters of a step, once for all calls that are prepared together.
    fn parameters(&self, step: &PlannedStep) -> Result<ValueTemplate, ToolError> {
        let template = ValueTemplate::compile(&Value::Object(step.parameters.clone()));
        template.map_err(|error| invalid(format!("`parameters` cannot be read: {error}")))
    }

    fn expression(&self, field: &str, text: &str, scope: &Scope<'_>) -> Result<Value, ToolError> {
        let template = Template::parse(text).map_err(|error| invalid(format!("`{field}` cannot be read: {error}")))?;
        existing(field, template.evaluate(scope))
    }
}

impl StepInProgress {
    /// Returns the inputs of the next calls. Empty if the step has no calls left.
    pub(super) fn next_inputs(&self, step: &PlannedStep, cx: &PlanScope<'_>) -> Result<Vec<Value>, ToolError> {
        match &self.work {
            Work::Single => Ok(vec![existing("parameters", cx.parameters(step)?.render(&cx.scope()))?]),
            Work::Pages { input } => Ok(vec![input.clone()]),
            Work::Items(items) => {
                let parameters = cx.parameters(step)?;
                let batch = items.iter().enumerate().skip(self.calls).take(BATCH_CALLS);
                batch
                    .map(|(index, item)| {
                        let index = Value::from(index);
                        existing("parameters", parameters.render(&cx.scope().with("item", item).with("index", &index)))
                    })
                    .collect()
            }
        }
    }

    /// Applies the results of the calls whose inputs `next_inputs` returned, in the same order.
    pub(super) fn apply(&mut self, step: &PlannedStep, results: &[CallResult<'_>], cx: &PlanScope<'_>) -> AfterCalls {
        let executed = |result: &CallResult<'_>| !is_invalid_input(result.envelope.error.as_ref());
        self.wrote |= results.iter().any(|result| result.writes && executed(result));
        match &self.work {
            Work::Items(_) => self.apply_items(results),
            Work::Single | Work::Pages { .. } => {
                self.calls += 1;
                let Some(CallResult { envelope, .. }) = results.first() else { return AfterCalls::Completed };
                if let Some(error) = &envelope.error {
                    return AfterCalls::Failed(error.clone());
                }
                self.output.clone_from(&envelope.output);
                match step.paging.as_ref().map(|_| self.next_page(step, cx)) {
                    Some(Err(error)) => AfterCalls::Failed(error),
                    Some(Ok(true)) => AfterCalls::Continue,
                    Some(Ok(false)) | None => AfterCalls::Completed,
                }
            }
        }
    }

    fn apply_items(&mut self, results: &[CallResult<'_>]) -> AfterCalls {
        let Work::Items(items) = &self.work else { return AfterCalls::Completed };
        let invalid = |result: &CallResult<'_>| is_invalid_input(result.envelope.error.as_ref());
        let first_invalid = self.calls == 0 && results.iter().all(invalid);
        for CallResult { envelope, .. } in results {
            match &envelope.error {
                None => {
                    self.output.clone_from(&envelope.output);
                    self.items.push(envelope.output.clone());
                }
                Some(error) => {
                    let item = items.get(self.calls).cloned().unwrap_or_default();
                    self.errors.push(json!({ "index": self.calls, "item": item, "error": error }));
                }
            }
            self.calls += 1;
        }
        let first_error = || results.iter().find_map(|result| result.envelope.error.clone());
        match (first_error(), self.calls < items.len()) {
            // Every call of the first batch was refused because of its input, so the parameters of the step are wrong.
            (Some(error), _) if first_invalid => AfterCalls::Failed(error),
            (_, true) => AfterCalls::Continue,
            (Some(mut error), false) if self.errors.len() == items.len() => {
                error.message = format!("all {} items failed; the first error: {}", items.len(), error.message);
                AfterCalls::Failed(error)
            }
            (_, false) => AfterCalls::Completed,
        }
    }

    /// Applies the results of the calls that `next_inputs` requested, after the run ended with `ending`. Some of these
    /// calls may not have been sent, and the outcome of others may be unknown.
    pub(super) fn interrupt(&mut self, results: &[CallResult<'_>], ending: &Ending) -> InterruptedCalls {
        let list = match &self.work {
            Work::Items(items) => items.as_slice(),
            Work::Single | Work::Pages { .. } => &[],
        };
        let failed = self.errors.len();
        let succeeded = self.calls.saturating_sub(failed);
        let mut interrupted = InterruptedCalls { succeeded, failed, ..InterruptedCalls::default() };
        let first = self.calls;
        for (index, CallResult { envelope, .. }) in (first..).zip(results) {
            let (progress, item) = (CallProgress::of(envelope, ending), list.get(index));
            interrupted.add(progress, index, item);
            match progress {
                CallProgress::NotStarted => {}
                CallProgress::Succeeded => {
                    self.output.clone_from(&envelope.output);
                    self.items.push(envelope.output.clone());
                }
                CallProgress::Failed => {
                    self.errors.push(json!({ "index": index, "item": item, "error": envelope.error }))
                }
                CallProgress::Unknown => self
                    .errors
                    .push(json!({ "index": index, "item": item, "outcome": "unknown", "error": envelope.error })),
            }
        }
        for (index, item) in list.iter().enumerate().skip(first + results.len()) {
            interrupted.add(CallProgress::NotStarted, index, Some(item));
        }
        self.calls = interrupted.started();
        interrupted
    }

    /// Collects the items of a page, and returns whether there is another page.
    fn next_page(&mut self, step: &PlannedStep, cx: &PlanScope<'_>) -> Result<bool, ToolError> {
        let (Some(paging), Work::Pages { input }) = (&step.paging, &self.work) else { return Ok(false) };
        let scope = cx.scope().with("page", &self.output);
        match cx.expression("paging.items", &paging.items, &scope)? {
            Value::Array(items) => self.items.extend(items),
            other => return Err(invalid(format!("`paging.items` must be a list, got {}", shortened(&other)))),
        }
        let max_items = cx.spec.max_items;
        if exceeds(self.items.len(), max_items) || exceeds(self.calls, max_items) {
            return Err(too_many(self.items.len(), max_items));
        }
        let template = ValueTemplate::compile(&Value::Object(paging.next.clone()));
        let template = template.map_err(|error| invalid(format!("`paging.next` cannot be read: {error}")))?;
        // A path that does not exist is null here: the last page often has no link to another page.
        let next = template.render(&scope).map_err(|error| invalid(format!("`paging.next` failed: {error}")))?;
        let Value::Object(next) = next.value else { return Ok(false) };
        if next.values().any(Value::is_null) {
            return Ok(false);
        }
        let changed = merged(input, next);
        if changed == *input {
            return Err(invalid("`paging.next` requests the same page again".to_owned()));
        }
        self.work = Work::Pages { input: changed };
        Ok(true)
    }

    /// Returns the result of the step, in the form that expressions of later steps read.
    pub(super) fn into_result(self, status: &str) -> Value {
        let items = match (&self.work, self.output.is_array()) {
            (Work::Single, true) => self.output.clone(),
            (Work::Single, false) => Value::Null,
            _ => Value::Array(self.items),
        };
        json!({ "status": status, "output": self.output, "items": items, "errors": self.errors })
    }
}

/// Whether an error says that the input of a call was wrong, so that nothing was executed.
pub(super) fn is_invalid_input(error: Option<&ToolError>) -> bool {
    error.is_some_and(|error| error.code == ErrorCode::ValidationError)
}

/// Returns the reason of an error in the plan itself; `None` for an error of a call.
pub(crate) fn plan_error_reason(error: &ToolError) -> Option<&'static str> {
    let reason = error.details.as_ref()?.get("reason")?.as_str()?;
    [INVALID_PLAN, MAX_ITEMS_EXCEEDED].into_iter().find(|known| *known == reason)
}

fn merged(input: &Value, changes: Map<String, Value>) -> Value {
    let mut fields = input.as_object().cloned().unwrap_or_default();
    fields.extend(changes);
    Value::Object(fields)
}

/// Returns the value of an evaluation. A path that does not exist is an error: the tool must not get null for it.
fn existing(field: &str, evaluated: Result<Evaluation, EvalError>) -> Result<Value, ToolError> {
    let evaluated = evaluated.map_err(|error| invalid(format!("`{field}` failed: {error}")))?;
    match evaluated.warnings.first() {
        Some(warning) => Err(invalid(format!("`{field}` failed: {warning}"))),
        None => Ok(evaluated.value),
    }
}

fn exceeds(count: usize, limit: u32) -> bool {
    u32::try_from(count).is_ok_and(|count| count > limit) || u32::try_from(count).is_err()
}

fn too_many(count: usize, limit: u32) -> ToolError {
    let message = format!(
        "the list has {count} or more items, but `safetyLimits.maxItems` is {limit}; narrow the task or raise the limit"
    );
    ToolError::new(ErrorCode::PolicyDenied, message).reason(MAX_ITEMS_EXCEEDED)
}

fn invalid(message: String) -> ToolError {
    ToolError::new(ErrorCode::ValidationError, message).reason(INVALID_PLAN)
}

fn shortened(value: &Value) -> String {
    let text = value.to_string();
    let short: String = text.chars().take(80).collect();
    if short.len() < text.len() { format!("`{short}…`") } else { format!("`{short}`") }
}
