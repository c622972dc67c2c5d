//! Drift: where systems differ from what their tools say. One finding for each tool and shape, however often it is seen.

use serde_json::Value;
use toolwright_types::{DocumentId, DriftId, RealmId, RealmScope, RefName, Timestamp};

use crate::db::Unavailable;
use crate::store::Store;

/// The findings of one realm; those of every other do not exist here.
#[derive(Debug, Clone, Copy)]
pub struct Drifts<'a> {
    store: &'a Store,
    // INVARIANT: every query of this handle is confined to this realm.
    realm: RealmId,
}

/// How drift came to be noticed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum DriftSource {
    /// An output did not fit.
    Output,
    /// A new description of the API says something else.
    Import,
}

impl DriftSource {
    /// The source as it is written on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            DriftSource::Output => "output",
            DriftSource::Import => "import",
        }
    }
}

/// What was seen.
#[derive(Debug, Clone)]
pub struct NewDrift {
    /// The tool.
    pub tool: RefName,
    /// Its version.
    pub version: String,
    /// How it was noticed.
    pub source: DriftSource,
    /// The hash of the differences.
    pub fingerprint: String,
    /// The differences, as JSON.
    pub differences: Value,
    /// How often.
    pub count: i64,
}

/// A finding.
#[derive(Debug, Clone, PartialEq)]
pub struct Drift {
    /// Its identity.
    pub id: DriftId,
    /// The tool.
    pub tool: String,
    /// The version that was seen last.
    pub version: String,
    /// How it was noticed: `output` or `import`.
    pub source: String,
    /// The differences, as JSON.
    pub differences: Value,
    /// How often it was seen.
    pub count: i64,
    /// When it was seen first.
    pub first_seen: Timestamp,
    /// When it was seen last.
    pub last_seen: Timestamp,
    /// Who said that it is known, and when.
    pub accepted: Option<(String, Timestamp)>,
}

/// Which findings.
#[derive(Debug, Clone, Default)]
pub struct DriftQuery {
    /// Of this tool.
    pub tool: Option<String>,
    /// Accepted ones, or those that are not.
    pub accepted: Option<bool>,
    /// From after this one on; the newest come first.
    pub after: Option<DriftId>,
    /// How many.
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

impl<'a> Drifts<'a> {
    pub(crate) fn new(store: &'a Store, scope: &RealmScope) -> Self {
        Self { store, realm: scope.realm }
    }

    /// Notes what was seen: a new finding, or one more of a known one.
    pub async fn record(&self, seen: NewDrift) -> Result<(), Unavailable> {
        let now = self.store.now().as_micros();
        let mut tx = self.store.db.begin().await?;
        execute!(
            tx,
            sqlx::query(
                "INSERT INTO drift_findings (id, realm_id, tool, version, source, fingerprint, differences, count, first_seen, last_seen)
                 VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $9)
                 ON CONFLICT (realm_id, tool, fingerprint) DO UPDATE SET version = excluded.version,
                   count = drift_findings.count + excluded.count, last_seen = excluded.last_seen",
            )
            .bind(DriftId::generate().to_string())
            .bind(self.realm.to_string())
            .bind(seen.tool.key())
            .bind(&seen.version)
            .bind(seen.source.as_str())
            .bind(&seen.fingerprint)
            .bind(seen.differences.to_string())
            .bind(seen.count)
            .bind(now)
        )?;
        tx.commit_unannounced().await
    }

    /// A page of findings, the newest first.
    pub async fn list(&self, query: &DriftQuery) -> Result<Vec<Drift>, Unavailable> {
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

    /// One finding.
    pub async fn get(&self, id: DriftId) -> Result<Option<Drift>, Unavailable> {
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

    /// Notes that somebody knows.
    pub async fn accept(&self, id: DriftId, by: &str) -> Result<(), Unavailable> {
        let mut tx = self.store.db.begin().await?;
        execute!(
            tx,
            sqlx::query(
                "UPDATE drift_findings SET accepted_by = $1, accepted_at = $2
                 WHERE realm_id = $3 AND id = $4 AND accepted_at IS NULL",
            )
            .bind(by)
            .bind(self.store.now().as_micros())
            .bind(self.realm.to_string())
            .bind(id.to_string())
        )?;
        tx.commit_unannounced().await
    }
}

impl TryFrom<Row> for Drift {
    type Error = Unavailable;

    fn try_from(row: Row) -> Result<Self, Unavailable> {
        let accepted = row.accepted_by.zip(row.accepted_at.map(Timestamp::from_micros));
        Ok(Self {
            id: row.id.parse().map_err(Unavailable::unreadable)?,
            tool: row.tool,
            version: row.version,
            source: row.source,
            differences: serde_json::from_str(&row.differences).map_err(Unavailable::unreadable)?,
            count: row.count,
            first_seen: Timestamp::from_micros(row.first_seen),
            last_seen: Timestamp::from_micros(row.last_seen),
            accepted,
        })
    }
}
