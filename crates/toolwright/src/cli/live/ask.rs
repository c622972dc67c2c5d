//! One decision, asked of whoever types.

use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

use super::wire::Approval;
use crate::cli::failure::Failure;
use crate::cli::keyboard::{Keyboard, Pressed, Typed};
use crate::cli::output::Output;

const KEYS: &str = "ynes";
/// Takes the question away once it is answered.
const ERASE_LINE_ABOVE: &str = "\u{1b}[1A\u{1b}[2K";

/// What was decided.
#[derive(Debug, PartialEq)]
pub enum Decision {
    /// The call may be made.
    Approve,
    /// It may not.
    Deny {
        /// Why, for the model.
        reason: Option<String>,
    },
    /// It may be made with another input.
    Edit {
        /// The input.
        input: Value,
    },
}

/// What came of a question.
#[derive(Debug, PartialEq)]
pub enum Replied {
    /// A decision.
    Decided(Decision),
    /// None; someone else decides.
    Left,
    /// Ctrl-C.
    Interrupted,
}

impl Decision {
    /// The decision as the API takes it.
    pub fn body(&self) -> Value {
        match self {
            Decision::Approve => json!({ "decision": "approve" }),
            Decision::Deny { reason } => json!({ "decision": "deny", "reason": reason }),
            Decision::Edit { input } => json!({ "decision": "edit", "input": input }),
        }
    }

    /// The decision in one word.
    pub fn word(&self) -> &'static str {
        match self {
            Decision::Approve => "approved",
            Decision::Deny { .. } => "denied",
            Decision::Edit { .. } => "approved with another input",
        }
    }
}

/// Asks until there is an answer. Without a terminal answers are lines: `y`, `n REASON`, `e JSON` or `s`.
pub async fn decide(output: &Output, keyboard: &Keyboard, approval: &Approval) -> Result<Replied, Failure> {
    let prompt = format!(
        "  {} approve  {} deny  {} edit  {} skip › ",
        output.out.good('y'),
        output.out.bad('n'),
        output.out.warn('e'),
        output.out.warn('s')
    );
    loop {
        let replied = match keyboard.key(&prompt, KEYS).await {
            Pressed::Key(key) => {
                output.part(ERASE_LINE_ABOVE)?;
                by_key(output, keyboard, approval, key).await?
            }
            Pressed::Line(line) => by_line(output, &line),
            Pressed::Interrupted => Some(Replied::Interrupted),
            Pressed::Closed => Some(Replied::Left),
        };
        if let Some(replied) = replied {
            return Ok(replied);
        }
    }
}

async fn by_key(
    output: &Output,
    keyboard: &Keyboard,
    approval: &Approval,
    key: char,
) -> Result<Option<Replied>, Failure> {
    Ok(match key {
        'y' => Some(Replied::Decided(Decision::Approve)),
        's' => Some(Replied::Left),
        'n' => match keyboard.line("  why not (the model reads it; may be empty) › ", "").await {
            Typed::Line(reason) => Some(Replied::Decided(Decision::Deny { reason: reason_of(&reason) })),
            Typed::Interrupted | Typed::Closed => None,
        },
        _ => edit(output, keyboard, &approval.input).await?.map(|input| Replied::Decided(Decision::Edit { input })),
    })
}

fn by_line(output: &Output, line: &str) -> Option<Replied> {
    let line = line.trim();
    let (word, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
    match word.to_lowercase().as_str() {
        "y" | "yes" if rest.is_empty() => Some(Replied::Decided(Decision::Approve)),
        "n" | "no" => Some(Replied::Decided(Decision::Deny { reason: reason_of(rest) })),
        "s" | "skip" if rest.is_empty() => Some(Replied::Left),
        "e" | "edit" => parse(output, rest).map(|input| Replied::Decided(Decision::Edit { input })),
        _ => {
            output.note("  answer y, n REASON, e JSON or s");
            None
        }
    }
}

fn reason_of(text: &str) -> Option<String> {
    Some(text.trim().to_owned()).filter(|text| !text.is_empty())
}

/// The input as it was changed: in the person's editor, or on the spot. None if it stayed as it was, or was left.
async fn edit(output: &Output, keyboard: &Keyboard, input: &Value) -> Result<Option<Value>, Failure> {
    let mut text = serde_json::to_string_pretty(input).unwrap_or_default();
    loop {
        text = match editor() {
            Some(editor) => edit_with(&editor, &text)?,
            None => match keyboard.line("", &text).await {
                Typed::Line(line) => line,
                Typed::Interrupted | Typed::Closed => return Ok(None),
            },
        };
        match parse(output, &text) {
            Some(edited) if edited == *input => {
                output.note("  the input is unchanged");
                return Ok(None);
            }
            Some(edited) => return Ok(Some(edited)),
            // An editor that cannot be left with JSON must not open for ever.
            None if editor().is_some() => return Ok(None),
            None => {}
        }
    }
}

fn parse(output: &Output, text: &str) -> Option<Value> {
    serde_json::from_str(text).map_err(|error| output.note(format!("  that is not JSON: {error}"))).ok()
}

fn editor() -> Option<String> {
    ["VISUAL", "EDITOR"].into_iter().find_map(|name| std::env::var(name).ok().filter(|value| !value.trim().is_empty()))
}

fn edit_with(editor: &str, text: &str) -> Result<String, Failure> {
    let failed = |error: std::io::Error| Failure::Usage(format!("edit with `{editor}`: {error}"));
    let file = tempfile::Builder::new().prefix("toolwright-").suffix(".json").tempfile().map_err(failed)?;
    std::fs::write(file.path(), text).map_err(failed)?;
    if !command(editor, file.path()).status().map_err(failed)?.success() {
        return Err(Failure::Usage(format!("the editor `{editor}` failed")));
    }
    std::fs::read_to_string(file.path()).map_err(failed)
}

/// `EDITOR` may hold arguments, such as `code --wait`.
fn command(editor: &str, file: &Path) -> Command {
    let mut words = editor.split_whitespace();
    let mut command = Command::new(words.next().unwrap_or_default());
    command.args(words).arg(file);
    command
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_a_decision_or_is_asked_for_again() {
        let output = Output::plain();
        let decided = |line: &str| by_line(&output, line);
        assert_eq!(decided("y"), Some(Replied::Decided(Decision::Approve)));
        assert_eq!(decided(" YES "), Some(Replied::Decided(Decision::Approve)));
        assert_eq!(decided("s"), Some(Replied::Left));
        let denied =
            |reason: Option<&str>| Some(Replied::Decided(Decision::Deny { reason: reason.map(str::to_owned) }));
        assert_eq!(decided("n"), denied(None));
        assert_eq!(decided("no not today"), denied(Some("not today")));
        assert_eq!(decided(r#"e {"a": 1}"#), Some(Replied::Decided(Decision::Edit { input: json!({ "a": 1 }) })));
        for unclear in ["", "yes please delete everything", "e {", "what?"] {
            assert_eq!(decided(unclear), None, "{unclear}");
        }
    }
}
