//! Following a run: what happens is told, approvals are asked for, Ctrl-C cancels.

mod ask;
mod feed;
mod follower;
mod report;
mod screen;
mod timeline;
mod wire;

use serde_json::{Value, json};

pub use feed::{Feed, start, watch};
pub use follower::follow;
pub use report::{counted, dollars, ending, exit, spent};
pub use timeline::{brief, call_lines, duration};
pub use wire::{Approval, Report};

use super::Context;
use super::client::{Answer, RUNS, path, segment};
use super::exit::Exit;
use super::failure::Failure;
use super::keyboard::Keyboard;

/// How a run is followed.
pub struct Manner<'a> {
    /// Who decides on calls that need a decision.
    pub approvals: Approvals<'a>,
    /// Whose run it is.
    pub role: Role,
}

/// Whose run it is that is followed.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// One's own: Ctrl-C cancels it, and once it waits for someone else it is left.
    Owner,
    /// Someone's: Ctrl-C only stops watching, and waiting is part of what is watched.
    Watcher,
}

/// Who decides.
pub enum Approvals<'a> {
    /// Whoever types.
    Ask(&'a Keyboard),
    /// All are granted.
    Grant,
    /// Someone else, elsewhere.
    Leave,
}

/// Where a run stood when it was left.
pub struct Followed {
    /// The same as text, for `--json`.
    pub text: String,
    /// Where it stood.
    pub report: Report,
}

impl Followed {
    /// Shows how it ended; with `--json`, everything about it.
    pub fn show(self, cx: &Context) -> Result<Exit, Failure> {
        if cx.output.json {
            cx.output.line(self.text.trim_end())?;
        } else {
            cx.output.line("")?;
            cx.output.lines(ending(&cx.output, &self.report))?;
        }
        Ok(exit(&self.report))
    }
}

/// Where a run stands.
pub async fn report_of(cx: &Context, run: &str) -> Result<Answer, Failure> {
    cx.client.get(&path(RUNS, run), &[]).await
}

/// Where a call is decided on.
pub fn approval_path(run: &str, call: &str) -> String {
    format!("{}/approvals/{}", path(RUNS, run), segment(call))
}

/// The body of a request that runs an agent.
pub fn request(message: &str, conversation: Option<&str>, context: Value) -> Value {
    let mut body = json!({ "userMessage": message, "context": context });
    if let (Some(conversation), Some(fields)) = (conversation, body.as_object_mut()) {
        fields.insert("conversationId".into(), json!(conversation));
    }
    body
}
