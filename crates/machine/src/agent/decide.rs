//! Decides on a prepared call: refuse it, require approval, or run it.

use serde_json::{Value, json};
use toolwright_types::{ErrorCode, ExecutionSite, SideEffects, ToolEnvelope, ToolError};

use super::closer::denied;
use super::{CallFacts, PreparedCall, RunSpec};
use crate::{ApprovalTrigger, Guardrail, Policy};

/// The maximum number of available tools that the error message of a refused call lists.
const MAX_LISTED_TOOLS: usize = 20;

/// The number of the repeat whose result contains a warning. Later repeats are refused.
pub(super) const REPEAT_WARNING_AT: u32 = 2;

/// A call that needs a decision.
pub(super) struct CallToDecide<'a> {
    pub input: &'a Value,
    /// Whether the model's arguments are not valid JSON or are nested too deeply.
    pub malformed: bool,
    /// How often the model has requested this call although its result was already available.
    pub repeat: u32,
}

/// Returns the settings that require approval, or the error if the call may not run. With an empty list, the call may
/// run without approval.
pub(super) fn decide(
    spec: &RunSpec,
    call: &CallToDecide<'_>,
    prepared: &PreparedCall,
) -> Result<Vec<ApprovalTrigger>, ToolError> {
    let facts = check_permitted(spec, prepared).or_else(|error| match error.code {
        // Malformed JSON also fails schema validation. The error about malformed JSON is reported because it tells the
        // model what to fix.
        ErrorCode::ValidationError => check_well_formed(call).and(Err(error)),
        _ => Err(error),
    })?;
    check_well_formed(call)?;
    if spec.plan.is_none() && spec.workflow.is_none() {
        check_not_repeated(facts, call)?;
    }
    check_policy(&spec.policy, facts, call.input)?;
    // A run that captures writes does not execute calls that need approval, so it requests no approval.
    Ok(if spec.policy.capture_writes { Vec::new() } else { approval_triggers(&spec.policy, facts) })
}

/// Whether the run ends this call without executing it. A run that captures writes does so for calls that write, run on
/// the client, or need approval.
pub(super) fn is_captured(policy: &Policy, facts: &CallFacts) -> bool {
    let harmless = facts.effects != SideEffects::Writes && !facts.deletes;
    let on_server = facts.execution_site == ExecutionSite::Server;
    policy.capture_writes && !(harmless && on_server && approval_triggers(policy, facts).is_empty())
}

/// Checks whether an approved call may run. The call does not need a second approval.
pub(super) fn decide_approved(spec: &RunSpec, input: &Value, prepared: &PreparedCall) -> Result<(), ToolError> {
    let facts = check_permitted(spec, prepared)?;
    check_policy(&spec.policy, facts, input)
}

/// Returns the error for an envelope whose output or error breaks a content filter rule.
pub(super) fn content_filter_violation(policy: &Policy, envelope: &ToolEnvelope) -> Option<ToolError> {
    let error = envelope.error.as_ref().map(|error| json!([error.message, error.details]));
    content_filters(policy).filter(|filter| filter.checks_output()).find_map(|filter| {
        let rule = filter
            .first_broken_rule(&envelope.output)
            .or_else(|| error.as_ref().and_then(|e| filter.first_broken_rule(e)));
        rule.map(|rule| content_filter_error("output", rule))
    })
}

fn check_permitted<'a>(spec: &RunSpec, prepared: &'a PreparedCall) -> Result<&'a CallFacts, ToolError> {
    let (name, _) = prepared.tool();
    match prepared {
        PreparedCall::Refused(envelope) if reason_of(envelope) == Some("unknown_tool") => {
            Err(denied("unknown_tool", format!("tool `{name}` does not exist{}", available_tools_hint(spec))))
        }
        _ if !spec.policy.allows(name) => {
            Err(denied("not_allowed", format!("this agent may not call `{name}`{}", available_tools_hint(spec))))
        }
        PreparedCall::Refused(envelope) => Err(envelope.error.clone().unwrap_or_else(|| {
            ToolError::new(ErrorCode::Unknown, "the call could not be prepared").reason("not_prepared")
        })),
        PreparedCall::Ready(facts) => Ok(facts),
    }
}

fn check_well_formed(call: &CallToDecide<'_>) -> Result<(), ToolError> {
    if call.malformed {
        let message = "the arguments are not valid JSON or are nested too deeply; send one JSON object";
        return Err(ToolError::new(ErrorCode::ValidationError, message).reason("malformed_json"));
    }
    Ok(())
}

fn check_not_repeated(facts: &CallFacts, call: &CallToDecide<'_>) -> Result<(), ToolError> {
    if call.repeat <= REPEAT_WARNING_AT {
        return Ok(());
    }
    let message = format!(
        "`{}` was already called with exactly these arguments and its results are above; use them, change the \
         arguments, or answer",
        facts.name
    );
    Err(denied("suppressed_repeat", message).detail("repeat", call.repeat))
}

fn check_policy(policy: &Policy, facts: &CallFacts, input: &Value) -> Result<(), ToolError> {
    if facts.effects > policy.side_effects {
        let message = match policy.side_effects {
            SideEffects::None => {
                format!("`{}` has side effects, but this agent may call only pure functions", facts.name)
            }
            _ => format!("`{}` writes, but this agent is read-only", facts.name),
        };
        return Err(denied("side_effects", message));
    }
    policy.guardrails.iter().try_for_each(|guardrail| check_guardrail(policy, guardrail, facts, input))
}

fn check_guardrail(policy: &Policy, guardrail: &Guardrail, facts: &CallFacts, input: &Value) -> Result<(), ToolError> {
    match guardrail {
        Guardrail::NoDelete if facts.deletes => {
            Err(denied("no_delete", format!("`{}` deletes, but a guardrail forbids deletions", facts.name)))
        }
        Guardrail::ContentFilter(filter) if filter.checks_input() => match filter.first_broken_rule(input) {
            Some(rule) => Err(content_filter_error("input", rule)),
            None => Ok(()),
        },
        Guardrail::RealmBoundary { realms } => {
            match facts.realms.iter().find(|realm| **realm != policy.realm && !realms.contains(*realm)) {
                Some(realm) => Err(denied(
                    "realm_boundary",
                    format!("`{}` would access realm `{realm}`, which is outside of the realm boundary", facts.name),
                )),
                None => Ok(()),
            }
        }
        // `MaxCost` is checked as a limit of the run. `RequireConfirmation` is checked after all other rules allow the
        // call.
        Guardrail::NoDelete
        | Guardrail::ContentFilter(_)
        | Guardrail::MaxCost { .. }
        | Guardrail::RequireConfirmation { .. } => Ok(()),
    }
}

fn approval_triggers(policy: &Policy, facts: &CallFacts) -> Vec<ApprovalTrigger> {
    let changes = facts.effects == SideEffects::Writes || facts.deletes;
    let guardrail = policy.guardrails.iter().any(|rail| rail.requires_confirmation_for(&facts.name, facts.effects));
    [
        (ApprovalTrigger::Tool, facts.requires_confirmation && !policy.confirmed),
        (ApprovalTrigger::Agent, policy.requires_approval && changes),
        (ApprovalTrigger::Guardrail, guardrail),
    ]
    .into_iter()
    .filter_map(|(trigger, fires)| fires.then_some(trigger))
    .collect()
}

fn content_filters(policy: &Policy) -> impl Iterator<Item = &crate::ContentFilter> {
    policy.guardrails.iter().filter_map(|guardrail| match guardrail {
        Guardrail::ContentFilter(filter) => Some(filter),
        _ => None,
    })
}

fn content_filter_error(side: &str, rule: usize) -> ToolError {
    let message = format!("the {side} breaks rule {rule} of the content filter");
    denied("content_filter", message).detail("side", side).detail("rule", rule)
}

fn available_tools_hint(spec: &RunSpec) -> String {
    let names: Vec<String> =
        spec.request.tools.iter().take(MAX_LISTED_TOOLS).map(|tool| format!("`{}`", tool.name)).collect();
    if names.is_empty() { String::new() } else { format!("; available tools: {}", names.join(", ")) }
}

fn reason_of(envelope: &ToolEnvelope) -> Option<&str> {
    envelope.error.as_ref()?.details.as_ref()?.get("reason")?.as_str()
}
