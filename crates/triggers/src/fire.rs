//! Starts the run of a firing.

use std::sync::Arc;

use serde_json::{Map, Value, json};
use toolwright_agents::{AgentRequest, WorkflowRequest};
use toolwright_catalog::{CompiledTrigger, Session, Unavailable, VersionedRef};
use toolwright_store::{Firing, FiringStatus, NewFiring};
use toolwright_tools::CallRequest;
use toolwright_types::{
    CorrelationId, Document, DocumentId as _, FiringId, Overlap, PrincipalName, RealmId, RealmScope, RunId, Surface,
    Timestamp, TriggerDefinition, TriggerTarget,
};

use crate::{FireError, Triggers, trigger_id};

/// What causes a firing.
#[derive(Debug, Clone)]
pub(crate) enum Cause {
    /// A scheduled time.
    Schedule(Timestamp),
    /// A webhook with this id.
    Webhook(String),
    /// A person.
    Test,
}

/// A compiled trigger with its name, for messages.
pub(crate) struct ReadyTrigger {
    pub(crate) name: String,
    pub(crate) trigger: CompiledTrigger,
}

impl Triggers {
    pub(crate) fn compile(&self, document: Document<TriggerDefinition>) -> Result<ReadyTrigger, FireError> {
        let name = document.meta.ref_name.to_string();
        let trigger = CompiledTrigger::compile(document.body, self.0.clock.now()).map_err(FireError::Invalid)?;
        Ok(ReadyTrigger { name, trigger })
    }

    /// Creates a firing, whose run has a new id.
    pub(crate) fn new_firing<T>(
        &self,
        realm: RealmId,
        document: &Document<T>,
        cause: Cause,
    ) -> Result<NewFiring, Unavailable> {
        let id = FiringId::generate();
        // A scheduled firing is repeated by this or another server. The sender of a webhook repeats it.
        let repeats = matches!(cause, Cause::Schedule(_));
        let cause = match cause {
            Cause::Schedule(at) => at.to_string(),
            Cause::Webhook(webhook) => webhook,
            Cause::Test => format!("test {id}"),
        };
        let (run, fired_at) = (RunId::generate(), self.0.clock.now());
        let trigger = trigger_id(document)?;
        Ok(NewFiring { id, realm, trigger, cause, fired_at, repeats, skipped: None, run })
    }

    /// Starts the run of a new firing, and stores the outcome.
    pub(crate) async fn start_firing(
        &self,
        realm: &Arc<RealmScope>,
        trigger: &ReadyTrigger,
        firing: &NewFiring,
        webhook: Value,
    ) -> Result<Firing, FireError> {
        let firing = Firing::from(firing);
        self.start_stored_firing(realm, trigger, firing, webhook).await
    }

    /// Starts the run of a stored firing, and stores the outcome. Does nothing if the run exists.
    pub(crate) async fn start_stored_firing(
        &self,
        realm: &Arc<RealmScope>,
        trigger: &ReadyTrigger,
        mut firing: Firing,
        webhook: Value,
    ) -> Result<Firing, FireError> {
        let firings = self.0.store.firings(realm);
        if trigger.trigger.definition.overlap == Overlap::Skip && self.is_previous_run_open(realm, &firing).await? {
            let reason = "the last run of the trigger has not ended";
            firings.finish(firing.id, FiringStatus::Skipped, Some(reason), None).await?;
            (firing.status, firing.error) = (FiringStatus::Skipped, Some(reason.to_owned()));
            return Ok(firing);
        }
        match self.start_run(realm, trigger, &firing, webhook).await {
            Ok(()) => {
                firings.finish(firing.id, FiringStatus::Started, None, None).await?;
                firing.status = FiringStatus::Started;
                Ok(firing)
            }
            Err(error) => {
                let repeats = firing.repeats && error.is_temporary();
                let status = if repeats { FiringStatus::Pending } else { FiringStatus::Failed };
                // The sender of a webhook may repeat it at once.
                let retry_at = (!firing.repeats).then(|| self.0.clock.now());
                firings.finish(firing.id, status, Some(&error.to_string()), retry_at).await?;
                tracing::warn!(
                    trigger = trigger.name,
                    firing = %firing.id,
                    error = &error as &dyn std::error::Error,
                    "a trigger did not start its run"
                );
                Err(error)
            }
        }
    }

    async fn is_previous_run_open(&self, realm: &RealmScope, firing: &Firing) -> Result<bool, FireError> {
        let Some(last) = self.0.store.firings(realm).last_started(firing.trigger).await? else { return Ok(false) };
        let run = self.0.store.runs(realm).get(last.run).await?;
        Ok(run.is_some_and(|run| !run.state.status.is_terminal()))
    }

    async fn start_run(
        &self,
        realm: &Arc<RealmScope>,
        ready: &ReadyTrigger,
        firing: &Firing,
        webhook: Value,
    ) -> Result<(), FireError> {
        // An earlier attempt may have started the run, and its server has failed before it stored that. A second start
        // with the same id would disturb the run.
        if firing.attempts > 1 && self.0.store.runs(realm).get(firing.run).await?.is_some() {
            return Ok(());
        }
        let definition = &ready.trigger.definition;
        let session = self.session(realm, &definition.principal_ref, firing.run).await?;
        let values = json!({ "name": ready.name, "cause": firing.cause, "firedAt": firing.fired_at });
        let input = ready.trigger.input(&values, &webhook).map_err(|error| FireError::Input(error.to_string()))?;
        match &definition.target {
            TriggerTarget::Workflow(name) => {
                let request =
                    WorkflowRequest { input, durable: Some(true), run: Some(firing.run), ..WorkflowRequest::default() };
                self.0.agents.start_workflow(&session, name, request).await?;
            }
            TriggerTarget::Agent(name) => {
                let request = agent_request(input, firing.run)?;
                self.0.agents.start(&session, name.as_str(), request).await?;
            }
            TriggerTarget::Tool(name) => {
                self.start_tool(&session, name, input, firing.run).await;
            }
        }
        Ok(())
    }

    /// Returns a session of the principal of a trigger.
    async fn session(&self, realm: &Arc<RealmScope>, principal: &str, run: RunId) -> Result<Session, FireError> {
        let unknown = || FireError::UnknownPrincipal(principal.to_owned());
        let name: PrincipalName = principal.parse().map_err(|_| unknown())?;
        let found = self.0.store.tenancy().principal(realm.org, &name).await?;
        let found = Arc::new(found.ok_or_else(unknown)?);
        let entered = self.0.identity.enter_realm(&found, realm.name.as_str()).await;
        let refused = |_| FireError::Realm { principal: principal.to_owned(), realm: realm.name.to_string() };
        let mut session = Session::new(found, entered.map_err(refused)?);
        session.correlation = Some(CorrelationId::of_run(run));
        Ok(session)
    }

    /// Starts a call to a tool, which continues in the background.
    async fn start_tool(&self, session: &Session, name: &str, input: Value, run: RunId) {
        let parsed = VersionedRef::parse(name);
        let (tool, version) = parsed.map_or((name, None), |tool| (tool.name, tool.version_req));
        let request = CallRequest { tool: tool.to_owned(), version, input };
        let wait = self.0.client_wait;
        self.0.runs.prepare_call(session, Surface::Tool, request, wait, run).await.start();
    }
}

/// Converts the input of a trigger to a request to an agent.
fn agent_request(input: Value, run: RunId) -> Result<AgentRequest, FireError> {
    let invalid = |field: &str, rule: &str, got: &Value| {
        FireError::Input(format!("`{field}` of the input of an agent must be {rule}, got {got}"))
    };
    let message = match input.get("message") {
        Some(Value::String(message)) if !message.is_empty() => message.clone(),
        other => return Err(invalid("message", "a text that is not empty", other.unwrap_or(&Value::Null))),
    };
    let context = match input.get("context") {
        None | Some(Value::Null) => Map::new(),
        Some(Value::Object(context)) => context.clone(),
        Some(other) => return Err(invalid("context", "an object", other)),
    };
    Ok(AgentRequest { message, context, durable: Some(true), run: Some(run), ..AgentRequest::default() })
}
