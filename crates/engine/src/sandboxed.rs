//! FUNCTION tools whose code runs in a sandbox, and the built-in tool `python`.

use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use indexmap::IndexMap;
use semver::Version;
use serde_json::{Map, Value, json};
use tokio::sync::{Mutex, Semaphore};
use toolwright_sandbox::{AsyncHost, Done, Failure, Job, Language, Limits, Sandbox};
use toolwright_tools::executor::{Attempt, Backend, Queue, Reply, Role};
use toolwright_tools::{
    CallRequest, CallSequence, CompiledTool, DynTool, Functions, Library, Outcome, ToolCx, ToolFailure, ToolSpec,
};
use toolwright_types::{ErrorCode, SideEffects, ToolError};

/// What the built-in tool is called.
const PYTHON: &str = "python";
/// How many pieces of code are begun at once; those that call a tool wait for it in a process of their own.
const OUTERMOST: usize = 16;
/// What helps when code waits for its turn.
const MORE_TURNS: &str = "raise `sandbox.max_running`, or let less code run at once";
/// How much of what failing code had printed is told.
const PRINTED: usize = 2_000;

/// Functions of the library, and code in a sandbox.
pub(crate) struct Sandboxed {
    functions: Functions,
    /// None where code is not run.
    sandbox: Option<Sandbox>,
    /// Code that nobody's code has called. What such code calls does not count, or code that waits for it would never end.
    outermost: Semaphore,
}

impl Backend for Sandboxed {
    fn attempt<'a>(&'a self, attempt: Attempt<'a>) -> BoxFuture<'a, Result<Reply, ToolFailure>> {
        match &attempt.tool.definition.invocation.code {
            Some(code) => Box::pin(self.run(code, attempt)),
            None => self.functions.attempt(attempt),
        }
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

impl Sandboxed {
    pub fn new(functions: Functions, sandbox: Option<Sandbox>) -> Self {
        Self { functions, sandbox, outermost: Semaphore::new(OUTERMOST) }
    }

    async fn run(&self, code: &str, attempt: Attempt<'_>) -> Result<Reply, ToolFailure> {
        let sandbox = self.sandbox.as_ref().ok_or_else(no_sandbox)?;
        let invocation = &attempt.tool.definition.invocation;
        let language = language(invocation.path.as_deref().unwrap_or_default()).ok_or_else(no_sandbox)?;
        let job = Job {
            code: code.to_owned(),
            inputs: attempt.arguments()?,
            functions: invocation.functions.keys().cloned().collect(),
            limits: limits(attempt.tool),
        };
        let _place = match attempt.cx.depth {
            0 => {
                attempt.queue.enter(MORE_TURNS);
                self.outermost.acquire().await.ok()
            }
            _ => None,
        };
        let host = Granted { attempt, functions: &invocation.functions, sequence: Mutex::default() };
        let tenant = attempt.cx.realm.realm.to_string();
        let done = sandbox.run(language, &tenant, job, &host).await.map_err(failed)?;
        let printed = beginning(&done.stdout);
        let warnings = if printed.is_empty() { Vec::new() } else { vec![format!("the code printed: {printed}")] };
        Ok(Reply { output: done.result, warnings, ..Reply::default() })
    }
}

/// The tools that code may call. It gets no further than whoever called it.
struct Granted<'a> {
    attempt: Attempt<'a>,
    functions: &'a IndexMap<String, String>,
    /// Equal calls of one job are different calls.
    sequence: Mutex<CallSequence>,
}

impl AsyncHost for Granted<'_> {
    fn call<'a>(&'a self, function: &'a str, arguments: Value) -> BoxFuture<'a, Result<Value, String>> {
        Box::pin(async move {
            let Some(tool) = self.functions.get(function) else { return Err(format!("`{function}` is not granted")) };
            if self.attempt.is_deepest() {
                return Err(format!("`{tool}` was not called: tools that call tools are nested too deeply"));
            }
            let request = CallRequest { tool: tool.clone(), version: None, input: arguments };
            let mut sequence = self.sequence.lock().await;
            match self.attempt.executor.call_within(self.attempt, Role::Part, request, &mut sequence).await {
                Outcome::Done(envelope) => match envelope.error {
                    None => Ok(envelope.output),
                    Some(error) => Err(format!("{}: {}", error.code, error.message)),
                },
                Outcome::Client(_) => Err(format!("`{tool}` needs a client, which code has none of")),
            }
        })
    }

    fn queued(&self) {
        self.attempt.queue.enter(MORE_TURNS);
    }

    fn resumed(&self) {
        self.attempt.queue.leave();
    }
}

/// A little less than the tool has, so that code that takes too long is ended as code.
fn limits(tool: &CompiledTool) -> Limits {
    let own = tool.definition.timeout_ms.map(|ms| Duration::from_millis(ms).mul_f64(0.9));
    let defaults = Limits::default();
    Limits { time: own.unwrap_or(defaults.time), ..defaults }
}

fn language(name: &str) -> Option<Language> {
    serde_json::from_value(Value::String(name.to_owned())).ok()
}

fn no_sandbox() -> ToolFailure {
    let message = "this server runs no code; switch it on with `sandbox.enabled`";
    ToolFailure::fatal(ErrorCode::SandboxError, message).reason("unavailable")
}

fn failed(failure: Failure) -> ToolFailure {
    let error = ToolError::new(ErrorCode::SandboxError, failure.to_string());
    let at = |error: ToolError, line: Option<u32>| match line {
        Some(line) => error.detail("line", line),
        None => error,
    };
    let error = match failure {
        Failure::Code { line, .. } => at(error.reason("code"), line),
        Failure::Exception { line, stdout, .. } => {
            let error = at(error.reason("exception"), line);
            if stdout.is_empty() { error } else { error.detail("stdout", beginning(&stdout)) }
        }
        Failure::Limit { limit } => error.reason("limit").detail("limit", limit.to_string()),
        Failure::Unavailable { .. } => error.reason("unavailable"),
    };
    error.into()
}

fn beginning(text: &str) -> String {
    match text.char_indices().nth(PRINTED) {
        Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default()),
        None => text.to_owned(),
    }
}

/// The library, with the tool that runs what a model writes.
pub(crate) fn with_python(library: Library, sandbox: Option<&Sandbox>) -> Library {
    match sandbox {
        Some(sandbox) => library.with_dyn(Arc::new(PythonTool { spec: spec(), sandbox: sandbox.clone() })),
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
            let job = Job { code, inputs, functions: Vec::new(), limits: Limits::default() };
            let tenant = cx.call.realm.realm.to_string();
            let done = self.sandbox.run(Language::Python, &tenant, job, &Alone(cx.queue)).await.map_err(failed)?;
            let Done { result, stdout } = done;
            Ok(json!({ "result": result, "stdout": stdout }))
        })
    }
}

/// A host that grants nothing.
struct Alone<'a>(&'a Queue);

impl AsyncHost for Alone<'_> {
    fn call<'a>(&'a self, function: &'a str, _: Value) -> BoxFuture<'a, Result<Value, String>> {
        Box::pin(async move { Err(format!("`{function}` is not granted")) })
    }

    fn queued(&self) {
        self.0.enter(MORE_TURNS);
    }

    fn resumed(&self) {
        self.0.leave();
    }
}

fn spec() -> ToolSpec {
    let description = "Runs Python code and returns the variable `result`, or the value of the last expression, and what was \
        printed. The interpreter is a small one: no files, network, clock or packages; no class inheritance, generators, `match` or \
        `del`; `math`, `re`, `json` and a few other modules at most. Code runs from scratch each time and has a few seconds.";
    ToolSpec {
        name: PYTHON.to_owned(),
        version: Version::new(1, 0, 0),
        description: description.to_owned(),
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
        side_effects: SideEffects::None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_language_that_a_definition_can_name_is_one() {
        for name in toolwright_tools::LANGUAGES {
            assert!(language(name).is_some(), "{name}");
        }
    }
}
