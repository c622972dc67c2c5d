//! Drafts the run of an agentic tool.

use std::sync::Arc;

use serde_json::{Map, Value, json};
use toolwright_catalog::{CompiledAgent, Toolset, ToolsetMember, VersionedRef, inline_tool_document};
use toolwright_machine::agent::{APPROVE_PLAN_TOOL, fenced};
use toolwright_machine::journal::AgenticExecution;
use toolwright_machine::plan::{Plan, PlanSpec, SequenceStep};
use toolwright_runs::PlanSchema;
use toolwright_tools::CompiledTool;
use toolwright_types::{AgenticConfig, ExecutionMode, JsonSchema, Message, SideEffects, ToolDefinition, ToolType};

use crate::error::StartError;
use crate::spec::{RunDraft, RunOrigin};
use crate::{Agents, Unavailable};

/// A call to an agentic tool.
pub(crate) struct AgenticCall<'a> {
    pub tool: &'a Arc<CompiledTool>,
    pub input: &'a Value,
    /// A plan to execute without the model.
    pub plan: Option<Plan>,
}

impl Agents {
    /// Drafts the run of an agentic tool.
    pub(crate) async fn draft_agentic(
        &self,
        agent: &Arc<CompiledAgent>,
        call: AgenticCall<'_>,
        origin: RunOrigin,
    ) -> Result<Box<RunDraft>, StartError> {
        let Some(config) = &call.tool.definition.agentic else {
            return Err(StartError::NoTools("the tool has no configuration of its model".to_owned()));
        };
        let mut draft = self.draft_run(agent, origin, Map::new(), task(call.input)).await?;
        let (tool_id, mode, input) = (call.tool.id.clone(), config.execution_mode, call.input.clone());
        draft.start.agentic = Some(Box::new(AgenticExecution { tool_id, mode, input }));
        match config.execution_mode {
            ExecutionMode::Agentic => {
                set_task(&mut draft.start.spec.request.messages, message(call.input));
                prepare_selection(config, &mut draft)?;
            }
            ExecutionMode::Deterministic => self.prepare_plan(config, call, &mut draft).await?,
        }
        Ok(draft)
    }

    /// Prepares the run to execute a plan for the tool's fixed sequence. The model writes the plan, unless the call
    /// contains one.
    async fn prepare_plan(
        &self,
        config: &AgenticConfig,
        call: AgenticCall<'_>,
        draft: &mut RunDraft,
    ) -> Result<(), StartError> {
        let sequence = resolve_sequence(config, &draft.executor.tools)?;
        if config.requires_plan_approval {
            check_no_reserved_name(sequence.iter().map(|(step, _)| step))?;
        }
        let schema = self.0.plan_schemas.get(&sequence).await.map_err(StartError::NoTools)?;
        let start = &mut draft.start;
        start.spec.policy.enabled_tools = sequence.iter().map(|(step, _)| step.tool.clone()).collect();
        if config.requires_plan_approval {
            let definition = approval_tool(schema.source());
            let tool = self.0.resolver.catalog.compile_without_provider(inline_tool_document(definition.clone()));
            let tool = tool.map_err(|issues| Unavailable::new("the plan cannot be shown for approval", issues))?;
            // INVARIANT: the first of several members with the same name is used, so a tool of the realm never replaces
            // the built-in tool.
            let others = draft.executor.tools.members().iter().cloned();
            let members = [ToolsetMember::inline(Arc::new(tool), None)].into_iter().chain(others);
            draft.executor.tools = Arc::new(Toolset::new(members, None));
            start.spec.policy.enabled_tools.insert(APPROVE_PLAN_TOOL.to_owned());
            start.tool_definitions.push(definition);
        }
        start.spec.request.tools = Arc::default();
        let steps: Vec<SequenceStep> = sequence.into_iter().map(|(step, _)| step).collect();
        set_task(&mut start.spec.request.messages, planning_message(call.input, &steps));
        start.spec.plan = Some(Arc::new(PlanSpec {
            sequence: steps,
            schema: schema.source().clone(),
            input: call.input.clone(),
            given: call.plan,
            max_steps: config.safety_limits.steps(),
            max_items: config.safety_limits.items(),
            requires_approval: config.requires_plan_approval,
        }));
        draft.executor.answers.plan = Some(Arc::new(PlanSchema::new(schema)));
        Ok(())
    }
}

/// Checks that there are tools to select from, and adds to the system prompt which of them the model should prefer.
fn prepare_selection(config: &AgenticConfig, draft: &mut RunDraft) -> Result<(), StartError> {
    if draft.executor.tools.members().is_empty() {
        let names: Vec<String> = config.allocated_tools().filter_map(|(_, tool)| tool.map(str::to_owned)).collect();
        return Err(StartError::NoTools(unusable(&names)));
    }
    let mut preferred: Vec<(i32, &str)> = config
        .tool_allocation
        .available_tools
        .iter()
        .filter_map(|entry| Some((entry.priority?, entry.tool()?)))
        .collect();
    preferred.sort_by_key(|(priority, _)| std::cmp::Reverse(*priority));
    if !preferred.is_empty() {
        let names: Vec<&str> = preferred.into_iter().map(|(_, name)| name).collect();
        draft.append_to_system(&format!("If several tools fit, prefer them in this order: {}.", names.join(", ")));
    }
    Ok(())
}

/// Returns the tools of the sequence. If the run cannot use some of them, returns an error with their names.
fn resolve_sequence(
    config: &AgenticConfig,
    tools: &Toolset,
) -> Result<Vec<(SequenceStep, Arc<CompiledTool>)>, StartError> {
    let (mut found, mut missing) = (Vec::new(), Vec::new());
    for entry in &config.tool_allocation.sequence {
        let reference = entry.tool().unwrap_or_default();
        let name = VersionedRef::parse(reference).map_or(reference, |parsed| parsed.name);
        let by_id = || tools.members().iter().find(|member| member.tool.id == name);
        match tools.find(name).or_else(by_id) {
            Some(member) => {
                let tool = member.tool.definition.ref_name.to_string();
                let purpose = entry.purpose.clone().unwrap_or_default();
                found.push((SequenceStep { step: entry.step, tool, purpose }, Arc::clone(&member.tool)));
            }
            None => missing.push(name.to_owned()),
        }
    }
    if missing.is_empty() { Ok(found) } else { Err(StartError::NoTools(unusable(&missing))) }
}

/// Refuses a sequence whose steps would call the built-in tool that asks for the approval of the plan. Definitions that
/// were saved before the name was reserved can have such a step.
fn check_no_reserved_name<'a>(sequence: impl IntoIterator<Item = &'a SequenceStep>) -> Result<(), StartError> {
    match sequence.into_iter().find(|step| step.tool.eq_ignore_ascii_case(APPROVE_PLAN_TOOL)) {
        None => Ok(()),
        Some(step) => Err(StartError::NoTools(format!(
            "the tool of step {} has the reserved name `{APPROVE_PLAN_TOOL}`; rename the tool",
            step.step
        ))),
    }
}

fn unusable(names: &[String]) -> String {
    let names: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
    format!(
        "{} cannot be used: a tool must exist, be enabled and active, be available as TOOL, and the caller must be \
         allowed to execute it",
        names.join(", ")
    )
}

/// The task in the input of a call, and the whole input as JSON unless it has no other fields.
fn task_and_input(input: &Value) -> (Option<&str>, Option<String>) {
    let task = input.get("task").and_then(Value::as_str);
    let others = input.as_object().is_none_or(|fields| fields.len() > usize::from(task.is_some()));
    (task, (others || task.is_none()).then(|| input.to_string()))
}

/// Returns the value of the placeholder for the task, without fences.
fn task(input: &Value) -> String {
    match task_and_input(input) {
        (Some(task), None) => task.to_owned(),
        (Some(task), Some(input)) => format!("{task}\n\nThe whole input, as JSON:\n{input}"),
        (None, input) => input.unwrap_or_default(),
    }
}

/// Returns the user message for a call: the task, and the whole input if the input has other fields.
fn message(input: &Value) -> String {
    match task_and_input(input) {
        (Some(task), None) => task.to_owned(),
        (Some(task), Some(input)) => format!("{task}\n\nThe whole input, as JSON:\n{}", fenced("input", &input)),
        (None, input) => {
            format!("Fulfil the request with this input, as JSON:\n{}", fenced("input", &input.unwrap_or_default()))
        }
    }
}

/// Replaces the last message, which is the task.
fn set_task(messages: &mut Arc<Vec<Message>>, content: String) {
    if let Some(last) = Arc::make_mut(messages).last_mut() {
        *last = Message::User { content };
    }
}

fn planning_message(input: &Value, steps: &[SequenceStep]) -> String {
    let (task, input) = task_and_input(input);
    let input = input.map(|input| fenced("input", &input));
    let request = match (task.map(|task| fenced("user_task", task)), input) {
        (Some(task), None) => format!("this task, as JSON only:\n{task}"),
        (Some(task), Some(input)) => format!("this task, as JSON only:\n{task}\n\nThe whole input, as JSON:\n{input}"),
        (None, input) => format!("a request with this input, as JSON only:\n{}", input.unwrap_or_default()),
    };
    let listed: Vec<String> = steps
        .iter()
        .map(|step| match step.purpose.as_str() {
            "" => format!("{}. {}", step.step, step.tool),
            purpose => format!("{}. {} - {purpose}", step.step, step.tool),
        })
        .collect();
    format!(
        "Write the execution plan for {request}\n\nThe steps, in this order:\n{steps}\n\nRules:\n\
         - `steps` contains one object for each step that the task needs, with `step` and `parameters`. Leave out steps \
         that the task does not need. You cannot add other steps.\n\
         - A parameter may be an expression that refers to the result of an earlier step: `${{steps.1.output.field}}`, \
         `${{steps.1.items}}`, `${{steps.1.items.map(x, x.id)}}`, or to the input: `${{input.task}}`.\n\
         - `forEach` is an expression with a list, for example `${{steps.1.items}}`. The step is then called once for \
         each item, and its parameters refer to it: `${{item.id}}`.\n\
         - `paging` reads all pages of a list: `items` is the list in a page, for example `${{page.results}}`, and `next` \
         has the parameters for the next page, for example {{\"after\": \"${{page.paging.next.after}}\"}}. The items of \
         all pages are then `${{steps.N.items}}`.\n\
         - `when` is a condition; the step is skipped if it is false.\n\
         You get the results of the steps later, and write the final response then.",
        steps = listed.join("\n"),
    )
}

/// The built-in tool that shows a plan to a person. Its input is the plan, and it returns the plan.
fn approval_tool(schema: &Value) -> ToolDefinition {
    #[expect(clippy::expect_used, reason = "the name is a constant; a test starts a run with it")]
    let name = APPROVE_PLAN_TOOL.parse().expect("a valid name");
    let mut definition = ToolDefinition::new(name, ToolType::Function);
    definition.description = Some("Asks a person to approve an execution plan.".to_owned());
    definition.invocation.path = Some("echo".to_owned());
    definition.side_effects = Some(SideEffects::None);
    definition.requires_confirmation = true;
    definition.input_json_schema = Some(JsonSchema(schema.clone()));
    definition.output_json_schema = Some(JsonSchema(json!({})));
    definition
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sequence_with_a_tool_that_has_the_name_of_the_plan_approval_is_refused() {
        let step = |tool: &str| SequenceStep { step: 1, tool: tool.into(), purpose: String::new() };
        assert!(check_no_reserved_name(&[step("save")]).is_ok());
        let refused = check_no_reserved_name(&[step("save"), step("Approve_Plan")]).unwrap_err();
        assert!(matches!(&refused, StartError::NoTools(why) if why.contains("rename the tool")), "{refused}");
    }
}
