//! The supported databases, and their expressions for a value inside a JSON column.

use super::layout::SearchableField;
use super::value::Scalar;
use crate::Field;

/// The database that a statement is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dialect {
    /// SQLite, 3.38 or newer.
    Sqlite,
    /// Postgres, 12 or newer.
    Postgres,
}

impl Dialect {
    /// The SQL expressions for the value of a searchable field. The path is part of the SQL text and not a parameter,
    /// because the database uses an index only if the condition contains the expression of the index.
    pub(super) fn searchable(self, record: &str, searchable: &SearchableField) -> Scalar {
        let names: Vec<&str> = searchable.field.segments().collect();
        match self {
            Dialect::Sqlite => {
                let path = format!("'$.{}'", names.join("."));
                Scalar {
                    json_type: format!("json_type({record}, {path})"),
                    value: format!("json_extract({record}, {path})"),
                }
            }
            Dialect::Postgres => {
                let path = format!("'{{{}}}'", names.join(","));
                Scalar {
                    json_type: format!("jsonb_typeof({record} #> {path})"),
                    value: format!("({record} #>> {path})"),
                }
            }
        }
    }
}

/// The JSON path `$."name"` for SQLite. Field names contain neither quotes nor backslashes.
pub(super) fn sqlite_path_segment(name: &str) -> String {
    format!("$.\"{name}\"")
}

/// The JSON path `$."a"."b"` for both databases.
pub(super) fn path(field: &Field) -> String {
    field.segments().fold("$".to_owned(), |path, name| format!("{path}.\"{name}\""))
}
