//! Runs that a conductor outside drives, through whichever server it reaches.
//!
//! The conductor owns when something is done, and that it is done at all; the journal, and everything that was said to a
//! run, stay in the store. So the conductor is told ids and nothing else, and telling it something twice does no harm.

use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use serde::{Deserialize, Serialize};
use toolwright_machine::agent::{ClientResultProblem, EventError};
use toolwright_store::{WriteError, Writer};
use toolwright_types::{DocumentId as _, RealmScope, RunId, RunStatus, Timestamp};

use super::custody::{self, NewRunPlan};
use super::ports::Host;
use super::signal::{SignalError, Wish};
use super::steps::{Stages, UnderWay};
use super::{Inner, LiveRun, Runs, Snapshot};
use crate::Unavailable;

/// How often a run that somebody waits for is looked at, where nothing tells that it has gone on.
const GLANCE: Duration = Duration::from_millis(250);
/// How many quiet runs are listed at once.
const AT_ONCE: u32 = 200;

/// Why a conductor did not do what was asked of it.
pub type ConductError = Box<dyn std::error::Error + Send + Sync>;

/// Whoever drives durable runs instead of this server. It calls [`Runs::advance`] for a run, one call at a time, and
/// [`Runs::perform`] for each step that comes of it.
pub trait Conductor: Send + Sync {
    /// Makes sure that a run is advanced soon.
    fn wake(&self, run: RunId) -> BoxFuture<'_, Result<(), ConductError>>;

    /// Lets a run hear what was said to it, and returns when it has answered.
    fn hear<'a>(&'a self, run: RunId, said: &'a str) -> BoxFuture<'a, Result<(), ConductError>>;
}

/// What conducted runs need of a server.
pub(crate) struct Conduct {
    pub conductor: Arc<dyn Conductor>,
    /// Writes in the conductor's name.
    pub writer: Writer,
    pub stages: Stages,
    pub under_way: UnderWay,
}

impl Conduct {
    pub fn new(conductor: Arc<dyn Conductor>, writer: Writer) -> Self {
        Self { conductor, writer, stages: Stages::default(), under_way: UnderWay::default() }
    }

    /// Writes the beginning of a run, and lets the conductor know of it.
    pub(super) async fn begin(&self, host: &Arc<dyn Host>, plan: NewRunPlan) -> Result<Arc<LiveRun>, WriteError> {
        let live = custody::begin_for_conductor(host, plan, &self.writer).await?;
        let (conductor, run) = (Arc::clone(&self.conductor), live.id);
        let waking = async move {
            if let Err(error) = conductor.wake(run).await {
                // The run is written, and is woken when it has been quiet for a while.
                tracing::warn!(%run, error = &*error as &dyn std::error::Error, "the conductor cannot be reached");
            }
        };
        // Nobody waits for it: a run that is written has begun.
        host.spawn(run, Box::pin(waking));
        Ok(live)
    }
}

/// What a run answered to a wish, as it is kept.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Answer {
    Taken,
    Ended(String),
    Rejected(EventError),
    Results(Vec<ClientResultProblem>),
}

/// The answer as it is kept; an error when there is none yet.
pub(super) fn kept_answer(answer: Result<(), SignalError>) -> Result<String, SignalError> {
    let answer = match answer {
        Ok(()) => Answer::Taken,
        Err(SignalError::Ended(status)) => Answer::Ended(status),
        Err(SignalError::Rejected(error)) => Answer::Rejected(error),
        Err(SignalError::Results(problems)) => Answer::Results(problems),
        Err(other) => return Err(other),
    };
    serde_json::to_string(&answer).map_err(|error| unreadable(error).into())
}

fn answered(kept: &str) -> Result<(), SignalError> {
    match serde_json::from_str(kept).map_err(unreadable)? {
        Answer::Taken => Ok(()),
        Answer::Ended(status) => Err(SignalError::Ended(status)),
        Answer::Rejected(error) => Err(SignalError::Rejected(error)),
        Answer::Results(problems) => Err(SignalError::Results(problems)),
    }
}

fn unreadable(error: serde_json::Error) -> Unavailable {
    Unavailable::new("what is kept of a run's step cannot be read")(Box::new(error))
}

impl Runs {
    /// How many runs wait for a conductor.
    pub async fn count_conducted(&self) -> Result<u64, Unavailable> {
        Ok(self.0.store.count_conducted().await?)
    }

    /// Wakes the conducted runs that are under way or due and of which nothing was heard for so long: one that began
    /// while the conductor could not be reached, or that it has forgotten.
    pub async fn wake_quiet(&self, quiet: Duration) {
        let Some(conduct) = &self.0.conduct else { return };
        let quiet = i64::try_from(quiet.as_micros()).unwrap_or(i64::MAX);
        let before = Timestamp::from_micros(self.0.clock.now().as_micros().saturating_sub(quiet));
        let mut last = None;
        loop {
            let runs = match self.0.store.conducted_runs(before, last, AT_ONCE).await {
                Ok(runs) => runs,
                Err(error) => {
                    tracing::warn!(error = &error as &dyn std::error::Error, "cannot see which runs are quiet");
                    return;
                }
            };
            let Some(newest) = runs.last() else { return };
            last = Some(*newest);
            for run in runs {
                if let Err(error) = conduct.conductor.wake(run).await {
                    tracing::warn!(%run, error = &*error as &dyn std::error::Error, "a quiet run cannot be woken");
                    return;
                }
            }
        }
    }
}

impl Inner {
    /// What conducted runs need; an error where this server has no conductor.
    pub(super) fn conduct(&self, run: RunId) -> Result<&Conduct, SignalError> {
        self.conduct.as_ref().ok_or_else(|| SignalError::NoConductor(run.to_string()))
    }

    /// Whether a conductor drives the run.
    pub(super) async fn is_conducted(&self, live: &LiveRun) -> Result<bool, Unavailable> {
        if live.is_driven() {
            return Ok(false);
        }
        Ok(self.store.run_anywhere(live.id).await?.is_some_and(|(_, row)| row.conducted))
    }

    /// Says something to a conducted run, and waits for the answer.
    pub(super) async fn say(&self, run: RunId, wish: Wish) -> Result<(), SignalError> {
        let conduct = self.conduct(run)?;
        let unreachable = Unavailable::new("whoever conducts the run cannot be reached");
        if matches!(wish, Wish::Wake) {
            return Ok(conduct.conductor.wake(run).await.map_err(unreachable)?);
        }
        let id = RunId::generate().to_string().replacen("run_", "said_", 1);
        let body = serde_json::to_string(&wish).map_err(unreadable)?;
        self.store.say(run, &id, &body, self.lease.server(), self.clock.now()).await.map_err(Unavailable::from)?;
        conduct.conductor.hear(run, &id).await.map_err(unreachable)?;
        let said = self.store.said(run, &id).await.map_err(Unavailable::from)?;
        let kept = said.and_then(|said| said.outcome);
        let kept = kept.ok_or_else(|| Unavailable::new("the run has not answered")("no answer".into()))?;
        // One that is left is deleted with its run.
        if let Err(error) = self.store.unsay(run, &id).await {
            tracing::debug!(%run, error = &error as &dyn std::error::Error, "an answer stays although it was read");
        }
        answered(&kept)
    }

    /// Where a conducted run stands when it is next at rest; none if there is no such run, or a server drives it.
    pub(super) async fn rest_of_conducted(
        &self,
        home: &RealmScope,
        live: &LiveRun,
    ) -> Result<Option<Arc<Snapshot>>, Unavailable> {
        loop {
            let mut changed = std::pin::pin!(live.changed().notified());
            // Before looking: what changes from here on wakes us.
            changed.as_mut().enable();
            let Some(row) = self.store.runs(home).get(live.id).await? else { return Ok(None) };
            if row.state.status != RunStatus::Running {
                return match self.load(home, live.id).await {
                    Ok(loaded) => Ok(Some(loaded.snapshot)),
                    Err(SignalError::Unavailable(error)) => Err(error),
                    Err(_) => Ok(None),
                };
            }
            if !row.conducted {
                return Ok(None);
            }
            tokio::select! {
                () = self.stop.cancelled() => return Ok(None),
                _ = tokio::time::timeout(GLANCE, changed) => {}
            }
        }
    }
}
