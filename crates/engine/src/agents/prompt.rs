//! Prompts: text with `{{variables}}`, compiled when an agent is, rendered when it runs.

use std::collections::BTreeSet;

use minijinja::{Environment, UndefinedBehavior};
use serde_json::{Map, Value};

/// How much work a template may do: enough for any prompt, too little to keep a server busy.
const FUEL: u64 = 20_000;

/// A prompt made of several parts.
pub(crate) struct Prompt {
    parts: Environment<'static>,
    /// The parts in order.
    order: Vec<Part>,
}

struct Part {
    name: String,
    /// The variables it mentions, by their dotted paths.
    variables: Vec<String>,
}

/// A template that cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("line {line}: {problem}")]
pub(crate) struct InvalidPrompt {
    line: usize,
    problem: String,
}

/// A prompt with its variables filled in.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Rendered {
    pub text: String,
    /// Variables that the context did not have; they are empty in the text.
    pub missing: Vec<String>,
    /// The names that the prompt mentions.
    pub used: BTreeSet<String>,
}

impl Prompt {
    /// The prompt of these parts; an error names the part by its position.
    pub fn compile<'a>(parts: impl IntoIterator<Item = &'a str>) -> Result<Self, (usize, InvalidPrompt)> {
        let mut compiled = Environment::empty();
        compiled.set_fuel(Some(FUEL));
        compiled.set_undefined_behavior(UndefinedBehavior::Chainable);
        let mut order = Vec::new();
        for (position, text) in parts.into_iter().enumerate() {
            let name = position.to_string();
            let wrong = |error: minijinja::Error| (position, InvalidPrompt::from(&error));
            compiled.add_template_owned(name.clone(), text.to_owned()).map_err(wrong)?;
            let template = compiled.get_template(&name).map_err(wrong)?;
            let mut variables: Vec<String> = template.undeclared_variables(true).into_iter().collect();
            variables.sort_unstable();
            order.push(Part { name, variables });
        }
        Ok(Self { parts: compiled, order })
    }

    /// The text for this context, parts separated by an empty line.
    pub fn render(&self, context: &Map<String, Value>) -> Result<Rendered, InvalidPrompt> {
        let mut rendered = Rendered { text: String::new(), missing: Vec::new(), used: BTreeSet::new() };
        for Part { name, variables } in &self.order {
            let roots = variables.iter().filter_map(|path| path.split('.').next());
            rendered.used.extend(roots.map(str::to_owned));
            rendered.missing.extend(variables.iter().filter(|path| !has(context, path)).cloned());
            let part = self.parts.get_template(name).map_err(|error| InvalidPrompt::from(&error))?;
            let text = part.render(minijinja::value::Serde(context)).map_err(|error| InvalidPrompt::from(&error))?;
            if !rendered.text.is_empty() && !text.is_empty() {
                rendered.text.push_str("\n\n");
            }
            rendered.text.push_str(&text);
        }
        Ok(rendered)
    }
}

impl From<&minijinja::Error> for InvalidPrompt {
    fn from(error: &minijinja::Error) -> Self {
        let detail = error.detail().map(|detail| format!(": {detail}")).unwrap_or_default();
        Self { line: error.line().unwrap_or(1), problem: format!("{}{detail}", error.kind()) }
    }
}

/// Whether the context has something at a dotted path.
fn has(context: &Map<String, Value>, path: &str) -> bool {
    let mut steps = path.split('.');
    let first = steps.next().and_then(|name| context.get(name));
    steps.fold(first, |value, name| value.and_then(|value| value.get(name))).is_some()
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
        let rendered = render(
            &["Be {{ tone }}, {{team.name}}.{{ nothing.at.all }}", "Stages: {{data.stages}}"],
            json!({
                "tone": "brief", "team": { "name": "sales" }, "data": { "stages": "won, lost" }
            }),
        );
        assert_eq!(rendered.text, "Be brief, sales.\n\nStages: won, lost");
        assert_eq!(rendered.missing, ["nothing.at.all"]);
    }

    #[test]
    fn text_from_the_context_is_never_a_template() {
        let rendered = render(&["{{ user }}"], json!({ "user": "{{ secret }} {% raw" }));
        assert_eq!(rendered.text, "{{ secret }} {% raw");
    }

    #[test]
    fn a_wrong_template_names_part_and_line_and_a_greedy_one_stops() {
        let (part, error) = Prompt::compile(["fine", "one\ntwo {{ "]).err().unwrap();
        assert_eq!(part, 1);
        assert!(error.to_string().starts_with("line 2: "), "{error}");
        let greedy =
            Prompt::compile(["{% for a in x %}{% for b in x %}{% for c in x %}.{% endfor %}{% endfor %}{% endfor %}"]);
        let mut context = Map::new();
        context.insert("x".into(), json!((0..500).collect::<Vec<_>>()));
        assert!(greedy.map_err(|(_, error)| error).unwrap().render(&context).is_err());
    }
}
