//! Lets the user edit JSON with an editor, or at the prompt.

use std::path::Path;
use std::process::Command;

use serde_json::Value;

use super::failure::Failure;
use super::output::Output;
use super::prompt::{LineInput, Prompter};

/// Lets the user edit JSON with `$VISUAL` or `$EDITOR`, or else at the prompt. Returns `None` if the JSON is unchanged, if
/// the user aborts, or if the editor saves invalid JSON. `effect` says what the changed JSON is for.
pub(super) async fn edit_json(
    output: &Output,
    prompter: &Prompter,
    json: &Value,
    effect: &str,
) -> Result<Option<Value>, Failure> {
    let mut text = serde_json::to_string_pretty(json).unwrap_or_default();
    let how = match editor() {
        Some(editor) => format!("save the JSON in `{editor}` and close it to {effect}"),
        None => format!("change the JSON; press Enter to {effect}, or Ctrl-C to go back"),
    };
    output.note(output.err.dim(format!("  {how}")));
    loop {
        text = match editor() {
            Some(editor) => edit_with(&editor, &text)?,
            None => match prompter.read_line("", &text).await {
                LineInput::Line(line) => line,
                LineInput::Interrupted | LineInput::Eof => return Ok(None),
            },
        };
        match parse_json(output, &text) {
            Some(edited) if edited == *json => {
                output.note("  JSON unchanged");
                return Ok(None);
            }
            Some(edited) => return Ok(Some(edited)),
            // Do not reopen the editor: it might never produce valid JSON.
            None if editor().is_some() => return Ok(None),
            None => {}
        }
    }
}

/// Parses JSON. Prints an error and returns `None` if it is not valid.
pub(super) fn parse_json(output: &Output, text: &str) -> Option<Value> {
    serde_json::from_str(text).map_err(|error| output.note(format!("  invalid JSON: {error}"))).ok()
}

fn editor() -> Option<String> {
    ["VISUAL", "EDITOR"].into_iter().find_map(|name| std::env::var(name).ok().filter(|value| !value.trim().is_empty()))
}

fn edit_with(editor: &str, text: &str) -> Result<String, Failure> {
    let failed = |error: std::io::Error| Failure::Usage(format!("cannot edit with `{editor}`: {error}"));
    let file = tempfile::Builder::new().prefix("toolwright-").suffix(".json").tempfile().map_err(failed)?;
    std::fs::write(file.path(), text).map_err(failed)?;
    if !command(editor, file.path()).status().map_err(failed)?.success() {
        return Err(Failure::Usage(format!("editor `{editor}` exited with an error")));
    }
    std::fs::read_to_string(file.path()).map_err(failed)
}

/// Returns the command that edits a file. `editor` may contain arguments, such as `code --wait`.
fn command(editor: &str, file: &Path) -> Command {
    let mut words = editor.split_whitespace();
    let mut command = Command::new(words.next().unwrap_or_default());
    command.args(words).arg(file);
    command
}
