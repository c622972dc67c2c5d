//! Prompts: text with `{{variables}}`, compiled together with an agent and rendered when the agent runs.
//!
//! A placeholder contains a dotted path into the context and no other code. Text from the context is never parsed as a
//! template.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

/// The maximum length of a rendered prompt, in bytes.
const MAX_PROMPT: usize = 1 << 20;

/// A compiled prompt that consists of several parts.
pub struct Prompt {
    parts: Vec<Vec<Piece>>,
}

enum Piece {
    Text(String),
    /// A dotted path into the context.
    Variable(String),
}

/// The error for a text that is not a valid prompt.
#[derive(Debug, thiserror::Error)]
#[error("line {line}: {problem}")]
pub struct InvalidPrompt {
    line: usize,
    problem: String,
}

/// The error for a prompt that is too long after rendering.
#[derive(Debug, thiserror::Error)]
#[error("a prompt must be at most {MAX_PROMPT} bytes after its variables are filled in")]
pub struct PromptTooLong;

/// A prompt whose variables are filled in.
#[derive(Debug, PartialEq, Eq)]
pub struct RenderedPrompt {
    /// The text.
    pub text: String,
    /// Variables that the context does not contain. They are empty in the text.
    pub missing: Vec<String>,
    /// The names of the variables of the context that the prompt uses.
    pub used: BTreeSet<String>,
}

impl Prompt {
    /// Compiles the parts of a prompt. An error contains the index of the invalid part.
    pub fn compile<'a>(parts: impl IntoIterator<Item = &'a str>) -> Result<Self, (usize, InvalidPrompt)> {
        let compiled = parts.into_iter().enumerate().map(|(index, text)| parse(text).map_err(|error| (index, error)));
        Ok(Self { parts: compiled.collect::<Result<_, _>>()? })
    }

    /// Returns the paths that the prompt uses, in order.
    pub fn variables(&self) -> impl Iterator<Item = &str> {
        self.parts.iter().flatten().filter_map(|piece| match piece {
            Piece::Variable(path) => Some(path.as_str()),
            Piece::Text(_) => None,
        })
    }

    /// Renders the text for a context. An empty line separates the parts.
    pub fn render(&self, context: &Map<String, Value>) -> Result<RenderedPrompt, PromptTooLong> {
        let mut rendered = RenderedPrompt { text: String::new(), missing: Vec::new(), used: BTreeSet::new() };
        for pieces in &self.parts {
            let start = rendered.text.len();
            for piece in pieces {
                match piece {
                    Piece::Text(text) => rendered.text.push_str(text),
                    Piece::Variable(path) => rendered.fill(path, context),
                }
                if rendered.text.len() > MAX_PROMPT {
                    return Err(PromptTooLong);
                }
            }
            if start > 0 && rendered.text.len() > start {
                rendered.text.insert_str(start, "\n\n");
            }
        }
        Ok(rendered)
    }
}

impl RenderedPrompt {
    fn fill(&mut self, path: &str, context: &Map<String, Value>) {
        let mut segments = path.split('.');
        let first = segments.next().unwrap_or_default();
        // A variable whose name is the whole path takes precedence. So the context can have both `a` and `a.b`.
        let whole = context.get(path);
        self.used.insert(if whole.is_some() { path } else { first }.to_owned());
        let nested = || segments.fold(context.get(first), |value, name| value.and_then(|value| value.get(name)));
        match whole.or_else(nested) {
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
        let error = |problem: String| InvalidPrompt { line, problem };
        let (inside, next) =
            after.split_once("}}").ok_or_else(|| error("`{{` is not closed; write `{{name}}`".to_owned()))?;
        let path = inside.trim();
        if !is_path(path) {
            let problem = format!(
                "`{path}` is not a variable; write a name such as `{{{{user_task}}}}` or `{{{{data.stages}}}}`"
            );
            return Err(error(problem));
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

    fn render(parts: &[&str], context: Value) -> RenderedPrompt {
        let Value::Object(context) = context else { panic!("not an object") };
        Prompt::compile(parts.iter().copied()).map_err(|(_, error)| error).unwrap().render(&context).unwrap()
    }

    #[test]
    fn prompt_may_use_a_variable_and_another_variable_whose_path_starts_with_it() {
        let context = json!({ "data": "all", "data.users": "ann", "nested": { "a": 1 } });
        let rendered = render(&["{{data}} {{data.users}} {{nested.a}} {{data.other}}"], context);
        assert_eq!(rendered.text, "all ann 1 ");
        assert_eq!(rendered.missing, ["data.other"]);
        assert!(rendered.used.contains("data.users") && rendered.used.contains("data"), "{:?}", rendered.used);
    }

    #[test]
    fn variables_are_filled_in_and_missing_variables_are_reported() {
        let parts =
            ["Be {{ tone }}, {{team.name}}.{{ nothing.at.all }}{{nothing.at.all}}", "", "Stages: {{data.stages}}"];
        let context = json!({ "tone": "brief", "team": { "name": "sales" }, "data": { "stages": ["won", 2] }, "x": 1 });
        let rendered = render(&parts, context);
        assert_eq!(rendered.text, "Be brief, sales.\n\nStages: [\"won\",2]");
        assert_eq!(rendered.missing, ["nothing.at.all"]);
        assert_eq!(rendered.used.into_iter().collect::<Vec<_>>(), ["data", "nothing", "team", "tone"]);
    }

    #[test]
    fn text_from_the_context_is_not_parsed_as_a_template() {
        let rendered = render(&["{{ user }}"], json!({ "user": "{{ secret }} {% raw" }));
        assert_eq!(rendered.text, "{{ secret }} {% raw");
        assert_eq!(render(&["{ a } {% b %} }}"], json!({})).text, "{ a } {% b %} }}");
    }

    #[test]
    fn invalid_placeholder_is_reported_with_part_and_line() {
        for (source, line, expected) in [
            ("one\ntwo {{ ", 2, "not closed"),
            ("{{ a + b }}", 1, "not a variable"),
            ("a\n\n{{}}", 3, "not a variable"),
            ("{{ x | upper }}", 1, "not a variable"),
            ("{{ a..b }}", 1, "not a variable"),
        ] {
            let (part, error) = Prompt::compile(["valid", source]).err().unwrap();
            assert_eq!(part, 1);
            let text = error.to_string();
            assert!(text.starts_with(&format!("line {line}: ")) && text.contains(expected), "{text}");
        }
    }

    #[test]
    fn prompt_longer_than_the_limit_after_rendering_is_rejected() {
        let prompt = Prompt::compile(["{{x}}".repeat(3).as_str()]).map_err(|(_, error)| error).unwrap();
        let mut context = Map::new();
        context.insert("x".into(), Value::String("x".repeat(MAX_PROMPT / 2)));
        assert!(prompt.render(&context).is_err());
    }
}
