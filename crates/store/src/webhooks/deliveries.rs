//! The deliveries of events to webhooks.

use std::str::FromStr;

use toolwright_types::{DeliveryId, RealmId, RealmScope, Timestamp, WebhookId};

use crate::db::{StoreError, Tx};
use crate::page::{self, Page, TimeCursor};
use crate::sql::{Sql, storable};
use crate::store::Store;

/// The columns of a [`DeliveryRow`].
macro_rules! columns {
    () => {
        "id, realm_id, webhook_id, event_id, event_type, body, created_at, status, attempts, retry_at, response_status,
         error"
    };
}

/// The deliveries to the webhooks of one realm.
#[derive(Debug, Clone, Copy)]
pub struct RealmDeliveries<'a> {
    pub(super) store: &'a Store,
    // INVARIANT: every query of this handle selects rows of this realm only.
    pub(super) realm: RealmId,
}

/// The status of a delivery.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum DeliveryStatus {
    /// The event was not delivered yet.
    Pending,
    /// The receiver has accepted the event.
    Delivered,
    /// All attempts have failed.
    Dead,
}

impl DeliveryStatus {
    /// All statuses.
    pub const ALL: [Self; 3] = [Self::Pending, Self::Delivered, Self::Dead];

    /// The name of the status in the database and in the REST API.
    pub fn as_str(self) -> &'static str {
        match self {
            DeliveryStatus::Pending => "PENDING",
            DeliveryStatus::Delivered => "DELIVERED",
            DeliveryStatus::Dead => "DEAD",
        }
    }
}

/// The text is not a status of a delivery.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("must be `PENDING`, `DELIVERED` or `DEAD`, got `{0}`")]
pub struct InvalidDeliveryStatus(String);

impl FromStr for DeliveryStatus {
    type Err = InvalidDeliveryStatus;

    fn from_str(text: &str) -> Result<Self, InvalidDeliveryStatus> {
        let found = Self::ALL.into_iter().find(|status| status.as_str() == text);
        found.ok_or_else(|| InvalidDeliveryStatus(text.to_owned()))
    }
}

/// A delivery to create.
#[derive(Debug, Clone)]
pub struct NewDelivery {
    /// The id, which the receiver gets as `webhook-id`.
    pub id: DeliveryId,
    /// The webhook.
    pub webhook: WebhookId,
    /// The id of the event.
    pub event_id: String,
    /// The type of the event.
    pub event_type: String,
    /// The JSON body of the request.
    pub body: String,
    /// The time of creation.
    pub created_at: Timestamp,
    /// The time of the first attempt by the delivery loop. `None` for a delivery that the caller attempts itself.
    pub retry_at: Option<Timestamp>,
}

/// A delivery of an event to a webhook.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Delivery {
    /// The id, which the receiver gets as `webhook-id`.
    pub id: DeliveryId,
    /// The realm of the webhook.
    pub realm: RealmId,
    /// The webhook.
    pub webhook: WebhookId,
    /// The id of the event.
    pub event_id: String,
    /// The type of the event.
    pub event_type: String,
    /// The JSON body of the request.
    pub body: String,
    /// The time of creation.
    pub created_at: Timestamp,
    /// The status.
    pub status: DeliveryStatus,
    /// The number of attempts.
    pub attempts: u32,
    /// The time of the next attempt.
    pub retry_at: Option<Timestamp>,
    /// The HTTP status of the last response.
    pub response_status: Option<u16>,
    /// Why the last attempt failed.
    pub error: Option<String>,
}

/// The outcome of one attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeliveryOutcome {
    /// The new status.
    pub status: DeliveryStatus,
    /// The time of the next attempt.
    pub retry_at: Option<Timestamp>,
    /// The HTTP status of the response.
    pub response_status: Option<u16>,
    /// Why the attempt failed.
    pub error: Option<String>,
}

impl Store {
    /// Returns the deliveries to the webhooks of one realm.
    pub fn deliveries(&self, scope: &RealmScope) -> RealmDeliveries<'_> {
        RealmDeliveries { store: self, realm: scope.realm }
    }

    /// Returns at most `limit` deliveries of all realms that are due at `now`.
    pub async fn due_deliveries(&self, now: Timestamp, limit: i64) -> Result<Vec<Delivery>, StoreError> {
        let rows: Vec<DeliveryRow> = read!(&self.db, |pool| {
            sqlx::query_as(concat!(
                "SELECT ",
                columns!(),
                " FROM webhook_deliveries WHERE retry_at <= $1 ORDER BY retry_at LIMIT $2"
            ))
            .bind(now.as_micros())
            .bind(limit)
            .fetch_all(pool)
        })?;
        rows.into_iter().map(Delivery::try_from).collect()
    }

    /// Claims a due delivery until a time, so that no other server attempts it. Returns `false` if another server has
    /// claimed it.
    pub async fn claim_delivery(&self, delivery: &Delivery, until: Timestamp) -> Result<bool, StoreError> {
        let mut tx = self.db.begin().await?;
        let claimed = execute!(
            tx,
            sqlx::query("UPDATE webhook_deliveries SET retry_at = $1 WHERE id = $2 AND retry_at = $3")
                .bind(until.as_micros())
                .bind(delivery.id.to_string())
                .bind(delivery.retry_at.map(Timestamp::as_micros))
        )?;
        tx.commit_unannounced().await?;
        Ok(claimed == 1)
    }

    /// Deletes deliveries that are older than `before` and have ended. Returns their number.
    pub async fn delete_old_deliveries(&self, before: Timestamp) -> Result<u64, StoreError> {
        let mut tx = self.db.begin().await?;
        let deleted = execute!(
            tx,
            sqlx::query("DELETE FROM webhook_deliveries WHERE created_at < $1 AND retry_at IS NULL")
                .bind(before.as_micros())
        )?;
        tx.commit_unannounced().await?;
        Ok(deleted)
    }
}

impl RealmDeliveries<'_> {
    /// Creates a delivery.
    pub async fn create(&self, delivery: &NewDelivery) -> Result<(), StoreError> {
        let mut tx = self.store.db.begin().await?;
        self.insert(&mut tx, delivery).await?;
        tx.commit_unannounced().await
    }

    pub(super) async fn insert(&self, tx: &mut Tx, new: &NewDelivery) -> Result<(), StoreError> {
        execute!(
            *tx,
            sqlx::query(
                "INSERT INTO webhook_deliveries (id, realm_id, webhook_id, event_id, event_type, body, created_at,
                                                 status, retry_at)
                 VALUES ($1, $2, $3, $4, $5, $6, $7, 'PENDING', $8) ON CONFLICT (webhook_id, event_id) DO NOTHING",
            )
            .bind(new.id.to_string())
            .bind(self.realm.to_string())
            .bind(new.webhook.to_string())
            .bind(&new.event_id)
            .bind(&new.event_type)
            .bind(storable(&new.body))
            .bind(new.created_at.as_micros())
            .bind(new.retry_at.map(Timestamp::as_micros))
        )
        .map(|_| ())
    }

    /// Returns a delivery to a webhook.
    pub async fn get(&self, webhook: WebhookId, id: DeliveryId) -> Result<Option<Delivery>, StoreError> {
        let row: Option<DeliveryRow> = read!(&self.store.db, |pool| {
            sqlx::query_as(concat!(
                "SELECT ",
                columns!(),
                " FROM webhook_deliveries WHERE realm_id = $1 AND webhook_id = $2 AND id = $3"
            ))
            .bind(self.realm.to_string())
            .bind(webhook.to_string())
            .bind(id.to_string())
            .fetch_optional(pool)
        })?;
        row.map(Delivery::try_from).transpose()
    }

    /// Stores the outcome of an attempt.
    pub async fn record_attempt(&self, id: DeliveryId, outcome: &DeliveryOutcome) -> Result<(), StoreError> {
        let mut tx = self.store.db.begin().await?;
        execute!(
            tx,
            sqlx::query(
                "UPDATE webhook_deliveries SET status = $1, retry_at = $2, response_status = $3, error = $4,
                        attempts = attempts + 1
                 WHERE realm_id = $5 AND id = $6",
            )
            .bind(outcome.status.as_str())
            .bind(outcome.retry_at.map(Timestamp::as_micros))
            .bind(outcome.response_status.map(i64::from))
            .bind(outcome.error.as_deref().map(storable))
            .bind(self.realm.to_string())
            .bind(id.to_string())
        )?;
        tx.commit_unannounced().await
    }

    /// Returns a page of the deliveries to a webhook, newest first.
    pub async fn list(
        &self,
        webhook: WebhookId,
        status: Option<DeliveryStatus>,
        cursor: Option<&TimeCursor<DeliveryId>>,
        limit: u32,
    ) -> Result<Page<Delivery, TimeCursor<DeliveryId>>, StoreError> {
        let mut sql = Sql::new(concat!("SELECT ", columns!(), " FROM webhook_deliveries WHERE realm_id = "));
        sql.id(self.realm).push(" AND webhook_id = ").id(webhook);
        if let Some(status) = status {
            sql.push(" AND status = ").text(status.as_str());
        }
        if let Some((at, id)) = cursor.map(TimeCursor::position) {
            sql.push(" AND (created_at, id) < (").integer(at).push(", ").id(*id).push(")");
        }
        sql.push(" ORDER BY created_at DESC, id DESC");
        page::push_limit(&mut sql, limit);
        let (text, values) = sql.into_parts();
        let rows: Vec<DeliveryRow> =
            read!(&self.store.db, |pool| bind_all!(sqlx::query_as(text), values).fetch_all(pool))?;
        Page::from_rows(rows, limit, |delivery: &Delivery| TimeCursor::after(delivery.created_at, delivery.id))
    }
}

#[derive(sqlx::FromRow)]
struct DeliveryRow {
    id: String,
    realm_id: String,
    webhook_id: String,
    event_id: String,
    event_type: String,
    body: String,
    created_at: i64,
    status: String,
    attempts: i64,
    retry_at: Option<i64>,
    response_status: Option<i64>,
    error: Option<String>,
}

impl TryFrom<DeliveryRow> for Delivery {
    type Error = StoreError;

    fn try_from(row: DeliveryRow) -> Result<Self, StoreError> {
        Ok(Self {
            id: row.id.parse().map_err(StoreError::unreadable)?,
            realm: row.realm_id.parse().map_err(StoreError::unreadable)?,
            webhook: row.webhook_id.parse().map_err(StoreError::unreadable)?,
            event_id: row.event_id,
            event_type: row.event_type,
            body: row.body,
            created_at: Timestamp::from_micros(row.created_at),
            status: row.status.parse().map_err(StoreError::unreadable)?,
            attempts: u32::try_from(row.attempts).unwrap_or(u32::MAX),
            retry_at: row.retry_at.map(Timestamp::from_micros),
            response_status: row.response_status.and_then(|status| u16::try_from(status).ok()),
            error: row.error,
        })
    }
}
