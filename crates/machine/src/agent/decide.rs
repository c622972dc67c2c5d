//! The decision between the two halves of a call: not at all, after a person agrees, or now.

use serde_json::{Value, json};
use toolwright_types::{ErrorCode, ExecutionSite, SideEffects, ToolEnvelope, ToolError};

use super::desk::denied;
use super::{Facts, Prepared, Spec};
use crate::{Guardrail, Knob, Policy};

/// How many names of tools a refusal lists.
const NAMES_SHOWN: usize = 20;

/// The repeat that is warned about; the one after it is not run any more.
pub(super) const REPEAT_WARNED: u32 = 2;

/// A call to be decided on.
pub(super) struct Question<'a> {
    pub input: &'a Value,
    /// Whether the model's arguments were no JSON.
    pub malformed: bool,
    /// How often the model had asked before, with a result to look at.
    pub repeat: u32,
}

/// The knobs that ask for a confirmation (none: it may run), or why it may not run.
pub(super) fn decide(spec: &Spec, question: &Question<'_>, prepared: &Prepared) -> Result<Vec<Knob>, ToolError> {
    let facts = permitted(spec, prepared).or_else(|error| match error.code {
        // What is no JSON fits no schema either; the first is what the model can act on.
        ErrorCode::ValidationError => well_formed(question).and(Err(error)),
        _ => Err(error),
    })?;
    well_formed(question)?;
    not_again(facts, question)?;
    within_policy(&spec.policy, facts, question.input)?;
    // What is captured does nothing that anyone could mind.
    Ok(if spec.policy.captures { Vec::new() } else { knobs(&spec.policy, facts) })
}

/// Whether a call ends without being made: it would change something, or somebody would have to have a say in it.
pub(super) fn captured(policy: &Policy, facts: &Facts) -> bool {
    let harmless = facts.effects != SideEffects::Writes && !facts.deletes;
    let ours = facts.execution_site == ExecutionSite::Server;
    policy.captures && !(harmless && ours && knobs(policy, facts).is_empty())
}

/// Whether a call that a person agreed to may run; nobody is asked twice.
pub(super) fn decide_again<'a>(spec: &Spec, input: &Value, prepared: &'a Prepared) -> Result<&'a Facts, ToolError> {
    let facts = permitted(spec, prepared)?;
    within_policy(&spec.policy, facts, input)?;
    Ok(facts)
}

/// Why a receipt must not be seen as it is.
pub(super) fn unfit_to_see(policy: &Policy, envelope: &ToolEnvelope) -> Option<ToolError> {
    let error = envelope.error.as_ref().map(|error| json!([error.message, error.details]));
    filters(policy).filter(|filter| filter.sees_output()).find_map(|filter| {
        let rule = filter.breaks_rule(&envelope.output).or_else(|| error.as_ref().and_then(|e| filter.breaks_rule(e)));
        rule.map(|rule| filtered("output", rule))
    })
}

fn permitted<'a>(spec: &Spec, prepared: &'a Prepared) -> Result<&'a Facts, ToolError> {
    let (name, _) = prepared.tool();
    match prepared {
        Prepared::Refused(envelope) if reason_of(envelope) == Some("unknown_tool") => {
            Err(denied("unknown_tool", format!("no tool `{name}`{}", may_call(spec))))
        }
        _ if !spec.policy.enables(name) => {
            Err(denied("not_allowed", format!("this agent may not call `{name}`{}", may_call(spec))))
        }
        Prepared::Refused(envelope) => Err(envelope.error.clone().unwrap_or_else(|| {
            ToolError::new(ErrorCode::Unknown, "the call could not be prepared").reason("not_prepared")
        })),
        Prepared::Ready(facts) => Ok(facts),
    }
}

fn well_formed(question: &Question<'_>) -> Result<(), ToolError> {
    if question.malformed {
        let message = "the arguments are not valid JSON, or nested too deep; send one JSON object";
        return Err(ToolError::new(ErrorCode::ValidationError, message).reason("malformed_json"));
    }
    Ok(())
}

fn not_again(facts: &Facts, question: &Question<'_>) -> Result<(), ToolError> {
    if question.repeat <= REPEAT_WARNED {
        return Ok(());
    }
    let message = format!(
        "`{}` was called with exactly these arguments before, and its results are above; use them, change the \
         arguments, or answer",
        facts.name
    );
    Err(denied("suppressed_repeat", message).detail("repeat", question.repeat))
}

fn within_policy(policy: &Policy, facts: &Facts, input: &Value) -> Result<(), ToolError> {
    if facts.effects > policy.side_effects {
        let message = match policy.side_effects {
            SideEffects::None => format!("`{}` has effects, and this agent may call pure functions only", facts.name),
            _ => format!("`{}` changes something, and this agent is read-only", facts.name),
        };
        return Err(denied("side_effects", message));
    }
    policy.guardrails.iter().try_for_each(|guardrail| within(policy, guardrail, facts, input))
}

fn within(policy: &Policy, guardrail: &Guardrail, facts: &Facts, input: &Value) -> Result<(), ToolError> {
    match guardrail {
        Guardrail::NoDelete if facts.deletes => {
            Err(denied("no_delete", format!("`{}` deletes, which this agent may not", facts.name)))
        }
        Guardrail::ContentFilter(filter) if filter.sees_input() => match filter.breaks_rule(input) {
            Some(rule) => Err(filtered("input", rule)),
            None => Ok(()),
        },
        Guardrail::RealmBoundary { realms } => {
            match facts.realms.iter().find(|realm| **realm != policy.realm && !realms.contains(*realm)) {
                Some(realm) => Err(denied("realm_boundary", format!("`{}` would touch realm `{realm}`", facts.name))),
                None => Ok(()),
            }
        }
        // What a run may cost is one of its limits, and confirmation is asked for after everything is allowed.
        Guardrail::NoDelete
        | Guardrail::ContentFilter(_)
        | Guardrail::MaxCost { .. }
        | Guardrail::RequireConfirmation { .. } => Ok(()),
    }
}

fn knobs(policy: &Policy, facts: &Facts) -> Vec<Knob> {
    let changes = facts.effects == SideEffects::Writes || facts.deletes;
    let guardrail = policy.guardrails.iter().any(|rail| rail.wants_confirmation(&facts.name, facts.effects));
    [
        (Knob::Tool, facts.requires_confirmation && !policy.confirmed),
        (Knob::Agent, policy.requires_approval && changes),
        (Knob::Guardrail, guardrail),
    ]
    .into_iter()
    .filter_map(|(knob, fires)| fires.then_some(knob))
    .collect()
}

fn filters(policy: &Policy) -> impl Iterator<Item = &crate::ContentFilter> {
    policy.guardrails.iter().filter_map(|guardrail| match guardrail {
        Guardrail::ContentFilter(filter) => Some(filter),
        _ => None,
    })
}

fn filtered(side: &str, rule: usize) -> ToolError {
    let message = format!("the {side} breaks rule {rule} of the content filter");
    denied("content_filter", message).detail("side", side).detail("rule", rule)
}

fn may_call(spec: &Spec) -> String {
    let names: Vec<String> =
        spec.request.tools.iter().take(NAMES_SHOWN).map(|tool| format!("`{}`", tool.name)).collect();
    if names.is_empty() { String::new() } else { format!("; there are {}", names.join(", ")) }
}

fn reason_of(envelope: &ToolEnvelope) -> Option<&str> {
    envelope.error.as_ref()?.details.as_ref()?.get("reason")?.as_str()
}
