//! The calls that `tools check` makes, and the checks of their results.

use serde_json::{Value, json};
use toolwright_api::wire::{AwaitingClientView, ValidationView, VerificationView};
use toolwright_types::{ErrorCode, RunStatus, ToolEnvelope};

use crate::cli::Context;
use crate::cli::client::{ApiResponse, RUNS, TOOLS, path};
use crate::cli::failure::Failure;

use super::report::Outcome;
use super::text;

/// The correlation id of all calls of the command. Operators can find the calls by this id.
const CORRELATION_ID: &str = "tools-check";

/// The results of the calls to one tool.
pub(super) struct Calls {
    /// Whether, according to the definition, the server executes the whole call.
    on_server: bool,
    /// Whether the same input must give the same output.
    pure: bool,
    /// Why no example was called.
    skipped: Option<String>,
    /// One result for each example.
    examples: Vec<ExampleCall>,
    invalid: InvalidCall,
}

/// The call of one example.
struct ExampleCall {
    result: CallResult,
    /// The result of a second call with the same input, if the tool has no side effects.
    repeated: Option<CallResult>,
    run_status: Option<RunStatus>,
    run_correlation_id: String,
    journal: VerificationView,
}

/// The response to a call.
struct CallResult {
    run_id: Option<String>,
    correlation_id: Option<String>,
    body: CallBody,
}

enum CallBody {
    Envelope(Box<ToolEnvelope>),
    Client(AwaitingClientView),
}

/// The result of a call with an invalid input.
enum InvalidCall {
    Called(Box<CallResult>),
    /// The input was only validated, because the tool writes.
    Validated(ValidationView),
}

impl Calls {
    /// Makes the calls. A tool that writes is called only if `writes` is set.
    pub(super) async fn make(
        cx: &Context,
        tool_ref: &str,
        tool: &Value,
        input: Option<&Value>,
        writes: bool,
    ) -> Result<Self, Failure> {
        let effects = text(tool, "sideEffects");
        let inputs = inputs(tool, input);
        let skipped = if effects == "writes" && !writes {
            Some("the tool writes; use --writes to call it".to_owned())
        } else if inputs.is_empty() {
            Some("the definition has no examples; use --input to call the tool".to_owned())
        } else {
            None
        };
        let on_server = tool.get("isToolFullyExecutedOnServer") != Some(&Value::Bool(false));
        let mut calls = Self {
            on_server,
            pure: on_server && effects == "none",
            skipped,
            examples: Vec::new(),
            invalid: invalid_call(cx, tool_ref, effects == "writes" && !writes).await?,
        };
        if calls.skipped.is_none() {
            for input in inputs {
                calls.examples.push(ExampleCall::make(cx, tool_ref, input, calls.pure).await?);
            }
        }
        Ok(calls)
    }

    /// Applies `check` to each example. The outcome is the first failure, or else `passed`.
    fn each(&self, passed: &str, check: impl Fn(&ExampleCall) -> Result<(), String>) -> Outcome {
        if let Some(reason) = &self.skipped {
            return Outcome::Skipped(reason.clone());
        }
        for (at, example) in self.examples.iter().enumerate() {
            if let Err(why) = check(example) {
                return Outcome::Failed(format!("example {}: {why}", at + 1));
            }
        }
        Outcome::passed(passed)
    }

    /// Checks that a server tool answers with an envelope, and a client tool with a client action.
    pub(super) fn execution_mode(&self) -> Outcome {
        let passed = if self.on_server { "answers with an envelope" } else { "answers with an action for the client" };
        self.each(passed, |example| match (&example.result.body, self.on_server) {
            (CallBody::Envelope(_), true) => Ok(()),
            (CallBody::Client(waiting), false) if !waiting.client_actions.is_empty() => Ok(()),
            (CallBody::Client(_), false) => Err("the response has no action for the client".into()),
            (CallBody::Envelope(envelope), false) => match &envelope.error {
                Some(error) => Err(format!("failed with {}: {}", error.code, error.message)),
                None => Err("a client tool must answer with an action for the client, got an envelope".into()),
            },
            (CallBody::Client(_), true) => {
                Err("a server tool must answer with an envelope, got an action for the client".into())
            }
        })
    }

    /// Checks that a call with an invalid input fails with a validation error.
    pub(super) fn invalid_input(&self) -> Outcome {
        match &self.invalid {
            InvalidCall::Validated(validation) if !validation.valid => Outcome::passed("is not valid"),
            InvalidCall::Validated(_) => Outcome::Failed("a text must not be a valid input".into()),
            InvalidCall::Called(result) => match result.error() {
                Some(error) if error.code == ErrorCode::ValidationError => Outcome::passed("is a VALIDATION_ERROR"),
                Some(error) => Outcome::Failed(format!("must be a VALIDATION_ERROR, got {}", error.code)),
                None => Outcome::Failed("must be a VALIDATION_ERROR, but the call succeeded".into()),
            },
        }
    }

    /// Checks that the output of each example matches the output schema. If the tool has no side effects, also checks
    /// that a second call has the same output.
    pub(super) fn output(&self) -> Outcome {
        let passed = match (self.on_server, self.pure) {
            (false, _) => "the client returns the output",
            (true, true) => "matches the schema, the same twice",
            (true, false) => "matches the schema",
        };
        self.each(passed, |example| {
            let CallBody::Envelope(envelope) = &example.result.body else { return Ok(()) };
            if let Some(error) = &envelope.error {
                return Err(format!("failed with {}: {}", error.code, error.message));
            }
            // If the output of an external system does not match the schema, the envelope has a warning and no error.
            if let Some(warning) = envelope.metadata.warnings.first() {
                return Err(format!("has a warning: {warning}"));
            }
            match example.repeated.as_ref().map(|repeated| &repeated.body) {
                Some(CallBody::Envelope(again)) if again.output != envelope.output => {
                    Err("a tool without side effects must return the same output for the same input".into())
                }
                _ => Ok(()),
            }
        })
    }

    /// Checks that each result has a run id and a call id, and that the response and the run have the correlation id.
    pub(super) fn ids(&self) -> Outcome {
        self.each("run id, call id and correlation id", |example| {
            let result = &example.result;
            if result.run_id.is_none() {
                return Err("the response has no run id".into());
            }
            let call_ids = match &result.body {
                CallBody::Envelope(envelope) => !envelope.call_id.as_str().is_empty(),
                CallBody::Client(waiting) => waiting.client_actions.iter().all(|action| !action.call_id.is_empty()),
            };
            if !call_ids {
                return Err("the result has no call id".into());
            }
            match (result.correlation_id.as_deref(), example.run_correlation_id.as_str()) {
                (Some(CORRELATION_ID), CORRELATION_ID) => Ok(()),
                (response, run) => Err(format!(
                    "the correlation id must be `{CORRELATION_ID}`, got `{}` in the response and `{run}` in the run",
                    response.unwrap_or_default()
                )),
            }
        })
    }

    /// Checks that failures have a code, a message and a reason.
    pub(super) fn failures(&self) -> Outcome {
        let results = self.examples.iter().map(|example| &example.result);
        let invalid = match &self.invalid {
            InvalidCall::Called(result) => Some(&**result),
            InvalidCall::Validated(_) => None,
        };
        let mut failures = results.chain(invalid).filter_map(CallResult::error).peekable();
        if failures.peek().is_none() {
            return Outcome::Skipped("no call failed".into());
        }
        for error in failures {
            let reason = error.details.as_ref().and_then(|details| details.get("reason")?.as_str());
            if error.message.is_empty() || reason.is_none_or(str::is_empty) {
                return Outcome::Failed(format!("{} must have a message and a reason", error.code));
            }
        }
        Outcome::passed("code, message and reason")
    }

    /// Checks that the run of each call completed, or waits for the client of a client tool, and that the run's journal
    /// is intact.
    pub(super) fn run(&self) -> Outcome {
        let expected = if self.on_server { RunStatus::Completed } else { RunStatus::AwaitingClient };
        self.each(&format!("{expected}, with an intact journal"), |example| {
            if example.run_status != Some(expected) {
                let status = example.run_status.map_or_else(|| "no run".to_owned(), |status| status.to_string());
                return Err(format!("the run must be {expected}, got {status}"));
            }
            match example.journal.intact {
                true => Ok(()),
                false => Err(format!("the journal is broken: {}", example.journal.why.as_deref().unwrap_or_default())),
            }
        })
    }
}

/// Returns the inputs of the examples. If the tool has no examples, returns the given input.
fn inputs(tool: &Value, input: Option<&Value>) -> Vec<Value> {
    let examples = tool.get("examples").and_then(Value::as_array).into_iter().flatten();
    let inputs: Vec<Value> = examples.filter_map(|example| example.get("input")).cloned().collect();
    if inputs.is_empty() { input.cloned().into_iter().collect() } else { inputs }
}

/// Calls the tool with a string as its input. No tool accepts a string, because the input of a tool is an object.
async fn invalid_call(cx: &Context, tool_ref: &str, only_validate: bool) -> Result<InvalidCall, Failure> {
    let input = json!("not an object");
    if only_validate {
        let body = json!({ "input": input });
        let response = cx.client.post(&format!("{}/validate", path(TOOLS, tool_ref)), &body).await?;
        return Ok(InvalidCall::Validated(response.read()?));
    }
    Ok(InvalidCall::Called(Box::new(CallResult::of_call(cx, tool_ref, &input).await?)))
}

impl ExampleCall {
    async fn make(cx: &Context, tool_ref: &str, input: Value, pure: bool) -> Result<Self, Failure> {
        let result = CallResult::of_call(cx, tool_ref, &input).await?;
        let repeated = if pure { Some(CallResult::of_call(cx, tool_ref, &input).await?) } else { None };
        let run = path(RUNS, result.run_id.as_deref().unwrap_or("unknown"));
        let found: Value = cx.client.get(&run, &[]).await?.read()?;
        let journal = cx.client.get(&format!("{run}/verify"), &[]).await?.read()?;
        if matches!(result.body, CallBody::Client(_)) {
            // No client will perform the action, so the run must not wait for it.
            cx.client.call(&format!("{run}/cancel"), &json!({})).await?;
        }
        Ok(Self {
            run_status: found.get("status").and_then(|status| serde_json::from_value(status.clone()).ok()),
            run_correlation_id: text(&found, "correlationId").to_owned(),
            result,
            repeated,
            journal,
        })
    }
}

impl CallResult {
    async fn of_call(cx: &Context, tool_ref: &str, input: &Value) -> Result<Self, Failure> {
        let url = format!("{}/execute", path(TOOLS, tool_ref));
        let response = cx.client.call_correlated(&url, &json!({ "input": input }), CORRELATION_ID).await?;
        let header = |name: &str| response.header(name).map(str::to_owned);
        Ok(Self {
            run_id: header("x-run-id"),
            correlation_id: header("x-correlation-id"),
            body: CallBody::read(&response)?,
        })
    }

    fn error(&self) -> Option<&toolwright_types::ToolError> {
        match &self.body {
            CallBody::Envelope(envelope) => envelope.error.as_ref(),
            CallBody::Client(_) => None,
        }
    }
}

impl CallBody {
    fn read(response: &ApiResponse) -> Result<Self, Failure> {
        match response.status {
            202 => Ok(Self::Client(response.read()?)),
            _ => Ok(Self::Envelope(Box::new(response.read()?))),
        }
    }
}
