//! Which records: found, counted, removed.

use serde_json::Value;
use toolwright_query::sql::{self, Dialect, InvalidName, Layout, Searchable};
use toolwright_query::{Cursor, Filter, Sort};

use super::{Records, layout};
use crate::db::Unavailable;
use crate::sql::Sql;

/// Which records. They are told by what they hold.
#[derive(Debug, Clone)]
pub struct Selection {
    /// What must hold for the record as it is stored.
    pub stored: Filter,
    /// What must hold for what the asker may see of it.
    pub seen: Filter,
    /// Fields that do not count for `seen`; names without dots.
    pub unseen: Vec<String>,
    /// Fields that an index serves.
    pub searchable: Vec<Searchable>,
}

impl Selection {
    /// The records that pass a filter, through these indexes.
    pub fn of(filter: Filter, searchable: Vec<Searchable>) -> Self {
        Self { stored: filter, seen: Filter::everything(), unseen: Vec::new(), searchable }
    }
}

/// Which part of the records found.
#[derive(Debug, Clone)]
pub struct RecordPage {
    /// The order.
    pub sort: Sort,
    /// The place after which the page begins.
    pub after: Option<Cursor>,
    /// How many to leave out from there.
    pub skip: u64,
    /// How many at most.
    pub limit: u32,
}

impl Records<'_> {
    /// The records of a page, whole, in order.
    pub async fn find(&self, selection: &Selection, page: &RecordPage) -> Result<Vec<Value>, Unavailable> {
        let layout = layout(&selection.searchable).map_err(unusable)?;
        let dialect = self.dialect();
        let mut sql = Sql::new("SELECT CAST(r.body AS TEXT)");
        self.push_from(&mut sql, selection, &layout);
        if let Some(cursor) = &page.after {
            sql.push(" AND ").fragment(|first| sql::after(cursor, &page.sort, &layout, dialect, first));
        }
        sql.push(" ORDER BY ").fragment(|first| sql::order_by(&page.sort, &layout, dialect, first));
        sql.push(" LIMIT ").integer(i64::from(page.limit));
        if page.skip > 0 {
            sql.push(" OFFSET ").integer(i64::try_from(page.skip).unwrap_or(i64::MAX));
        }
        let (text, values) = sql.into_parts();
        let bodies: Vec<String> =
            read!(&self.store.db, |pool| bind_all!(sqlx::query_scalar(text), values).fetch_all(pool))?;
        bodies.iter().map(|body| serde_json::from_str(body).map_err(Unavailable::unreadable)).collect()
    }

    /// How many records there are.
    pub async fn count(&self, selection: &Selection) -> Result<u64, Unavailable> {
        let layout = layout(&selection.searchable).map_err(unusable)?;
        let mut sql = Sql::new("SELECT COUNT(*)");
        self.push_from(&mut sql, selection, &layout);
        let (text, values) = sql.into_parts();
        let count: i64 = read!(&self.store.db, |pool| bind_all!(sqlx::query_scalar(text), values).fetch_one(pool))?;
        Ok(u64::try_from(count).unwrap_or(0))
    }

    /// Removes the records; with `version`, only those that are at that version. Gives how many.
    pub async fn remove(&self, selection: &Selection, version: Option<i64>) -> Result<u64, Unavailable> {
        let layout = layout(&selection.searchable).map_err(unusable)?;
        let mut sql = Sql::new("DELETE FROM records WHERE ");
        self.push_place(&mut sql, "");
        if let Some(version) = version {
            sql.push(" AND version = ").integer(version);
        }
        sql.push(" AND id IN (SELECT r.id");
        self.push_from(&mut sql, selection, &layout);
        sql.push(")");
        let mut tx = self.store.db.begin().await?;
        let removed = sql.execute(&mut tx).await?;
        tx.commit_unannounced().await?;
        Ok(removed)
    }

    /// ` FROM … r WHERE …`: the records of the selection.
    fn push_from(&self, sql: &mut Sql, selection: &Selection, layout: &Layout) {
        let dialect = self.dialect();
        let stored = |first| sql::compile(&selection.stored, layout, dialect, first);
        if selection.unseen.is_empty() {
            sql.push(" FROM records r WHERE ");
            self.push_place(sql, "r.");
            sql.push(" AND ").fragment(stored);
        } else {
            // What is not seen is taken out before the asker's filter gets to look.
            sql.push(" FROM (SELECT r.id, ");
            push_seen(sql, &selection.unseen, dialect);
            sql.push(" AS body FROM records r WHERE ");
            self.push_place(sql, "r.");
            sql.push(" AND ").fragment(stored).push(") r WHERE 1 = 1");
        }
        sql.push(" AND ").fragment(|first| sql::compile(&selection.seen, layout, dialect, first));
    }

    /// Both ids are part of the text: only so is an index of one type known to be the right one.
    pub(super) fn push_place(&self, sql: &mut Sql, table: &'static str) {
        sql.push(table).push("realm_id = ").id(self.realm).push(" AND ").push(table).push("type_id = ").id(self.of);
    }
}

fn push_seen(sql: &mut Sql, unseen: &[String], dialect: Dialect) {
    match dialect {
        Dialect::Sqlite => {
            sql.push("json_remove(r.body");
            for name in unseen {
                sql.push(", ").text(format!("$.\"{name}\""));
            }
            sql.push(")");
        }
        Dialect::Postgres => {
            sql.push("(r.body");
            for name in unseen {
                sql.push(" - ").text(name.as_str()).push("::text");
            }
            sql.push(")");
        }
    }
}

/// The names are ours, so this is a defect and not an input.
fn unusable(error: InvalidName) -> Unavailable {
    Unavailable::unreadable(error)
}
