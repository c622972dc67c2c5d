//! What a database says of its tables.

use serde::Deserialize;
use toolwright_query::sql::{Dialect, Holds};

use super::{Elsewhere, in_time, postgres, sqlite};
use crate::db::Unavailable;

/// A table or a view.
#[derive(Debug, Clone, Deserialize)]
pub struct TableInfo {
    /// Its schema, where there are any.
    pub schema: Option<String>,
    /// Its name.
    pub name: String,
    /// Whether it is a view.
    pub view: bool,
    /// What somebody wrote about it.
    pub comment: Option<String>,
    /// Its columns, in their order.
    pub columns: Vec<ColumnInfo>,
    /// The columns of its primary key.
    pub key: Vec<String>,
    /// The columns that an index begins with.
    pub indexed: Vec<String>,
    /// The columns of which no two rows have the same value, each alone.
    pub unique: Vec<String>,
    /// The columns that refer to other tables, each alone.
    pub foreign: Vec<ForeignKey>,
}

/// A column.
#[derive(Debug, Clone, Deserialize)]
pub struct ColumnInfo {
    /// Its name.
    pub name: String,
    /// Its type, as the database calls it.
    #[serde(rename = "type")]
    pub declared: String,
    /// What it holds.
    #[serde(skip, default = "unknown")]
    pub holds: Holds,
    /// Whether it may be null.
    pub nullable: bool,
    /// Whether the database fills it in when nobody does.
    pub filled: bool,
    /// Whether only the database fills it in.
    pub computed: bool,
    /// What somebody wrote about it.
    #[serde(default)]
    pub comment: Option<String>,
    /// How many digits a decimal has at most, where that is said.
    #[serde(default)]
    pub digits: Option<u32>,
    /// The texts that it may hold, where there are few.
    #[serde(default)]
    pub choices: Option<Vec<String>>,
    /// The condition on it alone, as the database writes it.
    #[serde(default)]
    pub(super) check: Option<String>,
    /// Of which kind its type is, as Postgres has them.
    #[serde(default)]
    pub(super) category: String,
}

/// A column that refers to another table.
#[derive(Debug, Clone, Deserialize)]
pub struct ForeignKey {
    /// The column.
    pub column: String,
    /// The schema of the other table, where there are any.
    #[serde(default)]
    pub schema: Option<String>,
    /// The other table.
    pub table: String,
    /// The column there; its primary key when absent.
    pub references: Option<String>,
}

fn unknown() -> Holds {
    Holds::Other
}

impl Elsewhere {
    /// The tables and views of a schema that may be read, by name, `limit` of them at most. SQLite has no schemas.
    pub async fn tables(&self, schema: &str, limit: u32) -> Result<Vec<TableInfo>, Unavailable> {
        self.described(schema, None, limit).await
    }

    /// One of them.
    pub async fn table(&self, schema: &str, name: &str) -> Result<Option<TableInfo>, Unavailable> {
        Ok(self.described(schema, Some(name), 1).await?.pop())
    }

    async fn described(&self, schema: &str, name: Option<&str>, limit: u32) -> Result<Vec<TableInfo>, Unavailable> {
        let dialect = self.dialect();
        let limit = i64::from(limit);
        let rows: Vec<String> = in_time(async {
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
        let mut tables = parsed.map_err(Unavailable::unreadable)?;
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
