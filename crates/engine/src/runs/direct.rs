//! Direct calls: a run that is one call.
//!
//! One that may change something, or that a client makes, is driven like every other run: its intent is committed before it
//! is made, it can wait, and after a crash it is accounted for. One that only reads has ended before anybody could ask
//! about it, so its journal is written as a whole, behind it.

use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use toolwright_machine::AgentRun;
use toolwright_machine::agent::{Event, EventError, Happened, MAX_DEPTH, Prepared as Verdict, is_shallow};
use toolwright_machine::journal::{BEGAN, CALL_ENDED, Entry, PREPARED, Recorded, call_ended, chain};
use toolwright_store::{Change, Mark, NewRun, RunKind, RunState};
use toolwright_tools::{CallContext, CompiledTool, Outcome, Prepared};
use toolwright_types::{CallId, ErrorCode, RealmScope, RunId, RunStatus, Timestamp, ToolEnvelope, ToolError};

use super::form::{Form, beginning, prepared};
use super::journal::{link, state_of};
use super::live::Snapshot;
use super::signal::Wish;
use super::{NewRunPlan, Runs};
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
                let form = self.0.forms.of(&call.session, &call.cx, &ready);
                let envelope = match self.0.executor.call(&call.cx, *ready).await {
                    Outcome::Done(envelope) => envelope,
                    Outcome::Client(action) => action.pending,
                };
                self.note_call(call, Course::Made(&form, &envelope)).await;
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
        self.note_call(call, Course::Refused(Box::new(envelope))).await;
    }

    async fn drive_call(&self, call: DirectCall, tool: &CompiledTool) -> Result<Called, Unavailable> {
        let DirectCall { session, cx, input, client_wait, .. } = call;
        let name = tool.definition.ref_name.to_string();
        let mut began = beginning(&session, cx.run, name.clone(), tool.content_hash.clone(), input);
        began.spec.client_wait_ms = u64::try_from(client_wait.as_millis()).ok();
        began.wanted.insert(name, format!("={}", tool.definition.version));
        let (realm, principal) = (Arc::clone(&session.realm), Arc::clone(&session.principal));
        let (owner, home) = (principal.id, Arc::clone(&session.realm));
        let mut crew = self.recruit(&began, realm, principal).await?;
        // What whoever waits lends to the call, which no journal keeps.
        Arc::make_mut(&mut crew.cx).lent.progress = cx.lent.progress;
        let crew = Arc::new(crew);
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
    async fn note_call(&self, call: DirectCall, course: Course<'_>) {
        let DirectCall { session, cx, begun, input, .. } = call;
        let run = cx.run;
        let written = match (Story { run, begun, input, course }).tell(&session) {
            Ok(changes) => self.0.writer.write(run, changes).await.map_err(Unavailable::from),
            Err(error) => Err(Unavailable::new("a call makes no journal")(Box::new(error))),
        };
        if let Err(error) = written {
            tracing::error!(%run, error = &error as &dyn std::error::Error, "a call is not in the journal");
        }
    }
}

/// A call that is over.
struct Story<'a> {
    run: RunId,
    begun: Timestamp,
    input: Value,
    course: Course<'a>,
}

/// How a call went.
enum Course<'a> {
    /// It was not made.
    Refused(Box<ToolEnvelope>),
    /// It was made, and this is its receipt.
    Made(&'a Form, &'a ToolEnvelope),
}

impl Story<'_> {
    /// The run that it was, with its whole journal.
    fn tell(self, session: &Session) -> Result<Vec<Change>, EventError> {
        let Self { run: id, begun, input, course } = self;
        let (name, hash, ended) = match &course {
            Course::Made(Form { facts, .. }, receipt) => {
                (facts.name.clone(), facts.definition_hash.clone(), Some(*receipt))
            }
            Course::Refused(receipt) => (receipt.name.clone(), String::new(), None),
        };
        // A secret that the caller has sent along is not in the receipt, and belongs in no journal either.
        let seen = ended.map_or(&input, |envelope| &envelope.input);
        let known = is_shallow(seen) && (std::ptr::eq(seen, &input) || *seen == input);
        let input = match known {
            true => input,
            false if is_shallow(seen) => seen.clone(),
            false => Value::String(seen.to_string()),
        };
        let end = ended.map_or(begun, |envelope| envelope.t_end.max(begun));
        let mut told = Telling { last: Mark { n: 0, hash: chain::origin(id) }, entries: Vec::with_capacity(3) };
        let state = match course {
            Course::Made(form, receipt) if known && is_plain(receipt) => {
                told.append(begun, BEGAN, form.began(id, &input));
                told.append(begun, PREPARED, form.prepared.clone());
                told.append(end, CALL_ENDED, call_ended(receipt));
                completed(end, told.last)
            }
            course => {
                let began = beginning(session, id, name.clone(), hash.clone(), input.clone());
                let mut machine = AgentRun::new(began.spec.clone(), begun);
                told.write(begun, Recorded::Began(Box::new(began)));
                let (verdict, ended) = match course {
                    Course::Refused(receipt) => (Verdict::Refused(receipt), None),
                    Course::Made(form, receipt) => {
                        (Verdict::Ready(Box::new(form.facts.clone())), Some(receipt.clone()))
                    }
                };
                told.hear(&mut machine, begun, prepared(verdict))?;
                if let Some(mut receipt) = ended {
                    if !known {
                        receipt.call_id = CallId::derive(&receipt.name, &receipt.version, &input, 0);
                    }
                    told.hear(&mut machine, end, Happened::ended(receipt).flat())?;
                }
                state_of(&machine, end, told.last, false)
            }
        };
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
        let begin = Change::Begin { realm: session.realm.realm, run: Box::new(row), state: Box::new(state) };
        Ok([begin].into_iter().chain(told.entries.into_iter().map(Change::Append)).collect())
    }
}

/// Whether a call that was made ended in the one way that leaves a machine nothing to decide: it succeeded, for nothing.
fn is_plain(envelope: &ToolEnvelope) -> bool {
    envelope.error.is_none()
        && envelope.metadata.cost_usd.is_none()
        && envelope.metadata.calls.is_empty()
        && is_shallow(&envelope.output)
}

/// Where a machine stands after such a call.
fn completed(end: Timestamp, mark: Mark) -> RunState {
    RunState {
        status: RunStatus::Completed,
        reason: None,
        message: None,
        updated_at: end,
        ended_at: Some(end),
        wake_at: None,
        iterations: 0,
        tokens: 0,
        cost_usd: 0.0,
        driven: false,
        mark,
    }
}

/// Entries as they are written, one after the other.
struct Telling {
    last: Mark,
    entries: Vec<toolwright_store::Entry>,
}

impl Telling {
    /// Writes an entry.
    fn write(&mut self, at: Timestamp, what: Recorded) {
        let entry = Entry { n: self.last.n + 1, at, what };
        self.append(at, entry.kind(), entry.body());
    }

    /// Writes what happened, and tells the machine.
    fn hear(&mut self, machine: &mut AgentRun, at: Timestamp, what: Happened) -> Result<(), EventError> {
        self.write(at, Recorded::Happened(what.clone()));
        machine.hand_out();
        machine.apply(Event { at, what }).map(drop)
    }

    fn append(&mut self, at: Timestamp, kind: &str, body: String) {
        let written = link(&self.last, at, kind, body);
        self.last = Mark { n: written.n, hash: written.hash };
        self.entries.push(written);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use toolwright_machine::agent::Facts;
    use toolwright_machine::journal::replay;
    use toolwright_types::{DocumentId, OrgId, Principal, PrincipalId, RealmId, Role, SideEffects};

    use super::*;

    fn session() -> Session {
        let (org, realm) = (OrgId::from_bits(1), RealmId::from_bits(2));
        let principal = Principal {
            id: PrincipalId::from_bits(3),
            org,
            name: "ada".parse().unwrap(),
            home: realm,
            roles: vec![Role::Member],
        };
        let realm = RealmScope { org, realm, name: "default".parse().unwrap() };
        Session { principal: Arc::new(principal), realm: Arc::new(realm) }
    }

    fn receipt(output: Value, more: Value) -> ToolEnvelope {
        let mut receipt = json!({ "call_id": CallId::derive("t", "1.0.0", &json!({ "a": 1 }), 0), "name": "t", "version": "1.0.0",
            "input": { "a": 1 }, "output": output, "error": null, "t_start": "2026-01-01T00:00:00Z",
            "t_end": "2026-01-01T00:00:01Z", "cached": false, "truncated": false, "attachments": [], "metadata": { "attempt": 1 } });
        for (field, value) in more.as_object().unwrap() {
            *receipt.pointer_mut(field).unwrap() = value.clone();
        }
        serde_json::from_value(receipt).unwrap()
    }

    /// What is written without a machine is what the machine would have made of it.
    #[test]
    fn a_call_that_is_told_plainly_stands_where_its_journal_puts_it() {
        let begun: Timestamp = serde_json::from_value(json!("2026-01-01T00:00:00Z")).unwrap();
        let (run, failed) = (RunId::generate(), json!({ "code": "TIMEOUT", "message": "late" }));
        let facts = Facts::new("t", "1.0.0", "hash", SideEffects::None);
        for (receipt, plain) in [
            (receipt(json!({ "b": 2 }), json!({})), true),
            (receipt(Value::Null, json!({ "/cached": true, "/truncated": true })), true),
            (receipt(Value::Null, json!({ "/error": failed })), false),
            (receipt(json!(1), json!({ "/metadata": { "attempt": 2, "cost_usd": 5.0 } })), false),
            (receipt(json!(1), json!({ "/metadata": { "attempt": 1, "cost_usd": 0.1 } })), false),
        ] {
            assert_eq!(is_plain(&receipt), plain, "{receipt:?}");
            let form = Form::new(&session(), facts.clone());
            let story = Story { run, begun, input: json!({ "a": 1 }), course: Course::Made(&form, &receipt) };
            let told = story.tell(&session()).unwrap();
            let (mut entries, mut state) = (Vec::new(), None);
            for change in told {
                match change {
                    Change::Begin { state: begun, .. } => state = Some(*begun),
                    Change::Append(entry) => entries.push(entry),
                    other => panic!("{other:?}"),
                }
            }
            let last = entries.last().map(|entry| (entry.at, Mark { n: entry.n, hash: entry.hash })).unwrap();
            let began = beginning(&session(), run, "t".into(), "hash".into(), json!({ "a": 1 }));
            let whole = [
                Recorded::Began(Box::new(began)),
                Recorded::Happened(prepared(Verdict::Ready(Box::new(facts.clone())))),
                Recorded::Happened(Happened::ended(receipt.clone())),
            ];
            for (entry, what) in entries.iter().zip(whole) {
                assert_eq!(entry.body, Entry { n: entry.n, at: entry.at, what }.body());
            }
            let read = entries.iter().map(|entry| Entry::read(entry.n, entry.at, &entry.body).unwrap());
            let (_, machine) = replay(read).unwrap();
            assert_eq!(state.unwrap(), state_of(&machine, last.0, last.1, false), "{receipt:?}");
            assert_eq!(
                entries.iter().map(|entry| entry.kind.as_str()).collect::<Vec<_>>(),
                ["began", "prepared", "call_ended"]
            );
        }
    }
}
