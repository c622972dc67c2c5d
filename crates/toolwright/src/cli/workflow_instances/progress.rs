//! Formats the steps of a workflow run as lines.

use std::collections::HashSet;

use serde_json::Map;
use toolwright_api::wire::{StepView, WorkflowRunView};
use toolwright_machine::workflow::StepStatus;
use toolwright_types::{Timestamp, ToolError};
use unicode_width::UnicodeWidthStr;

use super::outline::{Outline, OutlinedStep, is_sleep};
use crate::cli::follow::{format_duration, pluralize};
use crate::cli::output::{Paint, sanitize_line, wrap};
use crate::cli::table::truncate;
use crate::cli::time::format_second;

/// The symbols of a running step.
const FRAMES: [&str; 10] = ["⠋", "⠙", "⠹", "⠸", "⠼", "⠴", "⠦", "⠧", "⠇", "⠏"];
/// The symbol of a running step outside of a terminal.
const RUNNING: &str = "▸";
/// The columns of one level of indentation.
const INDENT: usize = 2;
/// Deeper levels are not indented further.
const MAX_LEVEL: usize = 8;
/// The maximum width of the column with names, and of the column with handlers.
const MAX_COLUMN: usize = 40;
/// The column with handlers is omitted in a narrower terminal.
const MIN_WIDTH_WITH_HANDLERS: usize = 70;
const GAP: &str = "  ";

/// How steps are formatted.
#[derive(Clone, Copy)]
pub(super) struct Style {
    /// The colors.
    pub paint: Paint,
    /// The width of the terminal. Nothing is shortened without one.
    pub width: Option<usize>,
    /// The current time, for the durations of running steps.
    pub now: Timestamp,
    /// The number of the current frame of the animation. `None` outside of a live display.
    pub frame: Option<usize>,
}

impl Style {
    /// Whether an error is below its step, because it may be wider than the terminal. In a live display each step has one
    /// line.
    fn errors_have_own_lines(&self) -> bool {
        self.width.is_some() && self.frame.is_none()
    }
}

/// The steps of a run with what they wait for.
pub(super) struct Progress<'a> {
    steps: Vec<(&'a OutlinedStep, StepView)>,
    approvals: HashSet<&'a str>,
    client_calls: HashSet<&'a str>,
    child_calls: HashSet<&'a str>,
}

/// A part of a line, by its importance.
enum Part {
    Plain(String),
    Warn(String),
    Bad(String),
}

impl<'a> Progress<'a> {
    /// Combines the state of a run with the outline of its workflow.
    pub(super) fn new(outline: &'a Outline, run: &'a WorkflowRunView) -> Self {
        let steps = outline.steps.iter().filter_map(|step| Some((step, step_view(&run.steps, &step.name)?)));
        Self {
            steps: steps.collect(),
            approvals: run.approvals.iter().map(|approval| approval.call_id.as_str()).collect(),
            client_calls: run.client_actions.iter().map(|action| action.call_id.as_str()).collect(),
            child_calls: run.waiting_child_runs.iter().map(|child| child.call_id.as_str()).collect(),
        }
    }

    /// The steps and their states.
    pub(super) fn steps(&self) -> impl Iterator<Item = (&OutlinedStep, &StepView)> {
        self.steps.iter().map(|(step, view)| (*step, view))
    }

    /// Formats the steps as a tree with one line for each step.
    pub(super) fn tree(&self, style: &Style) -> Vec<String> {
        self.lines(style, |_| true)
    }

    /// Formats at most `height` lines: the steps that need attention first, and the number of the others.
    pub(super) fn excerpt(&self, style: &Style, height: usize) -> Vec<String> {
        if self.steps.len() <= height {
            return self.tree(style);
        }
        let mut order: Vec<usize> = (0..self.steps.len()).collect();
        let rank = |at: &usize| match self.steps.get(*at).map(|(_, view)| view.status) {
            Some(StepStatus::Running) => 0,
            Some(StepStatus::Waiting) => 1,
            Some(StepStatus::Failed) => 2,
            _ => 3,
        };
        order.sort_by_key(rank);
        let shown: HashSet<usize> = order.into_iter().take(height.saturating_sub(1)).collect();
        let mut lines = self.lines(style, |at| shown.contains(&at));
        let counts = status_counts(self.steps.iter().map(|(_, view)| view.status));
        lines.push(style.paint.dim(format!("{} in total: {counts}", pluralize(self.steps.len() as u64, "step"))));
        lines
    }

    fn lines(&self, style: &Style, shown: impl Fn(usize) -> bool) -> Vec<String> {
        let columns = |of: &dyn Fn(&OutlinedStep) -> usize| {
            let widths = self.steps.iter().zip(0..).filter(|(_, at)| shown(*at)).map(|((step, _), _)| of(step));
            widths.max().unwrap_or_default().min(MAX_COLUMN)
        };
        let names = columns(&|step| indent(step) + step.name.width());
        let has_handlers = style.width.is_none_or(|width| width >= MIN_WIDTH_WITH_HANDLERS);
        let handlers = if has_handlers { columns(&|step| step.handler.width()) } else { 0 };
        let mut lines = Vec::new();
        for ((step, view), _) in self.steps.iter().zip(0..).filter(|(_, at)| shown(*at)) {
            lines.push(self.line(step, view, style, (names, handlers)));
            if let Some(error) = view.error.as_ref().filter(|_| style.errors_have_own_lines()) {
                let text = format!("{}{}", " ".repeat(indent(step) + INDENT), error_text(error));
                lines.extend(wrap(&text, style.width, INDENT).lines().map(|line| style.paint.bad(line)));
            }
        }
        lines
    }

    fn line(&self, step: &OutlinedStep, view: &StepView, style: &Style, (names, handlers): (usize, usize)) -> String {
        let level = indent(step);
        let name = truncate(&sanitize_line(&step.name), names.saturating_sub(level));
        let name = pad(&name, names.saturating_sub(level));
        let handler = pad(&truncate(&sanitize_line(&step.handler), handlers), handlers);
        // The symbol and the space after it have two columns.
        let used = 2 + names + if handlers > 0 { GAP.len() + handlers } else { 0 };
        let left = style.width.map(|width| width.saturating_sub(used + GAP.len() + 1));
        let mut details = self.details(step, view, style);
        if view.status == StepStatus::Skipped {
            details.push(Part::Plain("skipped".to_owned()));
        }
        let details = join(details, style.paint, left);
        let handler = if handlers > 0 { format!("{GAP}{}", style.paint.dim(handler)) } else { String::new() };
        let line = format!("{}{} {name}{handler}{GAP}{details}", " ".repeat(level), symbol(view.status, style));
        line.trim_end().to_owned()
    }

    /// Formats a change of a step as one line with its status.
    pub(super) fn change(&self, step: &OutlinedStep, view: &StepView, style: &Style) -> String {
        let details = join(self.details(step, view, style), style.paint, None);
        let (name, status) = (sanitize_line(&step.name), view.status.as_str());
        format!("{} {name}{GAP}{status}{GAP}{details}", symbol(view.status, style)).trim_end().to_owned()
    }

    fn details(&self, step: &OutlinedStep, view: &StepView, style: &Style) -> Vec<Part> {
        let mut parts = Vec::new();
        if view.status == StepStatus::Waiting {
            parts.push(Part::Warn(self.wait(step, view)));
        }
        let until = view.ended_at.or((view.status == StepStatus::Running).then_some(style.now));
        if let (Some(started), Some(until)) = (view.started_at, until) {
            parts.push(Part::Plain(format_duration(until.millis_since(started))));
        }
        if let Some(items) = &view.items {
            let failed = items.iter().filter(|item| item.status == StepStatus::Failed).count();
            let completed = items.iter().filter(|item| item.status == StepStatus::Completed).count();
            parts.push(Part::Plain(format!("{completed}/{} items", items.len())));
            if failed > 0 {
                parts.push(Part::Bad(format!("{failed} failed")));
            }
        }
        let calls = view.items.as_ref().map_or(1, Vec::len);
        if usize::try_from(view.attempts).is_ok_and(|attempts| attempts > calls) {
            parts.push(Part::Plain(pluralize(u64::from(view.attempts), "attempt")));
        }
        if view.reused {
            parts.push(Part::Plain("from the earlier run".to_owned()));
        }
        if let Some(error) = view.error.as_ref().filter(|_| !style.errors_have_own_lines()) {
            parts.push(Part::Bad(error_text(error)));
        }
        parts
    }

    /// What a waiting step waits for.
    fn wait(&self, step: &OutlinedStep, view: &StepView) -> String {
        let waits = |calls: &HashSet<&str>| call_ids(view).any(|call| calls.contains(call));
        if waits(&self.approvals) {
            return "waits for approval".to_owned();
        }
        if waits(&self.client_calls) {
            return "waits for the client".to_owned();
        }
        if waits(&self.child_calls) {
            return "waits for a child run".to_owned();
        }
        match (&view.signal, view.wakes_at.map(format_second)) {
            (Some(signal), Some(until)) => format!("waits for signal {} until {until}", sanitize_line(signal)),
            (Some(signal), None) => format!("waits for signal {}", sanitize_line(signal)),
            (None, Some(until)) if is_sleep(&step.handler) => format!("waits until {until}"),
            (None, Some(until)) => format!("next attempt at {until}"),
            (None, None) => "waits".to_owned(),
        }
    }
}

/// The calls of a step and of its items.
pub(super) fn call_ids(view: &StepView) -> impl Iterator<Item = &str> {
    let items = view.items.iter().flatten().filter_map(|item| item.call_id.as_ref());
    view.call_id.iter().chain(items).map(|call| call.as_str())
}

/// Returns the state of a step; `None` if the run has no such step.
pub(super) fn step_view(steps: &Map<String, serde_json::Value>, name: &str) -> Option<StepView> {
    serde_json::from_value(steps.get(name)?.clone()).ok()
}

/// Formats how many steps have each status, such as `3 completed, 1 failed`.
pub(super) fn status_counts(statuses: impl Iterator<Item = StepStatus>) -> String {
    const ORDER: [StepStatus; 6] = [
        StepStatus::Completed,
        StepStatus::Failed,
        StepStatus::Running,
        StepStatus::Waiting,
        StepStatus::Skipped,
        StepStatus::Pending,
    ];
    let statuses: Vec<StepStatus> = statuses.collect();
    let count = |status| statuses.iter().filter(|one| **one == status).count();
    let counts = ORDER.into_iter().map(|status| (status, count(status))).filter(|(_, count)| *count > 0);
    let texts: Vec<String> =
        counts.map(|(status, count)| format!("{count} {}", status.as_str().to_lowercase())).collect();
    texts.join(", ")
}

fn error_text(error: &ToolError) -> String {
    sanitize_line(&format!("{}: {}", error.code.as_str(), error.message))
}

fn indent(step: &OutlinedStep) -> usize {
    step.level.min(MAX_LEVEL) * INDENT
}

fn pad(text: &str, width: usize) -> String {
    format!("{text}{}", " ".repeat(width.saturating_sub(text.width())))
}

fn symbol(status: StepStatus, style: &Style) -> String {
    let paint = style.paint;
    match status {
        StepStatus::Pending => paint.dim('·'),
        StepStatus::Running => {
            let frame = style.frame.and_then(|frame| FRAMES.get(frame % FRAMES.len()));
            paint.warn(frame.unwrap_or(&RUNNING))
        }
        StepStatus::Waiting => paint.warn('?'),
        StepStatus::Completed => paint.good('✓'),
        StepStatus::Failed => paint.bad('✗'),
        StepStatus::Skipped => paint.dim('–'),
    }
}

/// Joins parts, shortened to `width` columns.
fn join(parts: Vec<Part>, paint: Paint, width: Option<usize>) -> String {
    let (mut left, mut joined) = (width, String::new());
    for part in parts {
        let gap = if joined.is_empty() { 0 } else { GAP.len() };
        let fit = |text: &str| left.map_or_else(|| text.to_owned(), |left| truncate(text, left.saturating_sub(gap)));
        let (text, styled) = match &part {
            Part::Plain(text) => (fit(text), paint.dim(fit(text))),
            Part::Warn(text) => (fit(text), paint.warn(fit(text))),
            Part::Bad(text) => (fit(text), paint.bad(fit(text))),
        };
        if text.is_empty() {
            break;
        }
        joined.push_str(&" ".repeat(gap));
        joined.push_str(&styled);
        left = left.map(|left| left.saturating_sub(gap + text.width()));
    }
    joined
}

#[cfg(test)]
mod tests;
