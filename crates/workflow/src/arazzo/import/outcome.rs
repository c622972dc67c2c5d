//! What follows a step: success criteria, and the actions after success and failure.

use serde_json::{Map, Value};
use toolwright_types::{ErrorCode, RetryPolicy};

use super::super::EXTENSION;
use super::super::Problem;
use super::super::condition::{Condition, Notation};
use super::super::problem::{Problems, join};
use super::super::retry;
use super::super::status::{Statuses, Verdict};
use super::values::{Reader, Resolved};
use super::workflow::Scope;

/// Where the workflow continues.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Target {
    Step(usize),
    End,
}

/// Where errors lead: their codes, or none for all errors, and the target.
pub(super) type ErrorRoute = (Vec<ErrorCode>, Target);

/// What follows a step.
#[derive(Debug)]
pub(super) struct Outcome {
    pub success: Success,
    pub retry: Option<RetryPolicy>,
    /// The routes of errors, in order.
    pub failure: Vec<ErrorRoute>,
    /// The dependencies that an export wrote, if the steps need not run one after the other.
    pub depends_on: Option<Vec<String>>,
}

/// Where the workflow continues after success.
#[derive(Debug)]
pub(super) enum Success {
    Goto(Target),
    /// The first case whose condition is true.
    Branch {
        cases: Vec<(String, String, Target)>,
        default: (String, Target),
    },
}

pub(super) fn read(
    scope: &Scope<'_>,
    workflow: &Map<String, Value>,
    fields: &Map<String, Value>,
    at: usize,
    path: &str,
    problems: &mut Problems,
    warnings: &mut Problems,
) -> Option<Outcome> {
    let reader = StepReader { scope, at, path };
    let result = reader.read(workflow, fields, warnings);
    result.map_err(|problem| problems.push(problem)).ok()
}

struct StepReader<'s> {
    scope: &'s Scope<'s>,
    at: usize,
    path: &'s str,
}

/// An action with the path of its definition.
struct Action {
    name: String,
    kind: String,
    fields: Map<String, Value>,
    path: String,
}

impl StepReader<'_> {
    fn read(
        &self,
        workflow: &Map<String, Value>,
        fields: &Map<String, Value>,
        warnings: &mut Problems,
    ) -> Result<Outcome, Problem> {
        let statuses = self.success_statuses(fields, warnings)?;
        let success = self.success(self.actions(workflow, fields, "onSuccess", "successActions")?, &statuses)?;
        let (retry, failure) = self.failure(self.actions(workflow, fields, "onFailure", "failureActions")?)?;
        let depends_on = self.written_dependencies(fields)?;
        Ok(Outcome { success, retry, failure, depends_on })
    }

    fn written_dependencies(&self, fields: &Map<String, Value>) -> Result<Option<Vec<String>>, Problem> {
        let Some(extension) = fields.get(EXTENSION) else { return Ok(None) };
        let path = join(self.path, EXTENSION);
        let list = extension.as_object().filter(|fields| fields.len() == 1).and_then(|fields| fields.get("dependsOn"));
        let list = list
            .and_then(Value::as_array)
            .ok_or_else(|| Problem::new(&path, "must have the field `dependsOn`, a list of steps"))?;
        let names = list.iter().map(|step| {
            let name = step.as_str().filter(|name| self.scope.position(name).is_some_and(|at| at < self.at));
            name.map(str::to_owned)
                .ok_or_else(|| Problem::new(join(&path, "dependsOn"), format!("{step} is not an earlier step")))
        });
        names.collect::<Result<_, _>>().map(Some)
    }

    /// The statuses for which the step succeeds.
    fn success_statuses(&self, fields: &Map<String, Value>, warnings: &mut Problems) -> Result<Statuses, Problem> {
        let path = join(self.path, "successCriteria");
        let Some(criteria) = fields.get("successCriteria") else { return Ok(Statuses::succeeded()) };
        let criteria = self.criteria(criteria, &path)?;
        let wrong = |message: &str| Problem::new(&path, message);
        let statuses = Statuses::of(&criteria).ok_or_else(|| {
            wrong("a step succeeds if its call succeeds; only the status can be a criterion. Decide on the response with `onSuccess`")
        })?;
        let warning = statuses.check_success().map_err(|message| wrong(&message))?;
        if let Some(warning) = warning {
            warnings.add(&path, warning);
        }
        Ok(statuses)
    }

    /// The actions of the step, then those of the workflow with other names.
    fn actions(
        &self,
        workflow: &Map<String, Value>,
        fields: &Map<String, Value>,
        own: &str,
        shared: &str,
    ) -> Result<Vec<Action>, Problem> {
        let workflow_path = self.path.rsplitn(3, '/').nth(2).unwrap_or_default();
        let mut actions: Vec<Action> = Vec::new();
        for (list, path) in
            [(fields.get(own), join(self.path, own)), (workflow.get(shared), join(workflow_path, shared))]
        {
            let list = list.and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
            for (at, action) in list.iter().enumerate() {
                let action = self.action(action, &format!("{path}/{at}"), shared)?;
                if actions.iter().all(|known| known.name != action.name) {
                    actions.push(action);
                }
            }
        }
        Ok(actions)
    }

    fn action(&self, written: &Value, path: &str, kind: &str) -> Result<Action, Problem> {
        let found = self.scope.document.follow(written, path, kind)?;
        let mut known = vec!["name", "type", "workflowId", "stepId", "criteria"];
        known.extend(["retryAfter", "retryLimit"].into_iter().filter(|_| kind == "failureActions"));
        if let Some(field) =
            found.fields.keys().find(|field| !known.contains(&field.as_str()) && !field.starts_with("x-"))
        {
            let message = format!("the field is not supported here; the fields are {}", known.join(", "));
            return Err(Problem::new(join(&found.path, field), message));
        }
        let text = |key: &str| found.fields.get(key).and_then(Value::as_str).map(str::to_owned);
        match (text("name"), text("type")) {
            (Some(name), Some(kind)) => Ok(Action { name, kind, fields: found.fields.clone(), path: found.path }),
            _ => Err(Problem::new(found.path, "must have `name` and `type`")),
        }
    }

    fn target(&self, action: &Action) -> Result<Target, Problem> {
        if action.kind == "end" {
            return Ok(Target::End);
        }
        if action.kind != "goto" {
            return Err(Problem::new(join(&action.path, "type"), format!("`{}` is not supported here", action.kind)));
        }
        if action.fields.contains_key("workflowId") {
            let message = "a workflow cannot continue as another workflow; execute it in a step with `workflowId`";
            return Err(Problem::new(join(&action.path, "workflowId"), message));
        }
        let place = join(&action.path, "stepId");
        let id = action.fields.get("stepId").and_then(Value::as_str).unwrap_or_default();
        match self.scope.position(id) {
            Some(at) if at > self.at => Ok(Target::Step(at)),
            Some(_) => {
                Err(Problem::new(place, format!("step `{id}` does not follow this step; a workflow has no loops")))
            }
            None => Err(Problem::new(place, format!("step `{id}` does not exist"))),
        }
    }

    /// The step that follows in the document.
    fn next(&self) -> Target {
        if self.at + 1 < self.scope.len() { Target::Step(self.at + 1) } else { Target::End }
    }

    fn success(&self, actions: Vec<Action>, statuses: &Statuses) -> Result<Success, Problem> {
        let mut cases: Vec<(String, String, Target)> = Vec::new();
        let mut default = None;
        for action in &actions {
            let target = self.target(action)?;
            let condition = match action.fields.get("criteria") {
                Some(criteria) => self.action_condition(criteria, &join(&action.path, "criteria"), statuses)?,
                None => Condition::Constant(true),
            };
            let names: Vec<&str> = cases.iter().map(|(name, ..)| name.as_str()).collect();
            let name = case_name(&action.name, &names);
            match condition {
                Condition::Constant(false) => {}
                Condition::Constant(true) => {
                    default = Some((name, target));
                    break;
                }
                condition => cases.push((name, condition.write(Notation::Expression), target)),
            }
        }
        let default = default.unwrap_or_else(|| {
            let next = self.next();
            let names: Vec<&str> = cases.iter().map(|(name, ..)| name.as_str()).collect();
            (case_name(if next == Target::End { "end" } else { "next" }, &names), next)
        });
        if cases.is_empty() {
            return Ok(Success::Goto(default.1));
        }
        Ok(Success::Branch { cases, default })
    }

    /// The condition of a success action. Criteria on the status are decided now.
    fn action_condition(&self, criteria: &Value, path: &str, statuses: &Statuses) -> Result<Condition, Problem> {
        let mut parts = Vec::new();
        for part in self.criteria(criteria, path)?.parts() {
            match statuses.verdict(&part) {
                Some(Verdict::Always) => {}
                Some(Verdict::Never) => return Ok(Condition::Constant(false)),
                Some(Verdict::Sometimes) => {
                    return Err(Problem::new(
                        path,
                        "the status of a call that succeeded is not known; decide on the response",
                    ));
                }
                None => parts.push(part),
            }
        }
        let mut resolve = |text: &str| match self.scope.resolve(text, Reader { step: Some(self.at), ended: true })? {
            Resolved::Path(path) => Ok(path.to_expression()),
            Resolved::Constant(_) => Err(format!("`{text}` is a constant")),
        };
        Condition::all(parts).map(&mut resolve).map_err(|message| Problem::new(path, message))
    }

    /// Joins the criteria of a list. All of them must hold.
    fn criteria(&self, criteria: &Value, path: &str) -> Result<Condition, Problem> {
        let list = criteria.as_array().ok_or_else(|| Problem::new(path, "must be a list of criteria"))?;
        let mut all = Vec::new();
        for (at, criterion) in list.iter().enumerate() {
            let path = format!("{path}/{at}");
            let kind = criterion.get("type");
            if kind.is_some_and(|kind| kind != "simple") {
                return Err(Problem::new(join(&path, "type"), "only simple conditions can be converted"));
            }
            let condition = criterion.get("condition").and_then(Value::as_str);
            let condition = condition.ok_or_else(|| Problem::new(join(&path, "condition"), "must be a text"))?;
            let condition = Condition::parse(condition, Notation::Arazzo);
            all.push(condition.map_err(|message| Problem::new(join(&path, "condition"), message))?);
        }
        Ok(Condition::all(all))
    }

    fn failure(&self, actions: Vec<Action>) -> Result<(Option<RetryPolicy>, Vec<ErrorRoute>), Problem> {
        let mut retried = None;
        let mut routes = Vec::new();
        for action in &actions {
            let criteria_path = join(&action.path, "criteria");
            let codes = match action.fields.get("criteria").filter(|criteria| *criteria != &Value::Array(Vec::new())) {
                None => Vec::new(),
                Some(criteria) => {
                    let statuses = Statuses::of(&self.criteria(criteria, &criteria_path)?);
                    let statuses = statuses.ok_or_else(|| {
                        Problem::new(&criteria_path, "after a failure only the status can be a criterion")
                    })?;
                    statuses.error_codes().map_err(|message| Problem::new(&criteria_path, message))?
                }
            };
            if action.kind == "retry" {
                if retried.is_some() || !routes.is_empty() {
                    return Err(Problem::new(
                        &action.path,
                        "a step has one retry, before all other actions after a failure",
                    ));
                }
                retried = Some(self.retry(action, codes)?);
                continue;
            }
            let target = self.target(action)?;
            let is_last = codes.is_empty();
            if target == Target::End && !is_last {
                let message = "an error with some codes cannot end the workflow while others do not; name the others";
                return Err(Problem::new(&criteria_path, message));
            }
            routes.push((codes, target));
            if is_last {
                break;
            }
        }
        Ok((retried, routes))
    }

    fn retry(&self, action: &Action, codes: Vec<ErrorCode>) -> Result<RetryPolicy, Problem> {
        for field in ["workflowId", "stepId"] {
            if action.fields.contains_key(field) {
                let message = "a retry repeats only its step; it cannot run another step or workflow before";
                return Err(Problem::new(join(&action.path, field), message));
            }
        }
        let number = |field: &str| action.fields.get(field);
        let after = number("retryAfter").map(|after| {
            let seconds = after.as_f64().filter(|seconds| *seconds >= 0.0);
            seconds.ok_or_else(|| Problem::new(join(&action.path, "retryAfter"), "must be a number of seconds"))
        });
        let limit = number("retryLimit").map(|limit| {
            limit.as_u64().ok_or_else(|| Problem::new(join(&action.path, "retryLimit"), "must be a whole number"))
        });
        retry::policy(after.transpose()?, limit.transpose()?, codes)
            .map_err(|message| Problem::new(&action.path, message))
    }
}

/// A valid name of a case that is not taken.
fn case_name(name: &str, taken: &[&str]) -> String {
    let is_allowed = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    let name: String = name.chars().map(|c| if is_allowed(c) { c } else { '_' }).take(100).collect();
    let name = if name.is_empty() { "case".to_owned() } else { name };
    let mut unique = name.clone();
    let mut count = 1;
    while taken.contains(&unique.as_str()) {
        count += 1;
        unique = format!("{name}_{count}");
    }
    unique
}
