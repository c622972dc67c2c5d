//! Executes the workflow with the recorded outputs, and compares the computed inputs with the recorded ones.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use serde_json::Value;
use toolwright_machine::agent::{CallFacts, CallToRun, Effect, Event, EventKind, PreparedCall, RunSpec};
use toolwright_machine::journal::diff::{ValueDifference, differences};
use toolwright_machine::workflow::{WorkflowGraph, WorkflowSource, WorkflowSpec};
use toolwright_machine::{AgentRun, Limits, Policy};
use toolwright_types::{
    CallId, CallMetadata, ModelRequest, RunId, SideEffects, Timestamp, ToolEnvelope, WorkflowDefinition,
};

use super::build::Built;
use super::inputs::{contains_redacted, defaults};
use super::{NotReproduced, NotReproducedReason, Verification};

/// The maximum number of values that are listed.
const MAX_LISTED: usize = 200;
/// The version of the recorded steps.
const VERSION: &str = "1.0.0";

/// Compares the workflow with the run.
pub(super) fn verify(built: &Built) -> Verification {
    let (mut computed, output) = execute(built);
    let mut verification = Verification::default();
    for (step, recorded) in built.definition.steps.iter().zip(&built.recorded) {
        let Some(recorded) = &recorded.input else { continue };
        verification.calls += 1;
        let not_reproduced = match computed.remove(&step.name) {
            Some(input) => compare(Some(&step.name), recorded, &input),
            None => vec![NotReproduced {
                step: Some(step.name.clone()),
                path: String::new(),
                recorded: recorded.clone(),
                computed: Value::Null,
                reason: NotReproducedReason::NotRun,
            }],
        };
        verification.reproduced += usize::from(not_reproduced.is_empty());
        verification.not_reproduced.extend(not_reproduced);
    }
    if let Some(recorded) = &built.output {
        let mut not_reproduced = compare(None, recorded, &output);
        let has_template = built.report.links.iter().any(|link| link.step.is_none());
        if !not_reproduced.is_empty() && !has_template {
            // The output is the outputs of the last steps, which has nothing in common with the recorded output.
            let reason =
                if contains_redacted(recorded) { NotReproducedReason::Redacted } else { NotReproducedReason::NotFound };
            let (recorded, computed) = (recorded.clone(), output);
            not_reproduced = vec![NotReproduced { step: None, path: String::new(), recorded, computed, reason }];
        }
        verification.output_reproduced = Some(not_reproduced.is_empty());
        verification.not_reproduced.extend(not_reproduced);
    }
    verification.not_reproduced.truncate(MAX_LISTED);
    verification
}

fn compare(step: Option<&str>, recorded: &Value, computed: &Value) -> Vec<NotReproduced> {
    let differences = differences(recorded, computed).into_iter();
    let not_reproduced = |ValueDifference { field, expected, got }| NotReproduced {
        step: step.map(str::to_owned),
        path: field,
        reason: match contains_redacted(&expected) {
            true => NotReproducedReason::Redacted,
            false => NotReproducedReason::Differs,
        },
        recorded: expected,
        computed: got,
    };
    differences.map(not_reproduced).collect()
}

/// Executes the workflow with the defaults of its inputs. Returns the input of each step that ran, by name, and the
/// output.
fn execute(built: &Built) -> (HashMap<String, Value>, Value) {
    let mut inputs = HashMap::new();
    let steps = built.definition.steps.iter().zip(&built.recorded);
    let outputs: BTreeMap<&str, &Value> =
        steps.map(|(step, recorded)| (step.name.as_str(), &recorded.output)).collect();
    let Ok(graph) = WorkflowGraph::compile(recorded_source(&built.definition)) else { return (inputs, Value::Null) };
    let mut run = AgentRun::new(spec(graph, &built.definition), Timestamp::from_micros(0));
    // Each step is prepared and executed once.
    for _ in 0..=built.definition.steps.len().saturating_mul(2) {
        let effects = run.next();
        if effects.is_empty() {
            break;
        }
        for kind in effects.into_iter().filter_map(|effect| answer(effect, &outputs, &mut inputs)) {
            if run.apply(Event { at: Timestamp::from_micros(0), kind }).is_err() {
                return (inputs, Value::Null);
            }
        }
    }
    let output = run.workflow_output().clone();
    (inputs, output)
}

/// The workflow with handlers that return the recorded outputs. Each handler has the name of its step.
fn recorded_source(definition: &WorkflowDefinition) -> WorkflowSource {
    let mut definition = definition.clone();
    for step in &mut definition.steps {
        step.handler_ref.clone_from(&step.name);
    }
    WorkflowSource { definition: Arc::new(definition), registrations: BTreeMap::new(), conditions: BTreeMap::new() }
}

fn spec(graph: WorkflowGraph, definition: &WorkflowDefinition) -> RunSpec {
    let policy = Policy::allowing("", definition.steps.iter().map(|step| step.name.as_str()));
    let mut spec = RunSpec::new(RunId::from_bits(0), ModelRequest::none(), policy);
    spec.limits = Limits {
        max_iterations: u32::MAX,
        max_tool_calls: u32::MAX,
        timeout_ms: None,
        max_tokens: None,
        max_cost_usd: None,
    };
    let input = defaults(definition.input_schema.as_ref());
    spec.workflow = Some(Arc::new(WorkflowSpec { graph: Arc::new(graph), input, reused: BTreeMap::new(), only: None }));
    spec
}

/// Answers an effect with the recording.
fn answer(effect: Effect, outputs: &BTreeMap<&str, &Value>, inputs: &mut HashMap<String, Value>) -> Option<EventKind> {
    match effect {
        Effect::PrepareCalls { iteration, calls } => {
            let facts = |step: &str| CallFacts::new(step, VERSION, "", SideEffects::Reads);
            let calls = calls.iter().map(|call| PreparedCall::Ready(Box::new(facts(&call.tool)))).collect();
            Some(EventKind::Prepared { iteration, calls })
        }
        Effect::RunCall(call) => {
            let CallToRun { call_id, input, facts, .. } = *call;
            let output = outputs.get(facts.name.as_str()).copied().cloned().unwrap_or_default();
            let envelope = envelope(call_id, &facts.name, input.clone(), output);
            inputs.insert(facts.name, input);
            Some(EventKind::call_ended(envelope))
        }
        _ => None,
    }
}

fn envelope(call_id: CallId, name: &str, input: Value, output: Value) -> ToolEnvelope {
    ToolEnvelope {
        call_id,
        name: name.to_owned(),
        version: VERSION.to_owned(),
        input,
        output,
        error: None,
        t_start: Timestamp::from_micros(0),
        t_end: Timestamp::from_micros(0),
        cached: false,
        truncated: false,
        attachments: Vec::new(),
        metadata: CallMetadata::default(),
    }
}
