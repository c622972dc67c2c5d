//! Writes events in the transactions of their changes.

use toolwright_types::{DocumentKind, RealmId, RunId, RunStatus, Timestamp};

use super::{EventKind, EventType};
use crate::db::{StoreError, Tx};
use crate::runs::write::{RunInsert, StateUpdate};
use crate::runs::{RunState, StoredDecision, Wait, WaitKind};
use crate::sql::{Bound, Sql, statement_chunks, storable};

/// The events for the runs that one transaction changes. A run that is stored with an inline journal has no events.
pub(crate) struct RunEvents<'a> {
    events: Vec<RunEvent<'a>>,
}

struct RunEvent<'a> {
    run: RunId,
    event_type: EventType,
    at: Timestamp,
    /// For approvals, the id of the call and the name of its tool.
    call: Option<(&'a str, &'a str)>,
    status: Option<&'static str>,
    condition: Condition,
}

/// The condition under which an event is written. The database compares the new state of a run with the stored state,
/// because the writer knows only the new state.
#[derive(Clone, Copy)]
enum Condition {
    Always,
    /// The status differs from the status of the stored run.
    StatusChanged,
    /// According to the stored run, the run does not wait for the call yet.
    NewWait,
}

impl Condition {
    fn as_str(self) -> &'static str {
        match self {
            Condition::Always => "always",
            Condition::StatusChanged => "status",
            Condition::NewWait => "wait",
        }
    }
}

impl RunEvent<'_> {
    fn status(run: RunId, state: &RunState, condition: Condition) -> Self {
        let (event_type, at) = match state.ended_at {
            Some(ended_at) => (EventType::RunEnded, ended_at),
            None => (EventType::RunChanged, state.updated_at),
        };
        Self { run, event_type, at, call: None, status: Some(state.status.as_str()), condition }
    }
}

impl<'a> RunEvents<'a> {
    /// Derives the events from the rows to write. A run that starts and ends in the same transaction has a start event
    /// and an end event.
    pub(crate) fn new(
        inserts: &[RunInsert<'a>],
        decisions: &[(RunId, &'a StoredDecision)],
        updates: &[StateUpdate<'a>],
        waits: &[(RunId, &'a Wait)],
    ) -> Self {
        let mut events = Vec::with_capacity(2 * inserts.len() + decisions.len() + updates.len() + waits.len());
        for RunInsert { run, state, .. } in inserts {
            events.push(RunEvent {
                run: run.id,
                event_type: EventType::RunStarted,
                at: run.started_at,
                call: None,
                status: Some(RunStatus::Running.as_str()),
                condition: Condition::Always,
            });
            if state.status != RunStatus::Running {
                events.push(RunEvent::status(run.id, state, Condition::Always));
            }
        }
        events.extend(decisions.iter().map(|(run, decision)| RunEvent {
            run: *run,
            event_type: EventType::ApprovalDecided,
            at: decision.decided_at,
            call: Some((decision.call_id.as_str(), &decision.tool)),
            status: Some(decision.outcome.as_str()),
            condition: Condition::Always,
        }));
        let updates = updates.iter();
        events.extend(updates.map(|update| RunEvent::status(update.run, update.state, Condition::StatusChanged)));
        let approvals = waits.iter().filter(|(_, wait)| wait.kind == WaitKind::Approval);
        events.extend(approvals.map(|(run, wait)| RunEvent {
            run: *run,
            event_type: EventType::ApprovalRequested,
            at: wait.requested_at,
            call: Some((wait.call_id.as_str(), &wait.tool)),
            status: None,
            condition: Condition::NewWait,
        }));
        Self { events }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.events.is_empty()
    }

    /// Inserts the events. Must be called after new runs are inserted, and before the states and waits of existing runs
    /// are updated.
    pub(crate) async fn insert(&self, tx: &mut Tx) -> Result<(), StoreError> {
        let numbered: Vec<(i64, &RunEvent<'_>)> = (0..).zip(&self.events).collect();
        for events in statement_chunks(&numbered, 9) {
            let mut sql = Sql::with_many_values(
                tx,
                "INSERT INTO events (realm_id, owner_id, event_type, kind, at, subject_id, run_id, ref_name, status)
                 SELECT r.realm_id, r.owner_id, v.column3, v.column4, v.column5, COALESCE(v.column6, r.id),
                        CASE WHEN v.column6 IS NOT NULL THEN r.id END, COALESCE(v.column7, r.subject), v.column8
                 FROM (VALUES ",
            );
            sql.rows(events, |sql, (number, event)| {
                let kind = if event.call.is_some() { EventKind::Approval } else { EventKind::Run };
                let (call, tool) = event.call.unzip();
                sql.text(event.run).push(", ").integer(*number).push(", ").text(event.event_type.as_str());
                sql.push(", ").text(kind.as_str()).push(", ").integer(event.at.as_micros());
                sql.push(", ").bind(Bound::TextOrNull(call.map(str::to_owned)));
                sql.push(", ").bind(Bound::TextOrNull(tool.map(storable)));
                sql.push(", ").bind(Bound::TextOrNull(event.status.map(str::to_owned)));
                sql.push(", ").text(event.condition.as_str());
            });
            sql.push(
                ") AS v JOIN runs r ON r.id = v.column1
                 WHERE v.column9 = 'always' OR (v.column9 = 'status' AND r.status <> v.column8)
                    OR (v.column9 = 'wait' AND NOT EXISTS (SELECT 1 FROM waits w WHERE w.run_id = r.id
                                                                                  AND w.call_id = v.column6))
                 ORDER BY v.column2",
            );
            sql.execute(tx).await?;
        }
        Ok(())
    }
}

/// An event about a definition or a drift finding.
pub(crate) struct NewEvent<'a> {
    pub(crate) event_type: EventType,
    pub(crate) kind: EventKind,
    pub(crate) id: &'a str,
    pub(crate) ref_name: &'a str,
    pub(crate) status: Option<&'static str>,
    pub(crate) revision: Option<i64>,
    pub(crate) category: Option<&'a str>,
}

impl<'a> NewEvent<'a> {
    /// Creates the event of a definition.
    pub(crate) fn definition(
        event_type: EventType,
        kind: DocumentKind,
        (id, ref_name, revision): (&'a str, &'a str, i64),
        body: &'a serde_json::Value,
    ) -> Self {
        // The event contains the category, because policies can grant access to tools by category.
        let category = body.get("category").and_then(serde_json::Value::as_str);
        let category = category.filter(|_| kind == DocumentKind::Tool);
        Self {
            event_type,
            kind: EventKind::Definition(kind),
            id,
            ref_name,
            status: None,
            revision: Some(revision),
            category,
        }
    }
}

/// Inserts an event about a definition or a drift finding.
pub(crate) async fn insert(tx: &mut Tx, realm: RealmId, at: Timestamp, event: NewEvent<'_>) -> Result<(), StoreError> {
    execute!(
        *tx,
        sqlx::query(
            "INSERT INTO events (realm_id, at, event_type, kind, subject_id, ref_name, status, revision, category)
             VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)",
        )
        .bind(realm.to_string())
        .bind(at.as_micros())
        .bind(event.event_type.as_str())
        .bind(event.kind.as_str())
        .bind(event.id)
        .bind(event.ref_name)
        .bind(event.status)
        .bind(event.revision)
        .bind(event.category.map(storable))
    )
    .map(|_| ())
}
