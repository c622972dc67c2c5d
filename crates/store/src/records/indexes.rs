//! The indexes of one type. They are known by their names, which say what they are made of, so nothing else remembers them.

use std::collections::BTreeMap;

use sha2::{Digest, Sha256};
use sqlx::AssertSqlSafe;
use toolwright_query::sql::Searchable;

use super::{Records, layout};
use crate::db::{Tx, Unavailable};

/// Where Postgres' servers wait for each other: `CREATE INDEX IF NOT EXISTS` is not safe against itself.
#[cfg(feature = "postgres")]
const LOCK: i64 = 0x7265_636f_7264_7301;

impl Records<'_> {
    /// Makes the indexes of these fields, and the one of the ids, and drops those that are no longer wanted.
    pub async fn index(&self, searchable: &[Searchable]) -> Result<(), Unavailable> {
        let layout = layout(searchable).map_err(Unavailable::unreadable)?;
        let expressions = searchable.iter().map(|field| layout.index_expression(field, self.dialect()));
        let mut wanted: BTreeMap<String, String> =
            expressions.map(|expression| (self.name(&expression), format!("{expression}, id"))).collect();
        wanted.insert(self.name("id"), "id".to_owned());
        self.change_indexes(wanted).await
    }

    /// Drops all indexes of the type.
    pub async fn drop_indexes(&self) -> Result<(), Unavailable> {
        self.change_indexes(BTreeMap::new()).await
    }

    async fn change_indexes(&self, mut wanted: BTreeMap<String, String>) -> Result<(), Unavailable> {
        let mut present = self.indexes().await?;
        present.retain(|name| wanted.remove(name).is_none());
        if wanted.is_empty() && present.is_empty() {
            return Ok(());
        }
        let mut tx = self.store.db.begin().await?;
        #[cfg(feature = "postgres")]
        if matches!(tx, Tx::Postgres(_)) {
            execute!(tx, sqlx::query("SELECT pg_advisory_xact_lock($1)").bind(LOCK))?;
        }
        for name in present {
            define(&mut tx, format!("DROP INDEX IF EXISTS {name}")).await?;
        }
        for (name, columns) in wanted {
            let (realm, of) = (self.realm, self.of);
            let place = format!("realm_id = '{realm}' AND type_id = '{of}'");
            define(&mut tx, format!("CREATE INDEX IF NOT EXISTS {name} ON records ({columns}) WHERE {place}")).await?;
        }
        tx.commit_unannounced().await
    }

    /// The names of those that exist.
    async fn indexes(&self) -> Result<Vec<String>, Unavailable> {
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
        format!("records_{}_", self.of.to_string().trim_start_matches("type_").to_ascii_lowercase())
    }

    fn name(&self, expression: &str) -> String {
        let digest = Sha256::digest(expression);
        let short = data_encoding::HEXLOWER.encode(digest.get(..8).unwrap_or_default());
        format!("{}{short}", self.prefix())
    }
}

/// INVARIANT: the text is made of ids, of digests, and of the expressions of `toolwright_query::sql`, which hold no name
/// that is not made of letters, digits and `_`. Nothing can be bound in a definition.
async fn define(tx: &mut Tx, statement: String) -> Result<(), Unavailable> {
    execute!(*tx, sqlx::raw_sql(AssertSqlSafe(statement))).map(drop)
}
