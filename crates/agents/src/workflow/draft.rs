//! Drafts the run of a workflow: determines its tools, limits and policy.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;
use toolwright_catalog::{
    CompiledWorkflow, Toolset, ToolsetMember, VersionedRef, inline_tool_document, select_version,
};
use toolwright_machine::agent::RunSpec;
use toolwright_machine::journal::RunStart;
use toolwright_machine::workflow::{ReusedStep, WorkflowGraph, WorkflowSpec};
use toolwright_machine::{Limits, Policy};
use toolwright_runs::AnswerSchemas;
use toolwright_tools::Rejection;
use toolwright_types::{ModelRequest, RunId, SideEffects, StepName, WorkflowDefinition, WorkflowLimits};

use super::steps;
use crate::error::StartError;
use crate::spec::{RunDraft, RunOrigin};
use crate::{Agents, Unavailable};

/// A run of a workflow that is about to start.
pub(crate) struct WorkflowCall {
    /// The graph to execute.
    pub graph: Arc<WorkflowGraph>,
    /// The hash of the definition.
    pub definition_hash: String,
    /// The input, which matches the schema of the workflow.
    pub input: Value,
    /// Whether the run is durable. `None` means the setting of the workflow.
    pub durable: Option<bool>,
    /// The results of steps of an earlier run.
    pub reused: BTreeMap<StepName, ReusedStep>,
    /// The only step to execute.
    pub only: Option<StepName>,
    /// The run whose results are reused, and its last entry.
    pub forked_from: Option<(RunId, u64)>,
}

impl WorkflowCall {
    /// Creates a call that executes the whole workflow. Fails if the input does not match the schema of the workflow.
    pub(crate) async fn new(workflow: &CompiledWorkflow, input: Value) -> Result<Self, StartError> {
        Ok(Self {
            graph: Arc::clone(&workflow.graph),
            definition_hash: workflow.document.meta.content_hash.clone(),
            input: checked_input(workflow, input).await?,
            durable: None,
            reused: BTreeMap::new(),
            only: None,
            forked_from: None,
        })
    }
}

/// The tools of a workflow run, as they are recorded in its first entry.
struct StepTools {
    tools: Toolset,
    start: RunStart,
}

impl Agents {
    /// Drafts the run of a workflow.
    pub(crate) async fn draft_workflow(
        &self,
        call: WorkflowCall,
        origin: RunOrigin,
    ) -> Result<Box<RunDraft>, StartError> {
        let WorkflowCall { graph, definition_hash, input, durable, reused, only, forked_from } = call;
        let definition = graph.definition();
        let parent = origin.parent.as_ref();
        // A child run of a durable run is durable too.
        let durable = durable.unwrap_or(definition.durable) || parent.is_some_and(|parent| parent.start.durable);
        let mut spec = RunSpec::new(origin.run, ModelRequest::none(), step_policy(&graph, &origin));
        spec.limits = self.workflow_limits(definition, &origin);
        spec.max_parallel_calls = definition.limits.max_parallel_calls.unwrap_or(WorkflowLimits::MAX_PARALLEL_CALLS);
        spec.approval_wait_ms = u64::try_from(self.0.settings.approval_wait.as_millis()).ok();
        spec.client_wait_ms = u64::try_from(self.0.settings.client_wait.as_millis()).ok();
        spec.workflow = Some(Arc::new(WorkflowSpec { graph: Arc::clone(&graph), input, reused, only }));
        let start = RunStart {
            agent_version: Some(definition.version.to_string()),
            owner: origin.owner.1.clone(),
            durable,
            depth: parent.map_or(0, |parent| parent.start.depth.saturating_add(1)),
            hops: origin.hops,
            correlation: origin.correlation.clone(),
            parent: parent.map(|parent| parent.start.spec.run),
            parent_call: parent.map(|parent| parent.call.clone()),
            session: origin.session.clone(),
            forked_from,
            ..RunStart::new(definition.ref_name.as_str(), definition_hash, origin.principal.name.as_str(), spec)
        };
        let StepTools { tools, start } = self.step_tools(&graph, &origin, start).await?;
        let executor =
            self.0.runs.new_executor(&start, origin.scope(), Arc::new(tools), AnswerSchemas::default()).await;
        Ok(Box::new(RunDraft { origin, executor, start, at: self.0.runs.now(), message: String::new() }))
    }

    /// Finds the tools of the steps. A step whose tool does not exist fails when it runs, so that a workflow can be
    /// started whatever has happened to the tools of its other steps.
    async fn step_tools(
        &self,
        graph: &WorkflowGraph,
        origin: &RunOrigin,
        mut start: RunStart,
    ) -> Result<StepTools, StartError> {
        let mut members: BTreeMap<&str, ToolsetMember> = BTreeMap::new();
        // A step without a version requirement uses the version that another step requires.
        let mut wanted: BTreeMap<&str, Option<&str>> = BTreeMap::new();
        for (name, version) in graph.tools() {
            let known = wanted.entry(name).or_default();
            *known = known.or(version);
        }
        for (name, version) in wanted {
            if let Some(definition) = steps::built_in(name) {
                let tool = self.0.resolver.catalog.compile_without_provider(inline_tool_document(definition.clone()));
                let tool = tool.map_err(|issues| Unavailable::new("a built-in step cannot be compiled", issues))?;
                if tool.starts_run() {
                    start.agentic_tools.insert(name.to_owned());
                }
                start.tool_definitions.push(definition);
                members.insert(name, ToolsetMember::inline(Arc::new(tool), None));
                continue;
            }
            let requirement = version.map(|version| format!("{name}@{version}"));
            let requirement =
                requirement.as_deref().and_then(VersionedRef::parse).and_then(|parsed| parsed.version_req);
            let versions = self.0.resolver.catalog.versions(&origin.realm, name).await?;
            let Some(tool) = select_version(&versions, requirement.as_ref()) else { continue };
            if tool.starts_run() {
                start.agentic_tools.insert(tool.definition.ref_name.to_string());
            }
            if let Some(requirement) = &requirement {
                start.version_requirements.insert(name.to_owned(), requirement.to_string());
            }
            members.insert(name, ToolsetMember::from_catalog(Arc::clone(tool), requirement));
        }
        Ok(StepTools { tools: Toolset::new(members.into_values(), None), start })
    }

    /// Returns the limits of a workflow run. Steps do not count as tool calls.
    fn workflow_limits(&self, definition: &WorkflowDefinition, origin: &RunOrigin) -> Limits {
        let WorkflowLimits { timeout, max_cost_usd, max_tokens, .. } = definition.limits;
        let unlimited = |limits: Limits| Limits { max_iterations: u32::MAX, max_tool_calls: u32::MAX, ..limits };
        let own = Limits {
            max_iterations: u32::MAX,
            max_tool_calls: u32::MAX,
            timeout_ms: timeout.map(|timeout| timeout.0),
            max_tokens,
            max_cost_usd,
        };
        let limits = own.tightest(unlimited(self.0.settings.platform));
        match origin.parent.as_ref().and_then(|parent| parent.allowance) {
            None => limits,
            Some(allowance) => limits.tightest(Limits {
                max_iterations: u32::MAX,
                max_tool_calls: u32::MAX,
                timeout_ms: allowance.time_ms,
                max_tokens: allowance.tokens,
                max_cost_usd: allowance.cost_usd,
            }),
        }
    }
}

/// Returns the policy of a workflow run, with the rules of the parent run.
fn step_policy(graph: &WorkflowGraph, origin: &RunOrigin) -> Policy {
    let definition = graph.definition();
    let tools = graph.tools().map(|(name, _)| name.to_owned());
    let mut policy = Policy::allowing(origin.realm.name.as_str(), tools);
    policy.side_effects = definition.side_effects.unwrap_or(SideEffects::Writes);
    policy.unknown_outcome = definition.on_unknown_outcome.unwrap_or_default();
    origin.restrict(&mut policy);
    policy
}

/// Checks the input of a workflow against its schema. Returns the input with the defaults of the schema.
async fn checked_input(workflow: &CompiledWorkflow, input: Value) -> Result<Value, StartError> {
    let input = if input.is_null() { Value::Object(serde_json::Map::new()) } else { input };
    let Some(schema) = &workflow.input else { return Ok(input) };
    let input = schema.with_defaults(&input).unwrap_or(input);
    schema.try_validate(input).await.map_err(|rejection| match rejection {
        Rejection::Mismatch(violations) => StartError::WorkflowInput(violations),
        Rejection::Unchecked(stopped) => Unavailable::new("the input cannot be checked now", stopped).into(),
    })
}
