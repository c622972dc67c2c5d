//! Stores the changes that the event stream of a realm reports: changes of runs, approvals, definitions and drift.
//!
//! An event is a row that is written in the transaction of its change. A direct call that only reads has no events: its
//! run is first written when the run has already ended. So such a call costs no additional row.
//!
//! # No event is skipped
//!
//! A reader continues after the position of the last event that it has read. So an event that is added later must not
//! have an earlier position. On SQLite all writes use one connection, so the sequence numbers are in the order of the
//! commits. On Postgres a transaction can get its sequence number first and commit last. So a position on Postgres
//! starts with the id of the transaction, and a reader stops before the oldest transaction that is still active: all
//! transactions before it have ended, and later transactions have higher ids. Writers take no lock for this order. A
//! long transaction delays the events of later transactions, but no event is skipped.

mod read;
mod remove;
pub(crate) mod write;

use std::fmt;
use std::str::FromStr;

use toolwright_types::{DocumentKind, Owner, RealmId, RealmScope, Timestamp};

use crate::store::Store;

pub use read::{EventBounds, EventPage};

/// The events of one realm.
#[derive(Debug, Clone, Copy)]
pub struct RealmEvents<'a> {
    store: &'a Store,
    // INVARIANT: every query of this handle selects rows of this realm only.
    realm: RealmId,
}

impl Store {
    /// Returns the events of one realm.
    pub fn events(&self, scope: &RealmScope) -> RealmEvents<'_> {
        RealmEvents { store: self, realm: scope.realm }
    }
}

/// The position of an event in the stream of its realm. Clients use its text form as an opaque id.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EventPosition {
    // INVARIANT: the fields are in the order in which readers sort the rows.
    transaction: i64,
    seq: i64,
}

impl EventPosition {
    /// Creates a position from its columns.
    pub(crate) fn new(transaction: i64, seq: i64) -> Self {
        Self { transaction, seq }
    }

    /// Returns the columns of the position.
    pub(crate) fn parts(self) -> (i64, i64) {
        (self.transaction, self.seq)
    }
}

impl fmt::Display for EventPosition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.transaction, self.seq)
    }
}

/// The text is not the id of an event.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("must be the `id` of an event of this stream, got `{0}`")]
pub struct InvalidEventPosition(String);

impl FromStr for EventPosition {
    type Err = InvalidEventPosition;

    fn from_str(text: &str) -> Result<Self, InvalidEventPosition> {
        let number = |digits: &str| digits.bytes().all(|byte| byte.is_ascii_digit()).then(|| digits.parse().ok())?;
        let position = text
            .split_once('-')
            .and_then(|(transaction, seq)| Some(Self { transaction: number(transaction)?, seq: number(seq)? }));
        position.ok_or_else(|| InvalidEventPosition(text.to_owned()))
    }
}

/// The kind of the object that changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum EventKind {
    /// A run.
    Run,
    /// An approval.
    Approval,
    /// A definition.
    Definition(DocumentKind),
    /// A drift finding.
    Drift,
}

impl EventKind {
    /// All kinds.
    pub const ALL: [Self; 13] = [
        Self::Run,
        Self::Approval,
        Self::Definition(DocumentKind::Tool),
        Self::Definition(DocumentKind::Provider),
        Self::Definition(DocumentKind::Agent),
        Self::Definition(DocumentKind::Fragment),
        Self::Definition(DocumentKind::Type),
        Self::Definition(DocumentKind::Workflow),
        Self::Definition(DocumentKind::StepRegistration),
        Self::Definition(DocumentKind::ConditionBinding),
        Self::Definition(DocumentKind::Trigger),
        Self::Definition(DocumentKind::Webhook),
        Self::Drift,
    ];

    /// The name of the kind in the database and in the REST API.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Run => "runs",
            Self::Approval => "approvals",
            Self::Definition(DocumentKind::Tool) => "tools",
            Self::Definition(DocumentKind::Provider) => "providers",
            Self::Definition(DocumentKind::Agent) => "agents",
            Self::Definition(DocumentKind::Fragment) => "fragments",
            Self::Definition(DocumentKind::Type) => "types",
            Self::Definition(DocumentKind::Workflow) => "workflows",
            Self::Definition(DocumentKind::StepRegistration) => "step-registrations",
            Self::Definition(DocumentKind::ConditionBinding) => "condition-bindings",
            Self::Definition(DocumentKind::Trigger) => "triggers",
            Self::Definition(DocumentKind::Webhook) => "webhooks",
            Self::Drift => "drift",
        }
    }
}

/// How the object changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum EventType {
    /// A run started.
    RunStarted,
    /// The status of a run changed, and the run has not ended.
    RunChanged,
    /// A run ended.
    RunEnded,
    /// A call waits for approval.
    ApprovalRequested,
    /// An approval was decided or expired.
    ApprovalDecided,
    /// A definition was created.
    DefinitionCreated,
    /// A revision of a definition was written.
    DefinitionUpdated,
    /// A definition was deleted.
    DefinitionDeleted,
    /// A new drift finding was recorded.
    DriftFound,
    /// A drift finding was accepted.
    DriftAccepted,
}

impl EventType {
    const ALL: [Self; 10] = [
        Self::RunStarted,
        Self::RunChanged,
        Self::RunEnded,
        Self::ApprovalRequested,
        Self::ApprovalDecided,
        Self::DefinitionCreated,
        Self::DefinitionUpdated,
        Self::DefinitionDeleted,
        Self::DriftFound,
        Self::DriftAccepted,
    ];

    /// The name of the type in the database and in the REST API.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::RunStarted => "RUN_STARTED",
            Self::RunChanged => "RUN_CHANGED",
            Self::RunEnded => "RUN_ENDED",
            Self::ApprovalRequested => "APPROVAL_REQUESTED",
            Self::ApprovalDecided => "APPROVAL_DECIDED",
            Self::DefinitionCreated => "DEFINITION_CREATED",
            Self::DefinitionUpdated => "DEFINITION_UPDATED",
            Self::DefinitionDeleted => "DEFINITION_DELETED",
            Self::DriftFound => "DRIFT_FOUND",
            Self::DriftAccepted => "DRIFT_ACCEPTED",
        }
    }
}

/// A change in a realm.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    /// The position in the stream of the realm.
    pub position: EventPosition,
    /// The time of the change.
    pub at: Timestamp,
    /// How the object changed.
    pub event_type: EventType,
    /// The kind of the object that changed.
    pub kind: EventKind,
    /// The id of the run, definition or finding that changed. For approvals, the id of the call.
    pub id: String,
    /// For approvals, the run that made the call.
    pub run: Option<String>,
    /// For runs, the name of the agent or tool. For approvals and findings, the name of the tool. For definitions, the
    /// name of the definition.
    pub ref_name: Option<String>,
    /// The status of the run or finding, or the outcome of the approval.
    pub status: Option<String>,
    /// The revision of the definition.
    pub revision: Option<i64>,
    /// The owner of the run, for runs and approvals.
    pub owner: Option<Owner>,
    /// The category of a tool definition. The permission to read the tool depends on it.
    pub category: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn position_is_the_same_after_a_round_trip_through_its_text() {
        let position = EventPosition { transaction: 7, seq: 42 };
        assert_eq!("7-42".parse(), Ok(position));
        assert_eq!(position.to_string(), "7-42");
        for text in ["", "7", "7-", "-7", "7-x", "+7-1", "7--1", "99999999999999999999-1"] {
            assert!(text.parse::<EventPosition>().is_err(), "{text}");
        }
    }
}
