//! The answers to the questions of `agentic-tools create`, and the request body that they result in. Does no IO.

use serde_json::{Map, Value, json};
use toolwright_types::ExecutionMode;

/// The answers so far.
#[derive(Debug, Default)]
pub(super) struct Draft {
    /// The name; empty if it is not known yet.
    pub name: String,
    pub mode: Option<ExecutionMode>,
    /// The model as `provider/model` or `model`. Default: the model of the server.
    pub model: Option<String>,
    /// The tools, in the order of their execution in the deterministic mode.
    pub tools: Vec<DraftTool>,
    pub description: Option<String>,
    /// The limits that differ from their defaults.
    pub limits: Map<String, Value>,
}

/// A tool that the model may use.
#[derive(Debug)]
pub(super) struct DraftTool {
    /// The name, with an optional version requirement.
    pub reference: String,
    /// The purpose of the step, only in the deterministic mode.
    pub purpose: Option<String>,
}

impl From<String> for DraftTool {
    fn from(reference: String) -> Self {
        Self { reference, purpose: None }
    }
}

impl Draft {
    /// Returns the options that would give the required answers that are still missing.
    pub(super) fn missing(&self) -> Vec<&'static str> {
        let answers =
            [("--name", !self.name.is_empty()), ("--mode", self.mode.is_some()), ("--tool", !self.tools.is_empty())];
        answers.into_iter().filter(|(_, is_known)| !is_known).map(|(option, _)| option).collect()
    }

    /// The body of the request that creates the tool.
    pub(super) fn body(&self) -> Value {
        let mut body = Map::from_iter([("name".to_owned(), json!(self.name))]);
        let mut set = |field: &str, value: Value| drop(body.insert(field.to_owned(), value));
        if let Some(description) = &self.description {
            set("description", json!(description));
        }
        if let Some(mode) = self.mode {
            set("executionMode", json!(mode));
        }
        if let Some(model) = &self.model {
            set("embeddedLLMConfig", model_config(model));
        }
        set("toolAllocation", self.allocation());
        if !self.limits.is_empty() {
            set("safetyLimits", Value::Object(self.limits.clone()));
        }
        Value::Object(body)
    }

    fn allocation(&self) -> Value {
        if self.mode != Some(ExecutionMode::Deterministic) {
            let tools: Vec<Value> = self.tools.iter().map(|tool| json!({ "actionSlug": tool.reference })).collect();
            return json!({ "availableTools": tools });
        }
        let entry = |(index, tool): (usize, &DraftTool)| match &tool.purpose {
            Some(purpose) => json!({ "step": index + 1, "actionSlug": tool.reference, "purpose": purpose }),
            None => json!({ "step": index + 1, "actionSlug": tool.reference }),
        };
        json!({ "sequence": self.tools.iter().enumerate().map(entry).collect::<Vec<_>>() })
    }
}

/// Parses a mode or the beginning of its name.
pub(super) fn parse_mode(text: &str) -> Option<ExecutionMode> {
    let modes = [ExecutionMode::Deterministic, ExecutionMode::Agentic];
    modes.into_iter().find(|mode| !text.is_empty() && mode.as_str().starts_with(&text.to_lowercase()))
}

fn model_config(model: &str) -> Value {
    match model.split_once('/') {
        Some((provider, model)) => json!({ "provider": provider, "model": model }),
        None => json!({ "model": model }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn draft_tools_become_a_sequence_or_a_selection_depending_on_the_mode() {
        let purpose = Some("Find the deals".to_owned());
        let tools = vec![DraftTool { reference: "crm/find".into(), purpose }, DraftTool::from("crm/save".to_owned())];
        let mut draft = Draft { name: "Deals".into(), mode: parse_mode("d"), tools, ..Draft::default() };
        let sequence = json!([
            { "step": 1, "actionSlug": "crm/find", "purpose": "Find the deals" },
            { "step": 2, "actionSlug": "crm/save" },
        ]);
        let allocation = json!({ "sequence": sequence });
        let expected = json!({ "name": "Deals", "executionMode": "deterministic", "toolAllocation": allocation });
        assert_eq!(draft.body(), expected);
        draft.mode = parse_mode("AGENTIC");
        let selection = json!({ "availableTools": [{ "actionSlug": "crm/find" }, { "actionSlug": "crm/save" }] });
        assert_eq!(draft.body()["toolAllocation"], selection);
    }

    #[test]
    fn draft_model_may_name_a_provider_and_only_changed_limits_are_sent() {
        let mut draft = Draft { model: Some("anthropic/claude-sonnet-4".into()), ..Draft::default() };
        draft.limits.insert("maxSteps".into(), json!(3));
        assert_eq!(draft.body()["embeddedLLMConfig"], json!({ "provider": "anthropic", "model": "claude-sonnet-4" }));
        assert_eq!(draft.body()["safetyLimits"], json!({ "maxSteps": 3 }));
        draft.model = Some("gpt-4o".into());
        assert_eq!(draft.body()["embeddedLLMConfig"], json!({ "model": "gpt-4o" }));
    }

    #[test]
    fn missing_answers_are_reported_as_the_options_that_give_them() {
        assert_eq!(Draft::default().missing(), ["--name", "--mode", "--tool"]);
        let draft = Draft { name: "a".into(), mode: parse_mode("a"), ..Draft::default() };
        assert_eq!(draft.missing(), ["--tool"]);
        assert!(parse_mode("").is_none() && parse_mode("other").is_none());
    }
}
