//! Creates and drops the database indexes of one entity type. An index name is derived from the index definition, so
//! the existing names show which indexes are missing or obsolete.

use std::collections::BTreeMap;

use sha2::{Digest, Sha256};
use sqlx::AssertSqlSafe;
use toolwright_query::sql::SearchableField;

use super::{RealmRecords, layout};
use crate::db::{StoreError, Tx};

/// The key of the Postgres advisory lock for index changes. The lock is needed because concurrent `CREATE INDEX IF NOT
/// EXISTS` statements can fail.
#[cfg(feature = "postgres")]
const INDEX_LOCK: i64 = 0x7265_636f_7264_7301;

impl RealmRecords<'_> {
    /// Creates an index on each of these fields and one on the ids. Drops all other indexes of the type.
    pub async fn index(&self, searchable: &[SearchableField]) -> Result<(), StoreError> {
        let layout = layout(searchable).map_err(StoreError::unreadable)?;
        let expressions = searchable.iter().map(|field| layout.index_expression(field, self.dialect()));
        let mut wanted: BTreeMap<String, String> =
            expressions.map(|expression| (self.name(&expression), format!("{expression}, id"))).collect();
        wanted.insert(self.name("id"), "id".to_owned());
        self.change_indexes(wanted).await
    }

    /// Drops all indexes of the type.
    pub async fn drop_indexes(&self) -> Result<(), StoreError> {
        self.change_indexes(BTreeMap::new()).await
    }

    async fn change_indexes(&self, mut wanted: BTreeMap<String, String>) -> Result<(), StoreError> {
        let mut present = self.indexes().await?;
        present.retain(|name| wanted.remove(name).is_none());
        if wanted.is_empty() && present.is_empty() {
            return Ok(());
        }
        let mut tx = self.store.db.begin().await?;
        #[cfg(feature = "postgres")]
        if matches!(tx, Tx::Postgres(_)) {
            execute!(tx, sqlx::query("SELECT pg_advisory_xact_lock($1)").bind(INDEX_LOCK))?;
        }
        for name in present {
            define(&mut tx, format!("DROP INDEX IF EXISTS {name}")).await?;
        }
        for (name, columns) in wanted {
            let (realm, entity_type) = (self.realm, self.entity_type);
            let condition = format!("realm_id = '{realm}' AND type_id = '{entity_type}'");
            define(&mut tx, format!("CREATE INDEX IF NOT EXISTS {name} ON records ({columns}) WHERE {condition}"))
                .await?;
        }
        tx.commit_unannounced().await
    }

    /// Returns the names of the existing indexes.
    async fn indexes(&self) -> Result<Vec<String>, StoreError> {
        let prefix = self.prefix();
        let length = i32::try_from(prefix.len()).unwrap_or_default();
        let names = match self.dialect() {
            toolwright_query::sql::Dialect::Sqlite => {
                "SELECT name FROM sqlite_master WHERE type = 'index' AND tbl_name = 'records' AND substr(name, 1, $1) = $2"
            }
            toolwright_query::sql::Dialect::Postgres => {
                "SELECT indexname::text FROM pg_indexes WHERE schemaname = current_schema() AND tablename = 'records'
                 AND substr(indexname, 1, $1) = $2"
            }
        };
        read!(&self.store.db, |pool| sqlx::query_scalar(names).bind(length).bind(&prefix).fetch_all(pool))
    }

    fn prefix(&self) -> String {
        format!("records_{}_", self.entity_type.to_string().trim_start_matches("type_").to_ascii_lowercase())
    }

    fn name(&self, expression: &str) -> String {
        let digest = Sha256::digest(expression);
        let short = data_encoding::HEXLOWER.encode(digest.get(..8).unwrap_or_default());
        format!("{}{short}", self.prefix())
    }
}

/// INVARIANT: the text contains no client input. It consists of ids, digests and SQL expressions from
/// `toolwright_query::sql`. Field names in these expressions contain only letters, digits and `_`. Bound values are not
/// possible in index definitions.
async fn define(tx: &mut Tx, statement: String) -> Result<(), StoreError> {
    execute!(*tx, sqlx::raw_sql(AssertSqlSafe(statement))).map(drop)
}
