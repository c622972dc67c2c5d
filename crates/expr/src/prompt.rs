//! Prompts: text with `{{variables}}`, compiled when an agent is, rendered when it runs.
//!
//! A placeholder is a dotted path into the context and nothing else: no statements, no arithmetic. So a prompt cannot
//! grow beyond what its author and its caller wrote, and what a caller writes is never a template.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

/// The longest prompt, in bytes.
const LARGEST: usize = 1 << 20;

/// A prompt made of several parts.
pub struct Prompt {
    parts: Vec<Vec<Piece>>,
}

enum Piece {
    Text(String),
    /// A dotted path.
    Variable(String),
}

/// A text that is no template.
#[derive(Debug, thiserror::Error)]
#[error("line {line}: {problem}")]
pub struct InvalidPrompt {
    line: usize,
    problem: String,
}

/// A prompt that is longer than a prompt may be.
#[derive(Debug, thiserror::Error)]
#[error("with its variables filled in it has more than {LARGEST} bytes")]
pub struct TooLong;

/// A prompt with its variables filled in.
#[derive(Debug, PartialEq, Eq)]
pub struct Rendered {
    /// The text.
    pub text: String,
    /// Variables that the context did not have; they are empty in the text.
    pub missing: Vec<String>,
    /// The names that the prompt mentions.
    pub used: BTreeSet<String>,
}

impl Prompt {
    /// The prompt of these parts; an error names the part by its position.
    pub fn compile<'a>(parts: impl IntoIterator<Item = &'a str>) -> Result<Self, (usize, InvalidPrompt)> {
        let compiled = parts.into_iter().enumerate().map(|(at, text)| parse(text).map_err(|error| (at, error)));
        Ok(Self { parts: compiled.collect::<Result<_, _>>()? })
    }

    /// The paths that it mentions, in order.
    pub fn variables(&self) -> impl Iterator<Item = &str> {
        self.parts.iter().flatten().filter_map(|piece| match piece {
            Piece::Variable(path) => Some(path.as_str()),
            Piece::Text(_) => None,
        })
    }

    /// The text for this context, parts separated by an empty line.
    pub fn render(&self, context: &Map<String, Value>) -> Result<Rendered, TooLong> {
        let mut rendered = Rendered { text: String::new(), missing: Vec::new(), used: BTreeSet::new() };
        for pieces in &self.parts {
            let begun = rendered.text.len();
            for piece in pieces {
                match piece {
                    Piece::Text(text) => rendered.text.push_str(text),
                    Piece::Variable(path) => rendered.fill(path, context),
                }
                if rendered.text.len() > LARGEST {
                    return Err(TooLong);
                }
            }
            if begun > 0 && rendered.text.len() > begun {
                rendered.text.insert_str(begun, "\n\n");
            }
        }
        Ok(rendered)
    }
}

impl Rendered {
    fn fill(&mut self, path: &str, context: &Map<String, Value>) {
        let mut steps = path.split('.');
        let first = steps.next().unwrap_or_default();
        self.used.insert(first.to_owned());
        match steps.fold(context.get(first), |value, name| value.and_then(|value| value.get(name))) {
            Some(Value::String(text)) => self.text.push_str(text),
            Some(value) => self.text.push_str(&value.to_string()),
            None if self.missing.iter().any(|known| known == path) => {}
            None => self.missing.push(path.to_owned()),
        }
    }
}

fn parse(text: &str) -> Result<Vec<Piece>, InvalidPrompt> {
    let mut pieces = Vec::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("{{") {
        let line = text.len().saturating_sub(rest.len()) + before.len();
        let line = text.get(..line).unwrap_or_default().matches('\n').count() + 1;
        let wrong = |problem: String| InvalidPrompt { line, problem };
        let (inside, next) =
            after.split_once("}}").ok_or_else(|| wrong("`{{` is not closed; write `{{name}}`".to_owned()))?;
        let path = inside.trim();
        if !is_path(path) {
            let problem =
                format!("`{path}` is no variable; write a name such as `{{{{user_task}}}}` or `{{{{data.stages}}}}`");
            return Err(wrong(problem));
        }
        pieces.push(Piece::Text(before.to_owned()));
        pieces.push(Piece::Variable(path.to_owned()));
        rest = next;
    }
    pieces.push(Piece::Text(rest.to_owned()));
    Ok(pieces)
}

fn is_path(text: &str) -> bool {
    let is_name = |name: &str| {
        let mut letters = name.chars();
        letters.next().is_some_and(|first| first.is_alphabetic() || first == '_')
            && letters.all(|letter| letter.is_alphanumeric() || matches!(letter, '_' | '-'))
    };
    text.split('.').all(is_name)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn render(parts: &[&str], context: Value) -> Rendered {
        let Value::Object(context) = context else { panic!("not an object") };
        Prompt::compile(parts.iter().copied()).map_err(|(_, error)| error).unwrap().render(&context).unwrap()
    }

    #[test]
    fn variables_are_filled_in_and_missing_ones_reported() {
        let parts =
            ["Be {{ tone }}, {{team.name}}.{{ nothing.at.all }}{{nothing.at.all}}", "", "Stages: {{data.stages}}"];
        let context = json!({ "tone": "brief", "team": { "name": "sales" }, "data": { "stages": ["won", 2] }, "x": 1 });
        let rendered = render(&parts, context);
        assert_eq!(rendered.text, "Be brief, sales.\n\nStages: [\"won\",2]");
        assert_eq!(rendered.missing, ["nothing.at.all"]);
        assert_eq!(rendered.used.into_iter().collect::<Vec<_>>(), ["data", "nothing", "team", "tone"]);
    }

    #[test]
    fn text_from_the_context_is_never_a_template() {
        let rendered = render(&["{{ user }}"], json!({ "user": "{{ secret }} {% raw" }));
        assert_eq!(rendered.text, "{{ secret }} {% raw");
        assert_eq!(render(&["{ a } {% b %} }}"], json!({})).text, "{ a } {% b %} }}");
    }

    #[test]
    fn a_wrong_placeholder_names_part_and_line() {
        for (bad, line, because) in [
            ("one\ntwo {{ ", 2, "not closed"),
            ("{{ a + b }}", 1, "no variable"),
            ("a\n\n{{}}", 3, "no variable"),
            ("{{ x | upper }}", 1, "no variable"),
            ("{{ a..b }}", 1, "no variable"),
        ] {
            let (part, error) = Prompt::compile(["fine", bad]).err().unwrap();
            assert_eq!(part, 1);
            let text = error.to_string();
            assert!(text.starts_with(&format!("line {line}: ")) && text.contains(because), "{text}");
        }
    }

    #[test]
    fn a_prompt_has_a_largest_size() {
        let prompt = Prompt::compile(["{{x}}".repeat(3).as_str()]).map_err(|(_, error)| error).unwrap();
        let mut context = Map::new();
        context.insert("x".into(), Value::String("x".repeat(LARGEST / 2)));
        assert!(prompt.render(&context).is_err());
    }
}
