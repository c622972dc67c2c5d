//! A run that shares the beginning of another and goes on differently: what is shared is reused, not paid again.

use std::sync::Arc;

use serde_json::Value;
use toolwright_authz::{Action, Resource};
use toolwright_machine::AgentRun;
use toolwright_machine::agent::{ClientResult, Effect, Happened, Verdict};
use toolwright_machine::journal::{self, Began, Entry, Recorded};
use toolwright_types::{CallId, DocumentId, LlmConfig, Message, RealmScope, RunId, Timestamp, ToolEnvelope};

use super::spec::Origin;
use super::{Agents, CompiledAgent, StartError, Toolset};
use crate::Unavailable;
use crate::access::Session;
use crate::catalog::choose;
use crate::runs::{NewRunPlan, SignalError};

/// As for any other prompt.
const LONGEST_PROMPT: usize = 1 << 20;

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
    /// The other run cannot be read.
    #[error(transparent)]
    Run(#[from] SignalError),
    /// The session could not start its agent.
    #[error(transparent)]
    Start(#[from] StartError),
    /// It has no such entry.
    #[error("the run has {entries} entries; fork it at one of 1 to {entries}")]
    NoEntry {
        /// How many it has.
        entries: u64,
    },
    /// What it is doing there cannot be shared.
    #[error("entry {at} cannot be forked: {why}")]
    Midst {
        /// The entry.
        at: u64,
        /// Why not.
        why: &'static str,
    },
    /// The change does not fit.
    #[error("{0}")]
    Change(String),
    /// The database failed.
    #[error(transparent)]
    Unavailable(#[from] Unavailable),
}

impl Agents {
    /// Begins a run with the first `at` entries of another, and with these changes.
    ///
    /// Who forks it acts as if they had started its agent, as that is today: the run that is left lends its beginning, and
    /// no permission.
    pub async fn fork(&self, session: &Session, run: RunId, at: u64, changes: Changes) -> Result<RunId, ForkError> {
        let (subject, entries) = self.0.runs.journal_of(session, run).await?;
        if is_planned(&entries) {
            return Err(ForkError::Change(PLANNED.to_owned()));
        }
        let agent = self.find(session, &subject).await?;
        self.may_run(session, &agent)?;
        if changes.prompt.is_some() || changes.model.is_some() {
            // Those are the author's to say.
            let resource = Resource::Agent { name: agent.document.meta.ref_name.as_str() };
            self.0.access.require(session, Action::Write, resource).map_err(StartError::from)?;
        }
        self.has_room()?;
        let known = u64::try_from(entries.len()).unwrap_or(u64::MAX);
        let shared = usize::try_from(at).ok().filter(|at| (1..=entries.len()).contains(at));
        let shared = shared.ok_or(ForkError::NoEntry { entries: known })?;
        let mut prefix: Vec<Entry> = entries.into_iter().take(shared).collect();
        let (principal, _) = self.effective(session, &agent, None).await?;
        let realm = self.target_realm(session, &agent, acting_realm(&prefix)).await?;
        let tools = self.0.resolver.tools(&agent, &realm, &principal).await?;
        let origin = Origin {
            run: RunId::generate(),
            realm: Arc::clone(&realm),
            home: Arc::clone(&session.realm),
            owner: (session.principal.id, session.principal.name.to_string()),
            principal: Arc::clone(&principal),
            parent: None,
            conversation: None,
            session: None,
        };
        self.check_versions(&realm, &changes).await?;
        let id = origin.run;
        changes.apply(&mut prefix, |began| {
            began.forked_from = Some((run, at));
            self.renew(began, &agent, &origin, &tools);
        })?;
        let (began, machine) = journal::replay(prefix.clone()).map_err(|error| {
            let why = std::error::Error::source(&error).map(ToString::to_string).unwrap_or_default();
            ForkError::Change(format!("with these changes the shared beginning makes no run: {error}: {why}"))
        })?;
        if let Some(why) = midst(&machine, self.0.runs.now()) {
            return Err(ForkError::Midst { at, why });
        }
        let model = self.0.models.chosen(&began.model).map_err(|error| ForkError::Change(error.to_string()))?;
        if began.spec.limits.max_cost_usd.is_some() && self.0.models.price(&realm, &began.model).is_none() {
            let why = format!("the price of `{}` is not known, so a limit on cost could not be kept", model.model);
            return Err(ForkError::Change(why));
        }
        let crew = self.0.runs.recruit(&began, realm, Arc::clone(&principal)).await?;
        let plan = NewRunPlan {
            crew: Arc::new(crew),
            home: Arc::clone(&session.realm),
            owner: session.principal.id,
            principal: principal.id,
            changes: Vec::new(),
            began,
            prefix: prefix.into_iter().collect(),
        };
        self.0.runs.begin(plan).await.map_err(Unavailable::from)?;
        Ok(id)
    }

    /// The beginning of an earlier run as whoever begins another one with it would begin it.
    pub(super) fn renew(&self, began: &mut Began, agent: &CompiledAgent, origin: &Origin, tools: &Toolset) {
        began.spec.run = origin.run;
        // What is said from here on is no part of what was said.
        (began.conversation, began.parent, began.parent_call) = (None, None, None);
        (began.owner, began.principal) = (origin.owner.1.clone(), origin.principal.name.to_string());
        let before = std::mem::replace(&mut began.spec.policy, self.policy(agent, origin));
        let still = |name: &String| {
            tools.find(name).is_some() || began.carried.iter().any(|tool| tool.ref_name.as_str() == name)
        };
        began.spec.policy.enabled_tools = before.enabled_tools.into_iter().filter(still).collect();
        // What was captured once is captured still.
        began.spec.policy.captures |= before.captures;
        began.spec.limits = self.limits(agent, origin);
    }

    async fn check_versions(&self, realm: &RealmScope, changes: &Changes) -> Result<(), ForkError> {
        for (tool, version) in &changes.tools {
            let wanted = version.parse().ok();
            let versions = self.0.resolver.catalog.versions(realm, tool).await?;
            if wanted.is_none() || choose(&versions, wanted.as_ref()).is_none() {
                return Err(ForkError::Change(format!("there is no tool `{tool}` of version `{version}`")));
            }
        }
        Ok(())
    }
}

/// The realm that a run acts in.
pub(super) fn acting_realm(entries: &[Entry]) -> Option<&str> {
    match entries.first().map(|entry| &entry.what) {
        Some(Recorded::Began(began)) => Some(began.spec.policy.realm.as_str()),
        _ => None,
    }
}

/// Why a run without an agent is not begun anew.
pub(super) const PLANNED: &str = "the run follows a plan and asks no model; make its calls again instead";

/// Whether a run follows a plan: it was asked for by somebody else than an agent's user, and has nothing to say.
pub(super) fn is_planned(entries: &[Entry]) -> bool {
    matches!(entries.first().map(|entry| &entry.what), Some(Recorded::Began(began)) if !began.spec.plan.is_empty())
}

/// Why a run cannot be left where it stands: nothing that was done or decided once may count twice.
fn midst(run: &AgentRun, now: Timestamp) -> Option<&'static str> {
    let filed: Vec<&CallId> = run.receipts_after(0).map(|receipt| &receipt.call_id).collect();
    let open = |id: &CallId| run.calls().any(|call| call == id) && !filed.contains(&id);
    let decided = run.decisions().iter().any(|record| match &record.verdict {
        Verdict::Approved => open(&record.call_id),
        Verdict::Edited(call) => open(call),
        Verdict::Denied | Verdict::Expired => false,
    });
    let in_doubt = |effect: &Effect| match effect {
        Effect::RunCall(call) => call.again,
        Effect::VerifyCall { .. } => true,
        _ => false,
    };
    let late = |expires: Option<Timestamp>| expires.is_some_and(|expires| expires <= now);
    let expired = run.approvals().iter().any(|asked| late(asked.expires_at))
        || run.client_actions().iter().any(|asked| late(asked.expires_at));
    if run.ending().is_some() {
        Some("the run ends with it; fork at an earlier one")
    } else if !run.paused().is_empty() {
        Some("the run waits there for a run that it started; fork at an earlier one, or fork that run")
    } else if run.pending().iter().any(in_doubt) {
        Some("a call was being made that may change something; fork before it was intended, or after it ended")
    } else if decided {
        Some("a person had agreed to a call that was not made yet; fork where they were asked, or after the call ended")
    } else if expired {
        Some("what the run waits for there has expired; fork at an earlier one")
    } else {
        None
    }
}

impl Changes {
    pub(super) fn apply(self, entries: &mut [Entry], renew: impl FnOnce(&mut Began)) -> Result<(), ForkError> {
        let wrong = |what: &str| ForkError::Change(what.to_owned());
        if let Some(output) = self.result {
            match entries.last_mut().map(|entry| &mut entry.what) {
                Some(Recorded::Happened(Happened::CallEnded { envelope, .. })) => replace_output(envelope, output),
                Some(Recorded::Happened(Happened::ClientReturned { result, .. })) => {
                    *result = ClientResult::Output(output)
                }
                _ => return Err(wrong("`result` replaces what a call returned; fork at an entry that ends a call")),
            }
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
            if text.trim().is_empty() {
                return Err(wrong("`message` is empty"));
            }
            *said.ok_or_else(|| wrong("the run has no message of a user"))? = text;
        }
        if let Some(text) = self.prompt {
            if text.len() > LONGEST_PROMPT {
                return Err(ForkError::Change(format!("`prompt` has more than {LONGEST_PROMPT} bytes")));
            }
            match messages.first_mut() {
                Some(Message::System { content }) => *content = text,
                _ => messages.insert(0, Message::System { content: text }),
            }
        }
        if let Some(model) = self.model {
            match model.split_once('/') {
                _ if model.trim().is_empty() || model.ends_with('/') => return Err(wrong("`model` is no model")),
                Some((provider, name)) => {
                    // Key, address and parameters are for the provider they were written for.
                    if began.model.provider.as_deref() != Some(provider) {
                        began.model = LlmConfig::default();
                        began.spec.request.extra.clear();
                    }
                    began.model.provider = Some(provider.to_owned());
                    began.model.model = Some(name.to_owned());
                }
                None => began.model.model = Some(model),
            }
            began.fallback = None;
            if let Some(recording) = &mut began.recording {
                Arc::make_mut(recording).replaced_model = true;
            }
            began.spec.request.model = began.model.model.clone().unwrap_or_default();
        }
        for (tool, version) in self.tools {
            if !began.spec.policy.enables(&tool) || began.delegates.contains(&tool) {
                return Err(ForkError::Change(format!("the run has no tool `{tool}` with versions")));
            }
            began.bound.retain(|bound, _| !bound.eq_ignore_ascii_case(&tool));
            if let Some(recording) = &mut began.recording {
                Arc::make_mut(recording).replaced_tools.insert(tool.clone());
            }
            began.wanted.insert(tool, version);
        }
        began.durable = self.durable.unwrap_or(began.durable);
        Ok(())
    }
}

/// A receipt that says something else, and keeps nothing of what it said before.
fn replace_output(envelope: &mut ToolEnvelope, output: Value) {
    (envelope.output, envelope.error) = (output, None);
    envelope.attachments.clear();
    (envelope.truncated, envelope.cached) = (false, false);
    envelope.metadata.http_status = None;
    envelope.metadata.headers.clear();
    envelope.metadata.warnings.push("the output was replaced when the run was forked".to_owned());
}
