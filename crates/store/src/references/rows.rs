//! Converts database rows to reference items and sync states.

use serde::Deserialize;
use serde_json::{Map, Value};
use toolwright_types::Timestamp;

use super::{ReferenceItem, SyncState};
use crate::db::StoreError;

#[derive(sqlx::FromRow)]
pub(super) struct ItemRow {
    pub data_type: String,
    pub external_id: String,
    pub name: String,
    pub body: String,
    pub status: String,
    pub synced_at: i64,
}

#[derive(Deserialize)]
struct Body {
    id: Value,
    metadata: Map<String, Value>,
}

impl TryFrom<ItemRow> for ReferenceItem {
    type Error = StoreError;

    fn try_from(row: ItemRow) -> Result<Self, StoreError> {
        let active = match row.status.as_str() {
            "active" => true,
            "deleted" => false,
            _ => return Err(StoreError::unreadable(UnknownStatus(row.status))),
        };
        let Body { id, metadata } = serde_json::from_str(&row.body).map_err(StoreError::unreadable)?;
        Ok(Self {
            data_type: row.data_type,
            external_id: row.external_id,
            id,
            name: row.name,
            metadata,
            active,
            synced_at: Timestamp::from_micros(row.synced_at),
        })
    }
}

/// The error for a stored status that this release does not know.
#[derive(Debug, thiserror::Error)]
#[error("reference item has the unknown status `{0}`")]
struct UnknownStatus(String);

#[derive(sqlx::FromRow)]
pub(super) struct SyncRow {
    data_type: String,
    attempted_at: i64,
    synced_at: Option<i64>,
    error: Option<String>,
    next_sync_at: Option<i64>,
}

impl From<SyncRow> for SyncState {
    fn from(row: SyncRow) -> Self {
        Self {
            data_type: row.data_type,
            attempted_at: Timestamp::from_micros(row.attempted_at),
            synced_at: row.synced_at.map(Timestamp::from_micros),
            error: row.error,
            next_sync_at: row.next_sync_at.map(Timestamp::from_micros),
        }
    }
}
