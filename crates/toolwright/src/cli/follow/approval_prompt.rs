//! Asks for a decision on one approval at the terminal.

use serde_json::{Value, json};
use toolwright_api::wire::ApprovalView;

use crate::cli::editor;
use crate::cli::failure::Failure;
use crate::cli::output::Output;
use crate::cli::prompt::{KeyInput, LineInput, Prompter};

const DECISION_KEYS: &str = "ynes";
/// The escape sequence that erases the prompt after the user has answered.
const ERASE_LINE_ABOVE: &str = "\u{1b}[1A\u{1b}[2K";

/// A decision on an approval.
#[derive(Debug, PartialEq)]
pub(super) enum ApprovalDecision {
    /// The call is made.
    Approve,
    /// The call is not made.
    Deny {
        /// The reason, shown to the model.
        reason: Option<String>,
    },
    /// The call is made with another input.
    Edit {
        /// The new input.
        input: Value,
    },
}

#[derive(Debug, PartialEq)]
pub(super) enum PromptResult {
    /// The user decided.
    Decided(ApprovalDecision),
    /// The user left the decision to others.
    Skipped,
    /// The user pressed Ctrl-C.
    Interrupted,
}

impl ApprovalDecision {
    /// Returns the request body for the API.
    pub(super) fn body(&self) -> Value {
        match self {
            ApprovalDecision::Approve => json!({ "decision": "approve" }),
            ApprovalDecision::Deny { reason } => json!({ "decision": "deny", "reason": reason }),
            ApprovalDecision::Edit { input } => json!({ "decision": "edit", "input": input }),
        }
    }

    /// Returns the decision as a past participle for output.
    pub(super) fn word(&self) -> &'static str {
        match self {
            ApprovalDecision::Approve => "approved",
            ApprovalDecision::Deny { .. } => "denied",
            ApprovalDecision::Edit { .. } => "approved with edited input",
        }
    }
}

/// Prompts until the input is valid. Without a terminal, the input is a line: `y`, `n REASON`, `e JSON` or `s`.
pub(super) async fn ask_for_decision(
    output: &Output,
    prompter: &Prompter,
    approval: &ApprovalView,
) -> Result<PromptResult, Failure> {
    let prompt = format!(
        "  {} approve  {} deny  {} edit  {} skip › ",
        output.out.good('y'),
        output.out.bad('n'),
        output.out.warn('e'),
        output.out.warn('s')
    );
    loop {
        let result = match prompter.read_key(&prompt, DECISION_KEYS).await {
            KeyInput::Key(key) => {
                output.print(ERASE_LINE_ABOVE)?;
                from_key(output, prompter, approval, key).await?
            }
            KeyInput::Line(line) => from_line(output, &line),
            KeyInput::Interrupted => Some(PromptResult::Interrupted),
            KeyInput::Eof => Some(PromptResult::Skipped),
        };
        if let Some(result) = result {
            return Ok(result);
        }
    }
}

async fn from_key(
    output: &Output,
    prompter: &Prompter,
    approval: &ApprovalView,
    key: char,
) -> Result<Option<PromptResult>, Failure> {
    Ok(match key {
        'y' => Some(PromptResult::Decided(ApprovalDecision::Approve)),
        's' => Some(PromptResult::Skipped),
        'n' => match prompter.read_line("  reason (optional, shown to the model) › ", "").await {
            LineInput::Line(reason) => {
                Some(PromptResult::Decided(ApprovalDecision::Deny { reason: non_empty(&reason) }))
            }
            LineInput::Interrupted | LineInput::Eof => None,
        },
        _ => editor::edit_json(output, prompter, &approval.input, "approve the call with it")
            .await?
            .map(|input| PromptResult::Decided(ApprovalDecision::Edit { input })),
    })
}

fn from_line(output: &Output, line: &str) -> Option<PromptResult> {
    let line = line.trim();
    let (word, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
    match word.to_lowercase().as_str() {
        "y" | "yes" if rest.is_empty() => Some(PromptResult::Decided(ApprovalDecision::Approve)),
        "n" | "no" => Some(PromptResult::Decided(ApprovalDecision::Deny { reason: non_empty(rest) })),
        "s" | "skip" if rest.is_empty() => Some(PromptResult::Skipped),
        "e" | "edit" => {
            editor::parse_json(output, rest).map(|input| PromptResult::Decided(ApprovalDecision::Edit { input }))
        }
        _ => {
            output.note("  expected y, n REASON, e JSON or s");
            None
        }
    }
}

fn non_empty(text: &str) -> Option<String> {
    Some(text.trim().to_owned()).filter(|text| !text.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn valid_answers_to_the_approval_prompt_are_parsed_and_others_are_rejected() {
        let output = Output::for_tests();
        let parse_line = |line: &str| from_line(&output, line);
        assert_eq!(parse_line("y"), Some(PromptResult::Decided(ApprovalDecision::Approve)));
        assert_eq!(parse_line(" YES "), Some(PromptResult::Decided(ApprovalDecision::Approve)));
        assert_eq!(parse_line("s"), Some(PromptResult::Skipped));
        let denied = |reason: Option<&str>| {
            Some(PromptResult::Decided(ApprovalDecision::Deny { reason: reason.map(str::to_owned) }))
        };
        assert_eq!(parse_line("n"), denied(None));
        assert_eq!(parse_line("no not today"), denied(Some("not today")));
        assert_eq!(
            parse_line(r#"e {"a": 1}"#),
            Some(PromptResult::Decided(ApprovalDecision::Edit { input: json!({ "a": 1 }) }))
        );
        for invalid in ["", "yes please delete everything", "e {", "what?"] {
            assert_eq!(parse_line(invalid), None, "{invalid}");
        }
    }
}
