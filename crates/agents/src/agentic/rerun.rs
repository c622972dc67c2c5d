//! Executes a plan that an earlier run of an agentic tool made, or that a person changed.

use std::sync::Arc;

use serde_json::Value;
use toolwright_catalog::Session;
use toolwright_machine::plan::Plan;
use toolwright_runs::{RunHandle, listed_violations};
use toolwright_tools::{CompiledTool, Rejection, Violation};
use toolwright_types::ToolStatus;

use super::AgenticCall;
use crate::error::StartError;
use crate::spec::RunOrigin;
use crate::start::LaunchError;
use crate::{Agents, Unavailable};

impl Agents {
    /// Starts a run of an agentic tool with a known plan. The run calls no model.
    pub async fn start_plan(
        &self,
        session: &Session,
        tool: &Arc<CompiledTool>,
        input: Value,
        plan: Plan,
    ) -> Result<Arc<RunHandle>, StartError> {
        let definition = &tool.definition;
        if !definition.enabled || definition.status == ToolStatus::Blocked {
            return Err(StartError::NoTools(format!("tool `{}` is disabled or blocked", definition.ref_name)));
        }
        let agent = self.embedded_agent(session, tool).await?;
        self.check_capacity()?;
        let input = tool.validate_input(input).await.map_err(|violations| {
            StartError::Input(violations.first().map(Violation::to_string).unwrap_or_default())
        })?;
        let origin = RunOrigin::new(session, Arc::clone(&session.realm), Arc::clone(&session.principal));
        let written = serde_json::to_value(&plan).map_err(|error| StartError::Plan(error.to_string()))?;
        let call = AgenticCall { tool, input: &input, plan: Some(plan.clone()) };
        let draft = Box::pin(self.draft_agentic(&agent, call, origin)).await?;
        let Some(spec) = &draft.start.spec.plan else {
            return Err(StartError::Plan("the tool selects its tools itself, so it has no plans".to_owned()));
        };
        if let Some(issue) = plan.check(spec).first() {
            return Err(StartError::Plan(issue.to_string()));
        }
        if let Some(schema) = &draft.executor.answers.plan {
            schema.validate(&written).await.map_err(|rejection| match rejection {
                Rejection::Mismatch(violations) => StartError::Plan(listed_violations(&violations)),
                Rejection::Unchecked(stopped) => StartError::Plan(format!("the plan cannot be checked: {stopped}")),
            })?;
        }
        self.launch(draft, Vec::new()).await.map_err(|LaunchError::Write(error)| Unavailable::from(error).into())
    }
}
