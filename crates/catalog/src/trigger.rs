//! Compiles triggers: their schedule and the template of their input.

use serde_json::Value;
use toolwright_expr::{EvalError, Scope, ValueTemplate};
use toolwright_tools::{DefinitionIssue, Issues};
use toolwright_types::{MissedRuns, Timestamp, TriggerDefinition, TriggerKind, TriggerTarget};

use crate::schedule::Schedule;
use crate::toolset::VersionedRef;

/// A trigger that is ready to start runs.
#[derive(Debug)]
pub struct CompiledTrigger {
    /// The definition.
    pub definition: TriggerDefinition,
    /// The times; `None` for a webhook.
    pub schedule: Option<Schedule>,
    input: ValueTemplate,
}

impl CompiledTrigger {
    /// Compiles a definition at the time `now`. Returns all issues.
    pub fn compile(definition: TriggerDefinition, now: Timestamp) -> Result<Self, Issues> {
        let mut issues = Vec::new();
        let schedule = match definition.kind {
            TriggerKind::Schedule => compile_schedule(&definition, now, &mut issues),
            TriggerKind::Webhook => {
                check_webhook(&definition, &mut issues);
                None
            }
        };
        let (_, name) = definition.target.parts();
        if VersionedRef::parse(name).is_none_or(|target| target.name.trim().is_empty()) {
            let message = "must be a name, which may have a version requirement such as `name@^1.2`";
            let kind = definition.target.parts().0;
            issues.push(issue(&format!("/target/{kind}"), format!("{message}, got `{name}`")));
        }
        if definition.principal_ref.trim().is_empty() {
            issues.push(issue("/principalRef", "must be the name of the principal as which the runs act".to_owned()));
        }
        let input = match ValueTemplate::compile(&definition.input) {
            Ok(input) => {
                issues.extend(unknown_name(&input, definition.kind));
                Some(input)
            }
            Err(error) => {
                issues.push(issue("/input", error.to_string()));
                None
            }
        };
        if matches!(definition.target, TriggerTarget::Agent(_)) && definition.input.get("message").is_none() {
            let message = "must have `message`, the message to the agent, and may have `context`";
            issues.push(issue("/input", message.to_owned()));
        }
        match input {
            Some(input) if issues.is_empty() => Ok(Self { definition, schedule, input }),
            _ => Err(Issues(issues)),
        }
    }

    /// Evaluates the input. `trigger` and `webhook` are the values that its expressions read.
    pub fn input(&self, trigger: &Value, webhook: &Value) -> Result<Value, EvalError> {
        let scope = Scope::new(&Value::Null).with("trigger", trigger).with("webhook", webhook);
        self.input.render(&scope).map(|rendered| rendered.value)
    }
}

/// Returns an issue if an expression of the input reads a name that the trigger does not have.
fn unknown_name(input: &ValueTemplate, kind: TriggerKind) -> Option<DefinitionIssue> {
    let (known, rule): (&[&str], _) = match kind {
        TriggerKind::Schedule => (&["trigger"], "`trigger`"),
        TriggerKind::Webhook => (&["trigger", "webhook"], "`trigger` and `webhook`"),
    };
    let expressions = input.expressions();
    let references = expressions.iter().flat_map(|expression| expression.references());
    let unknown = references.map(|reference| reference.root).find(|root| !known.contains(root))?;
    Some(issue("/input", format!("reads `{unknown}`, but the expressions of this trigger can read only {rule}")))
}

fn compile_schedule(
    definition: &TriggerDefinition,
    now: Timestamp,
    issues: &mut Vec<DefinitionIssue>,
) -> Option<Schedule> {
    if definition.secret_ref.is_some() {
        issues.push(issue("/secretRef", "must be absent: only a webhook has a secret".to_owned()));
    }
    let zone = match Schedule::parse_zone(definition.time_zone.as_deref().unwrap_or("UTC")) {
        Ok(zone) => Some(zone),
        Err(message) => {
            issues.push(issue("/timeZone", message));
            None
        }
    };
    let Some(cron) = &definition.cron else {
        issues.push(issue("/cron", "is required for a schedule, such as `0 2 * * *`".to_owned()));
        return None;
    };
    match Schedule::parse(cron, zone?, now) {
        Ok(schedule) => Some(schedule),
        Err(message) => {
            issues.push(issue("/cron", message));
            None
        }
    }
}

fn check_webhook(definition: &TriggerDefinition, issues: &mut Vec<DefinitionIssue>) {
    for (path, is_set) in [("/cron", definition.cron.is_some()), ("/timeZone", definition.time_zone.is_some())] {
        if is_set {
            issues.push(issue(path, "must be absent: only a schedule has times".to_owned()));
        }
    }
    if definition.missed_runs != MissedRuns::default() {
        issues.push(issue("/missedRuns", "must be absent: only a schedule has times".to_owned()));
    }
    if definition.secret_ref.as_deref().is_none_or(|name| name.trim().is_empty()) {
        let message = "is required for a webhook: the name of the secret with which the sender signs its requests";
        issues.push(issue("/secretRef", message.to_owned()));
    }
}

fn issue(path: &str, message: String) -> DefinitionIssue {
    DefinitionIssue { path: path.to_owned(), message }
}
