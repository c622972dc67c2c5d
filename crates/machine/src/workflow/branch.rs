//! The cases of a branch.

use serde_json::Value;

use super::references::CompiledValue;

/// The cases of a branch: `{ "cases": [{ "name": "large", "when": "${input.amount > 1000}" }], "default": "small" }`.
#[derive(Debug, Clone)]
pub(crate) struct CompiledBranch {
    /// The cases, in order. The first case whose condition is true is selected.
    pub cases: Vec<(String, CompiledValue)>,
    /// The case that is selected if no condition is true.
    pub default: Option<String>,
}

/// A mistake in the input of a branch: the JSON pointer and the message.
type Mistake = (String, String);

impl CompiledBranch {
    /// Compiles the input of a branch. `compile` compiles the condition at a JSON pointer in the input.
    pub(crate) fn compile(
        input: &Value,
        mut compile: impl FnMut(&Value, &str) -> CompiledValue,
    ) -> Result<Self, Mistake> {
        let example = "such as `[{ name: large, when: \"${input.amount > 1000}\" }]`";
        let fields = input.as_object().ok_or_else(|| (String::new(), format!("must have `cases`, {example}")))?;
        if let Some(field) = fields.keys().find(|field| !["cases", "default"].contains(&field.as_str())) {
            return Err((String::new(), format!("a branch has `cases` and `default`, but not `{field}`")));
        }
        let default = match fields.get("default") {
            None | Some(Value::Null) => None,
            Some(Value::String(name)) if is_case_name(name) => Some(name.clone()),
            Some(_) => return Err(("/default".to_owned(), CASE_NAME_RULE.to_owned())),
        };
        let list = fields.get("cases").and_then(Value::as_array);
        let list = list.ok_or_else(|| ("/cases".to_owned(), format!("must be a list of cases, {example}")))?;
        let mut cases: Vec<(String, CompiledValue)> = Vec::with_capacity(list.len());
        for (at, case) in list.iter().enumerate() {
            let pointer = |field: &str| format!("/cases/{at}/{field}");
            let name = case.get("name").and_then(Value::as_str).filter(|name| is_case_name(name));
            let name = name.ok_or_else(|| (pointer("name"), CASE_NAME_RULE.to_owned()))?;
            if cases.iter().any(|(known, _)| known == name) {
                return Err((pointer("name"), format!("another case is also named `{name}`; rename one")));
            }
            let when = case.get("when").filter(|when| when.is_string() || when.is_boolean());
            let when = when.ok_or_else(|| {
                (pointer("when"), "must be an expression such as `${input.amount > 1000}`".to_owned())
            })?;
            cases.push((name.to_owned(), compile(when, &pointer("when"))));
        }
        if cases.is_empty() && default.is_none() {
            return Err(("/cases".to_owned(), format!("must have at least one case, {example}")));
        }
        Ok(Self { cases, default })
    }

    /// The names of the cases, without repetitions.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        let names = self.cases.iter().map(|(name, _)| name.as_str());
        let default = self.default.as_deref().filter(|default| self.cases.iter().all(|(name, _)| name != default));
        names.chain(default)
    }
}

const CASE_NAME_RULE: &str = "must be a name of letters, digits, `_` and `-`";

fn is_case_name(name: &str) -> bool {
    let is_allowed = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    !name.is_empty() && name.len() <= 128 && name.chars().all(is_allowed)
}
