//! A test harness for a workflow run, with scripted tools and a manual clock.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Value, json};
use toolwright_machine::agent::{
    ApplyOutcome, CallFacts, CallToPrepare, CallToRun, Decision, Effect, Event, EventError, EventKind, PreparedCall,
    RunSpec,
};
use toolwright_machine::workflow::{
    StepReport, StepStatus, WorkflowGraph, WorkflowIssue, WorkflowSource, WorkflowSpec,
};
use toolwright_machine::{AgentRun, Ending, Limits, Policy};
use toolwright_types::{
    CallId, CallMetadata, ErrorCode, ModelRequest, RunId, SideEffects, Timestamp, ToolEnvelope, ToolError,
};

/// The tools of the harness. `save` writes, `put` writes and is idempotent, `pay` needs approval.
pub(crate) const TOOLS: [&str; 4] = ["search", "save", "put", "pay"];

pub(crate) fn at(millis: i64) -> Timestamp {
    Timestamp::from_micros(1_700_000_000_000_000 + millis * 1000)
}

/// A workflow from YAML. The name and the version are added.
pub(crate) fn source(yaml: &str) -> WorkflowSource {
    let mut definition: Value = serde_norway::from_str(yaml).expect("the test has valid YAML");
    definition["refName"] = json!("test_flow");
    let definition = Arc::new(serde_json::from_value(definition).expect("the test has a valid definition"));
    WorkflowSource { definition, registrations: BTreeMap::new(), conditions: BTreeMap::new() }
}

pub(crate) fn issues(yaml: &str) -> Vec<WorkflowIssue> {
    WorkflowGraph::compile(source(yaml)).expect_err("the workflow must not compile")
}

pub(crate) fn graph(yaml: &str) -> Arc<WorkflowGraph> {
    let source = source(yaml);
    Arc::new(WorkflowGraph::compile(source).unwrap_or_else(|issues| panic!("{issues:#?}")))
}

pub(crate) fn workflow(yaml: &str, input: Value) -> WorkflowSpec {
    WorkflowSpec { graph: graph(yaml), input, reused: BTreeMap::new(), only: None }
}

pub(crate) fn run_spec(workflow: WorkflowSpec) -> RunSpec {
    let mut spec = RunSpec::new(RunId::from_bits(7), ModelRequest::none(), Policy::allowing("home", TOOLS));
    spec.limits = Limits {
        max_iterations: u32::MAX,
        max_tool_calls: u32::MAX,
        timeout_ms: None,
        max_tokens: None,
        max_cost_usd: None,
    };
    spec.max_parallel_calls = 16;
    spec.workflow = Some(Arc::new(workflow));
    spec
}

fn facts(tool: &str) -> CallFacts {
    let effects = if tool == "search" { SideEffects::Reads } else { SideEffects::Writes };
    let mut facts = CallFacts::new(tool, "1.0.0", "hash-1", effects);
    facts.idempotent = tool == "put";
    facts.requires_confirmation = tool == "pay";
    facts
}

fn prepare(call: &CallToPrepare) -> PreparedCall {
    if TOOLS.contains(&call.tool.as_str()) {
        return PreparedCall::Ready(Box::new(facts(&call.tool)));
    }
    let error = ToolError::new(ErrorCode::PolicyDenied, "no such tool").reason("unknown_tool");
    PreparedCall::Refused(Box::new(envelope(&call.tool, call.input.clone(), Err(error))))
}

fn envelope(name: &str, input: Value, result: Result<Value, ToolError>) -> ToolEnvelope {
    let (output, error) = match result {
        Ok(output) => (output, None),
        Err(error) => (Value::Null, Some(error)),
    };
    ToolEnvelope {
        call_id: CallId::derive(name, "1.0.0", &input, 0),
        name: name.into(),
        version: "1.0.0".into(),
        input,
        output,
        error,
        t_start: at(0),
        t_end: at(5),
        cached: false,
        truncated: false,
        attachments: Vec::new(),
        metadata: CallMetadata { attempt: 1, ..CallMetadata::default() },
    }
}

/// The envelope of an executed call.
pub(crate) fn envelope_of(call: &CallToRun, result: Result<Value, ToolError>) -> ToolEnvelope {
    ToolEnvelope { call_id: call.call_id.clone(), ..envelope(&call.facts.name, call.input.clone(), result) }
}

pub(crate) fn failure(code: ErrorCode) -> ToolError {
    ToolError::new(code, "it failed")
}

pub(crate) struct Harness {
    pub run: AgentRun,
    pub millis: i64,
    /// The inputs of all calls that were executed, in order, as `tool` and input.
    pub executed: Vec<(String, Value)>,
}

impl Harness {
    pub(crate) fn start(yaml: &str, input: Value) -> Self {
        Self::new(run_spec(workflow(yaml, input)))
    }

    pub(crate) fn new(spec: RunSpec) -> Self {
        Self { run: AgentRun::new(spec, at(0)), millis: 0, executed: Vec::new() }
    }

    pub(crate) fn send(&mut self, kind: EventKind) -> Result<ApplyOutcome, EventError> {
        let event = Event { at: at(self.millis), kind };
        let outcome = self.run.apply(event);
        // A run that is saved and restored after any event continues in the same way.
        let restored = AgentRun::restore(&self.run.save()).expect("a saved run can be restored");
        assert!(restored == self.run, "the restored run differs");
        self.run = restored;
        outcome
    }

    pub(crate) fn apply(&mut self, kind: EventKind) {
        assert_eq!(self.send(kind).unwrap(), ApplyOutcome::Accepted);
    }

    /// Answers all open preparations.
    pub(crate) fn prepare(&mut self) {
        for effect in self.run.pending() {
            match effect {
                Effect::PrepareCalls { iteration, calls } => {
                    self.apply(EventKind::Prepared { iteration, calls: calls.iter().map(prepare).collect() });
                }
                Effect::PrepareAgain { call_id, call } => {
                    self.apply(EventKind::PreparedAgain { call_id, call: prepare(&call) });
                }
                _ => {}
            }
        }
    }

    pub(crate) fn running(&self) -> Vec<CallToRun> {
        let running = |effect| match effect {
            Effect::RunCall(call) => Some(*call),
            _ => None,
        };
        self.run.pending().into_iter().filter_map(running).collect()
    }

    pub(crate) fn end_call(&mut self, call: &CallToRun, result: Result<Value, ToolError>) {
        if call.facts.effects == SideEffects::Writes {
            self.apply(EventKind::Intended { call_id: call.call_id.clone() });
        }
        self.executed.push((call.facts.name.clone(), call.input.clone()));
        self.apply(EventKind::call_ended(envelope_of(call, result)));
    }

    /// Executes calls until the run only waits or has ended. `answer` returns the result of a call.
    pub(crate) fn work(&mut self, mut answer: impl FnMut(&CallToRun) -> Result<Value, ToolError>) -> &mut Self {
        for _ in 0..100_000 {
            self.prepare();
            let Some(call) = self.running().into_iter().next() else { break };
            let result = answer(&call);
            self.end_call(&call, result);
        }
        self
    }

    /// Executes calls that return their input.
    pub(crate) fn echo(&mut self) -> &mut Self {
        self.work(|call| Ok(call.input.clone()))
    }

    /// Lets time pass until the next timer, and fires it.
    pub(crate) fn wake(&mut self) -> i64 {
        let wake_at = self.run.wake_at().expect("the run has a timer");
        let before = self.millis;
        self.millis = (wake_at.as_micros() - at(0).as_micros()) / 1000;
        self.apply(EventKind::TimerFired);
        self.millis - before
    }

    pub(crate) fn decide(&mut self, decision: Decision) {
        let asked = self.run.pending_approvals().remove(0);
        self.apply(EventKind::ApprovalDecided {
            call_id: asked.call_id,
            definition_hash: "hash-1".into(),
            decision,
            decided_by: Some("ann".into()),
            reason: None,
        });
    }

    pub(crate) fn ending(&self) -> &Ending {
        self.run.ending().unwrap_or_else(|| panic!("the run has not ended: {:#?}", self.run.step_reports()))
    }

    pub(crate) fn output(&self) -> &Value {
        assert_eq!(self.ending().message, None);
        self.run.workflow_output()
    }

    pub(crate) fn report(&self, step: &str) -> StepReport {
        self.run.step_reports().into_iter().find(|report| report.name == step).expect("the step exists")
    }

    pub(crate) fn status(&self, step: &str) -> StepStatus {
        self.report(step).status
    }

    /// The statuses of all steps, as `name=STATUS`.
    pub(crate) fn statuses(&self) -> String {
        let statuses =
            self.run.step_reports().into_iter().map(|step| format!("{}={}", step.name, step.status.as_str()));
        statuses.collect::<Vec<_>>().join(" ")
    }
}
