//! The commands that a session can send to a run: decide on an approval, return client results, cancel.

use std::sync::Arc;

use toolwright_authz::Action;
use toolwright_catalog::Session;
use toolwright_machine::agent::{ClientResult, Decision};
use toolwright_types::{CallId, RealmScope, RunId};

use super::command::{CommandError, RunCommand};
use super::{Inner, RunHandle, RunKind, RunSnapshot, Runs};

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
