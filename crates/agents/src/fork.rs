//! Forks a run: starts a new run that shares the first entries of the original run and continues with changes. The
//! calls in the shared entries are not executed again.

use std::collections::HashSet;
use std::sync::Arc;

use serde_json::Value;
use toolwright_authz::{Action, Resource};
use toolwright_machine::agent::{ClientResult, EventKind, ForkState};
use toolwright_machine::journal::{self, Entry, EntryBody, Replayer, RunStart};
use toolwright_types::{CallId, LlmConfig, Message, RealmScope, RunId, Timestamp, ToolEnvelope, ToolStatus};

use super::spec::RunOrigin;
use super::writes::{Write, Writes};
use super::{Agents, CompiledAgent, StartError, Toolset};
use toolwright_catalog::Session;
use toolwright_catalog::Unavailable;
use toolwright_catalog::select_version;
use toolwright_runs::{CommandError, RunLaunch};

/// The maximum length of a prompt. It is the same as for a prompt in an agent's definition.
const MAX_PROMPT_BYTES: usize = 1 << 20;

/// The changes of a fork. A field that is `None` keeps the value of the original run.
#[derive(Debug, Clone, Default)]
pub struct ForkChanges {
    /// The message of the user.
    pub message: Option<String>,
    /// The system prompt.
    pub prompt: Option<String>,
    /// The model, as `provider/model`, or as `model` for the same provider.
    pub model: Option<String>,
    /// A new output for the call that ends with the last shared entry.
    pub result: Option<Value>,
    /// The names of tools, each with the version that the fork uses.
    pub tools: Vec<(String, String)>,
    /// Whether the fork is durable.
    pub durable: Option<bool>,
    /// Whether the fork may repeat writes that the original run made after the last shared entry.
    pub send_writes: bool,
}

/// A write that the original run made after the last shared entry. A fork may repeat it.
#[derive(Debug)]
pub struct RepeatedWrite {
    /// The tool, with its version.
    pub tool: String,
    /// The id of the call in the original run.
    pub call_id: CallId,
    /// The exact input.
    pub input: Value,
}

/// Why a run could not be forked. Nothing was written.
#[derive(Debug, thiserror::Error)]
pub enum ForkError {
    /// The original run cannot be read.
    #[error(transparent)]
    Run(#[from] CommandError),
    /// The agent cannot be started.
    #[error(transparent)]
    Start(#[from] StartError),
    /// The run has no entry with this number.
    #[error("must be an entry of the run, between 1 and {entries}; {nearest}")]
    NoEntry {
        /// The number of entries of the run.
        entries: u64,
        /// The nearest entries at which the run can be forked.
        nearest: NearestEntries,
    },
    /// A fork after this entry is not possible.
    #[error("entry {at} cannot be forked: {why}; {nearest}")]
    NotForkable {
        /// The entry.
        at: u64,
        /// The reason.
        why: &'static str,
        /// The nearest entries at which the run can be forked.
        nearest: NearestEntries,
    },
    /// The original run made writes after the last shared entry, and `send_writes` is not set.
    #[error("the fork may send {} again, which the original run made after entry {at}", counted(writes.len()))]
    WritesAgain {
        /// The last shared entry.
        at: u64,
        /// The first entry after these writes at which the run can be forked, if there is one.
        after_writes: Option<u64>,
        /// The writes, latest first.
        writes: Vec<RepeatedWrite>,
    },
    /// A change is invalid.
    #[error("{0}")]
    InvalidChange(String),
    /// The database failed.
    #[error(transparent)]
    Unavailable(#[from] Unavailable),
}

/// The entries of a run that are nearest to a requested entry and at which the run can be forked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NearestEntries {
    /// The run.
    pub run: RunId,
    /// The nearest earlier entry.
    pub before: Option<u64>,
    /// The nearest later entry.
    pub after: Option<u64>,
}

impl NearestEntries {
    fn find(run: RunId, at: u64, entries: &[Entry], now: Timestamp) -> Self {
        let mut found = Self { run, before: None, after: None };
        let mut entries = entries.iter().cloned();
        let Some(mut replayer) = entries.next().and_then(|first| Replayer::new(first, None).ok()) else { return found };
        loop {
            let n = replayer.last();
            if n != at && ForkState::of(replayer.run()).obstacle(now).is_none() {
                if n > at {
                    found.after = Some(n);
                    return found;
                }
                found.before = Some(n);
            }
            let Some(entry) = entries.next() else { return found };
            if replayer.apply(entry).is_err() {
                return found;
            }
        }
    }
}

impl std::fmt::Display for NearestEntries {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match (self.before, self.after) {
            (Some(before), Some(after)) => {
                write!(f, "the nearest entries that can be forked are {before} and {after}")?
            }
            (Some(n), None) | (None, Some(n)) => write!(f, "the nearest entry that can be forked is {n}")?,
            (None, None) => write!(f, "no entry of this run can be forked")?,
        }
        write!(f, "; `toolwright runs journal {}` shows all entries", self.run)
    }
}

fn counted(writes: usize) -> String {
    if writes == 1 { "a write".to_owned() } else { format!("{writes} writes") }
}

impl Agents {
    /// Starts a run that shares the first `at` entries of another run, with these changes.
    ///
    /// The caller needs the permission to start the agent, and the fork has the caller's permissions. The policy and
    /// the limits come from the agent's current definition. The prompt and the model come from the original run, unless
    /// they are changed.
    pub async fn fork(&self, session: &Session, run: RunId, at: u64, changes: ForkChanges) -> Result<RunId, ForkError> {
        let (subject, entries) = self.0.runs.journal_of(session, run).await?;
        if uses_no_model(&entries) {
            return Err(ForkError::InvalidChange(ForkState::NO_MODEL.to_owned()));
        }
        let agent = self.find(session, &subject).await?;
        self.check_may_run(session, &agent)?;
        self.check_not_blocked(session, &subject, &entries).await?;
        if changes.prompt.is_some() || changes.model.is_some() || changes.result.is_some() {
            // The agent may act with the permissions of another principal. So only a principal that may write the agent
            // may change the prompt or the model, or replace the output of a tool.
            let resource = Resource::Agent { name: agent.document.meta.ref_name.as_str() };
            self.0.access.require(session, Action::Write, resource).map_err(StartError::from)?;
        }
        self.check_capacity()?;
        let entry_count = u64::try_from(entries.len()).unwrap_or(u64::MAX);
        let shared = usize::try_from(at).ok().filter(|at| (1..=entries.len()).contains(at));
        let now = self.0.runs.now();
        let Some(shared) = shared else {
            let nearest = NearestEntries::find(run, at, &entries, now);
            return Err(ForkError::NoEntry { entries: entry_count, nearest });
        };
        let mut prefix: Vec<Entry> = entries.into_iter().take(shared).collect();
        let principal = self.effective_principal(session, &agent, None).await?;
        let realm = self.target_realm(session, &agent, acting_realm(&prefix)).await?;
        let tools = self.0.resolver.tools(&agent, &realm, &principal).await?;
        let origin = RunOrigin::new(session, Arc::clone(&realm), Arc::clone(&principal));
        self.check_versions(&realm, &changes).await?;
        let (id, send_writes) = (origin.run, changes.send_writes);
        changes.apply(&mut prefix, |start| {
            start.forked_from = Some((run, at));
            self.reset_start(start, &agent, &origin, &tools);
        })?;
        let (start, machine) = journal::replay(prefix.clone()).map_err(|error| {
            let why = std::error::Error::source(&error).map(ToString::to_string).unwrap_or_default();
            ForkError::InvalidChange(format!(
                "the shared entries cannot be replayed with these changes: {error}: {why}"
            ))
        })?;
        if let Some(why) = ForkState::of(&machine).obstacle(now) {
            let (_, entries) = self.0.runs.journal_of(session, run).await?;
            return Err(ForkError::NotForkable { at, why, nearest: NearestEntries::find(run, at, &entries, now) });
        }
        if !send_writes {
            self.check_no_repeated_writes(session, run, at, now).await?;
        }
        let model =
            self.0.models.model_ref(&start.model).map_err(|error| ForkError::InvalidChange(error.to_string()))?;
        if start.spec.limits.max_cost_usd.is_some() && self.0.models.price(&realm, &start.model).is_none() {
            let why = format!("the price of `{}` is unknown, so the cost limit cannot be enforced", model.model);
            return Err(ForkError::InvalidChange(why));
        }
        let executor = self.0.runs.build_executor(&start, origin.scope()).await?;
        let plan = RunLaunch {
            executor: Arc::new(executor),
            home: Arc::clone(&session.realm),
            owner: origin.owner.0,
            principal: principal.id,
            changes: Vec::new(),
            start,
            prefix: prefix.into_iter().collect(),
        };
        self.0.runs.launch(plan).await.map_err(Unavailable::from)?;
        Ok(id)
    }

    /// Fails if the agent version of the original run is blocked now, because the fork would use the prompt of that
    /// version.
    async fn check_not_blocked(&self, session: &Session, agent: &str, entries: &[Entry]) -> Result<(), ForkError> {
        let Some(EntryBody::Started(start)) = entries.first().map(|entry| &entry.body) else { return Ok(()) };
        let Some(version) = &start.agent_version else { return Ok(()) };
        let ran = self.0.resolver.catalog.agent(&session.realm, &format!("{agent}@{version}")).await?;
        match ran.filter(|ran| ran.document.body.status == ToolStatus::Blocked) {
            Some(_) => Err(StartError::Blocked { agent: agent.to_owned(), version: version.clone() }.into()),
            None => Ok(()),
        }
    }

    /// Fails if the run made writes after entry `at`.
    async fn check_no_repeated_writes(
        &self,
        session: &Session,
        run: RunId,
        at: u64,
        now: Timestamp,
    ) -> Result<(), ForkError> {
        let mut writes = Writes::default();
        self.collect_writes(session, run, at, &mut writes).await?;
        if writes.calls.is_empty() {
            return Ok(());
        }
        let calls = writes.calls.iter().map(|write| write.root_call.clone()).collect();
        let after_writes = forkable_after(self.0.runs.journal_of(session, run).await?.1, calls, now);
        let repeated = |Write { envelope, .. }: Write| RepeatedWrite {
            tool: format!("{}@{}", envelope.name, envelope.version),
            call_id: envelope.call_id,
            input: envelope.input,
        };
        let writes = writes.calls.into_iter().map(repeated).collect();
        Err(ForkError::WritesAgain { at, after_writes, writes })
    }

    /// Changes the first entry of an earlier run into the first entry of a new run: sets the id, the principals, the
    /// policy and the limits.
    pub(super) fn reset_start(&self, start: &mut RunStart, agent: &CompiledAgent, origin: &RunOrigin, tools: &Toolset) {
        start.spec.run = origin.run;
        start.correlation.clone_from(&origin.correlation);
        // The new run has no conversation and no parent run.
        (start.conversation, start.parent, start.parent_call) = (None, None, None);
        (start.owner, start.principal) = (origin.owner.1.clone(), origin.principal.name.to_string());
        let before = std::mem::replace(&mut start.spec.policy, self.policy(agent, origin));
        let still_available = |name: &String| {
            tools.find(name).is_some() || start.tool_definitions.iter().any(|tool| tool.ref_name.as_str() == name)
        };
        start.spec.policy.enabled_tools = before.enabled_tools.into_iter().filter(still_available).collect();
        // If the original run captured its writes instead of executing them, the new run captures its writes too.
        start.spec.policy.capture_writes |= before.capture_writes;
        start.spec.limits = self.limits(agent, origin);
    }

    async fn check_versions(&self, realm: &RealmScope, changes: &ForkChanges) -> Result<(), ForkError> {
        for (tool, version) in &changes.tools {
            let requirement = version.parse().ok();
            let versions = self.0.resolver.catalog.versions(realm, tool).await?;
            if requirement.is_none() || select_version(&versions, requirement.as_ref()).is_none() {
                return Err(ForkError::InvalidChange(format!("tool `{tool}` has no version `{version}`")));
            }
        }
        Ok(())
    }
}

/// Returns the first entry at which the run can be forked and which comes after the end of all these calls.
fn forkable_after(entries: Vec<Entry>, mut calls: HashSet<CallId>, now: Timestamp) -> Option<u64> {
    let mut entries = entries.into_iter();
    let mut replayer = Replayer::new(entries.next()?, None).ok()?;
    let mut known = 0;
    loop {
        for envelope in replayer.run().envelopes_after(known) {
            calls.remove(&envelope.call_id);
            known += 1;
        }
        if calls.is_empty() && ForkState::of(replayer.run()).obstacle(now).is_none() {
            return Some(replayer.last());
        }
        replayer.apply(entries.next()?).ok()?;
    }
}

/// Returns the realm in which a run acts.
pub(super) fn acting_realm(entries: &[Entry]) -> Option<&str> {
    match entries.first().map(|entry| &entry.body) {
        Some(EntryBody::Started(start)) => Some(start.spec.policy.realm.as_str()),
        _ => None,
    }
}

/// Returns whether a run uses no model: it has predefined calls or a given plan.
pub(super) fn uses_no_model(entries: &[Entry]) -> bool {
    matches!(entries.first().map(|entry| &entry.body), Some(EntryBody::Started(start)) if !start.spec.uses_model())
}

impl ForkChanges {
    pub(super) fn apply(self, entries: &mut [Entry], reset_start: impl FnOnce(&mut RunStart)) -> Result<(), ForkError> {
        let invalid = |message: &str| ForkError::InvalidChange(message.to_owned());
        if let Some(output) = self.result {
            match entries.last_mut().map(|entry| &mut entry.body) {
                Some(EntryBody::Event(EventKind::CallEnded { envelope, .. })) => replace_output(envelope, output),
                Some(EntryBody::Event(EventKind::ClientReturned { result, .. })) => {
                    *result = ClientResult::Output(output)
                }
                _ => return Err(invalid("`result` requires a fork at an entry that ends a call")),
            }
        }
        let Some(EntryBody::Started(start)) = entries.first_mut().map(|entry| &mut entry.body) else {
            return Err(invalid("the journal does not begin with the start of a run"));
        };
        reset_start(start);
        let messages = Arc::make_mut(&mut start.spec.request.messages);
        if let Some(text) = self.message {
            let user_message = messages.iter_mut().rev().find_map(|message| match message {
                Message::User { content } => Some(content),
                _ => None,
            });
            if text.trim().is_empty() {
                return Err(invalid("`message` must not be empty"));
            }
            *user_message.ok_or_else(|| invalid("the run has no user message"))? = text;
        }
        if let Some(text) = self.prompt {
            if text.len() > MAX_PROMPT_BYTES {
                return Err(ForkError::InvalidChange(format!("`prompt` must have at most {MAX_PROMPT_BYTES} bytes")));
            }
            match messages.first_mut() {
                Some(Message::System { content }) => *content = text,
                _ => messages.insert(0, Message::System { content: text }),
            }
        }
        if let Some(model) = self.model {
            match model.split_once('/') {
                _ if model.trim().is_empty() || model.ends_with('/') => {
                    return Err(invalid("`model` must be `provider/model` or `model`"));
                }
                Some((provider, name)) => {
                    // The API key, the URL and the parameters are for the previous provider, so they are removed.
                    if start.model.provider.as_deref() != Some(provider) {
                        start.model = LlmConfig::default();
                        start.spec.request.extra.clear();
                    }
                    start.model.provider = Some(provider.to_owned());
                    start.model.model = Some(name.to_owned());
                }
                None => start.model.model = Some(model),
            }
            start.fallback = None;
            if let Some(recording) = &mut start.recording {
                Arc::make_mut(recording).live_model = true;
            }
            start.spec.request.model = start.model.model.clone().unwrap_or_default();
        }
        for (tool, version) in self.tools {
            if !start.spec.policy.allows(&tool) || start.starts_run(&tool) {
                return Err(ForkError::InvalidChange(format!("the run has no versioned tool `{tool}`")));
            }
            start.bindings.retain(|bound, _| !bound.eq_ignore_ascii_case(&tool));
            if let Some(recording) = &mut start.recording {
                Arc::make_mut(recording).live_tools.insert(tool.clone());
            }
            start.version_requirements.insert(tool, version);
        }
        start.durable = self.durable.unwrap_or(start.durable);
        Ok(())
    }
}

/// Replaces the output of an envelope and removes the metadata of the previous output.
fn replace_output(envelope: &mut ToolEnvelope, output: Value) {
    (envelope.output, envelope.error) = (output, None);
    envelope.attachments.clear();
    (envelope.truncated, envelope.cached) = (false, false);
    envelope.metadata.http_status = None;
    envelope.metadata.headers.clear();
    envelope.metadata.warnings.push("the output was replaced when the run was forked".to_owned());
}
