//! A run that shares the beginning of another and goes on differently: what is shared is reused, not paid again.

use std::sync::Arc;

use serde_json::Value;
use toolwright_authz::Action;
use toolwright_machine::agent::Happened;
use toolwright_machine::journal::{self, Began, Entry, Recorded};
use toolwright_types::{DocumentId, Message, Principal, RunId};

use super::signal::SignalError;
use super::{NewRunPlan, Runs};
use crate::Unavailable;
use crate::access::Session;

/// What a fork does differently. Whatever is absent stays.
#[derive(Debug, Clone, Default)]
pub struct Changes {
    /// What the user says instead.
    pub message: Option<String>,
    /// The instructions instead.
    pub prompt: Option<String>,
    /// The model instead, as `provider/model` or, with the same provider, as `model`.
    pub model: Option<String>,
    /// What the call of the last shared entry returned instead.
    pub result: Option<Value>,
    /// Versions to use of tools, by name.
    pub tools: Vec<(String, String)>,
    /// Whether it goes on after a crash.
    pub durable: Option<bool>,
}

/// Why a run was not forked. Nothing was written.
#[derive(Debug, thiserror::Error)]
pub enum ForkError {
    /// The other run cannot be read, or is not the session's to run.
    #[error(transparent)]
    Run(#[from] SignalError),
    /// It has no such entry.
    #[error("the run has {entries} entries; fork it at one of 1 to {entries}")]
    NoEntry {
        /// How many it has.
        entries: u64,
    },
    /// There is nothing to go on with.
    #[error("the run ends with entry {0}; fork it at an earlier one")]
    Ended(u64),
    /// A run that it started waits for somebody.
    #[error("at entry {0} the run waits for a run that it started; fork it at an earlier entry, or fork that run")]
    Paused(u64),
    /// The change does not fit.
    #[error("{0}")]
    Change(String),
    /// The database failed.
    #[error(transparent)]
    Unavailable(#[from] Unavailable),
}

impl Runs {
    /// Begins a run with the first `at` entries of another, and with these changes.
    pub async fn fork(&self, session: &Session, run: RunId, at: u64, changes: Changes) -> Result<RunId, ForkError> {
        let row = self.permitted(session, run, Action::Execute).await?;
        self.still_enabled(session, run).await?;
        let loaded = self.0.load(&session.realm, run).await?;
        let known = loaded.entries.len();
        let entries = u64::try_from(known).unwrap_or(u64::MAX);
        let shared = usize::try_from(at).ok().filter(|at| (1..=known).contains(at));
        let shared = shared.ok_or(ForkError::NoEntry { entries })?;
        let mut prefix = loaded
            .entries
            .iter()
            .take(shared)
            .map(|entry| Entry::read(entry.n, entry.at, &entry.body))
            .collect::<Result<Vec<_>, _>>()
            .map_err(|error| Unavailable::new("the journal cannot be read by this release")(Box::new(error)))?;
        let id = RunId::generate();
        let principal = self.acts_as(session, row.owner == session.principal.id, row.principal).await?;
        changes.apply(&mut prefix, |began| {
            began.spec.run = id;
            began.forked_from = Some((run, at));
            // What is said in a fork is no part of what was said.
            (began.conversation, began.parent, began.parent_call) = (None, None, None);
            began.owner = session.principal.name.to_string();
            began.principal = principal.name.to_string();
        })?;
        let (began, machine) = journal::replay(prefix.clone()).map_err(|error| {
            let why = std::error::Error::source(&error).map(ToString::to_string).unwrap_or_default();
            ForkError::Change(format!("with these changes the shared beginning makes no run: {error}: {why}"))
        })?;
        if machine.ending().is_some() {
            return Err(ForkError::Ended(at));
        }
        if !machine.paused().is_empty() {
            return Err(ForkError::Paused(at));
        }
        self.0.models.chosen(&began.model).map_err(|error| ForkError::Change(error.to_string()))?;
        let realm = self.0.acting_realm(&began, &session.realm).await?;
        let crew = self.0.recruit(&began, realm, Arc::clone(&principal)).await?;
        let plan = NewRunPlan {
            crew,
            home: Arc::clone(&session.realm),
            owner: session.principal.id,
            principal: principal.id,
            changes: Vec::new(),
            began,
            prefix: prefix.into_iter().skip(1).collect(),
        };
        self.begin(plan).await.map_err(Unavailable::from)?;
        Ok(id)
    }

    /// Whose fork it is acts as themselves, unless it was theirs before: then as it did.
    async fn acts_as(
        &self,
        session: &Session,
        own: bool,
        before: toolwright_types::PrincipalId,
    ) -> Result<Arc<Principal>, Unavailable> {
        if !own || before == session.principal.id {
            return Ok(Arc::clone(&session.principal));
        }
        let found = self.0.store.tenancy().principal_by_id(before).await?;
        Ok(found.map_or_else(|| Arc::clone(&session.principal), Arc::new))
    }
}

impl Changes {
    fn apply(self, entries: &mut [Entry], renew: impl FnOnce(&mut Began)) -> Result<(), ForkError> {
        let wrong = |what: &str| ForkError::Change(what.to_owned());
        if let Some(output) = self.result {
            let last = entries.last_mut().map(|entry| &mut entry.what);
            let Some(Recorded::Happened(Happened::CallEnded { envelope, .. })) = last else {
                return Err(wrong("`result` replaces what a call returned; fork at an entry that ends a call"));
            };
            (envelope.output, envelope.error) = (output, None);
        }
        let Some(Recorded::Began(began)) = entries.first_mut().map(|entry| &mut entry.what) else {
            return Err(wrong("the journal does not begin with the beginning of a run"));
        };
        renew(began);
        let messages = Arc::make_mut(&mut began.spec.request.messages);
        if let Some(text) = self.message {
            let said = messages.iter_mut().rev().find_map(|message| match message {
                Message::User { content } => Some(content),
                _ => None,
            });
            *said.ok_or_else(|| wrong("the run has no message of a user"))? = text;
        }
        if let Some(text) = self.prompt {
            match messages.first_mut() {
                Some(Message::System { content }) => *content = text,
                _ => messages.insert(0, Message::System { content: text }),
            }
        }
        if let Some(model) = self.model {
            match model.split_once('/') {
                Some((provider, name)) => {
                    began.model.provider = Some(provider.to_owned());
                    began.model.model = Some(name.to_owned());
                }
                None => began.model.model = Some(model),
            }
            began.spec.request.model = began.model.model.clone().unwrap_or_default();
        }
        for (tool, version) in self.tools {
            if !began.spec.policy.enables(&tool) {
                return Err(ForkError::Change(format!("the run has no tool `{tool}`")));
            }
            began.wanted.insert(tool, version);
        }
        began.durable = self.durable.unwrap_or(began.durable);
        Ok(())
    }
}
