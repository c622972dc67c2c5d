//! Describes what a plan did: for the model that formats the result, and for callers of a run without a model.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use toolwright_types::ToolError;

use super::{InterruptedCalls, PlanProgress};

/// The maximum size of a step's result in the message to the model, in bytes.
const MAX_RESULT_BYTES: usize = 16_000;
/// The maximum number of failed items that a report lists.
const MAX_LISTED_ERRORS: usize = 50;

/// The outcome of one step.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StepReport {
    /// The number of the step.
    pub step: u32,
    /// The tool.
    pub tool: String,
    /// The outcome.
    pub status: StepStatus,
    /// The number of calls.
    pub calls: usize,
    /// The number of items whose calls failed.
    #[serde(default, skip_serializing_if = "crate::is_default")]
    pub failed: usize,
    /// The error of a failed step.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<ToolError>,
    /// The calls of a step that was in progress when the run ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interrupted: Option<Box<InterruptedCalls>>,
}

/// The outcome of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum StepStatus {
    /// The calls of the step ended. Some items of a list may have failed.
    Completed,
    /// The condition of the step was false.
    Skipped,
    /// The step failed.
    Failed,
    /// The step was in progress when the run ended.
    Interrupted,
}

impl StepStatus {
    /// The name of the status.
    pub fn as_str(self) -> &'static str {
        match self {
            StepStatus::Completed => "completed",
            StepStatus::Skipped => "skipped",
            StepStatus::Failed => "failed",
            StepStatus::Interrupted => "interrupted",
        }
    }
}

impl PlanProgress {
    /// Returns the failed items of all steps, each with its step and tool, up to a maximum number.
    pub fn item_errors(&self) -> Vec<Value> {
        let failed = self.reports().iter().flat_map(|report| {
            let errors = self.step_field(report.step, "errors").and_then(Value::as_array).into_iter().flatten();
            errors.map(move |error| {
                let mut fields = error.as_object().cloned().unwrap_or_default();
                fields.insert("step".into(), json!(report.step));
                fields.insert("tool".into(), json!(report.tool));
                Value::Object(fields)
            })
        });
        failed.take(MAX_LISTED_ERRORS).collect()
    }

    /// Returns the results of the steps as JSON for a model. Long results are cut, and the text says so.
    pub(crate) fn results_for_model(&self) -> String {
        let steps: Vec<Value> = self.reports().iter().map(|report| self.step_for_model(report)).collect();
        Value::Array(steps).to_string()
    }

    fn step_for_model(&self, report: &StepReport) -> Value {
        let mut fields = Map::new();
        fields.insert("step".into(), json!(report.step));
        fields.insert("tool".into(), json!(report.tool));
        fields.insert("status".into(), json!(report.status));
        fields.insert("calls".into(), json!(report.calls));
        if report.failed > 0 {
            fields.insert("itemsSucceeded".into(), json!(report.calls.saturating_sub(report.failed)));
            fields.insert("itemsFailed".into(), json!(report.failed));
            let errors = self.step_field(report.step, "errors").and_then(Value::as_array);
            let listed: Vec<&Value> = errors.into_iter().flatten().take(MAX_LISTED_ERRORS).collect();
            fields.insert("errors".into(), cut(&json!(listed)));
        }
        match self.step_field(report.step, "items").filter(|items| items.is_array()) {
            Some(items) => {
                fields.insert("items".into(), json!(items.as_array().map_or(0, Vec::len)));
                fields.insert("results".into(), cut(items));
            }
            None => {
                let output = self.step_field(report.step, "output").cloned().unwrap_or_default();
                fields.insert("output".into(), cut(&output));
            }
        }
        Value::Object(fields)
    }

    fn step_field(&self, step: u32, field: &str) -> Option<&Value> {
        self.results().get(step.to_string())?.get(field)
    }

    /// Returns the result of a plan whose run has no model: the executed tools and the output of the last step. The
    /// result of a run that ended early has the calls of its step in progress.
    pub fn result_without_model(&self) -> Value {
        let finished = self.reports().iter().filter(|report| report.status == StepStatus::Completed);
        let operations: Vec<&str> =
            self.reports().iter().filter(|report| report.made_calls()).map(|report| report.tool.as_str()).collect();
        let last = finished.clone().next_back().and_then(|report| self.results().get(report.step.to_string()));
        let mut fields = Map::new();
        fields.insert("summary".into(), json!(self.summary(finished.count())));
        fields.insert("operations_executed".into(), json!(operations));
        fields.insert("output".into(), last.and_then(|last| last.get("output")).cloned().unwrap_or_default());
        for (report, calls) in self.reports().iter().filter_map(|report| Some((report, report.interrupted.as_ref()?))) {
            let mut interrupted = json!(calls);
            if let Some(interrupted) = interrupted.as_object_mut() {
                interrupted.insert("step".into(), json!(report.step));
                interrupted.insert("tool".into(), json!(report.tool));
            }
            fields.insert("step_in_progress".into(), interrupted);
        }
        let errors = self.item_errors();
        if !errors.is_empty() {
            fields.insert("errors".into(), Value::Array(errors));
        }
        Value::Object(fields)
    }

    fn summary(&self, executed: usize) -> String {
        let described: Vec<String> = self.reports().iter().map(describe).collect();
        let steps = format!("Executed {executed} of {} steps", self.plan().steps.len());
        if described.is_empty() { format!("{steps}.") } else { format!("{steps}: {}.", described.join("; ")) }
    }
}

impl StepReport {
    /// Whether the step completed, or made calls before the run ended.
    fn made_calls(&self) -> bool {
        match &self.interrupted {
            Some(calls) => calls.started() > 0,
            None => self.status == StepStatus::Completed,
        }
    }
}

/// Describes a step in a few words.
fn describe(report: &StepReport) -> String {
    let StepReport { tool, calls, failed, .. } = report;
    if let Some(interrupted) = &report.interrupted {
        return match interrupted.describe() {
            counts if counts.is_empty() => format!("{tool} interrupted"),
            counts => format!("{tool} interrupted (calls: {counts})"),
        };
    }
    match (report.status, calls) {
        (StepStatus::Skipped, _) => format!("{tool} skipped"),
        (StepStatus::Failed, _) => format!("{tool} failed"),
        (StepStatus::Interrupted, _) => format!("{tool} interrupted"),
        (StepStatus::Completed, 1) => format!("{tool} (1 call)"),
        (StepStatus::Completed, _) if *failed > 0 => format!("{tool} ({calls} calls, {failed} failed)"),
        (StepStatus::Completed, _) => format!("{tool} ({calls} calls)"),
    }
}

/// Returns the value, or the start of its JSON text if the text is too long.
fn cut(value: &Value) -> Value {
    let text = value.to_string();
    if text.len() <= MAX_RESULT_BYTES {
        return value.clone();
    }
    let start = text.get(..text.floor_char_boundary(MAX_RESULT_BYTES)).unwrap_or_default();
    json!(format!("{start}… [cut after {} of {} bytes]", start.len(), text.len()))
}
