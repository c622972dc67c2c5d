//! Reads effects across runs, and sets the outcome of writes whose outcome is unknown.

use std::fmt;
use std::str::FromStr;

use toolwright_authz::Action;
use toolwright_catalog::{Session, Unavailable};
use toolwright_store::{Page, Resolution};
use toolwright_types::{CallId, RunId};

use super::{CommandError, EffectCursor, EffectOutcome, EffectQuery, EffectRecord, Runs};

/// The id of an effect: the id of the run and the id of the call, separated by a dot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EffectId {
    /// The id of the run that made the call.
    pub run: RunId,
    /// The id of the call.
    pub call_id: CallId,
}

impl fmt::Display for EffectId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.run, self.call_id)
    }
}

impl FromStr for EffectId {
    type Err = EffectError;

    fn from_str(text: &str) -> Result<Self, EffectError> {
        let parse = || {
            let (run, call) = text.split_once('.')?;
            let call_id = serde_json::from_value(call.into()).ok()?;
            Some(Self { run: run.parse().ok()?, call_id })
        };
        parse().ok_or_else(|| EffectError::NotFound(text.to_owned()))
    }
}

/// Why an effect cannot be read or resolved.
#[derive(Debug, thiserror::Error)]
pub enum EffectError {
    /// The effect does not exist, or the principal may not see it.
    #[error("there is no effect `{0}`")]
    NotFound(String),
    /// The outcome of the effect is already known.
    #[error("the outcome of effect `{id}` is `{outcome}`; only an unknown outcome can be resolved")]
    OutcomeKnown {
        /// The effect.
        id: EffectId,
        /// The known outcome.
        outcome: &'static str,
    },
    /// The run still waits for a decision on the call. The decision determines the outcome.
    #[error("run `{}` waits for a decision on call `{}`; approve it to repeat the write, or deny it", .0.run, .0.call_id)]
    DecisionPending(EffectId),
    /// The run cannot be read, or the principal lacks the permission.
    #[error(transparent)]
    Run(#[from] CommandError),
    /// The database failed.
    #[error(transparent)]
    Unavailable(#[from] Unavailable),
}

impl Runs {
    /// A page of effects. If the session may not read all runs, the page contains only effects of the runs that its
    /// principal started.
    pub async fn effects(
        &self,
        session: &Session,
        query: EffectQuery,
    ) -> Result<Page<EffectRecord, EffectCursor>, Unavailable> {
        Ok(self.0.store.runs(&session.realm).effects(self.visible_owners(session), &query).await?)
    }

    /// Returns an effect that the session may read.
    pub async fn effect(&self, session: &Session, id: &EffectId) -> Result<EffectRecord, EffectError> {
        let owners = self.visible_owners(session);
        let found = self.0.store.runs(&session.realm).effect(owners, id.run, &id.call_id).await;
        found.map_err(Unavailable::from)?.ok_or_else(|| EffectError::NotFound(id.to_string()))
    }

    /// Returns the ids of the calls of a run whose writes an undo run has compensated.
    pub async fn undone_calls(&self, session: &Session, run: RunId) -> Result<Vec<CallId>, Unavailable> {
        Ok(self.0.store.runs(&session.realm).undone_calls(run).await?)
    }

    /// Sets the outcome of a write whose outcome is unknown. A principal that may decide on the approvals of the run
    /// may set the outcome. The journal of the run does not change, because the run has ended, or the machine already
    /// has a result for the call. While the run waits for a decision on the call, the outcome cannot be set: the
    /// decision determines it.
    pub async fn resolve_effect(
        &self,
        session: &Session,
        id: &EffectId,
        outcome: EffectOutcome,
        note: Option<String>,
    ) -> Result<EffectRecord, EffectError> {
        self.effect(session, id).await?;
        let row = self.permitted(session, id.run, Action::Execute).await?;
        if !row.state.status.is_terminal() {
            let loaded = self.0.load(&session.realm, id.run).await?;
            let waits = loaded.snapshot.run.pending_approvals();
            if waits.iter().any(|request| request.call_id == id.call_id) {
                return Err(EffectError::DecisionPending(id.clone()));
            }
        }
        let resolution = Resolution { by: session.principal.name.to_string(), at: self.now(), note };
        let runs = self.0.store.runs(&session.realm);
        let resolved = runs.resolve_effect(id.run, &id.call_id, outcome, &resolution).await;
        let resolved = resolved.map_err(Unavailable::from)?;
        let record = self.effect(session, id).await?;
        match resolved {
            true => Ok(record),
            false => Err(EffectError::OutcomeKnown { id: id.clone(), outcome: record.effect.outcome.as_str() }),
        }
    }
}
