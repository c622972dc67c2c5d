//! Lists trials.

use toolwright_catalog::{Session, Unavailable};
use toolwright_runs::{TrialQuery, TrialSummary};
use toolwright_types::{Timestamp, TrialId};

use super::Agents;
use super::compare::ActiveTrial;

/// The filters and the position of a page of trials.
#[derive(Debug, Clone, Default)]
pub struct TrialFilter {
    /// The name of the agent.
    pub agent: Option<String>,
    /// Whether the trial is under way.
    pub under_way: Option<bool>,
    /// The last trial of the previous page.
    pub after: Option<TrialId>,
    /// The page size.
    pub limit: u32,
}

/// A page of trials.
pub struct TrialPage {
    /// The trials, newest first.
    pub items: Vec<TrialItem>,
    /// The cursor of the next page.
    pub next: Option<TrialId>,
}

/// A trial in a list.
pub struct TrialItem {
    /// The id of the trial.
    pub id: TrialId,
    /// The agent.
    pub agent: String,
    /// The names of the compared libraries.
    pub libraries: Vec<String>,
    /// Whether the trial is still running.
    pub under_way: bool,
    /// The number of started runs, counted over both libraries.
    pub runs: i64,
    /// When the trial started.
    pub started_at: Timestamp,
    /// When a run of the trial last changed.
    pub updated_at: Timestamp,
}

impl Agents {
    /// Returns a page of the trials that the session may see, newest first.
    pub async fn trials(&self, session: &Session, filter: TrialFilter) -> Result<TrialPage, Unavailable> {
        let TrialFilter { agent, under_way, after, limit } = filter;
        let active = self.0.trials.in_realm(session.realm.realm);
        // A trial that was just started has no run yet. It is newer than all trials with runs.
        let is_listed = |(trial, own): &&(TrialId, ActiveTrial)| {
            own.is_of(session)
                && after.is_none_or(|after| *trial < after)
                && agent.as_ref().is_none_or(|agent| *agent == own.agent)
                && under_way != Some(false)
        };
        let mut items: Vec<TrialItem> = active.iter().filter(is_listed).map(TrialItem::active).collect();
        let active = active.into_iter().map(|(trial, _)| trial).collect();
        let page = self.0.runs.trials(session, &TrialQuery { agent, under_way, active, after, limit }).await?;
        let is_active = |trial: &TrialSummary| self.0.trials.contains(trial.id);
        let stored: Vec<TrialItem> =
            page.items.into_iter().map(|trial| TrialItem::stored(is_active(&trial), trial)).collect();
        items.retain(|item| {
            let follows = stored.last().is_none_or(|last| page.next.is_none() || item.id > last.id);
            follows && !stored.iter().any(|other| other.id == item.id)
        });
        items.extend(stored);
        items.sort_by_key(|item| std::cmp::Reverse(item.id));
        let limit = usize::try_from(limit).unwrap_or(usize::MAX);
        let has_more = page.next.is_some() || items.len() > limit;
        items.truncate(limit);
        let next = items.last().filter(|_| has_more).map(|item| item.id);
        Ok(TrialPage { items, next })
    }
}

impl TrialItem {
    fn active((id, trial): &(TrialId, ActiveTrial)) -> Self {
        Self {
            id: *id,
            agent: trial.agent.clone(),
            libraries: trial.arms.to_vec(),
            under_way: true,
            runs: 0,
            started_at: trial.started_at,
            updated_at: trial.started_at,
        }
    }

    fn stored(active: bool, trial: TrialSummary) -> Self {
        Self {
            id: trial.id,
            agent: trial.agent,
            libraries: trial.arms,
            under_way: active || trial.running > 0,
            runs: trial.runs,
            started_at: trial.started_at,
            updated_at: trial.updated_at,
        }
    }
}
