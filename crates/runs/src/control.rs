//! The commands that a session can send to a run: decide on an approval, return client results, send a signal, pause,
//! resume, cancel.

use std::sync::Arc;

use serde_json::Value;
use toolwright_authz::Action;
use toolwright_catalog::Session;
use toolwright_machine::agent::{APPROVE_PLAN_TOOL, ClientResult, Decision};
use toolwright_tools::{Rejection, Schema};
use toolwright_types::{CallId, RealmScope, RunId};

use super::command::{CommandError, RunCommand};
use super::{Inner, PlanSchema, RunHandle, RunKind, RunSnapshot, Runs};

impl Runs {
    /// Decides on a call that waits for an approval. `reason` explains an approval or an edit. A denial contains its
    /// own reason.
    pub async fn decide(
        &self,
        session: &Session,
        run: RunId,
        call_id: CallId,
        decision: Decision,
        reason: Option<String>,
    ) -> Result<AcceptedCommand, CommandError> {
        if !matches!(decision, Decision::Deny { .. }) {
            self.still_enabled(session, run).await?;
        }
        if let Decision::Edit { input } = &decision {
            self.check_edit(session, run, &call_id, input).await?;
        }
        let decided_by = session.principal.name.to_string();
        self.command(session, run, RunCommand::Decide { call_id, decision, decided_by, reason }).await
    }

    /// Passes the results of client tools to the run that waits for them.
    pub async fn return_results(
        &self,
        session: &Session,
        run: RunId,
        results: Vec<(CallId, ClientResult)>,
    ) -> Result<AcceptedCommand, CommandError> {
        self.command(session, run, RunCommand::Return(results)).await
    }

    /// Cancels a run and its children.
    pub async fn cancel(&self, session: &Session, run: RunId) -> Result<AcceptedCommand, CommandError> {
        let message = Some(format!("cancelled by `{}`", session.principal.name));
        self.command(session, run, RunCommand::Cancel { message }).await
    }

    /// Sends a signal to a workflow. A step that waits for the signal, now or later, receives the payload.
    pub async fn signal(
        &self,
        session: &Session,
        run: RunId,
        name: String,
        payload: Value,
    ) -> Result<AcceptedCommand, CommandError> {
        let sent_by = session.principal.name.to_string();
        self.command(session, run, RunCommand::Signal { name, payload, sent_by }).await
    }

    /// Pauses a workflow: the calls in progress end, and nothing else starts.
    pub async fn pause(&self, session: &Session, run: RunId) -> Result<AcceptedCommand, CommandError> {
        let by = session.principal.name.to_string();
        self.command(session, run, RunCommand::Pause { by }).await
    }

    /// Resumes a paused workflow.
    pub async fn resume(&self, session: &Session, run: RunId) -> Result<AcceptedCommand, CommandError> {
        let by = session.principal.name.to_string();
        self.command(session, run, RunCommand::Resume { by }).await
    }

    /// Returns an error if the agent of the run is disabled.
    async fn still_enabled(&self, session: &Session, run: RunId) -> Result<(), CommandError> {
        let row = self.permitted(session, run, Action::Execute).await?;
        if row.kind != RunKind::Agent {
            return Ok(());
        }
        match self.0.resolver.catalog.agent(&session.realm, &row.subject).await? {
            Some(agent) if !agent.is_runnable() => Err(CommandError::Disabled(row.subject)),
            _ => Ok(()),
        }
    }

    /// Checks the input with which a person wants to replace the input of a call, so that an invalid input does not
    /// use up the approval. A call whose tool is not in the catalog in the approved version is checked later.
    async fn check_edit(
        &self,
        session: &Session,
        run: RunId,
        call_id: &CallId,
        input: &Value,
    ) -> Result<(), CommandError> {
        self.permitted(session, run, Action::Execute).await?;
        let RunSnapshot { start, run: machine } = &*self.0.load(&session.realm, run).await?.snapshot;
        let Some(asked) = machine.pending_approvals().into_iter().find(|asked| asked.call_id == *call_id) else {
            return Ok(());
        };
        let violations = match &start.spec.plan {
            Some(plan) if asked.tool == APPROVE_PLAN_TOOL => {
                let Ok(schema) = Schema::compile_large(plan.schema.clone()).await else { return Ok(()) };
                match PlanSchema::new(Arc::new(schema)).validate(input).await {
                    Err(Rejection::Mismatch(violations)) => violations,
                    Ok(()) | Err(Rejection::Unchecked(_)) => Vec::new(),
                }
            }
            _ => {
                let realm = self.0.acting_realm(start, &session.realm).await?;
                let versions = self.0.resolver.catalog.versions(&realm, &asked.tool).await?;
                let shown = versions.iter().find(|tool| tool.content_hash == asked.definition_hash);
                // The names in an input are replaced by ids before the input is validated.
                match shown.filter(|tool| tool.definition.resolve.is_empty()) {
                    Some(tool) => tool.validate_input(input.clone()).await.err().unwrap_or_default(),
                    None => Vec::new(),
                }
            }
        };
        if violations.is_empty() {
            Ok(())
        } else {
            Err(CommandError::InvalidInput { call_id: call_id.clone(), violations })
        }
    }

    async fn command(
        &self,
        session: &Session,
        run: RunId,
        command: RunCommand,
    ) -> Result<AcceptedCommand, CommandError> {
        let row = self.permitted(session, run, Action::Execute).await?;
        if row.state.status.is_terminal() {
            return Err(CommandError::Ended(row.state.status.to_string()));
        }
        let handle = self.0.registry.get_or_insert(run);
        self.0.send(&handle, &session.realm, command).await?;
        Ok(AcceptedCommand { shared: Arc::clone(&self.0), handle, home: Arc::clone(&session.realm) })
    }
}

/// A run that accepted a command.
pub struct AcceptedCommand {
    shared: Arc<Inner>,
    handle: Arc<RunHandle>,
    /// The realm that stores the run.
    home: Arc<RealmScope>,
}

impl AcceptedCommand {
    /// Waits until the run ends or is suspended, and returns its snapshot. Returns `None` if the driver stopped before
    /// that.
    pub async fn settled(self) -> Option<Arc<RunSnapshot>> {
        self.shared.settled(&self.handle, &self.home).await
    }
}
