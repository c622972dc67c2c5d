//! The report of `tools check`.

use serde_json::{Value, json};

use crate::cli::Context;
use crate::cli::failure::Failure;
use crate::cli::output::{Output, sanitize_line};

/// The results of all checks of one tool.
pub(super) struct ToolReport {
    /// The tool, as `name@version`.
    pub tool: String,
    pub checks: Vec<Check>,
}

/// A check and its outcome.
pub(super) struct Check {
    name: &'static str,
    outcome: Outcome,
}

/// The outcome of a check, with its reason.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Outcome {
    Passed(String),
    Failed(String),
    Skipped(String),
}

impl Outcome {
    pub(super) fn passed(detail: impl Into<String>) -> Self {
        Self::Passed(detail.into())
    }

    fn detail(&self) -> &str {
        let (Self::Passed(detail) | Self::Failed(detail) | Self::Skipped(detail)) = self;
        detail
    }

    fn status(&self) -> &'static str {
        match self {
            Self::Passed(_) => "passed",
            Self::Failed(_) => "failed",
            Self::Skipped(_) => "skipped",
        }
    }
}

impl Check {
    pub(super) fn new(name: &'static str, outcome: Outcome) -> Self {
        Self { name, outcome }
    }

    fn document(&self) -> Value {
        json!({ "name": self.name, "status": self.outcome.status(), "detail": self.outcome.detail() })
    }

    fn line(&self, output: &Output) -> String {
        let mark = match self.outcome {
            Outcome::Passed(_) => output.out.good('✓'),
            Outcome::Failed(_) => output.out.bad('✗'),
            Outcome::Skipped(_) => output.out.dim('-'),
        };
        let skipped = if matches!(self.outcome, Outcome::Skipped(_)) { "skipped: " } else { "" };
        format!("  {mark} {:<14}  {skipped}{}", self.name, sanitize_line(self.outcome.detail()))
    }
}

impl ToolReport {
    /// Whether a check failed.
    pub(super) fn failed(&self) -> bool {
        self.checks.iter().any(|check| matches!(check.outcome, Outcome::Failed(_)))
    }
}

/// Prints the reports.
pub(super) fn show(cx: &Context, reports: &[ToolReport]) -> Result<(), Failure> {
    let failed = reports.iter().filter(|report| report.failed()).count();
    if cx.output.json {
        let items: Vec<Value> = reports.iter().map(document).collect();
        return Ok(cx.output.document(json!({ "ok": failed == 0, "items": items }))?);
    }
    for report in reports {
        let (mark, paint) = (if report.failed() { "✗" } else { "✓" }, cx.output.out);
        let headline = format!("{mark} {}", sanitize_line(&report.tool));
        cx.output.line(if report.failed() { paint.bad(headline) } else { paint.good(headline) })?;
        cx.output.lines(report.checks.iter().map(|check| check.line(&cx.output)))?;
    }
    let tools = if reports.len() == 1 { "tool" } else { "tools" };
    Ok(cx.output.line(format!("{} {tools} checked, {failed} failed", reports.len()))?)
}

fn document(report: &ToolReport) -> Value {
    let checks: Vec<Value> = report.checks.iter().map(Check::document).collect();
    json!({ "tool": report.tool, "ok": !report.failed(), "checks": checks })
}
