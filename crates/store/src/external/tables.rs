//! Reads descriptions of the tables of an external database.

use serde::Deserialize;
use toolwright_query::sql::{ColumnType, Dialect};

use super::{ExternalDatabase, postgres, sqlite, with_timeout};
use crate::db::StoreError;

/// A table or view.
#[derive(Debug, Clone, Deserialize)]
pub struct TableInfo {
    /// The schema, if the database has schemas.
    pub schema: Option<String>,
    /// The name.
    pub name: String,
    /// Whether this is a view.
    pub view: bool,
    /// The comment.
    pub comment: Option<String>,
    /// The columns, in order.
    pub columns: Vec<ColumnInfo>,
    /// The columns of the primary key.
    pub key: Vec<String>,
    /// The columns that are the first column of an index.
    pub indexed: Vec<String>,
    /// The columns without duplicate values: each has a unique index on this column alone.
    pub unique: Vec<String>,
    /// The foreign keys with a single column.
    pub foreign_keys: Vec<ForeignKey>,
}

/// A column.
#[derive(Debug, Clone, Deserialize)]
pub struct ColumnInfo {
    /// The name.
    pub name: String,
    /// The declared type.
    #[serde(rename = "type")]
    pub declared: String,
    /// The type of the values.
    #[serde(skip, default = "unknown")]
    pub holds: ColumnType,
    /// Whether the column may be null.
    pub nullable: bool,
    /// Whether the database supplies a value if an insert does not set the column.
    pub has_default: bool,
    /// Whether the database computes the value, so that a write must not set it.
    pub computed: bool,
    /// The comment.
    #[serde(default)]
    pub comment: Option<String>,
    /// The maximum number of digits of a decimal, if declared.
    #[serde(default)]
    pub digits: Option<u32>,
    /// The allowed strings, if a check constraint restricts the column to a list.
    #[serde(default)]
    pub choices: Option<Vec<String>>,
    /// The SQL text of a check constraint that refers only to this column.
    #[serde(default)]
    pub(super) check: Option<String>,
    /// The type category in the Postgres catalog (`typcategory`).
    #[serde(default)]
    pub(super) category: String,
}

/// A foreign key with a single column.
#[derive(Debug, Clone, Deserialize)]
pub struct ForeignKey {
    /// The column.
    pub column: String,
    /// The schema of the referenced table, if the database has schemas.
    #[serde(default)]
    pub schema: Option<String>,
    /// The referenced table.
    pub table: String,
    /// The referenced column. `None` if the foreign key refers to the primary key of the table.
    pub references: Option<String>,
}

fn unknown() -> ColumnType {
    ColumnType::Other
}

impl ExternalDatabase {
    /// Returns at most `limit` readable tables and views of a schema, sorted by name. The schema is ignored on SQLite,
    /// which has no schemas.
    pub async fn tables(&self, schema: &str, limit: u32) -> Result<Vec<TableInfo>, StoreError> {
        self.describe_tables(schema, None, limit).await
    }

    /// Returns one readable table or view.
    pub async fn table(&self, schema: &str, name: &str) -> Result<Option<TableInfo>, StoreError> {
        Ok(self.describe_tables(schema, Some(name), 1).await?.pop())
    }

    async fn describe_tables(
        &self,
        schema: &str,
        name: Option<&str>,
        limit: u32,
    ) -> Result<Vec<TableInfo>, StoreError> {
        let dialect = self.dialect();
        let limit = i64::from(limit);
        let rows: Vec<String> = with_timeout(async {
            match dialect {
                Dialect::Postgres => {
                    read!(&self.db, |pool| sqlx::query_scalar(postgres::TABLES)
                        .bind(schema)
                        .bind(name)
                        .bind(limit)
                        .fetch_all(pool))
                }
                Dialect::Sqlite => {
                    read!(&self.db, |pool| sqlx::query_scalar(sqlite::TABLES).bind(name).bind(limit).fetch_all(pool))
                }
            }
        })
        .await?;
        let parsed: Result<Vec<TableInfo>, _> = rows.iter().map(|row| serde_json::from_str(row)).collect();
        let mut tables = parsed.map_err(StoreError::unreadable)?;
        for column in tables.iter_mut().flat_map(|table| &mut table.columns) {
            match dialect {
                Dialect::Postgres => {
                    column.holds = postgres::holds(&column.declared, &column.category);
                    if column.choices.is_none() {
                        column.choices = column.check.as_deref().and_then(postgres::choices);
                    }
                }
                Dialect::Sqlite => column.holds = sqlite::holds(&column.declared),
            }
        }
        Ok(tables)
    }
}
