//! Checks a plan before its first step: its step numbers, its expressions and the names that these expressions use.

use std::collections::BTreeSet;
use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use toolwright_expr::{Expression, Reference, Template, ValueTemplate};

use super::{Plan, PlanSpec, PlannedStep};

/// A mistake in a plan.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlanIssue {
    /// The JSON pointer of the mistake.
    pub path: String,
    /// The mistake and the correction.
    pub message: String,
}

impl fmt::Display for PlanIssue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.path.as_str() {
            "" => f.write_str(&self.message),
            path => write!(f, "{path}: {}", self.message),
        }
    }
}

impl Plan {
    /// Reads a plan that has no issues, or returns its issues. See [`Plan::check`].
    pub fn parse(value: Value, spec: &PlanSpec) -> Result<Self, Vec<PlanIssue>> {
        let plan: Self = serde_json::from_value(value)
            .map_err(|error| vec![PlanIssue { path: String::new(), message: error.to_string() }])?;
        let issues = plan.check(spec);
        if issues.is_empty() { Ok(plan) } else { Err(issues) }
    }

    /// Returns all mistakes of the plan. Does not compare parameters with the input schemas of the tools: the
    /// schema of the plan contains these schemas, so the validation of the plan has already done that.
    pub fn check(&self, spec: &PlanSpec) -> Vec<PlanIssue> {
        let mut issues = Vec::new();
        if self.steps.is_empty() {
            let message = "must have at least one step".to_owned();
            issues.push(PlanIssue { path: "/steps".into(), message });
        }
        let mut earlier = BTreeSet::new();
        for (position, step) in self.steps.iter().enumerate() {
            let mut check = StepCheck { position, step, earlier: &earlier, issues: &mut issues };
            check.number(spec);
            check.expressions();
            earlier.insert(step.step);
        }
        issues
    }
}

/// Checks one step.
struct StepCheck<'a> {
    position: usize,
    step: &'a PlannedStep,
    /// The numbers of the steps before this one.
    earlier: &'a BTreeSet<u32>,
    issues: &'a mut Vec<PlanIssue>,
}

impl StepCheck<'_> {
    fn report(&mut self, field: &str, message: String) {
        self.issues.push(PlanIssue { path: format!("/steps/{}/{field}", self.position), message });
    }

    fn number(&mut self, spec: &PlanSpec) {
        let number = self.step.step;
        if spec.tool(number).is_none() {
            let known: Vec<String> = spec.sequence.iter().map(|step| step.step.to_string()).collect();
            self.report("step", format!("must be a step of the sequence ({}), got {number}", known.join(", ")));
        } else if self.earlier.last().is_some_and(|last| number <= *last) {
            self.report("step", format!("must be greater than the step before it, got {number}"));
        }
    }

    fn expressions(&mut self) {
        let step = self.step;
        let in_parameters: &[&str] = if step.for_each.is_some() { &["item", "index"] } else { &[] };
        self.text("when", step.when.as_deref(), &[]);
        self.text("forEach", step.for_each.as_deref(), &[]);
        self.value("parameters", &Value::Object(step.parameters.clone()), in_parameters);
        if let Some(paging) = &step.paging {
            if step.for_each.is_some() {
                self.report("paging", "cannot be combined with `forEach`; read the pages in an earlier step".into());
            }
            if paging.next.is_empty() {
                self.report("paging/next", "must name the parameters that request the next page".into());
            }
            self.text("paging/items", Some(&paging.items), &["page"]);
            self.value("paging/next", &Value::Object(paging.next.clone()), &["page"]);
        }
    }

    /// Checks a field that must be one expression.
    fn text(&mut self, field: &str, text: Option<&str>, names: &[&str]) {
        let Some(text) = text else { return };
        match Template::parse(text) {
            Ok(template) => match template.single() {
                Some(expression) => self.names(field, expression, names),
                None => self.report(field, "must be one expression, such as `${steps.1.items}`".into()),
            },
            Err(error) => self.report(field, error.to_string()),
        }
    }

    /// Checks a field whose strings may contain expressions.
    fn value(&mut self, field: &str, value: &Value, names: &[&str]) {
        match ValueTemplate::compile(value) {
            Ok(template) => template.expressions().into_iter().for_each(|found| self.names(field, found, names)),
            Err(error) => self.report(&format!("{field}{}", error.pointer().unwrap_or_default()), error.to_string()),
        }
    }

    fn names(&mut self, field: &str, expression: &Expression, names: &[&str]) {
        for Reference { root, fields } in expression.references() {
            match root {
                "steps" => self.step_reference(field, expression.source(), fields.first().copied()),
                "input" => {}
                known if names.contains(&known) => {}
                "item" | "index" => {
                    self.report(field, format!("`{root}` is only known in the parameters of a step with `forEach`"));
                }
                other => {
                    let known = ["steps", "input"].iter().chain(names).map(|name| format!("`{name}`"));
                    let known: Vec<String> = known.collect();
                    self.report(field, format!("`{other}` is not known here; use {}", known.join(", ")));
                }
            }
        }
    }

    fn step_reference(&mut self, field: &str, source: &str, number: Option<&str>) {
        let number = number.and_then(|number| number.parse::<u32>().ok());
        if number.is_some_and(|number| self.earlier.contains(&number)) {
            return;
        }
        let earlier: Vec<String> = self.earlier.iter().map(|step| format!("`steps.{step}`")).collect();
        let message = match earlier.as_slice() {
            [] => format!("`{source}` refers to a step, but this is the first step of the plan"),
            earlier => format!("`{source}` must refer to an earlier step of the plan: {}", earlier.join(", ")),
        };
        self.report(field, message);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::plan::SequenceStep;

    fn issues(steps: Value) -> Vec<String> {
        let sequence = [1, 2, 4].map(|step| SequenceStep { step, tool: format!("t{step}"), purpose: String::new() });
        let spec = PlanSpec {
            sequence: sequence.into(),
            schema: json!({}),
            input: json!({}),
            given: None,
            max_steps: 10,
            max_items: 10,
            requires_approval: false,
        };
        let plan: Plan = serde_json::from_value(json!({ "steps": steps })).unwrap();
        plan.check(&spec).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn plan_that_uses_earlier_steps_items_pages_and_the_input_has_no_issues() {
        let steps = json!([
            { "step": 1, "parameters": { "q": "${input.task}" },
              "paging": { "items": "${page.results}", "next": { "after": "${page.next}" } } },
            { "step": 2, "when": "${steps.1.items.length > 0}", "forEach": "${steps.1.items}",
              "parameters": { "id": "${item.id}", "n": "${index}", "all": "${steps.1.items.map(x, x.id)}" } },
        ]);
        assert_eq!(issues(steps), [""; 0]);
    }

    #[test]
    fn each_mistake_of_a_plan_is_reported_with_its_path() {
        for (steps, expected) in [
            (json!([]), "/steps: must have at least one step"),
            (json!([{ "step": 3 }]), "/steps/0/step: must be a step of the sequence (1, 2, 4), got 3"),
            (json!([{ "step": 2 }, { "step": 1 }]), "/steps/1/step: must be greater than the step before it, got 1"),
            (json!([{ "step": 2 }, { "step": 2 }]), "/steps/1/step: must be greater than the step before it, got 2"),
            (
                json!([{ "step": 1, "parameters": { "a": "${steps.1.output}" } }]),
                "/steps/0/parameters: `steps.1.output` refers to a step, but this is the first step of the plan",
            ),
            (
                json!([{ "step": 1 }, { "step": 4, "forEach": "${steps.2.items}" }]),
                "/steps/1/forEach: `steps.2.items` must refer to an earlier step of the plan: `steps.1`",
            ),
            (
                json!([{ "step": 1, "parameters": { "a": "${item.id}" } }]),
                "/steps/0/parameters: `item` is only known in the parameters of a step with `forEach`",
            ),
            (
                json!([{ "step": 1, "parameters": { "a": "${env.KEY}" } }]),
                "/steps/0/parameters: `env` is not known here; use `steps`, `input`",
            ),
            (
                json!([{ "step": 1, "when": "true" }]),
                "/steps/0/when: must be one expression, such as `${steps.1.items}`",
            ),
            (
                json!([{ "step": 1, "forEach": "${input.a}", "paging": { "items": "${page}", "next": { "p": 1 } } }]),
                "/steps/0/paging: cannot be combined with `forEach`; read the pages in an earlier step",
            ),
            (
                json!([{ "step": 1, "paging": { "items": "${page}", "next": {} } }]),
                "/steps/0/paging/next: must name the parameters that request the next page",
            ),
        ] {
            assert_eq!(issues(steps.clone()), [expected], "{steps}");
        }
        let found = issues(json!([{ "step": 1, "parameters": { "a": { "b": "${1 +}" } } }]));
        assert!(found[0].starts_with("/steps/0/parameters/a/b: "), "{found:?}");
    }
}
