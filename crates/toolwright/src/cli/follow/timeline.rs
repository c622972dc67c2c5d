//! Renders the events of a run as text. Does no IO.

use serde_json::Value;
use toolwright_api::wire::{ApprovalView, ChildRunView, ClientActionView, StreamEventKind, StreamEventView};
use toolwright_machine::view::{InvocationStatus, ToolCallEntry, ToolInvocation};
use toolwright_types::{CallId, CallSource};

use crate::cli::fields::wire_name;
use crate::cli::output::{Paint, sanitize, sanitize_line, wrap};
use crate::cli::table::truncate;

use super::word_wrap::WordWrap;

/// Renders the events of one run.
pub(super) struct TimelineRenderer {
    paint: Paint,
    width: Option<usize>,
    /// The text of the current model reply.
    reply: String,
    /// The part of the current reply that the server sends again after a reconnect.
    expected_repeat: String,
    reply_wrap: WordWrap,
    /// Whether the last line has no line break yet.
    line_open: bool,
    last_block: LastBlock,
    running_calls: Vec<(CallId, String)>,
    state: State,
    disconnected: bool,
}

/// The kind of the last output. Text and calls are separated by a blank line.
#[derive(Clone, Copy, PartialEq, Eq)]
enum LastBlock {
    Nothing,
    Text,
    Call,
}

#[derive(Clone, Copy)]
enum State {
    Idle,
    Thinking,
    Waiting(&'static str),
}

impl TimelineRenderer {
    /// A timeline for a terminal of this width; nothing is truncated or wrapped without a width.
    pub(super) fn new(paint: Paint, width: Option<usize>) -> Self {
        Self {
            paint,
            width,
            reply: String::new(),
            expected_repeat: String::new(),
            reply_wrap: WordWrap::new(width),
            line_open: false,
            last_block: LastBlock::Nothing,
            running_calls: Vec::new(),
            state: State::Idle,
            disconnected: false,
        }
    }

    /// Returns the text to print for an event.
    pub(super) fn render(&mut self, event: &StreamEventView) -> String {
        let StreamEventView { kind, content, tool_invocation, approval, client_action, child_run, run_id, .. } = event;
        if let (StreamEventKind::ChildWaiting, Some(child)) = (kind, child_run) {
            return self.wait_for_child(child);
        }
        match (kind, tool_invocation, approval, client_action) {
            (StreamEventKind::Thinking, ..) => self.set_state(State::Thinking),
            (StreamEventKind::TextDelta, ..) => self.append_text(content.as_deref().unwrap_or_default()),
            (StreamEventKind::TextReset, ..) => self.reset_reply(),
            (StreamEventKind::Usage, ..) => self.end_reply(),
            (StreamEventKind::ToolCallStart, Some(call), ..) => self.start_call(call),
            (StreamEventKind::ToolCallEnd, Some(call), ..) => self.end_call(call),
            (StreamEventKind::ApprovalRequired, _, Some(approval), _) => self.request_approval(approval),
            (StreamEventKind::ClientAction, _, _, Some(action)) => self.request_client_action(run_id, action),
            (StreamEventKind::Done | StreamEventKind::Error, ..) => self.end_run(),
            _ => String::new(),
        }
    }

    /// Records that the connection was lost. After a reconnect, the server sends the current reply again from its
    /// beginning.
    pub(super) fn on_disconnect(&mut self) {
        self.expected_repeat = std::mem::take(&mut self.reply);
        self.disconnected = true;
    }

    /// Records that the connection is restored.
    pub(super) fn on_reconnect(&mut self) {
        self.disconnected = false;
    }

    /// Returns the line break that ends an open line.
    pub(super) fn break_line(&mut self) -> &'static str {
        if std::mem::take(&mut self.line_open) { "\n" } else { "" }
    }

    /// Returns the label of the current activity, unless text is being printed.
    pub(super) fn activity(&self) -> Option<String> {
        if self.line_open {
            return None;
        }
        if self.disconnected {
            return Some("connection lost, reconnecting".into());
        }
        if !self.running_calls.is_empty() {
            let names: Vec<&str> = self.running_calls.iter().map(|(_, tool)| tool.as_str()).collect();
            return Some(sanitize_line(&names.join(", ")));
        }
        match self.state {
            State::Idle => None,
            State::Thinking => Some("thinking".into()),
            State::Waiting(label) => Some(label.into()),
        }
    }

    fn set_state(&mut self, state: State) -> String {
        self.state = state;
        String::new()
    }

    fn append_text(&mut self, delta: &str) -> String {
        self.reply.push_str(delta);
        if self.expected_repeat.is_empty() {
            return self.emit(delta);
        }
        if let Some(rest) = self.expected_repeat.strip_prefix(delta) {
            self.expected_repeat = rest.to_owned();
            return String::new();
        }
        let expected_repeat = std::mem::take(&mut self.expected_repeat);
        match delta.strip_prefix(expected_repeat.as_str()) {
            Some(rest) => self.emit(rest),
            // The model was called again: discard the reply shown so far.
            None => {
                let whole = self.reply.clone();
                format!("{}{}", self.discard_reply(), self.emit(&whole))
            }
        }
    }

    fn emit(&mut self, text: &str) -> String {
        let text = sanitize(text);
        if text.is_empty() {
            return text;
        }
        let gap = if self.last_block == LastBlock::Call { "\n" } else { "" };
        if !self.line_open {
            self.reply_wrap.start_line();
        }
        let wrapped = self.reply_wrap.push(&text);
        (self.line_open, self.last_block) = (!text.ends_with('\n'), LastBlock::Text);
        format!("{gap}{wrapped}")
    }

    fn reset_reply(&mut self) -> String {
        self.expected_repeat.clear();
        if std::mem::take(&mut self.reply).is_empty() { String::new() } else { self.discard_reply() }
    }

    /// Announces that the reply shown so far is discarded.
    fn discard_reply(&mut self) -> String {
        format!("{}{}\n", self.break_line(), self.paint.dim("↺ reply restarted"))
    }

    fn end_reply(&mut self) -> String {
        self.reply.clear();
        self.expected_repeat.clear();
        self.state = State::Idle;
        self.break_line().to_owned()
    }

    fn start_call(&mut self, entry: &ToolCallEntry) -> String {
        self.state = State::Idle;
        self.running_calls.push((entry.call.call_id.clone(), entry.invocation.tool_ref.clone()));
        self.break_line().to_owned()
    }

    fn end_call(&mut self, entry: &ToolCallEntry) -> String {
        self.running_calls.retain(|(id, _)| *id != entry.call.call_id);
        self.block(call_lines(&entry.invocation, self.paint, self.width))
    }

    fn wait_for_child(&mut self, child: &ChildRunView) -> String {
        self.state = State::Waiting("waiting for a child run");
        self.running_calls.retain(|(id, _)| id.as_str() != child.call_id);
        let (agent, run) = (sanitize_line(&child.agent_ref), sanitize_line(&child.run_id));
        self.block(vec![self.paint.warn(format!("… {agent}  {run}  {}", child.status))])
    }

    /// Returns the lines for a call that requires approval.
    pub(super) fn request_approval(&mut self, approval: &ApprovalView) -> String {
        self.state = State::Waiting("waiting for approval");
        self.block(approval_lines(approval, self.paint))
    }

    fn request_client_action(&mut self, run: &str, action: &ClientActionView) -> String {
        self.state = State::Waiting("waiting for the client");
        self.block(client_action_lines(run, action, self.paint))
    }

    fn end_run(&mut self) -> String {
        self.running_calls.clear();
        self.state = State::Idle;
        self.break_line().to_owned()
    }

    /// Formats lines as a block, separated from model text by a blank line.
    fn block(&mut self, lines: Vec<String>) -> String {
        let line_end = self.break_line();
        let gap = if self.last_block == LastBlock::Text { "\n" } else { "" };
        self.last_block = LastBlock::Call;
        format!("{line_end}{gap}{}\n", lines.join("\n"))
    }
}

/// Formats an ended call: status, duration, input and error.
pub(crate) fn call_lines(call: &ToolInvocation, paint: Paint, width: Option<usize>) -> Vec<String> {
    let elapsed = match call.source {
        None => format_duration(call.duration_ms),
        Some(CallSource::Recorded) => "recorded".to_owned(),
        Some(CallSource::Captured) => "captured".to_owned(),
    };
    let (mark, elapsed) = match call.status {
        Some(InvocationStatus::Success) | None => (paint.good('✓'), elapsed),
        Some(InvocationStatus::Skipped) => (paint.warn('–'), "not called".to_owned()),
        Some(InvocationStatus::Error | InvocationStatus::PermissionDenied) => (paint.bad('✗'), elapsed),
    };
    let cached = if call.cached { "  cached" } else { "" };
    let head = format!("{}  {elapsed}{cached}", sanitize_line(&call.tool_ref));
    let input = format_input(&call.input);
    // The 4 columns are the mark and a space, and the two spaces before the input.
    let remaining = |width: usize| width.saturating_sub(head.chars().count() + 4);
    let input = width.map_or_else(|| input.clone(), |width| truncate(&input, remaining(width)));
    let mut lines = vec![format!("{mark} {head}  {}", paint.dim(input)).trim_end().to_owned()];
    let error = call.error_message.as_deref().map(|message| wrap(&format!("  {}", sanitize_line(message)), width, 0));
    lines.extend(error.iter().flat_map(|text| text.lines()).map(|line| paint.dim(line)));
    lines
}

/// Formats a call that requires approval: the tool and the input.
pub(crate) fn approval_lines(approval: &ApprovalView, paint: Paint) -> Vec<String> {
    let headline =
        format!("? {}  {}  requires approval", sanitize_line(&approval.tool_ref), wire_name(approval.side_effects));
    std::iter::once(paint.warn(headline)).chain(json_lines(&approval.input)).collect()
}

/// Formats an action that the client must perform, with the command that returns its result.
pub(crate) fn client_action_lines(run: &str, action: &ClientActionView, paint: Paint) -> Vec<String> {
    let mut lines = vec![paint.warn(format!("! {}  requires a client action", sanitize_line(&action.tool_ref)))];
    lines.extend(json_lines(&action.prepared_payload));
    let (run, call) = (sanitize_line(run), sanitize_line(&action.call_id));
    lines.push(format!("  then: toolwright runs results {run} {call} --output JSON"));
    lines
}

/// Formats a duration given in milliseconds.
pub(crate) fn format_duration(millis: u64) -> String {
    match millis {
        0..1_000 => format!("{millis} ms"),
        1_000..60_000 => format!("{}.{} s", millis / 1_000, millis % 1_000 / 100),
        _ => format!("{} min {} s", millis / 60_000, millis % 60_000 / 1_000),
    }
}

/// Formats an input on one line; objects as `name=value` pairs.
pub(crate) fn format_input(input: &Value) -> String {
    match input {
        Value::Object(fields) => {
            let fields: Vec<String> = fields.iter().map(|(name, value)| format!("{name}={value}")).collect();
            sanitize_line(&fields.join(" "))
        }
        other => sanitize_line(&other.to_string()),
    }
}

/// Formats a value as indented JSON.
pub(crate) fn json_lines(value: &Value) -> Vec<String> {
    let text = serde_json::to_string_pretty(value).unwrap_or_default();
    text.lines().map(|line| format!("  {}", sanitize_line(line).trim_end())).collect()
}

#[cfg(test)]
mod tests;
