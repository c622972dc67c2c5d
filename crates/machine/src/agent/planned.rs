//! Runs that follow a plan: the model plans once, the run executes the sequence, and the model formats the result once.
//!
//! ```text
//!  Planning ── plan ──▶ Approval ──▶ Executing ── all steps done ──▶ Formatting ── text ──▶ Ended
//!     ▲   (invalid: ask again)          │
//!     └──── wrong parameters ───────────┘
//! ```
//!
//! No model call happens between the steps. The calls of a step are prepared, decided and executed like the calls of a
//! model reply. [`crate::plan`] defines the plan and the results of its steps.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use toolwright_types::{
    Arguments, CallId, Message, ModelReply, RequestedCall, ResponseFormat, SideEffects, StopReason,
};

use super::EventError;
use super::call::{Batch, Call};
use super::json_answer::json_answer;
use super::reply::{MAX_REJECTED_ANSWERS, NUDGE};
use super::run::{AgentRun, Phase};
use crate::plan::{CallResult, NextCalls, Plan, PlanIssue, PlanProgress, PlanSpec, StepFailure, plan_error_reason};
use crate::{Breach, Ending, RunStatus};

/// The name of the built-in tool that presents a plan for approval. The input of the call is the plan, and approving
/// the call approves the plan.
pub const APPROVE_PLAN_TOOL: &str = "approve_plan";

/// The reason code of a run whose model wrote no valid plan.
const INVALID_PLAN: &str = "INVALID_LLM_OUTPUT";
/// The reason code of a run whose plan no person approved in time.
const EXPIRED: &str = "approval_expired";

/// The state of a run that follows a plan.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct PlanState {
    stage: Stage,
    /// The plan in progress; `None` until the first valid plan.
    pub(super) progress: Option<PlanProgress>,
}

/// The current stage of a planned run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Stage {
    /// The model writes the plan, or corrects it.
    Planning,
    /// A person decides on the plan.
    Approval,
    /// The steps are executed.
    Executing,
    /// The model formats the result.
    Formatting,
}

impl PlanState {
    pub(super) fn new() -> Self {
        Self { stage: Stage::Planning, progress: None }
    }

    /// Executes a plan. A corrected plan continues where the first plan failed.
    fn execute(&mut self, plan: Plan) {
        match &mut self.progress {
            Some(progress) => progress.replace_remaining(plan),
            None => self.progress = Some(PlanProgress::new(plan)),
        }
        self.stage = Stage::Executing;
    }
}

impl AgentRun {
    /// The plan of the run and the results of its steps; `None` without a valid plan.
    pub fn plan_progress(&self) -> Option<&PlanProgress> {
        self.plan.as_ref()?.progress.as_ref()
    }

    /// The format that the next reply of the model must have.
    pub(super) fn next_response_format(&self) -> ResponseFormat {
        match (self.plan.as_deref(), &self.spec.plan) {
            (Some(PlanState { stage: Stage::Planning, .. }), Some(spec)) => {
                ResponseFormat::Structured(spec.schema.clone())
            }
            _ => self.spec.request.response_format.clone(),
        }
    }

    /// Whether the model is writing or correcting the plan.
    pub(super) fn is_planning(&self) -> bool {
        self.plan.as_ref().is_some_and(|plan| plan.stage == Stage::Planning)
    }
}

/// Starts a planned run: executes the given plan, or asks the model to write a plan.
pub(super) fn start(run: &mut AgentRun, spec: &PlanSpec) {
    let Some(given) = &spec.given else { return run.call_model() };
    match given.check(spec).first() {
        None => adopt(run, spec, given.clone()),
        Some(issue) => run.fail(INVALID_PLAN, format!("the given plan is not valid: {issue}")),
    }
}

/// Applies the results of a finished batch to the plan, and continues or ends the run.
pub(super) fn finish_batch(run: &mut AgentRun, batch: Batch) {
    if let Some(ending) = batch.pending_ending {
        interrupt(run, &batch.calls, &ending);
        return run.end(ending);
    }
    let (Some(spec), Some(mut state)) = (run.spec.plan.clone(), run.plan.take()) else { return };
    let results = results_of(run, &batch.calls);
    let outcome = match state.stage {
        Stage::Approval => apply_approval(run, &mut state, &spec, &results).map_err(Failure::Approval),
        _ => match &mut state.progress {
            Some(progress) => progress.apply(&spec, &results).map_err(Failure::Step),
            None => Ok(()),
        },
    };
    run.plan = Some(state);
    match outcome {
        Ok(()) => execute_next(run, &spec),
        Err(Failure::Step(failure)) => step_failed(run, *failure),
        Err(Failure::Approval(NotApproved { reason, message })) => run.fail(&reason, message),
    }
}

/// Returns the results of the calls that have ended.
fn results_of<'a>(run: &'a AgentRun, calls: &[Call]) -> Vec<CallResult<'a>> {
    let result = |call: &Call| {
        let writes = call.facts.as_ref().is_none_or(|facts| facts.effects == SideEffects::Writes);
        run.ledger.envelope(&call.call_id).map(|envelope| CallResult { envelope, writes })
    };
    calls.iter().filter_map(result).collect()
}

/// Reports the calls of the step that was in progress when the run ended.
fn interrupt(run: &mut AgentRun, calls: &[Call], ending: &Ending) {
    let (Some(spec), Some(mut state)) = (run.spec.plan.clone(), run.plan.take()) else { return };
    if let Some(progress) = &mut state.progress {
        progress.interrupt(&spec, &results_of(run, calls), ending);
    }
    run.plan = Some(state);
}

/// Why a planned run cannot continue with its next step.
enum Failure {
    Step(Box<StepFailure>),
    /// The plan was not approved.
    Approval(NotApproved),
}

/// Why a plan was not approved.
struct NotApproved {
    /// The reason code of the run.
    reason: String,
    message: String,
}

impl NotApproved {
    fn denied(message: String) -> Self {
        Self { reason: "approval_denied".to_owned(), message }
    }
}

fn apply_approval(
    run: &AgentRun,
    state: &mut PlanState,
    spec: &PlanSpec,
    results: &[CallResult<'_>],
) -> Result<(), NotApproved> {
    let Some(CallResult { envelope, .. }) = results.first() else { return Ok(()) };
    if let Some(error) = &envelope.error {
        let expired = error.details.as_ref().and_then(|details| details.get("reason")?.as_str()) == Some(EXPIRED);
        let reason = if expired { EXPIRED } else { "approval_denied" };
        return Err(NotApproved { reason: reason.to_owned(), message: error.message.clone() });
    }
    // INVARIANT: a plan is executed only after a person decided on it, whatever the tool of the call was.
    if !run.decisions.iter().any(|decision| decision.approves(&envelope.call_id)) {
        return Err(NotApproved::denied("no person approved the plan".to_owned()));
    }
    // A person may have edited the plan. The input of the call is the plan that was approved.
    let plan = Plan::parse(envelope.input.clone(), spec);
    let plan = plan.map_err(|issues| NotApproved::denied(format!("the plan is not valid: {}", listed(&issues))))?;
    state.execute(plan);
    Ok(())
}

/// Checks the input with which a person wants to replace the input of a call. An edited plan must be valid.
pub(super) fn check_edit(run: &AgentRun, call_id: &CallId, input: &Value) -> Result<(), EventError> {
    let (Some(PlanState { stage: Stage::Approval, .. }), Some(spec)) = (run.plan.as_deref(), &run.spec.plan) else {
        return Ok(());
    };
    let invalid = |issues| EventError::InvalidPlan { call_id: call_id.clone(), issues };
    Plan::parse(input.clone(), spec).map(drop).map_err(invalid)
}

fn listed(issues: &[PlanIssue]) -> String {
    issues.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
}

/// Starts the next calls of the plan, or formats the result after the last step.
fn execute_next(run: &mut AgentRun, spec: &PlanSpec) {
    let Some(PlanState { progress: Some(progress), .. }) = run.plan.as_deref_mut() else { return };
    match progress.next_calls(spec) {
        Ok(NextCalls::Call { tool, inputs }) => request_calls(run, &tool, inputs),
        Ok(NextCalls::Done) => format_result(run, spec),
        Ok(NextCalls::StepLimit) => {
            let message = Some(format!("the limit of {} steps is reached", spec.max_steps));
            run.end(Ending { message, ..Breach::Iterations { limit: spec.max_steps }.ending() });
        }
        Err(failure) => step_failed(run, *failure),
    }
}

fn request_calls(run: &mut AgentRun, tool: &str, inputs: Vec<Value>) {
    run.resource_usage.iterations += 1;
    let iteration = run.resource_usage.iterations;
    let calls = inputs.into_iter().enumerate().map(|(index, input)| RequestedCall {
        id: format!("call_{iteration}_{index}"),
        name: tool.to_owned(),
        arguments: Arguments::Json(input),
    });
    run.phase = Phase::Preparing(calls.collect());
}

/// Asks the model to format the result. If the plan was given when the run started, the run has no model, so its result
/// is a report.
fn format_result(run: &mut AgentRun, spec: &PlanSpec) {
    let Some(state) = &mut run.plan else { return };
    let Some(progress) = &state.progress else { return };
    if spec.given.is_some() {
        run.response = progress.result_without_model().to_string();
        return run.end(Ending::completed());
    }
    let content = format!(
        "The plan was executed. The results of its steps, as JSON:\n\n{}\n\nWrite the final response to the task now. \
         Use only these results. Mention every failed item. Do not write a plan.",
        fenced("results", &progress.results_for_model()),
    );
    state.stage = Stage::Formatting;
    run.rejected_answers = 0;
    run.push_messages([Message::User { content }]);
    run.call_model();
}

/// Ends the run, or asks the model for a corrected plan if the failed step changed nothing.
fn step_failed(run: &mut AgentRun, failure: StepFailure) {
    let StepFailure { step, tool, error, repairable } = failure;
    let has_model = run.spec.plan.as_ref().is_some_and(|spec| spec.given.is_none());
    if !(repairable && has_model && run.rejected_answers < MAX_REJECTED_ANSWERS) {
        let reason = plan_error_reason(&error).unwrap_or(error.code.as_str());
        return run.fail(reason, format!("step {step} (`{tool}`) failed: {}", error.message));
    }
    run.rejected_answers += 1;
    if let Some(state) = &mut run.plan {
        state.stage = Stage::Planning;
    }
    let content = format!(
        "Step {step} (`{tool}`) was refused, and nothing was executed for it: {}. Write the whole plan again with \
         corrected parameters. Steps before step {step} were executed and are not repeated. Answer with JSON only.",
        error.message
    );
    run.push_messages([Message::User { content }]);
    run.call_model();
}

/// Applies a model reply in the planning stage. Tool calls in the reply are never executed.
pub(super) fn apply_plan_reply(run: &mut AgentRun, reply: ModelReply, schema_error: Option<String>) {
    let ModelReply { content, tool_calls, thinking, stop, .. } = reply;
    let empty = content.trim().is_empty() && tool_calls.is_empty();
    if !content.trim().is_empty() {
        run.push_messages([Message::Assistant { content: content.clone(), tool_calls: Vec::new(), thinking }]);
    }
    match stop {
        StopReason::Refusal => return run.fail("refusal", "the model declined to write a plan".to_owned()),
        StopReason::MaxTokens => {
            let message = "the plan was cut because the model ran out of output tokens; raise `maxTokens`";
            return run.fail("max_tokens", message.to_owned());
        }
        StopReason::EndTurn | StopReason::ToolUse => {}
    }
    if empty && !run.nudged {
        run.nudged = true;
        return ask_again(run, NUDGE.to_owned());
    }
    let problem = if tool_calls.is_empty() { schema_error } else { Some("it requests tool calls".to_owned()) };
    let plan = match problem {
        None => parse(run, &content),
        Some(problem) => Err(problem),
    };
    match (plan, run.spec.plan.clone()) {
        (Ok(plan), Some(spec)) => adopt(run, &spec, plan),
        (Err(problem), _) if run.rejected_answers < MAX_REJECTED_ANSWERS => {
            run.rejected_answers += 1;
            ask_again(run, format!("Your plan is not valid: {problem}. Write the whole plan again, as JSON only."));
        }
        (Err(problem), _) => {
            let times = run.rejected_answers.saturating_add(1);
            run.fail(INVALID_PLAN, format!("the model wrote {times} plans, and none is valid: {problem}"));
        }
        (Ok(_), None) => {}
    }
}

fn parse(run: &AgentRun, content: &str) -> Result<Plan, String> {
    let value: Value = serde_json::from_str(json_answer(content)).map_err(|error| error.to_string())?;
    match &run.spec.plan {
        Some(spec) => Plan::parse(value, spec).map_err(|issues| listed(&issues)),
        None => serde_json::from_value(value).map_err(|error| error.to_string()),
    }
}

/// Executes a valid plan. If the run requires approval of its plan, asks a person first.
fn adopt(run: &mut AgentRun, spec: &PlanSpec, plan: Plan) {
    let Some(state) = &mut run.plan else { return };
    if spec.requires_approval && !run.spec.policy.capture_writes {
        state.stage = Stage::Approval;
        let input = serde_json::to_value(plan).unwrap_or_default();
        return request_calls(run, APPROVE_PLAN_TOOL, vec![input]);
    }
    state.execute(plan);
    execute_next(run, spec);
}

fn ask_again(run: &mut AgentRun, content: String) {
    run.push_messages([Message::User { content }]);
    run.call_model();
}

/// Sets the response of a planned run that ends before its result was formatted: a report of the executed steps, and of
/// the calls of the step in progress.
pub(super) fn end(run: &mut AgentRun, calls: &[Call], ending: &Ending) {
    interrupt(run, calls, ending);
    let Some(PlanState { progress: Some(progress), .. }) = run.plan.as_deref() else { return };
    if run.response.is_empty() && ending.status != RunStatus::Completed {
        run.response = progress.result_without_model().to_string();
    }
}

/// Marks text as data, so that a model does not take it for instructions. Opening and closing `data` tags in the text
/// are escaped, in any case and with any spaces before the name: `</data>` becomes `<\/data>`.
pub fn fenced(name: &str, text: &str) -> String {
    let (mut safe, mut rest) = (String::with_capacity(text.len()), text);
    while let Some((before, after)) = rest.split_once('<') {
        safe.push_str(before);
        safe.push_str(if starts_data_tag(after) { "<\\" } else { "<" });
        rest = after;
    }
    format!("<data name=\"{name}\">\n{safe}{rest}\n</data>")
}

/// Whether the text after a `<` is the rest of an opening or closing `data` tag.
fn starts_data_tag(text: &str) -> bool {
    let name = text.trim_start();
    let name = name.strip_prefix('/').unwrap_or(name).trim_start();
    name.get(..4).is_some_and(|name| name.eq_ignore_ascii_case("data"))
}
