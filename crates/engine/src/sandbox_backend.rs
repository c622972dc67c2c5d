//! The backend of FUNCTION tools, which are functions of the library or code in a sandbox. Also defines the built-in
//! tool `python`.

use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use indexmap::IndexMap;
use serde_json::{Map, Value, json};
use tokio::sync::{Mutex, Semaphore};
use tokio::time::Instant;
use toolwright_budget::Shares;
use toolwright_sandbox::{AsyncHost, Job, JobError, JobLimits, JobOutput, JobOwner, Language, Sandbox};
use toolwright_tools::executor::{Attempt, Backend, BackendReply, NestedCallKind, QueueTimer};
use toolwright_tools::{
    CallOutcome, CallRequest, CallSequence, CompiledTool, DynTool, FunctionBackend, Library, ToolCx, ToolFailure,
    ToolSpec,
};
use toolwright_types::{ErrorCode, SideEffects, ToolError};

/// The name of the built-in tool that runs Python code.
const PYTHON: &str = "python";
/// The name of the function with which code adds a message to the envelope of its call.
const ADD_MESSAGE: &str = "add_message";
/// The maximum number of concurrent top-level jobs. A top-level job is code that no other tool called. A job keeps its
/// process while it waits for a tool that it called.
const MAX_TOP_LEVEL_JOBS: usize = 16;
/// The advice in the error message for a job that waited too long in the queue.
const QUEUE_HINT: &str = "raise `sandbox.max_running`, or let less code run at once";
/// The maximum number of characters of standard output that are shown.
const MAX_STDOUT_CHARS: usize = 2_000;

/// The backend of FUNCTION tools: it runs functions of the library, or code in a sandbox.
pub(crate) struct SandboxBackend {
    functions: FunctionBackend,
    /// `None` if the sandbox is disabled.
    sandbox: Option<Sandbox>,
    /// Limits the number of top-level jobs. Nested jobs are not limited. Otherwise a top-level job could wait forever
    /// for a nested job that gets no permit.
    top_level_jobs: Semaphore,
    /// Limits the top-level jobs of each principal. Without this limit, the waiting jobs of one principal could hold
    /// all permits.
    principals: Shares,
}

impl Backend for SandboxBackend {
    fn attempt<'a>(&'a self, attempt: Attempt<'a>) -> BoxFuture<'a, Result<BackendReply, ToolFailure>> {
        match &attempt.tool.definition.invocation.code {
            Some(code) => Box::pin(self.run(code, attempt)),
            None => self.functions.attempt(attempt),
        }
    }

    fn effects(&self, tool: &CompiledTool, input: &Value) -> SideEffects {
        match tool.definition.invocation.code {
            Some(_) => tool.effects,
            None => self.functions.effects(tool, input),
        }
    }

    fn deletes(&self, tool: &CompiledTool, input: &Value) -> bool {
        tool.definition.invocation.code.is_none() && self.functions.deletes(tool, input)
    }

    fn implementation(&self, tool: &CompiledTool) -> String {
        match &tool.definition.invocation {
            invocation if invocation.code.is_some() => {
                format!("sandbox/{}", invocation.path.as_deref().unwrap_or_default())
            }
            _ => self.functions.implementation(tool),
        }
    }
}

impl SandboxBackend {
    pub(crate) fn new(functions: FunctionBackend, sandbox: Option<Sandbox>) -> Self {
        let principals = Shares::new(MAX_TOP_LEVEL_JOBS / 2);
        Self { functions, sandbox, top_level_jobs: Semaphore::new(MAX_TOP_LEVEL_JOBS), principals }
    }

    async fn run(&self, code: &str, attempt: Attempt<'_>) -> Result<BackendReply, ToolFailure> {
        // The deadline is earlier than the timeout of the attempt. So the sandbox ends the code before the executor
        // ends the attempt.
        let deadline = Instant::now() + attempt.tool.limits.attempt.mul_f64(0.95);
        let sandbox = self.sandbox.as_ref().ok_or_else(no_sandbox)?;
        let invocation = &attempt.tool.definition.invocation;
        let language = language(invocation.path.as_deref().unwrap_or_default()).ok_or_else(no_sandbox)?;
        let inputs = attempt.arguments()?;
        // If an input or a granted tool has the name `add_message`, the built-in function would hide it. In that case
        // the code does not get the built-in function.
        let adds_messages = inputs.get(ADD_MESSAGE).is_none() && !invocation.functions.contains_key(ADD_MESSAGE);
        let own = adds_messages.then(|| ADD_MESSAGE.to_owned());
        let job = Job {
            code: code.to_owned(),
            inputs,
            functions: invocation.functions.keys().cloned().chain(own).collect(),
            limits: limits(attempt.tool),
        };
        let (realm, principal) = (attempt.cx.realm.realm.to_string(), attempt.cx.principal.id.to_string());
        let owner = JobOwner { tenant: &realm, principal: Some(&principal) };
        let _permits = match attempt.cx.depth {
            0 => {
                attempt.queue.enter(QUEUE_HINT);
                (self.principals.acquire(&principal).await, self.top_level_jobs.acquire().await.ok())
            }
            _ => (None, None),
        };
        let host = ToolHost { attempt, functions: &invocation.functions, sequence: Mutex::default(), deadline };
        let done = sandbox.run(language, owner, job, &host).await.map_err(job_failure)?;
        let printed = truncated(&done.stdout);
        let warnings = if printed.is_empty() { Vec::new() } else { vec![format!("the code printed: {printed}")] };
        Ok(BackendReply { output: done.result, warnings, ..BackendReply::default() })
    }
}

/// Lets code call the tools that the definition of its tool grants, with the permissions of the caller.
struct ToolHost<'a> {
    attempt: Attempt<'a>,
    functions: &'a IndexMap<String, String>,
    /// Numbers the calls of a job, so that two calls with the same input have different call ids.
    sequence: Mutex<CallSequence>,
    deadline: Instant,
}

impl ToolHost<'_> {
    fn add_message(&self, arguments: &Value) -> Result<Value, String> {
        let text = arguments.get("text").and_then(Value::as_str);
        let text = text.ok_or_else(|| format!("`{ADD_MESSAGE}` takes one argument, `text`, a string"))?;
        self.attempt.messages.add(text);
        Ok(Value::Null)
    }
}

impl AsyncHost for ToolHost<'_> {
    fn call<'a>(&'a self, function: &'a str, arguments: Value) -> BoxFuture<'a, Result<Value, String>> {
        Box::pin(async move {
            let Some(tool) = self.functions.get(function) else {
                return match function {
                    ADD_MESSAGE => self.add_message(&arguments),
                    _ => Err(format!("`{function}` is not granted")),
                };
            };
            if self.attempt.at_max_depth() {
                return Err(format!("`{tool}` was not called: tools that call tools are nested too deeply"));
            }
            let request = CallRequest { tool: tool.clone(), version: None, input: arguments };
            let mut sequence = self.sequence.lock().await;
            match self.attempt.executor.call_nested(self.attempt, NestedCallKind::Subcall, request, &mut sequence).await
            {
                CallOutcome::Done(envelope) => match envelope.error {
                    None => Ok(envelope.output),
                    Some(error) => Err(format!("{}: {}", error.code, error.message)),
                },
                CallOutcome::Client(_) => Err(format!("`{tool}` is a client tool and cannot be called from code")),
            }
        })
    }

    fn on_queued(&self) {
        self.attempt.queue.enter(QUEUE_HINT);
    }

    fn on_dequeued(&self) {
        self.attempt.queue.leave();
    }

    /// Returns `None` if the job has waited long in the queue, because the code then had less time than its time limit
    /// promises. In that case the executor ends the attempt, and the error says how long the job waited.
    fn deadline(&self) -> Option<Instant> {
        let Attempt { queue, tool, .. } = self.attempt;
        (!queue.waited_long(tool.limits.attempt)).then_some(self.deadline)
    }
}

/// Returns the limits of a job. The time limit is shorter than the timeout of the tool, so that the sandbox reports the
/// timeout before the executor does.
fn limits(tool: &CompiledTool) -> JobLimits {
    let own = tool.definition.timeout_ms.map(|ms| Duration::from_millis(ms).mul_f64(0.9));
    let defaults = JobLimits::default();
    JobLimits { time: own.unwrap_or(defaults.time), ..defaults }
}

fn language(name: &str) -> Option<Language> {
    serde_json::from_value(Value::String(name.to_owned())).ok()
}

fn no_sandbox() -> ToolFailure {
    let message = "the sandbox is disabled on this server; enable it with `sandbox.enabled`";
    ToolFailure::fatal(ErrorCode::SandboxError, message).reason("unavailable")
}

fn job_failure(failure: JobError) -> ToolFailure {
    let error = ToolError::new(ErrorCode::SandboxError, failure.to_string());
    let with_line = |error: ToolError, line: Option<u32>| match line {
        Some(line) => error.detail("line", line),
        None => error,
    };
    let error = match failure {
        JobError::Code { line, .. } => with_line(error.reason("code"), line),
        JobError::Exception { line, stdout, .. } => {
            let error = with_line(error.reason("exception"), line);
            if stdout.is_empty() { error } else { error.detail("stdout", truncated(&stdout)) }
        }
        JobError::Limit { limit } => error.reason("limit").detail("limit", limit.to_string()),
        JobError::Unavailable { .. } => error.reason("unavailable"),
    };
    error.into()
}

fn truncated(text: &str) -> String {
    match text.char_indices().nth(MAX_STDOUT_CHARS) {
        Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default()),
        None => text.to_owned(),
    }
}

/// Adds the tool `python` to the library if there is a sandbox.
pub(crate) fn with_python(library: Library, sandbox: Option<&Sandbox>) -> Library {
    match sandbox {
        Some(sandbox) => library.with_dyn(Arc::new(PythonTool { spec: python_spec(), sandbox: sandbox.clone() })),
        None => library,
    }
}

struct PythonTool {
    spec: ToolSpec,
    sandbox: Sandbox,
}

impl DynTool for PythonTool {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn call<'a>(&'a self, cx: &'a ToolCx<'a>, mut input: Value) -> BoxFuture<'a, Result<Value, ToolFailure>> {
        Box::pin(async move {
            let code = input.get("code").and_then(Value::as_str).unwrap_or_default().to_owned();
            let inputs = input.get_mut("inputs").map(Value::take).filter(Value::is_object);
            let inputs = inputs.unwrap_or_else(|| Value::Object(Map::new()));
            let job = Job { code, inputs, functions: Vec::new(), limits: JobLimits::default() };
            let (realm, principal) = (cx.call.realm.realm.to_string(), cx.call.principal.id.to_string());
            let owner = JobOwner { tenant: &realm, principal: Some(&principal) };
            let done =
                self.sandbox.run(Language::Python, owner, job, &NoToolsHost(cx.queue)).await.map_err(job_failure)?;
            let JobOutput { result, stdout } = done;
            Ok(json!({ "result": result, "stdout": stdout }))
        })
    }
}

/// A host for code that may call no tools.
struct NoToolsHost<'a>(&'a QueueTimer);

impl AsyncHost for NoToolsHost<'_> {
    fn call<'a>(&'a self, function: &'a str, _: Value) -> BoxFuture<'a, Result<Value, String>> {
        Box::pin(async move { Err(format!("`{function}` is not granted")) })
    }

    fn on_queued(&self) {
        self.0.enter(QUEUE_HINT);
    }

    fn on_dequeued(&self) {
        self.0.leave();
    }
}

fn python_spec() -> ToolSpec {
    let description = "Runs Python code and returns the variable `result`, or the value of the last expression, and what was \
        printed. The interpreter is a small one: no files, network, clock or packages; no class inheritance, generators, `match` or \
        `del`; `math`, `re`, `json` and a few other modules at most. Code runs from scratch each time and has a few seconds.";
    ToolSpec {
        input_schema: json!({
            "type": "object",
            "properties": {
                "code": { "type": "string", "description": "The code." },
                "inputs": { "type": "object", "description": "Values for the code: each is a variable, and all are in `inputs`." },
            },
            "required": ["code"],
            "additionalProperties": false,
        }),
        output_schema: json!({
            "type": "object",
            "properties": { "result": {}, "stdout": { "type": "string" } },
            "required": ["result", "stdout"],
        }),
        ..ToolSpec::new(PYTHON, description)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sandbox_supports_each_language_that_definitions_permit() {
        for name in toolwright_tools::CODE_LANGUAGES {
            assert!(language(name).is_some(), "{name}");
        }
    }
}
