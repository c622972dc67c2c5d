//! Fills in the placeholders of replies.

use serde_json::{Map, Value};

use super::context::{Group, RequestContext};

/// The names of the built-in placeholders. A group of a pattern must not have one of these names.
pub(super) const RESERVED: [&str; 3] = ["user", "result", "results"];

/// The values of placeholders for one request and one rule.
pub(super) struct Placeholders<'a> {
    context: &'a RequestContext<'a>,
    groups: Vec<Group>,
}

impl<'a> Placeholders<'a> {
    pub(super) fn new(context: &'a RequestContext<'a>, groups: Vec<Group>) -> Self {
        Self { context, groups }
    }

    pub(super) fn earlier_calls(&self) -> usize {
        self.context.earlier_calls
    }

    /// Fills in the placeholders of a text. Placeholders in inserted values are not filled in, because a user message
    /// may contain `{{result}}`.
    pub(super) fn fill(&self, text: &str) -> String {
        let mut pieces = text.split("{{");
        let mut filled = pieces.next().unwrap_or_default().to_owned();
        for piece in pieces {
            match piece.split_once("}}").and_then(|(name, rest)| Some((self.value(name)?, rest))) {
                Some((value, rest)) => {
                    filled.push_str(&to_text(value));
                    filled.push_str(rest);
                }
                None => {
                    filled.push_str("{{");
                    filled.push_str(piece);
                }
            }
        }
        filled
    }

    /// Fills in the placeholders of all strings of a value. A string that consists of one placeholder is replaced by
    /// the value of the placeholder, which keeps its type.
    pub(super) fn fill_typed(&self, value: &Value) -> Value {
        map_strings(value, &|text| {
            let only = text.strip_prefix("{{").and_then(|rest| rest.strip_suffix("}}"));
            let value = only.filter(|name| !name.contains("{{")).and_then(|name| self.value(name));
            value.unwrap_or_else(|| Value::String(self.fill(text)))
        })
    }

    /// Returns the value of a placeholder, or `None` if the text in the braces is not a placeholder.
    fn value(&self, alternatives: &str) -> Option<Value> {
        let mut known = false;
        for alternative in alternatives.split('|') {
            match self.look_up(alternative) {
                Lookup::Found(value) => return Some(value),
                Lookup::Missing => known = true,
                Lookup::Unknown => {}
            }
        }
        known.then(|| Value::from("?"))
    }

    fn look_up(&self, placeholder: &str) -> Lookup {
        if let Some(placeholder) = placeholder.strip_suffix(":compact") {
            return match self.look_up(placeholder) {
                Lookup::Found(value) => Lookup::Found(compact(&to_text(value)).into()),
                other => other,
            };
        }
        let (name, pointer) = placeholder.find('/').map_or((placeholder, ""), |at| placeholder.split_at(at));
        match name {
            "user" => lookup(self.context.user(), pointer),
            "result" => lookup(self.context.result(), pointer),
            "results" => self.result_at(pointer),
            _ => match self.groups.iter().find(|(group, _)| group == name && pointer.is_empty()) {
                Some((_, text)) => Lookup::Found(text.as_str().into()),
                None => Lookup::Unknown,
            },
        }
    }

    /// Looks up `/INDEX` or `/INDEX/POINTER` in the results since the last user message.
    fn result_at(&self, path: &str) -> Lookup {
        let Some(path) = path.strip_prefix('/') else { return Lookup::Unknown };
        let (index, pointer) = path.find('/').map_or((path, ""), |at| path.split_at(at));
        let Ok(index) = index.parse::<usize>() else { return Lookup::Unknown };
        self.context.results.get(index).map_or(Lookup::Missing, |text| lookup(text, pointer))
    }
}

enum Lookup {
    Found(Value),
    /// The placeholder is known, but the request has no value for it.
    Missing,
    /// The text is not a placeholder.
    Unknown,
}

/// Returns `text`, or the value at `pointer` in the JSON that `text` contains.
fn lookup(text: &str, pointer: &str) -> Lookup {
    if pointer.is_empty() {
        return Lookup::Found(text.into());
    }
    let found = json_in(text).and_then(|value| value.pointer(pointer).cloned());
    found.map_or(Lookup::Missing, Lookup::Found)
}

/// The start of a note that the server appends to a result, such as a note about an edited approval.
const NOTE: &str = "\n\n[note: ";

/// Parses a text as JSON, without the notes after it. If it is not JSON, parses its first `<data>` block that contains
/// JSON. The server marks data in messages with such blocks.
fn json_in(text: &str) -> Option<Value> {
    let block = |piece: &str| {
        let (_, rest) = piece.split_once('>')?;
        let (content, _) = rest.split_once("</data>")?;
        serde_json::from_str(content).ok()
    };
    let result = text.split_once(NOTE).map_or(text, |(result, _notes)| result);
    serde_json::from_str(text)
        .or_else(|_| serde_json::from_str(result))
        .ok()
        .or_else(|| text.split("<data").skip(1).find_map(block))
}

fn map_strings(value: &Value, fill: &dyn Fn(&str) -> Value) -> Value {
    match value {
        Value::String(text) => fill(text),
        Value::Array(items) => items.iter().map(|item| map_strings(item, fill)).collect(),
        Value::Object(fields) => {
            let filled = fields.iter().map(|(name, value)| (name.clone(), map_strings(value, fill)));
            Value::Object(filled.collect::<Map<_, _>>())
        }
        other => other.clone(),
    }
}

fn to_text(value: Value) -> String {
    match value {
        Value::String(text) => text,
        other => other.to_string(),
    }
}

fn compact(text: &str) -> String {
    text.chars().filter(|c| c.is_alphanumeric()).flat_map(char::to_lowercase).collect()
}
