//! Runtime expressions of Arazzo, such as `$steps.order.outputs.id`.

use super::path::{PathKey, accessor_keys, pointer_keys};

/// The beginnings of all runtime expressions. A text with another beginning is a constant.
const BEGINNINGS: [&str; 13] = [
    "$inputs.",
    "$steps.",
    "$outputs.",
    "$response.",
    "$request.",
    "$message.",
    "$workflows.",
    "$sourceDescriptions.",
    "$components.",
    "$url",
    "$method",
    "$statusCode",
    "$self",
];

/// A runtime expression.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Runtime<'a> {
    /// `$inputs.NAME`.
    Input(Name<'a>),
    /// `$steps.STEP.outputs.NAME`.
    StepOutput { step: &'a str, name: Name<'a> },
    /// `$outputs.NAME`: in a step that executes a workflow, its output.
    Output(Name<'a>),
    /// `$workflows.WORKFLOW.outputs.NAME`.
    WorkflowOutput { workflow: &'a str, name: Name<'a> },
    /// `$response.body` and the keys below it.
    ResponseBody(Vec<PathKey>),
    /// `$sourceDescriptions.NAME.FIELD`.
    Source { name: &'a str, field: &'a str },
}

/// A name and the keys below it. Whether `a.b` is a name or a path depends on the names that exist.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Name<'a> {
    text: &'a str,
    pointer: Vec<PathKey>,
}

impl<'a> Name<'a> {
    fn parse(text: &'a str) -> Result<Self, String> {
        let (text, pointer) = text.split_once('#').unwrap_or((text, ""));
        if text.is_empty() {
            return Err("a name is missing".to_owned());
        }
        Ok(Self { text, pointer: pointer_keys(pointer)? })
    }

    /// Finds the longest known name at the beginning. Returns it with the keys that follow.
    pub(crate) fn split(&self, is_known: impl Fn(&str) -> bool) -> Option<(&'a str, Vec<PathKey>)> {
        let ends = self.text.char_indices().filter(|(_, c)| matches!(c, '.' | '[')).map(|(at, _)| at);
        let mut ends: Vec<usize> = ends.chain([self.text.len()]).collect();
        ends.reverse();
        let split = ends.into_iter().find_map(|end| {
            let (name, rest) = self.text.split_at_checked(end)?;
            is_known(name).then(|| Some((name, accessors(rest).ok()?)))?
        });
        split.map(|(name, mut keys)| {
            keys.extend(self.pointer.iter().cloned());
            (name, keys)
        })
    }

    /// The name, if no part of it can be a path.
    pub(crate) fn whole(&self) -> Option<(&'a str, Vec<PathKey>)> {
        (!self.text.contains(['.', '['])).then(|| (self.text, self.pointer.clone()))
    }

    pub(crate) fn text(&self) -> &'a str {
        self.text
    }
}

/// Whether a text is a runtime expression.
pub(super) fn is_runtime(text: &str) -> bool {
    BEGINNINGS.iter().any(|beginning| match text.strip_prefix(beginning) {
        Some(rest) => beginning.ends_with('.') || rest.is_empty(),
        None => false,
    })
}

impl<'a> Runtime<'a> {
    pub(crate) fn parse(text: &'a str) -> Result<Self, String> {
        let refused = |why: &str| Err(format!("`{text}` cannot be converted: {why}"));
        let wrong = |error: String| format!("`{text}` is not a runtime expression: {error}");
        let (head, rest) = text.split_once('.').unwrap_or((text, ""));
        match head {
            "$inputs" => Name::parse(rest).map(Runtime::Input).map_err(wrong),
            "$outputs" => Name::parse(rest).map(Runtime::Output).map_err(wrong),
            "$steps" => match rest.split_once(".outputs.") {
                Some((step, name)) => Ok(Runtime::StepOutput { step, name: Name::parse(name).map_err(wrong)? }),
                None => refused("only the outputs of a step can be read: `$steps.STEP.outputs.NAME`"),
            },
            "$workflows" => match rest.split_once(".outputs.") {
                Some((workflow, name)) => {
                    Ok(Runtime::WorkflowOutput { workflow, name: Name::parse(name).map_err(wrong)? })
                }
                None => refused("only the outputs of another workflow can be read"),
            },
            "$response" => match rest.strip_prefix("body") {
                Some(rest) => match rest.strip_prefix('#') {
                    Some(pointer) => pointer_keys(pointer).map(Runtime::ResponseBody).map_err(wrong),
                    None => accessors(rest).map(Runtime::ResponseBody).map_err(wrong),
                },
                None => refused("the output of a tool is the body of the response, without its headers"),
            },
            "$sourceDescriptions" => match rest.split_once('.') {
                Some((name, field)) => Ok(Runtime::Source { name, field }),
                None => refused("a field is missing"),
            },
            "$statusCode" | "$url" | "$method" => {
                refused("the output of a tool is the body of the response, without status, URL and method")
            }
            "$request" => refused("steps read inputs and outputs, but not requests; repeat the value"),
            "$message" => refused("messages of AsyncAPI are not supported"),
            _ => refused("it names no value"),
        }
    }
}

/// Reads `.a.b[0]`.
fn accessors(text: &str) -> Result<Vec<PathKey>, String> {
    accessor_keys(text).ok_or_else(|| format!("`{text}` is not a path"))
}

/// A part of a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum TextPart<'a> {
    Constant(&'a str),
    /// A runtime expression that stood between `{` and `}`.
    Embedded(&'a str),
}

/// Splits a text into constants and embedded expressions.
pub(super) fn split_text(text: &str) -> Vec<TextPart<'_>> {
    let mut parts = Vec::new();
    let (mut start, mut at) = (0, 0);
    while let Some(open) = text.get(at..).and_then(|rest| rest.find("{$")).map(|found| at + found) {
        at = open + 1;
        let Some(inner) = text.get(at..).and_then(|rest| rest.split_once('}')).map(|(inner, _)| inner) else { break };
        if !is_runtime(inner) {
            continue;
        }
        parts.extend(text.get(start..open).filter(|part| !part.is_empty()).map(TextPart::Constant));
        parts.push(TextPart::Embedded(inner));
        at += inner.len() + 1;
        start = at;
    }
    parts.extend(text.get(start..).filter(|part| !part.is_empty()).map(TextPart::Constant));
    parts
}
