//! JSON text with holes, where the place of a hole decides how its value is written.

use serde_json::Value;

use super::Rendered;
use super::scan::PartKind;
use super::text::Template;
use crate::escape::{self, Refused};
use crate::eval::Session;
use crate::limits::Limits;
use crate::{EvalError, EvalErrorKind, ParseError, Position, Scope};

/// Text that becomes JSON.
///
/// Inside a JSON string, a value is written as escaped text (null as nothing); outside, as a JSON
/// value. Which of the two is decided when the template is parsed, so that no value can end a
/// string and begin something else.
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
    /// For each part of the template, whether it is a hole inside a string.
    in_string: Vec<bool>,
}

impl JsonTextTemplate {
    /// Parses a JSON text; what is not JSON around the holes is an error here already.
    pub fn parse(source: &str) -> Result<Self, ParseError> {
        let template = Template::parse(source)?;
        let mut place = Place::Outside;
        let mut in_string = Vec::new();
        let mut skeleton = String::with_capacity(source.len());
        for part in template.parts() {
            let width = part.span.len();
            match &part.kind {
                PartKind::Text(text) => {
                    place = text.chars().fold(place, Place::after);
                    in_string.push(false);
                    skeleton.push_str(&widened(text, width));
                }
                PartKind::Hole(_) if place.is_cut() => {
                    let position = Position::of(source, part.span.start);
                    return Err(ParseError::new("`${` splits a JSON escape; move it out of the `\\…`", position));
                }
                PartKind::Hole(_) => {
                    let inside = place == Place::Inside;
                    in_string.push(inside);
                    skeleton.push_str(&stand_in(inside, width));
                }
            }
        }
        check(&skeleton).map_err(|(message, at)| {
            let message = format!("the text around the expressions is not JSON: {message}");
            ParseError::new(message, Position::of(source, at))
        })?;
        Ok(Self { template, in_string })
    }

    /// Renders the JSON text.
    pub fn render(&self, scope: &Scope<'_>) -> Result<Rendered, EvalError> {
        let mut session = Session::new(Limits::default());
        let text = self.template.run(scope, &mut session, |part, value| match self.in_string.get(part) {
            Some(true) => string_content(value),
            _ => Ok(value.to_string()),
        })?;
        // A value that is not a string may stand where only a key can.
        check(&text).map_err(|(message, _)| {
            let message = format!("the rendered text is not JSON: {message}");
            EvalError::new(EvalErrorKind::InvalidJson, message, Position::START)
        })?;
        Ok(Rendered { text, warnings: session.into_warnings() })
    }
}

/// Where in JSON a character stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    Outside,
    Inside,
    /// After the backslash of an escape.
    Escape,
    /// Before this many hexadecimal digits of `\u`.
    Hex(u8),
}

impl Place {
    fn after(self, character: char) -> Self {
        match (self, character) {
            (Place::Outside, '"') => Place::Inside,
            (Place::Outside, _) => Place::Outside,
            (Place::Inside, '"') => Place::Outside,
            (Place::Inside, '\\') => Place::Escape,
            (Place::Escape, 'u') => Place::Hex(4),
            (Place::Hex(left), _) if left > 1 => Place::Hex(left - 1),
            (Place::Inside | Place::Escape | Place::Hex(_), _) => Place::Inside,
        }
    }

    fn is_cut(self) -> bool {
        matches!(self, Place::Escape | Place::Hex(_))
    }
}

/// Valid JSON for a hole, as wide as the hole, so that positions stay true.
fn stand_in(inside: bool, width: usize) -> String {
    if inside { "x".repeat(width) } else { format!("{:width$}", "\"\"") }
}

/// Text whose escapes (`$${`) were resolved, as wide as its source.
fn widened(text: &str, width: usize) -> String {
    let missing = width.saturating_sub(text.len());
    // Only `${` was written longer, once for each byte that is missing.
    text.replacen("${", "xxx", missing)
}

fn string_content(value: &Value) -> Result<String, Refused> {
    let quoted = Value::String(escape::plain(value)).to_string();
    let content = quoted.strip_prefix('"').and_then(|rest| rest.strip_suffix('"'));
    content.map(str::to_owned).ok_or_else(|| Refused::new("the value is not text"))
}

/// What keeps `text` from being JSON, and at which byte.
fn check(text: &str) -> Result<(), (String, usize)> {
    serde_json::from_str::<Value>(text).map(drop).map_err(|error| {
        let lines = text.split_inclusive('\n').take(error.line().saturating_sub(1));
        let at = lines.map(str::len).sum::<usize>() + error.column().saturating_sub(1);
        let message = error.to_string();
        let message = message.split(" at line ").next().unwrap_or_default();
        (message.to_owned(), at)
    })
}
