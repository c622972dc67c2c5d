//! Direct calls: a run that is one call.
//!
//! One that may change something, or that a client makes, is driven like every other run: its intent is committed before it
//! is made, it can wait, and after a crash it is accounted for. One that only reads has ended before anybody could ask
//! about it, so its journal is written as a whole, behind it.

use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use toolwright_machine::AgentRun;
use toolwright_machine::agent::{Event, EventError, Happened, MAX_DEPTH, PlannedCall, Prepared as Verdict, is_shallow};
use toolwright_machine::journal::{Began, Entry, Recorded, chain};
use toolwright_store::{Change, Mark, NewRun, RunKind};
use toolwright_tools::{CallContext, CompiledTool, Outcome, Prepared};
use toolwright_types::{CallId, ErrorCode, RealmScope, RunId, Timestamp, ToolEnvelope, ToolError};

use super::effects::facts;
use super::journal::{link, state_of};
use super::live::Snapshot;
use super::signal::Wish;
use super::{NewRunPlan, Planned, Runs};
use crate::Unavailable;
use crate::access::Session;

/// What came of a direct call.
pub enum Called {
    /// It ended, one way or the other.
    Done(Box<ToolEnvelope>),
    /// It waits for somebody, as a rule for the client.
    Waits(Arc<Snapshot>),
}

/// A direct call: by whom, as what, with what.
pub(crate) struct DirectCall {
    pub session: Session,
    pub cx: CallContext,
    pub begun: Timestamp,
    pub input: Value,
    /// How long a client has to return a result.
    pub client_wait: Duration,
}

impl Runs {
    /// Makes a call for a principal that is here in person, or writes down that it cannot be made.
    pub(crate) async fn call(&self, call: DirectCall, prepared: Prepared) -> Result<Called, Unavailable> {
        match prepared {
            Prepared::Ready(ready) if ready.reaches_out() && !is_shallow(&call.input) => {
                let message = format!("the input is nested deeper than {MAX_DEPTH} levels, which no journal holds");
                let error = ToolError::new(ErrorCode::ValidationError, message).reason("too_deep");
                let envelope = self.0.executor.refuse(*ready, error);
                self.note_refused(call, envelope.clone()).await;
                Ok(Called::Done(Box::new(envelope)))
            }
            Prepared::Ready(ready) if ready.reaches_out() => Box::pin(self.drive_call(call, &ready.tool)).await,
            Prepared::Ready(ready) => {
                let facts = facts(&call.cx, &ready);
                let envelope = match self.0.executor.call(&call.cx, *ready).await {
                    Outcome::Done(envelope) => envelope,
                    Outcome::Client(action) => action.pending,
                };
                let (verdict, ended) = (Verdict::Ready(Box::new(facts)), Some(envelope.clone()));
                self.note_call(call, verdict, ended).await;
                Ok(Called::Done(envelope))
            }
            Prepared::Refused(envelope) => {
                self.note_refused(call, (*envelope).clone()).await;
                Ok(Called::Done(envelope))
            }
        }
    }

    /// Ends a call that is driven, because whoever made it does not want it any more.
    pub(crate) async fn cancel_call(&self, run: RunId, home: &Arc<RealmScope>) {
        if let Some(live) = self.0.hub.get(run).filter(|live| live.is_driven()) {
            let message = Some("cancelled by the caller".to_owned());
            // One that has ended meanwhile says so.
            let _ = self.0.send(&live, home, Wish::Cancel { message }).await;
        }
    }

    /// Writes down a call that is not made.
    pub(crate) async fn note_refused(&self, call: DirectCall, envelope: ToolEnvelope) {
        self.note_call(call, Verdict::Refused(Box::new(envelope)), None).await;
    }

    async fn drive_call(&self, call: DirectCall, tool: &CompiledTool) -> Result<Called, Unavailable> {
        let DirectCall { session, cx, input, client_wait, .. } = call;
        let name = tool.definition.ref_name.to_string();
        let mut began = beginning(&session, cx.run, name.clone(), tool.content_hash.clone(), input);
        began.spec.client_wait_ms = u64::try_from(client_wait.as_millis()).ok();
        began.wanted.insert(name, format!("={}", tool.definition.version));
        let (realm, principal) = (Arc::clone(&session.realm), Arc::clone(&session.principal));
        let (owner, home) = (principal.id, Arc::clone(&session.realm));
        let crew = Arc::new(self.recruit(&began, realm, principal).await?);
        let (changes, prefix) = (Vec::new(), Vec::new());
        let live = self.begin(NewRunPlan { began, crew, home, owner, principal: owner, changes, prefix }).await?;
        let lost = || Unavailable::new("the call was lost; its run knows what became of it")("no driver".into());
        let snapshot = self.settled(&live).await.ok_or_else(lost)?;
        if snapshot.run.ending().is_none() {
            return Ok(Called::Waits(snapshot));
        }
        let receipt = snapshot.run.receipts_after(0).last().cloned().ok_or_else(lost)?;
        Ok(Called::Done(Box::new(receipt)))
    }

    /// Writes down a call that is over. Nobody waits for that, and a call that was made counts also if it fails.
    async fn note_call(&self, call: DirectCall, verdict: Verdict, ended: Option<Box<ToolEnvelope>>) {
        let DirectCall { session, cx, begun, input, .. } = call;
        let run = cx.run;
        let written = match (Story { run, begun, input, verdict, ended }).tell(&session) {
            Ok(changes) => self.0.writer.write(run, changes).await.map_err(Unavailable::from),
            Err(error) => Err(Unavailable::new("a call makes no journal")(Box::new(error))),
        };
        if let Err(error) = written {
            tracing::error!(%run, error = &error as &dyn std::error::Error, "a call is not in the journal");
        }
    }
}

/// A call that is over.
struct Story {
    run: RunId,
    begun: Timestamp,
    input: Value,
    verdict: Verdict,
    /// Its receipt, if it was made.
    ended: Option<Box<ToolEnvelope>>,
}

impl Story {
    /// The run that it was, with its whole journal.
    fn tell(self, session: &Session) -> Result<Vec<Change>, EventError> {
        let Self { run: id, begun, input, verdict, mut ended } = self;
        let (name, hash) = match &verdict {
            Verdict::Ready(facts) => (facts.name.clone(), facts.definition_hash.clone()),
            Verdict::Refused(envelope) => (envelope.name.clone(), String::new()),
        };
        // A secret that the caller has sent along is not in the receipt, and belongs in no journal either.
        let seen = ended.as_ref().map_or(&input, |envelope| &envelope.input);
        let known = is_shallow(seen) && (std::ptr::eq(seen, &input) || *seen == input);
        let input = match known {
            true => input,
            false if is_shallow(seen) => seen.clone(),
            false => Value::String(seen.to_string()),
        };
        if let Some(envelope) = ended.as_mut().filter(|_| !known) {
            envelope.call_id = CallId::derive(&envelope.name, &envelope.version, &input, 0);
        }
        let end = ended.as_ref().map_or(begun, |envelope| envelope.t_end.max(begun));
        let mut told = Telling { last: Mark { n: 0, hash: chain::origin(id) }, entries: Vec::with_capacity(3) };
        let began = Box::new(beginning(session, id, name.clone(), hash.clone(), input));
        let Recorded::Began(began) = told.write(begun, Recorded::Began(began)) else { return Ok(Vec::new()) };
        let mut machine = AgentRun::new(began.spec, begun);
        let prepared = Happened::Prepared { step: 1, calls: vec![verdict] };
        let happened = [Some((begun, prepared)), ended.map(|envelope| (end, Happened::ended(*envelope)))];
        for (at, what) in happened.into_iter().flatten() {
            machine.hand_out();
            if let Recorded::Happened(what) = told.write(at, Recorded::Happened(what.flat())) {
                machine.apply(Event { at, what })?;
            }
        }
        let Telling { last, entries } = told;
        let row = NewRun {
            id,
            kind: RunKind::Tool,
            subject: name,
            subject_hash: hash,
            parent: None,
            conversation: None,
            owner: session.principal.id,
            principal: session.principal.id,
            durable: false,
            started_at: begun,
            fork: None,
            trial: None,
            parts: Vec::new(),
        };
        let state = Box::new(state_of(&machine, end, last, false));
        let begin = Change::Begin { realm: session.realm.realm, run: Box::new(row), state };
        Ok([begin].into_iter().chain(entries.into_iter().map(Change::Append)).collect())
    }
}

/// Entries as they are written, one after the other.
struct Telling {
    last: Mark,
    entries: Vec<toolwright_store::Entry>,
}

impl Telling {
    /// Writes an entry, and gives back what it says.
    fn write(&mut self, at: Timestamp, what: Recorded) -> Recorded {
        let entry = Entry { n: self.last.n + 1, at, what };
        let written = link(&self.last, &entry, entry.body());
        self.last = Mark { n: written.n, hash: written.hash };
        self.entries.push(written);
        entry.what
    }
}

/// The beginning of a run that is one call. To call is to agree to it.
fn beginning(session: &Session, run: RunId, tool: String, definition_hash: String, input: Value) -> Began {
    let plan = vec![PlannedCall { tool: tool.clone(), input }];
    let mut began = Planned { run, subject: tool, definition_hash, task: None, plan, durable: false }.begin(session);
    began.direct = true;
    began.spec.policy.confirmed = true;
    began
}
