//! Stores drift findings. A finding says that a tool's output schema differs from the outputs or from the API
//! description of the external system. Each tool has one finding per set of differences, with a counter of the
//! observations.

use serde_json::Value;
use toolwright_types::{DocumentId, DriftId, RealmId, RealmScope, RefName, Timestamp};

use crate::db::StoreError;
use crate::events::write::{self as events, NewEvent};
use crate::events::{EventKind, EventType};
use crate::store::Store;

/// The drift findings of one realm.
#[derive(Debug, Clone, Copy)]
pub struct RealmDrift<'a> {
    store: &'a Store,
    // INVARIANT: every query of this handle selects rows of this realm only.
    realm: RealmId,
}

/// How a finding was detected.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum DriftSource {
    /// A tool returned an output that did not match the schema.
    Output,
    /// An import of a newer API description showed the differences.
    Import,
}

impl DriftSource {
    /// The name of the source in the database and in the REST API.
    pub fn as_str(self) -> &'static str {
        match self {
            DriftSource::Output => "output",
            DriftSource::Import => "import",
        }
    }
}

/// Observations of the same drift, to be recorded.
#[derive(Debug, Clone)]
pub struct NewDrift {
    /// The tool.
    pub tool: RefName,
    /// The version of the tool.
    pub version: String,
    /// How the drift was detected.
    pub source: DriftSource,
    /// The hash of the differences.
    pub fingerprint: String,
    /// The differences, as JSON.
    pub differences: Value,
    /// The number of observations.
    pub count: i64,
}

/// A drift finding.
#[derive(Debug, Clone, PartialEq)]
pub struct Drift {
    /// The id.
    pub id: DriftId,
    /// The tool.
    pub tool: String,
    /// The tool version of the last observation.
    pub version: String,
    /// The source: `output` or `import`.
    pub source: String,
    /// The differences, as JSON.
    pub differences: Value,
    /// The number of observations.
    pub count: i64,
    /// The time of the first observation.
    pub first_seen: Timestamp,
    /// The time of the last observation.
    pub last_seen: Timestamp,
    /// The user who accepted the finding, and the time of the acceptance. `None` if the finding is not accepted.
    pub accepted: Option<(String, Timestamp)>,
}

/// A query for findings.
#[derive(Debug, Clone, Default)]
pub struct DriftQuery {
    /// If set, only findings of this tool are returned.
    pub tool: Option<String>,
    /// If set, only accepted (`true`) or only unaccepted (`false`) findings are returned.
    pub accepted: Option<bool>,
    /// The last finding of the previous page. The page starts after it.
    pub after: Option<DriftId>,
    /// The maximum number of findings.
    pub limit: u32,
}

#[derive(sqlx::FromRow)]
struct Row {
    id: String,
    tool: String,
    version: String,
    source: String,
    differences: String,
    count: i64,
    first_seen: i64,
    last_seen: i64,
    accepted_by: Option<String>,
    accepted_at: Option<i64>,
}

impl Store {
    /// Returns the drift findings of one realm.
    pub fn drifts(&self, scope: &RealmScope) -> RealmDrift<'_> {
        RealmDrift::new(self, scope)
    }
}

impl<'a> RealmDrift<'a> {
    fn new(store: &'a Store, scope: &RealmScope) -> Self {
        Self { store, realm: scope.realm }
    }

    /// Records observations: inserts a finding, or adds the number of observations to the counter of the existing
    /// finding.
    pub async fn record(&self, new: NewDrift) -> Result<(), StoreError> {
        let (now, id) = (self.store.now(), DriftId::generate().to_string());
        let mut tx = self.store.db.begin().await?;
        let stored: String = within!(tx, |conn| {
            sqlx::query_scalar(
                "INSERT INTO drift_findings (id, realm_id, tool, version, source, fingerprint, differences, count, first_seen, last_seen)
                 VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $9)
                 ON CONFLICT (realm_id, tool, fingerprint) DO UPDATE SET version = excluded.version,
                   count = drift_findings.count + excluded.count, last_seen = excluded.last_seen
                 RETURNING id",
            )
            .bind(&id)
            .bind(self.realm.to_string())
            .bind(new.tool.key())
            .bind(&new.version)
            .bind(new.source.as_str())
            .bind(&new.fingerprint)
            .bind(new.differences.to_string())
            .bind(new.count)
            .bind(now.as_micros())
            .fetch_one(conn)
        })?;
        // Only a new finding has an event. Further observations of the finding are frequent.
        if stored != id {
            return tx.commit_unannounced().await;
        }
        let event = finding_event(EventType::DriftFound, &id, new.tool.as_str(), "open");
        events::insert(&mut tx, self.realm, now, event).await?;
        tx.commit_unannounced().await?;
        self.store.announce_events();
        Ok(())
    }

    /// Returns a page of findings, newest first.
    pub async fn list(&self, query: &DriftQuery) -> Result<Vec<Drift>, StoreError> {
        let rows: Vec<Row> = read!(&self.store.db, |pool| {
            sqlx::query_as(
                "SELECT id, tool, version, source, differences, count, first_seen, last_seen, accepted_by, accepted_at
                 FROM drift_findings
                 WHERE realm_id = $1 AND ($2 = '' OR tool = $2) AND ($3 = '' OR id < $3)
                   AND ($4 = '' OR ($4 = 'yes') = (accepted_at IS NOT NULL))
                 ORDER BY id DESC LIMIT $5",
            )
            .bind(self.realm.to_string())
            .bind(query.tool.as_deref().unwrap_or_default().to_ascii_lowercase())
            .bind(query.after.map(|id| id.to_string()).unwrap_or_default())
            .bind(query.accepted.map_or("", |accepted| if accepted { "yes" } else { "no" }))
            .bind(i64::from(query.limit))
            .fetch_all(pool)
        })?;
        rows.into_iter().map(Drift::try_from).collect()
    }

    /// Returns one finding.
    pub async fn get(&self, id: DriftId) -> Result<Option<Drift>, StoreError> {
        let row: Option<Row> = read!(&self.store.db, |pool| {
            sqlx::query_as(
                "SELECT id, tool, version, source, differences, count, first_seen, last_seen, accepted_by, accepted_at
                 FROM drift_findings WHERE realm_id = $1 AND id = $2",
            )
            .bind(self.realm.to_string())
            .bind(id.to_string())
            .fetch_optional(pool)
        })?;
        row.map(Drift::try_from).transpose()
    }

    /// Marks a finding as accepted. A finding that is accepted already stays unchanged.
    pub async fn accept(&self, id: DriftId, by: &str) -> Result<(), StoreError> {
        let now = self.store.now();
        let mut tx = self.store.db.begin().await?;
        let accepted: Option<String> = within!(tx, |conn| {
            sqlx::query_scalar(
                "UPDATE drift_findings SET accepted_by = $1, accepted_at = $2
                 WHERE realm_id = $3 AND id = $4 AND accepted_at IS NULL RETURNING tool",
            )
            .bind(by)
            .bind(now.as_micros())
            .bind(self.realm.to_string())
            .bind(id.to_string())
            .fetch_optional(conn)
        })?;
        if let Some(tool) = &accepted {
            let id = id.to_string();
            let event = finding_event(EventType::DriftAccepted, &id, tool, "accepted");
            events::insert(&mut tx, self.realm, now, event).await?;
        }
        tx.commit_unannounced().await?;
        self.store.announce_events();
        Ok(())
    }
}

fn finding_event<'a>(event_type: EventType, id: &'a str, tool: &'a str, status: &'static str) -> NewEvent<'a> {
    NewEvent {
        event_type,
        kind: EventKind::Drift,
        id,
        ref_name: tool,
        status: Some(status),
        revision: None,
        category: None,
    }
}

impl TryFrom<Row> for Drift {
    type Error = StoreError;

    fn try_from(row: Row) -> Result<Self, StoreError> {
        let accepted = row.accepted_by.zip(row.accepted_at.map(Timestamp::from_micros));
        Ok(Self {
            id: row.id.parse().map_err(StoreError::unreadable)?,
            tool: row.tool,
            version: row.version,
            source: row.source,
            differences: serde_json::from_str(&row.differences).map_err(StoreError::unreadable)?,
            count: row.count,
            first_seen: Timestamp::from_micros(row.first_seen),
            last_seen: Timestamp::from_micros(row.last_seen),
            accepted,
        })
    }
}
