//! Validates the plan of a run against the schema of its plans, and reports the exact mistakes of each step.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use serde_json::Value;
use toolwright_machine::plan::step_schemas;
use toolwright_tools::{Rejection, Schema, Violation};

/// The maximum number of violations in one message.
const MAX_LISTED: usize = 10;

/// The schema of the plans for a sequence of tools.
#[derive(Debug)]
pub struct PlanSchema {
    whole: Arc<Schema>,
    /// The schemas of single steps that were needed so far. Only an invalid plan needs them.
    steps: Mutex<BTreeMap<u32, Arc<Schema>>>,
}

impl PlanSchema {
    /// Creates the schema from the compiled schema of a whole plan.
    pub fn new(whole: Arc<Schema>) -> Self {
        Self { whole, steps: Mutex::default() }
    }

    /// The JSON Schema of a whole plan.
    pub fn source(&self) -> &Value {
        self.whole.source()
    }

    /// Validates a plan.
    pub async fn validate(&self, plan: &Value) -> Result<(), Rejection> {
        let violations = match self.whole.try_validate(plan.clone()).await {
            Ok(_) => return Ok(()),
            Err(Rejection::Mismatch(violations)) => violations,
            Err(unchecked) => return Err(unchecked),
        };
        let mut found = Vec::new();
        for violation in violations {
            match self.mistakes(&violation, plan).await {
                Some(exact) => found.extend(exact),
                None => found.push(violation),
            }
        }
        Err(Rejection::Mismatch(found))
    }

    /// Returns the exact mistakes of a step that matches none of the schemas of steps. `None` if the violation concerns
    /// something else, or if the exact mistakes are not known.
    async fn mistakes(&self, violation: &Violation, plan: &Value) -> Option<Vec<Violation>> {
        let position: usize = violation.path.strip_prefix("/steps/")?.parse().ok()?;
        let step = plan.pointer(&violation.path)?;
        let one =
            |field: &str, message: String| Some(vec![Violation { path: format!("/steps/{position}{field}"), message }]);
        let Some(fields) = step.as_object() else {
            return one("", "must be an object with `step` and `parameters`".to_owned());
        };
        let schemas = step_schemas(self.source());
        let known = || schemas.keys().map(ToString::to_string).collect::<Vec<_>>().join(", ");
        let Some(number) = fields.get("step") else {
            return one("", format!("`step` is required; use a step of the sequence ({})", known()));
        };
        let number_of = |value: &Value| value.as_u64().and_then(|number| u32::try_from(number).ok());
        let Some(source) = number_of(number).and_then(|number| Some((number, schemas.get(&number)?))) else {
            return one("/step", format!("must be a step of the sequence ({}), got {number}", known()));
        };
        let schema = self.step_schema(source.0, source.1).await?;
        let violations = schema.validate(step.clone()).await.err()?;
        let concerns_value = |violation: &Violation| {
            let value = step.pointer(&violation.path);
            !value.is_some_and(|value| match value {
                Value::String(text) => text.contains("${"),
                // A choice between several schemas cannot be checked before its expressions are evaluated.
                value => violation.message.contains("any of the schemas") && contains_expression(value),
            })
        };
        let located = violations
            .into_iter()
            .filter(concerns_value)
            .map(|violation| Violation { path: format!("/steps/{position}{}", violation.path), ..violation });
        Some(located.collect::<Vec<_>>()).filter(|found| !found.is_empty())
    }

    /// Returns the compiled schema of a step.
    async fn step_schema(&self, number: u32, source: &Value) -> Option<Arc<Schema>> {
        let found = self.steps.lock().unwrap_or_else(PoisonError::into_inner).get(&number).cloned();
        if found.is_some() {
            return found;
        }
        let schema = Arc::new(Schema::compile_large(source.clone()).await.ok()?);
        self.steps.lock().unwrap_or_else(PoisonError::into_inner).insert(number, Arc::clone(&schema));
        Some(schema)
    }
}

/// Lists the first violations in one line.
pub fn listed_violations(violations: &[Violation]) -> String {
    let texts: Vec<String> = violations.iter().take(MAX_LISTED).map(ToString::to_string).collect();
    texts.join("; ")
}

fn contains_expression(value: &Value) -> bool {
    match value {
        Value::String(text) => text.contains("${"),
        Value::Array(items) => items.iter().any(contains_expression),
        Value::Object(fields) => fields.values().any(contains_expression),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use toolwright_machine::plan::{SequenceStep, plan_schema};

    use super::*;

    async fn mistakes(steps: Value) -> Vec<String> {
        let sequence = [1, 2].map(|step| SequenceStep { step, tool: format!("t{step}"), purpose: String::new() });
        let search = json!({
            "type": "object", "required": ["q"], "additionalProperties": false,
            "properties": { "q": { "type": "string" }, "stage": { "$ref": "#/$defs/Stage" } },
            "$defs": { "Stage": { "enum": ["new", "won"] } },
        });
        let save = json!({ "type": "object", "properties": { "id": { "type": "integer" } } });
        let schema = Schema::compile(plan_schema(&sequence, &[search, save])).unwrap();
        match PlanSchema::new(Arc::new(schema)).validate(&json!({ "steps": steps })).await {
            Ok(()) => Vec::new(),
            Err(Rejection::Mismatch(violations)) => violations.iter().map(ToString::to_string).collect(),
            Err(Rejection::Unchecked(stopped)) => panic!("{stopped}"),
        }
    }

    #[tokio::test]
    async fn mistakes_of_a_plan_are_reported_with_the_exact_field() {
        let valid = json!([{ "step": 1, "parameters": { "q": "${input.task}", "stage": "${input.stage}" } }]);
        assert_eq!(mistakes(valid).await, [""; 0]);
        for (step, expected) in [
            (json!({ "step": 1, "parameters": { "q": 7 } }), r#"/steps/0/parameters/q: 7 is not of type "string""#),
            (
                json!({ "step": 1, "parameters": { "q": "${input.task}", "stage": "lost" } }),
                r#"/steps/0/parameters/stage: "lost" is not one of "new" or "won""#,
            ),
            (json!({ "step": 1, "parameters": {} }), r#"/steps/0/parameters: "q" is a required property"#),
            (
                json!({ "step": 1, "parameters": { "q": "x", "limit": 3 } }),
                "/steps/0/parameters: Additional properties are not allowed ('limit' was unexpected)",
            ),
            (json!({ "step": 2 }), r#"/steps/0: "parameters" is a required property"#),
            (
                json!({ "step": 2, "parameters": { "id": "x" }, "note": 1 }),
                "/steps/0: Additional properties are not allowed ('note' was unexpected)",
            ),
            (json!({ "step": 9, "parameters": {} }), "/steps/0/step: must be a step of the sequence (1, 2), got 9"),
            (json!({ "parameters": {} }), "/steps/0: `step` is required; use a step of the sequence (1, 2)"),
            (json!("all"), "/steps/0: must be an object with `step` and `parameters`"),
        ] {
            let found = mistakes(json!([step])).await;
            assert!(found.iter().any(|one| one == expected), "{step}: {found:?}");
        }
        assert_eq!(mistakes(json!([])).await, ["/steps: [] has less than 1 item"]);
    }
}
