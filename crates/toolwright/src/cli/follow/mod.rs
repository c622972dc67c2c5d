//! Follows a run: shows its events, asks for approvals and cancels it on Ctrl-C.

mod approval_prompt;
mod event_feed;
mod follower;
mod screen;
mod summary;
mod timeline;
mod word_wrap;

use serde_json::{Value, json};
use toolwright_api::wire::RunView;

pub(super) use event_feed::{
    EventFeed, FeedItem, RETRY_DELAYS, SseStream, sse_events, start_correlated_run, start_run, watch_run,
};
pub(super) use follower::follow;
pub(crate) use summary::pluralize;
pub(super) use summary::{
    ended_calls, exit_code, format_usd, group_thousands, is_waiting, summary_lines, usage_summary,
};
pub(super) use timeline::{approval_lines, call_lines, client_action_lines, format_duration, format_input, json_lines};

use super::Context;
use super::client::{ApiResponse, RUNS, encode_segment, path};
use super::exit::Exit;
use super::failure::Failure;
use super::prompt::Prompter;

/// Options for following a run.
pub(super) struct FollowOptions<'a> {
    /// How approvals are decided.
    pub approvals: ApprovalMode<'a>,
    /// Whether the caller started the run or only watches it.
    pub role: FollowRole,
}

/// Whether the caller started the run or only watches it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum FollowRole {
    /// The caller started the run. Ctrl-C cancels it, and following stops once the run waits.
    Owner,
    /// The caller only watches. Ctrl-C stops watching, and following continues while the run waits.
    Watcher,
}

/// How approvals are decided.
pub(super) enum ApprovalMode<'a> {
    /// The user is asked at the terminal.
    Prompt(&'a Prompter),
    /// Every call is approved.
    ApproveAll,
    /// The decision is left to others.
    Skip,
}

/// The state of a run when following stopped.
pub(super) struct FollowResult {
    /// The run as JSON, for `--json`.
    pub text: String,
    /// The parsed run.
    pub run: RunView,
}

impl FollowResult {
    /// Prints the summary of the run, or the run as JSON with `--json`.
    pub(super) fn show(self, cx: &Context) -> Result<Exit, Failure> {
        if cx.output.json {
            cx.output.document(self.text.trim_end())?;
        } else {
            cx.output.line("")?;
            cx.output.lines(summary_lines(&cx.output, &self.run.state, Some(&self.run.origin)))?;
        }
        Ok(exit_code(&self.run.state))
    }
}

/// Fetches the state of a run.
pub(super) async fn fetch_run(cx: &Context, run: &str) -> Result<ApiResponse, Failure> {
    cx.client.get(&path(RUNS, run), &[]).await
}

/// The path for deciding on a call.
pub(super) fn approval_path(run: &str, call: &str) -> String {
    format!("{}/approvals/{}", path(RUNS, run), encode_segment(call))
}

/// The body of a request that starts a run.
pub(super) fn execute_body(message: &str, conversation: Option<&str>, context: Value) -> Value {
    let mut body = json!({ "userMessage": message, "context": context });
    if let (Some(conversation), Some(fields)) = (conversation, body.as_object_mut()) {
        fields.insert("conversationId".into(), json!(conversation));
    }
    body
}
