//! Rows as they come from the database, and what they stand for.

use serde::Deserialize;
use serde_json::{Map, Value};
use toolwright_types::Timestamp;

use super::{ReferenceItem, SyncState};
use crate::db::Unavailable;

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
    type Error = Unavailable;

    fn try_from(row: ItemRow) -> Result<Self, Unavailable> {
        let Body { id, metadata } = serde_json::from_str(&row.body).map_err(Unavailable::unreadable)?;
        Ok(Self {
            data_type: row.data_type,
            external_id: row.external_id,
            id,
            name: row.name,
            metadata,
            active: row.status == "active",
            synced_at: Timestamp::from_micros(row.synced_at),
        })
    }
}

#[derive(sqlx::FromRow)]
pub(super) struct SyncRow {
    data_type: String,
    tried_at: i64,
    synced_at: Option<i64>,
    error: Option<String>,
    next_at: Option<i64>,
}

impl From<SyncRow> for SyncState {
    fn from(row: SyncRow) -> Self {
        Self {
            data_type: row.data_type,
            tried_at: Timestamp::from_micros(row.tried_at),
            synced_at: row.synced_at.map(Timestamp::from_micros),
            error: row.error,
            next_at: row.next_at.map(Timestamp::from_micros),
        }
    }
}
