//! The recorded run.

use std::collections::{BTreeMap, HashMap};

use serde_json::{Map, Value, json};
use toolwright_machine::agent::{CallFacts, EventKind, PreparedCall};
use toolwright_machine::journal::{Entry, EntryBody, ReplayError, Replayer, RunStart};
use toolwright_machine::{AgentRun, view};
use toolwright_types::{CallId, Message, RunId, SideEffects, ToolEnvelope, step_handlers};

use super::{LeftOutCall, LeftOutReason, MAX_CALLS, MaterializeError, Selection};

/// The field of the input that has the message of the user, if the run is an agent's run.
pub(super) const USER_MESSAGE: &str = "userMessage";
/// The field of the output that has the answer of an agent.
pub(super) const RESPONSE: &str = "response";
/// The field of the output that has the answer of an agent as data.
pub(super) const OUTPUT_CONTEXT: &str = "outputContext";

/// A recorded run that has ended.
#[derive(Debug, Clone, PartialEq)]
pub struct SourceRun {
    /// The id of the run.
    pub run: RunId,
    /// The agent, tool or workflow that the run executed.
    pub subject: String,
    /// The agent, if the run is an agent's run.
    pub agent: Option<SourceAgent>,
    /// The input of the run, by field. Empty if the run has no input of its own.
    pub input: Map<String, Value>,
    /// The calls, in the order in which they were started or refused.
    pub calls: Vec<SourceCall>,
    /// The output of the run.
    pub output: Value,
}

/// The agent of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SourceAgent {
    /// The name of the agent with its exact version, such as `clerk@=1.2.0`.
    pub agent_ref: String,
    /// The message of the user.
    pub message: String,
}

/// A recorded call.
#[derive(Debug, Clone, PartialEq)]
pub struct SourceCall {
    /// The envelope.
    pub envelope: ToolEnvelope,
    /// The side effects of the call. A call that starts a run counts as a write, because the tools of that run may write.
    pub side_effects: SideEffects,
    /// The number of the batch. The input of a call depends only on the outputs of calls of earlier batches.
    pub batch: u32,
    /// Whether the tool is an agent.
    pub is_agent: bool,
}

impl SourceRun {
    /// Reads a run from the entries of its journal.
    pub fn from_entries(entries: Vec<Entry>) -> Result<Self, ReplayError> {
        let mut entries = entries.into_iter();
        let mut replayer = Replayer::new(entries.next().ok_or(ReplayError::MissingStart)?, None)?;
        let mut facts = Facts::default();
        let mut replies = 0_u32;
        let mut known = 0;
        let mut batches: HashMap<CallId, u32> = HashMap::new();
        for entry in entries {
            match &entry.body {
                EntryBody::Event(EventKind::ModelReplied { .. }) => replies = replies.saturating_add(1),
                EntryBody::Event(EventKind::Prepared { calls, .. }) => calls.iter().for_each(|call| facts.add(call)),
                EntryBody::Event(EventKind::PreparedAgain { call, .. }) => facts.add(call),
                _ => {}
            }
            replayer.apply(entry)?;
            for envelope in replayer.run().envelopes_after(known) {
                batches.insert(envelope.call_id.clone(), replies);
                known += 1;
            }
        }
        let (start, run) = replayer.finish();
        Ok(Self::new(&start, &run, &facts, &batches))
    }

    fn new(start: &RunStart, run: &AgentRun, facts: &Facts, replies: &HashMap<CallId, u32>) -> Self {
        let outputs = run.outputs();
        let agent = agent_of(start);
        let envelopes: Vec<&ToolEnvelope> = outputs.in_order().collect();
        let batches = match &agent {
            Some(_) => envelopes.iter().map(|one| replies.get(&one.call_id).copied().unwrap_or_default()).collect(),
            None => batches_by_time(&envelopes),
        };
        let starts_run = |name: &str| {
            start.delegates.contains(name)
                || start.agentic_tools.contains(name)
                || name.starts_with(step_handlers::PREFIX)
        };
        let calls = envelopes.into_iter().zip(batches).map(|(envelope, batch)| SourceCall {
            side_effects: match starts_run(&envelope.name) {
                true => SideEffects::Writes,
                false => facts.effects(&envelope.name, &envelope.version),
            },
            batch,
            is_agent: start.delegates.contains(&envelope.name),
            envelope: envelope.clone(),
        });
        Self {
            run: run.id(),
            subject: start.subject.clone(),
            input: input_of(start, agent.as_ref()),
            calls: calls.collect(),
            output: output_of(start, run),
            agent,
        }
    }
}

/// What was known about the tools when their calls were prepared.
#[derive(Default)]
struct Facts(BTreeMap<(String, String), SideEffects>);

impl Facts {
    fn add(&mut self, call: &PreparedCall) {
        if let PreparedCall::Ready(facts) = call {
            let CallFacts { name, version, effects, .. } = &**facts;
            self.0.insert((name.clone(), version.clone()), *effects);
        }
    }

    /// The side effects of a tool. A call about which nothing is known may have written.
    fn effects(&self, name: &str, version: &str) -> SideEffects {
        let known = self.0.get(&(name.to_owned(), version.to_owned()));
        known.copied().unwrap_or(SideEffects::Writes)
    }
}

fn agent_of(start: &RunStart) -> Option<SourceAgent> {
    let is_agent = start.spec.uses_model() && !start.direct && start.agentic.is_none() && start.composite.is_none();
    if !is_agent {
        return None;
    }
    let message = start.spec.request.messages.iter().rev().find_map(|message| match message {
        Message::User { content } => Some(content.clone()),
        _ => None,
    });
    let agent_ref = match &start.agent_version {
        Some(version) => format!("{}@={version}", start.subject),
        None => start.subject.clone(),
    };
    Some(SourceAgent { agent_ref, message: message.unwrap_or_default() })
}

fn input_of(start: &RunStart, agent: Option<&SourceAgent>) -> Map<String, Value> {
    let input = match (agent, &start.agentic, &start.spec.workflow) {
        (Some(agent), _, _) => json!({ USER_MESSAGE: agent.message }),
        (None, Some(agentic), _) => agentic.input.clone(),
        (None, None, Some(workflow)) => workflow.input.clone(),
        (None, None, None) => Value::Null,
    };
    match input {
        Value::Object(fields) => fields,
        _ => Map::new(),
    }
}

/// The output of a run, as a workflow in its place returns it.
fn output_of(start: &RunStart, run: &AgentRun) -> Value {
    if start.spec.workflow.is_some() {
        return run.workflow_output().clone();
    }
    let outputs = run.outputs();
    if start.direct {
        return outputs.last_tool.map(|envelope| envelope.output).unwrap_or_default();
    }
    match view::agent_response(run, &outputs).output_context {
        Some(data) => json!({ OUTPUT_CONTEXT: data }),
        None => json!({ RESPONSE: outputs.response }),
    }
}

/// Numbers the batches of a run in which no model requests the calls. A call that started after all calls before it had
/// ended begins a new batch.
fn batches_by_time(envelopes: &[&ToolEnvelope]) -> Vec<u32> {
    let mut batch = 0_u32;
    let mut ends = None;
    let number = |envelope: &&ToolEnvelope| {
        if ends.is_some_and(|ends| envelope.t_start >= ends) {
            batch += 1;
        }
        ends = ends.max(Some(envelope.t_end));
        batch
    };
    envelopes.iter().map(number).collect()
}

/// The calls that are materialized, and the calls that are left out.
#[derive(Debug)]
pub(super) struct Selected<'a> {
    pub calls: Vec<&'a SourceCall>,
    pub left_out: Vec<LeftOutCall>,
    /// Whether the calls are all successful calls of the run.
    pub whole_run: bool,
}

/// Selects the calls to materialize.
pub(super) fn select<'a>(source: &'a SourceRun, selection: &Selection) -> Result<Selected<'a>, MaterializeError> {
    let run = source.run;
    if source.calls.is_empty() {
        return Err(MaterializeError::NoCalls(run));
    }
    let (calls, left_out) = match selection {
        Selection::All => {
            let (calls, failed): (Vec<_>, Vec<_>) =
                source.calls.iter().enumerate().partition(|(_, call)| call.envelope.is_success());
            let left_out = failed.into_iter().filter_map(|(at, call)| left_out(source, at, call)).collect();
            (calls.into_iter().map(|(_, call)| call).collect::<Vec<_>>(), left_out)
        }
        Selection::Calls(ids) => {
            for id in ids {
                let call = source.calls.iter().find(|call| call.envelope.call_id == *id);
                let call = call.ok_or_else(|| MaterializeError::UnknownCall { run, call: id.clone() })?;
                if call.envelope.version.is_empty() {
                    return Err(MaterializeError::NoTool(id.clone()));
                }
            }
            (source.calls.iter().filter(|call| ids.contains(&call.envelope.call_id)).collect(), Vec::new())
        }
    };
    match calls.len() {
        0 => Err(MaterializeError::OnlyFailedCalls(run)),
        1..=MAX_CALLS => Ok(Selected { calls, left_out, whole_run: *selection == Selection::All }),
        count => Err(MaterializeError::TooManyCalls(count)),
    }
}

fn left_out(source: &SourceRun, at: usize, call: &SourceCall) -> Option<LeftOutCall> {
    let envelope = &call.envelope;
    let error = envelope.error.as_ref()?;
    let later = source.calls.iter().skip(at).map(|call| &call.envelope);
    let retried = later.into_iter().any(|later| later.name == envelope.name && later.is_success());
    let reason = if retried { LeftOutReason::Retried } else { LeftOutReason::Failed };
    Some(LeftOutCall { call_id: envelope.call_id.clone(), tool: envelope.name.clone(), reason, code: error.code })
}
