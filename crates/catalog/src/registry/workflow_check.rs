//! Checks the steps of a workflow against the definitions that they refer to: tools, agents, other workflows, step
//! registrations and condition bindings.

use std::collections::HashMap;

use serde_json::{Map, Value, json};
use toolwright_machine::workflow::{GraphStep, HandlerKind, IssueSeverity, StepSchemas, WorkflowIssue};
use toolwright_tools::CompiledTool;
use toolwright_types::{
    AgentDefinition, Document, Surface, ToolStatus, WorkflowDefinition, WorkflowStep, closest_name, step_handlers,
};

use super::ValidationContext;
use crate::Unavailable;
use crate::catalog::select_version;
use crate::toolset::VersionedRef;
use crate::workflow::CompiledWorkflow;

/// Checks the steps of a workflow. Returns all errors and warnings.
pub(super) async fn check_steps(
    workflow: &WorkflowDefinition,
    context: &ValidationContext<'_>,
) -> Result<Vec<WorkflowIssue>, Unavailable> {
    let document = Document::unsaved(workflow.ref_name.clone(), workflow.clone());
    let CompiledWorkflow { graph, .. } = match context.catalog.compile_workflow(context.realm, document).await? {
        Ok(compiled) => compiled,
        Err(issues) => return Ok(issues),
    };
    let mut check = StepCheck { context, issues: graph.warnings().to_vec(), schemas: HashMap::new() };
    for (at, (step, definition)) in (0_u32..).zip(graph.steps().iter().zip(&workflow.steps)) {
        check.step(at, step, definition).await?;
    }
    check.versions(&graph.tools().collect::<Vec<_>>());
    let StepCheck { mut issues, schemas, .. } = check;
    let types = toolwright_budget::offload(move || graph.check_types(&schemas)).await;
    issues.extend(types.map_err(|stopped| Unavailable::new("the workflow cannot be checked now", stopped))?);
    Ok(issues)
}

struct StepCheck<'a> {
    context: &'a ValidationContext<'a>,
    issues: Vec<WorkflowIssue>,
    schemas: HashMap<u32, StepSchemas>,
}

impl StepCheck<'_> {
    async fn step(&mut self, at: u32, step: &GraphStep, definition: &WorkflowStep) -> Result<(), Unavailable> {
        let HandlerKind::Call { tool, version } = &step.kind else { return Ok(()) };
        let literal = |field: &str| {
            let text = definition.input.as_ref()?.get(field)?.as_str()?;
            (!text.contains("${")).then_some(text)
        };
        let path = format!("/steps/{at}");
        match tool.as_str() {
            step_handlers::INVOKE_AGENT => {
                if let Some(name) = literal("agentRef") {
                    self.agent(at, &path, name).await?;
                }
            }
            step_handlers::EXECUTE_WORKFLOW => {
                if let Some(name) = literal("workflowRef") {
                    self.workflow(at, &path, name).await?;
                }
            }
            built_in if built_in.starts_with(step_handlers::PREFIX) => {}
            name => self.tool(at, &path, step, name, version.as_deref(), &definition.handler_ref).await?,
        }
        Ok(())
    }

    async fn tool(
        &mut self,
        at: u32,
        path: &str,
        step: &GraphStep,
        name: &str,
        version: Option<&str>,
        handler: &str,
    ) -> Result<(), Unavailable> {
        let path = format!("{path}/handlerRef");
        let versions = self.context.catalog.versions(self.context.realm, name).await?;
        if versions.is_empty() {
            let issue =
                WorkflowIssue::error("unknown_tool", path, format!("no tool or step registration `{name}` exists"));
            let all = self.context.catalog.tools(self.context.realm).await?;
            let closest = closest_name(name, all.iter().map(|tool| tool.definition.ref_name.as_str()));
            self.issues.push(match closest {
                Some(name) => issue.hint(format!("did you mean `{name}`?")),
                None => issue.hint("create it first, or enable the step registration"),
            });
            return Ok(());
        }
        let reference = version.map_or_else(|| name.to_owned(), |version| format!("{name}@{version}"));
        let Some(parsed) = VersionedRef::parse(&reference) else {
            let message = format!("`{handler}` must have a version requirement such as `{name}@^1.2`");
            self.issues.push(WorkflowIssue::error("invalid_version", path, message));
            return Ok(());
        };
        let Some(tool) = select_version(&versions, parsed.version_req.as_ref()) else {
            let known: Vec<String> = versions.iter().map(|tool| tool.definition.version.to_string()).collect();
            let message = format!("tool `{name}` has no version that matches `{}`", version.unwrap_or("*"));
            let issue = WorkflowIssue::error("no_version", path, message);
            self.issues.push(issue.hint(format!("its versions are {}", known.join(", "))));
            return Ok(());
        };
        self.issues.extend(lifecycle_issue(&path, tool));
        if !tool.definition.available_as.contains(&Surface::WorkflowStep) {
            let message = format!("tool `{name}` is not available to workflows");
            let issue = WorkflowIssue::error("not_available", path, message);
            self.issues.push(issue.hint("add `workflowStep` to its `availableAs`"));
        }
        let output = (!step.has_output_mapping()).then(|| tool.output.source().clone());
        self.schemas.insert(at, StepSchemas { input: Some(tool.input.source().clone()), output });
        Ok(())
    }

    async fn agent(&mut self, at: u32, path: &str, name: &str) -> Result<(), Unavailable> {
        let path = format!("{path}/input/agentRef");
        let Some(agent) = self.context.catalog.agent(self.context.realm, name).await? else {
            let message = format!("no agent `{name}` exists yet, so the step fails");
            self.issues.push(WorkflowIssue::warning("unknown_agent", path, message).hint("create it"));
            return Ok(());
        };
        let definition = &agent.document.body;
        let warning = match (definition.enabled, definition.status) {
            (false, _) => Some("is disabled"),
            (true, ToolStatus::Blocked) => Some("is blocked"),
            (true, ToolStatus::Deprecated) => Some("is deprecated"),
            (true, ToolStatus::Active | ToolStatus::Draft) => None,
        };
        self.issues.extend(warning.map(|what| {
            let message = format!("agent `{}@{}` {what}", definition.ref_name, definition.version);
            WorkflowIssue::warning("agent_status", path, message)
        }));
        self.schemas.insert(at, StepSchemas { input: None, output: Some(agent_output(definition)) });
        Ok(())
    }

    async fn workflow(&mut self, at: u32, path: &str, name: &str) -> Result<(), Unavailable> {
        let path = format!("{path}/input/workflowRef");
        let versions = self.context.catalog.workflow_versions(self.context.realm, name).await?;
        let requirement = VersionedRef::parse(name).and_then(|parsed| parsed.version_req);
        let Some(found) = select_version(&versions, requirement.as_ref()) else {
            if self.context.is_written_workflow(name) {
                return Ok(());
            }
            // Two workflows may call each other, so one of them is saved before the other exists.
            let message = format!("no workflow `{name}` exists yet, so the step fails");
            self.issues.push(WorkflowIssue::warning("unknown_workflow", path, message).hint("create it"));
            return Ok(());
        };
        self.schemas.insert(at, StepSchemas { input: None, output: found.body.output_schema.clone() });
        Ok(())
    }

    /// Reports tools that steps require in different versions. A run uses one version of each tool, so a step without a
    /// requirement uses the version that another step requires.
    fn versions(&mut self, tools: &[(&str, Option<&str>)]) {
        let mut seen: HashMap<&str, &str> = HashMap::new();
        for (name, version) in tools.iter().filter_map(|(name, version)| Some((*name, (*version)?))) {
            let first = *seen.entry(name).or_insert(version);
            if first != version {
                let message = format!("steps require the versions `{first}` and `{version}` of tool `{name}`");
                let issue = WorkflowIssue::error("two_versions", "/steps", message);
                self.issues.push(issue.hint("use the same version requirement in all steps"));
            }
        }
    }
}

fn lifecycle_issue(path: &str, tool: &CompiledTool) -> Option<WorkflowIssue> {
    let definition = &tool.definition;
    let name = format!("tool `{}@{}`", definition.ref_name, definition.version);
    let (severity, code, message) = match (definition.enabled, definition.status) {
        (_, ToolStatus::Blocked) => (IssueSeverity::Error, "blocked_tool", format!("{name} is blocked")),
        (_, ToolStatus::Deprecated) => (IssueSeverity::Warning, "deprecated_tool", format!("{name} is deprecated")),
        (_, ToolStatus::Draft) => (IssueSeverity::Warning, "draft_tool", format!("{name} is a draft")),
        (false, ToolStatus::Active) => (IssueSeverity::Warning, "disabled_tool", format!("{name} is disabled")),
        (true, ToolStatus::Active) => return None,
    };
    let issue = WorkflowIssue { severity, ..WorkflowIssue::error(code, path, message) };
    Some(issue.hint("use another version or tool"))
}

/// The schema of the output of an agent step. The fields are the same for every agent, except the names of the pins.
fn agent_output(agent: &AgentDefinition) -> Value {
    let pins: Map<String, Value> = agent.pins.iter().map(|pin| (pin.name.to_string(), json!({}))).collect();
    json!({
        "type": "object",
        "properties": {
            "response": { "type": "string" },
            "tools_by_id": { "type": "object" },
            "tool_order": { "type": "array" },
            "last_tool": {},
            "traces_url": { "type": ["string", "null"] },
            "status": { "type": "string" },
            "reason": { "type": ["string", "null"] },
            "runId": { "type": "string" },
            "outputContext": {},
            "pins": { "type": "object", "properties": pins, "additionalProperties": false },
            "usage": { "type": "object" },
            "toolCallsUsed": { "type": "integer" },
        },
        "additionalProperties": false,
    })
}
