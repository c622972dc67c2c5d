//! The outcome of an invocation: the result or the error, the warnings, and a summary of calls, tokens, cost and
//! duration.

use serde_json::Value;
use toolwright_api::wire::{ExecutionStatus, ExecutionView, InvocationView, RunView, TraceStep};
use toolwright_types::{RunStatus, ToolEnvelope, ToolError};

use crate::cli::Context;
use crate::cli::exit::Exit;
use crate::cli::failure::Failure;
use crate::cli::output::{sanitize, sanitize_line, wrap};
use crate::cli::tools::error_lines;

use super::trace;

/// The outcome of an invocation.
pub(super) struct Outcome {
    tool: String,
    execution: String,
    result: Option<Result<Value, Option<ToolError>>>,
    /// The status of the run. `None` if the run completed or no run was started.
    status: Option<RunStatus>,
    warnings: Vec<String>,
    steps: Vec<TraceStep>,
    tokens: u64,
    cost: f64,
    duration_ms: u64,
}

impl From<InvocationView> for Outcome {
    fn from(view: InvocationView) -> Self {
        let waits = view.status.is_some_and(|status| !status.is_terminal());
        let result = if view.success { Ok(view.data) } else { Err(view.error) };
        let meta = view.meta;
        Self {
            tool: meta.agentic_tool,
            execution: meta.execution_id,
            result: (!waits).then_some(result),
            status: view.status,
            warnings: view.warnings,
            steps: meta.trace.steps,
            tokens: meta.total_tokens,
            cost: meta.total_cost,
            duration_ms: meta.duration_ms,
        }
    }
}

impl Outcome {
    /// Returns the outcome of an execution. `caller` is the parent run, or the run of the execution if it has no
    /// parent. The envelope in the parent run has the result without masks for personal data.
    pub(super) fn of_execution(execution: ExecutionView, caller: &RunView) -> Self {
        let steps = trace::steps(&execution);
        let ExecutionView { summary, result, error, warnings, .. } = execution;
        let is_call = |envelope: &&ToolEnvelope| {
            envelope.metadata.child_run.as_ref().is_some_and(|child| child.run_id.to_string() == summary.id)
        };
        let result = match (caller.state.outputs.in_order().find(is_call), summary.status) {
            (_, ExecutionStatus::Running) => None,
            (Some(envelope), _) if envelope.is_success() => Some(Ok(envelope.output.clone())),
            (Some(envelope), _) => Some(Err(envelope.error.clone())),
            (None, ExecutionStatus::Success) => Some(Ok(result)),
            (None, _) => Some(Err(error)),
        };
        Self {
            tool: summary.agentic_tool,
            execution: summary.id,
            result,
            status: Some(summary.run_status).filter(|status| *status != RunStatus::Completed),
            warnings,
            steps,
            tokens: summary.total_tokens,
            cost: summary.total_cost,
            duration_ms: summary.duration_ms,
        }
    }

    /// Returns the exit code.
    pub(super) fn exit(&self) -> Exit {
        match self.result {
            None => Exit::Waiting,
            Some(Ok(_)) => Exit::Ok,
            Some(Err(_)) => Exit::Failed,
        }
    }

    /// Prints the result or the error, then a summary of calls, tokens, cost and duration. With `verbose`, first prints
    /// the calls.
    pub(super) fn show(&self, cx: &Context, verbose: bool) -> Result<Exit, Failure> {
        let out = &cx.output;
        for warning in &self.warnings {
            out.note(out.err.warn(format!("! {}", sanitize_line(warning))));
        }
        if verbose && !self.steps.is_empty() {
            out.lines(trace::lines(&self.steps, out.out))?;
            out.line("")?;
        }
        match &self.result {
            Some(Ok(data)) => out.line(sanitize(&serde_json::to_string_pretty(data).unwrap_or_default()))?,
            Some(Err(Some(error))) => {
                let headline = format!("✗ {}  {}  {}", self.tool, error.code, sanitize_line(&error.message));
                out.line(wrap(&out.out.bad(headline), out.width, 2))?;
                out.lines(error_lines(error, None))?;
            }
            Some(Err(None)) | None => {}
        }
        out.line("")?;
        let summary = out.out.dim(trace::usage_summary(&self.steps, self.tokens, self.cost, self.duration_ms));
        out.line(format!("{}  {summary}", self.headline(cx)))?;
        out.line(out.out.dim(format!("  {}", sanitize_line(&self.execution))))?;
        if self.result.is_none() {
            let (tool, execution) = (sanitize_line(&self.tool), sanitize_line(&self.execution));
            let hint = format!("  `toolwright agentic-tools logs {tool} {execution}` shows the result later");
            out.note(out.err.dim(hint));
        }
        Ok(self.exit())
    }

    fn headline(&self, cx: &Context) -> String {
        let paint = cx.output.out;
        match (&self.result, self.status) {
            (None, status) => paint.warn(format!("… {}", status.map_or("WAITING", RunStatus::as_str))),
            (Some(Ok(_)), None) => paint.good(format!("✓ {}", RunStatus::Completed.as_str())),
            (Some(Ok(_)), Some(status)) => paint.warn(format!("✓ {}", status.as_str())),
            (Some(Err(_)), None) => paint.bad("✗ FAILED"),
            (Some(Err(_)), Some(status)) => paint.bad(format!("✗ {}", status.as_str())),
        }
    }
}
