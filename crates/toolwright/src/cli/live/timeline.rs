//! What a person sees of a run: events go in, text comes out. Knows no terminal and no server.

use serde_json::Value;
use toolwright_types::CallSource;

use super::wire::{Approval, Call, CallStatus, ClientAction, Happening};
use crate::cli::output::{Paint, plain, printable};
use crate::cli::table::cut;

/// The story of a run as it is told.
pub struct Timeline {
    paint: Paint,
    width: Option<usize>,
    /// What the model has said in the reply under way.
    said: String,
    /// What of that will be said again, because the connection was lost in the middle of it.
    again: String,
    /// Whether the last line is not ended.
    open: bool,
    last: Last,
    busy: Vec<(String, String)>,
    mood: Mood,
    lost: bool,
}

/// What was told last; text and calls are kept apart.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Last {
    Nothing,
    Text,
    Call,
}

#[derive(Clone, Copy)]
enum Mood {
    Quiet,
    Thinking,
    Waiting(&'static str),
}

impl Timeline {
    /// A story for a reader with these colours and this many columns; nothing is cut without columns.
    pub fn new(paint: Paint, width: Option<usize>) -> Self {
        Self {
            paint,
            width,
            said: String::new(),
            again: String::new(),
            open: false,
            last: Last::Nothing,
            busy: Vec::new(),
            mood: Mood::Quiet,
            lost: false,
        }
    }

    /// What to write for an event.
    pub fn tell(&mut self, run: &str, what: &Happening) -> String {
        match what {
            Happening::Thinking => self.feels(Mood::Thinking),
            Happening::TextDelta { content } => self.say(content),
            Happening::TextReset => self.restart(),
            Happening::Usage => self.end_reply(),
            Happening::ToolCallStart { tool_invocation: call } => self.start(call),
            Happening::ToolCallEnd { tool_invocation: call } => self.end(call),
            Happening::ApprovalRequired { approval } => self.ask(approval),
            Happening::ClientAction { client_action } => self.hand_over(run, client_action),
            Happening::Done | Happening::Error => self.end_run(),
            Happening::Unknown => String::new(),
        }
    }

    /// The connection was lost: the reply under way will be told from its beginning.
    pub fn lost(&mut self) {
        self.again = std::mem::take(&mut self.said);
        self.lost = true;
    }

    /// The connection is there again.
    pub fn found(&mut self) {
        self.lost = false;
    }

    /// Ends the line that is open.
    pub fn break_line(&mut self) -> &'static str {
        if std::mem::take(&mut self.open) { "\n" } else { "" }
    }

    /// What is under way, if the reader sees nothing of it.
    pub fn under_way(&self) -> Option<String> {
        if self.open {
            return None;
        }
        if self.lost {
            return Some("the connection is lost, trying again".into());
        }
        if !self.busy.is_empty() {
            let names: Vec<&str> = self.busy.iter().map(|(_, tool)| tool.as_str()).collect();
            return Some(plain(&names.join(", ")));
        }
        match self.mood {
            Mood::Quiet => None,
            Mood::Thinking => Some("thinking".into()),
            Mood::Waiting(what) => Some(what.into()),
        }
    }

    fn feels(&mut self, mood: Mood) -> String {
        self.mood = mood;
        String::new()
    }

    fn say(&mut self, piece: &str) -> String {
        self.said.push_str(piece);
        if self.again.is_empty() {
            return self.write(piece);
        }
        if let Some(rest) = self.again.strip_prefix(piece) {
            self.again = rest.to_owned();
            return String::new();
        }
        let again = std::mem::take(&mut self.again);
        match piece.strip_prefix(again.as_str()) {
            Some(rest) => self.write(rest),
            // It is another reply: what was shown of the first is void.
            None => {
                let whole = self.said.clone();
                format!("{}{}", self.void(), self.write(&whole))
            }
        }
    }

    fn write(&mut self, text: &str) -> String {
        let text = printable(text);
        if text.is_empty() {
            return text;
        }
        let gap = if self.last == Last::Call { "\n" } else { "" };
        (self.open, self.last) = (!text.ends_with('\n'), Last::Text);
        format!("{gap}{text}")
    }

    fn restart(&mut self) -> String {
        self.again.clear();
        if std::mem::take(&mut self.said).is_empty() { String::new() } else { self.void() }
    }

    /// Says that the reply so far does not count.
    fn void(&mut self) -> String {
        format!("{}{}\n", self.break_line(), self.paint.dim("↺ the reply begins anew"))
    }

    fn end_reply(&mut self) -> String {
        self.said.clear();
        self.again.clear();
        self.mood = Mood::Quiet;
        self.break_line().to_owned()
    }

    fn start(&mut self, call: &Call) -> String {
        self.mood = Mood::Quiet;
        self.busy.push((call.call_id.clone(), call.tool_ref.clone()));
        self.break_line().to_owned()
    }

    fn end(&mut self, call: &Call) -> String {
        self.busy.retain(|(id, _)| *id != call.call_id);
        self.block(call_lines(call, self.paint, self.width))
    }

    fn ask(&mut self, approval: &Approval) -> String {
        self.mood = Mood::Waiting("waiting for a decision");
        let headline = format!("? {}  {}  needs a decision", plain(&approval.tool_ref), plain(&approval.side_effects));
        let mut lines = vec![self.paint.warn(headline)];
        lines.extend(json_lines(&approval.input));
        self.block(lines)
    }

    fn hand_over(&mut self, run: &str, action: &ClientAction) -> String {
        self.mood = Mood::Waiting("waiting for the client");
        let mut lines = vec![self.paint.warn(format!("! {}  is for you to do", plain(&action.tool_ref)))];
        lines.extend(json_lines(&action.prepared_payload));
        lines.push(format!("  then: toolwright runs results {run} {} --output JSON", plain(&action.call_id)));
        self.block(lines)
    }

    fn end_run(&mut self) -> String {
        self.busy.clear();
        self.mood = Mood::Quiet;
        self.break_line().to_owned()
    }

    /// Lines of their own, apart from what the model says.
    fn block(&mut self, lines: Vec<String>) -> String {
        let end = self.break_line();
        let gap = if self.last == Last::Text { "\n" } else { "" };
        self.last = Last::Call;
        format!("{end}{gap}{}\n", lines.join("\n"))
    }
}

/// A call that ended: how, how long it took, with what, and why not.
pub fn call_lines(call: &Call, paint: Paint, width: Option<usize>) -> Vec<String> {
    let took = match call.source {
        None => duration(call.duration_ms),
        Some(CallSource::Recorded) => "as recorded".to_owned(),
        Some(CallSource::Captured) => "captured".to_owned(),
    };
    let (mark, took) = match call.status {
        Some(CallStatus::Success) | None => (paint.good('✓'), took),
        Some(CallStatus::Skipped) => (paint.warn('–'), "not called".to_owned()),
        Some(CallStatus::Error) => (paint.bad('✗'), took),
    };
    let cached = if call.cached { "  cached" } else { "" };
    let head = format!("{}  {took}{cached}", plain(&call.tool_ref));
    let input = brief(&call.input);
    // The mark and its space, and two more before the input.
    let room = |width: usize| width.saturating_sub(head.chars().count() + 4);
    let input = width.map_or_else(|| input.clone(), |width| cut(&input, room(width)));
    let mut lines = vec![format!("{mark} {head}  {}", paint.dim(input)).trim_end().to_owned()];
    lines.extend(call.error_message.as_deref().map(|message| paint.dim(format!("  {}", plain(message)))));
    lines
}

/// Milliseconds as a person says them.
pub fn duration(millis: u64) -> String {
    match millis {
        0..1_000 => format!("{millis} ms"),
        1_000..60_000 => format!("{}.{} s", millis / 1_000, millis % 1_000 / 100),
        _ => format!("{} min {} s", millis / 60_000, millis % 60_000 / 1_000),
    }
}

/// An input on one line: the names and values of an object, without its brackets.
pub fn brief(input: &Value) -> String {
    match input {
        Value::Object(fields) => {
            let fields: Vec<String> = fields.iter().map(|(name, value)| format!("{name}={value}")).collect();
            plain(&fields.join(" "))
        }
        other => plain(&other.to_string()),
    }
}

fn json_lines(value: &Value) -> Vec<String> {
    let text = serde_json::to_string_pretty(value).unwrap_or_default();
    text.lines().map(|line| format!("  {}", plain(line).trim_end())).collect()
}

#[cfg(test)]
mod tests;
