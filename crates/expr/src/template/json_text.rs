//! Templates for JSON text. A value is escaped differently inside and outside of a JSON string.

use serde_json::Value;

use super::RenderedText;
use super::scan::SegmentKind;
use super::text::Template;
use crate::escape::{self, EscapeError};
use crate::eval::EvalContext;
use crate::limits::EvalLimits;
use crate::{EvalError, EvalErrorKind, ParseError, Position, Scope};

/// A template that renders JSON text.
///
/// Inside a JSON string, a value is written as escaped text, and null as an empty string. Outside of a string, it is
/// written as a JSON value. Parsing the template decides which placeholders are inside a string, so a value cannot end
/// a string.
///
/// ```
/// use serde_json::json;
/// use toolwright_expr::{JsonTextTemplate, Scope};
///
/// let template = JsonTextTemplate::parse(r#"{"greeting": "Hi ${name}", "tags": ${tags}}"#)?;
/// let input = json!({"name": "\"Bo\"", "tags": ["a"]});
/// let body = template.render(&Scope::new(&input)).unwrap();
/// assert_eq!(body.text, r#"{"greeting": "Hi \"Bo\"", "tags": ["a"]}"#);
/// # Ok::<(), toolwright_expr::ParseError>(())
/// ```
#[derive(Debug, Clone)]
pub struct JsonTextTemplate {
    template: Template,
    /// For each segment of the template, whether it is a placeholder inside a string.
    in_string: Vec<bool>,
}

impl JsonTextTemplate {
    /// Parses a JSON text. The text around the placeholders must be valid JSON.
    pub fn parse(source: &str) -> Result<Self, ParseError> {
        let template = Template::parse(source)?;
        let mut state = LexState::Outside;
        let mut in_string = Vec::new();
        let mut skeleton = String::with_capacity(source.len());
        for segment in template.segments() {
            let width = segment.span.len();
            match &segment.kind {
                SegmentKind::Text(text) => {
                    state = text.chars().fold(state, LexState::next);
                    in_string.push(false);
                    skeleton.push_str(&pad_to_source(text, width));
                }
                SegmentKind::Placeholder(_) if state.is_in_escape() => {
                    let position = Position::from_offset(source, segment.span.start);
                    let message = "`${` is not allowed inside a JSON escape sequence; move it out of the `\\…`";
                    return Err(ParseError::new(message, position));
                }
                SegmentKind::Placeholder(_) => {
                    let inside = state == LexState::Inside;
                    in_string.push(inside);
                    skeleton.push_str(&dummy_json(inside, width));
                }
            }
        }
        check_json(&skeleton).map_err(|(message, offset)| {
            let message = format!("the text around the expressions is not valid JSON: {message}");
            ParseError::new(message, Position::from_offset(source, offset))
        })?;
        Ok(Self { template, in_string })
    }

    /// Renders the JSON text.
    pub fn render(&self, scope: &Scope<'_>) -> Result<RenderedText, EvalError> {
        let mut context = EvalContext::new(EvalLimits::default());
        let text = self.template.render_in(scope, &mut context, |index, value| match self.in_string.get(index) {
            Some(true) => string_content(value),
            _ => Ok(value.to_string()),
        })?;
        // The text can be invalid JSON, for example if a number is used as the key of an object.
        check_json(&text).map_err(|(message, _)| {
            let message = format!("the rendered text is not valid JSON: {message}");
            EvalError::new(EvalErrorKind::InvalidJson, message, Position::START)
        })?;
        Ok(RenderedText { text, warnings: context.into_warnings() })
    }
}

/// The lexical state of a JSON text after a character.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LexState {
    Outside,
    Inside,
    /// After the backslash of an escape.
    Escape,
    /// In a `\u` escape, with this many hexadecimal digits left.
    Hex(u8),
}

impl LexState {
    fn next(self, character: char) -> Self {
        match (self, character) {
            (LexState::Outside, '"') => LexState::Inside,
            (LexState::Outside, _) => LexState::Outside,
            (LexState::Inside, '"') => LexState::Outside,
            (LexState::Inside, '\\') => LexState::Escape,
            (LexState::Escape, 'u') => LexState::Hex(4),
            (LexState::Hex(left), _) if left > 1 => LexState::Hex(left - 1),
            (LexState::Inside | LexState::Escape | LexState::Hex(_), _) => LexState::Inside,
        }
    }

    fn is_in_escape(self) -> bool {
        matches!(self, LexState::Escape | LexState::Hex(_))
    }
}

/// Returns the text that replaces a placeholder when the syntax is checked: content of a JSON string, or a JSON value.
/// It has the same length as the placeholder, so that error positions remain correct.
fn dummy_json(inside: bool, width: usize) -> String {
    if inside { "x".repeat(width) } else { format!("{:width$}", "\"\"") }
}

/// Pads a text to the length of its source, so that error positions remain correct. The text can be shorter, because
/// `$${` was replaced by `${`.
fn pad_to_source(text: &str, width: usize) -> String {
    let missing = width.saturating_sub(text.len());
    // Each `${` in the text is one byte shorter than `$${` in the source.
    text.replacen("${", "xxx", missing)
}

fn string_content(value: &Value) -> Result<String, EscapeError> {
    let quoted = Value::String(escape::plain(value)).to_string();
    let content = quoted.strip_prefix('"').and_then(|rest| rest.strip_suffix('"'));
    content.map(str::to_owned).ok_or_else(|| EscapeError::new("the value must be text"))
}

/// Checks that `text` is valid JSON. The error contains a message and a byte offset.
fn check_json(text: &str) -> Result<(), (String, usize)> {
    serde_json::from_str::<Value>(text).map(drop).map_err(|error| {
        let lines = text.split_inclusive('\n').take(error.line().saturating_sub(1));
        let offset = lines.map(str::len).sum::<usize>() + error.column().saturating_sub(1);
        let message = error.to_string();
        let message = message.split(" at line ").next().unwrap_or_default();
        (message.to_owned(), offset)
    })
}
