//! Where the two databases differ: how a value is reached.

use super::layout::Searchable;
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
    /// The value of a field that has one at most. The path is part of the text, as it is in the index.
    pub(super) fn searchable(self, record: &str, searchable: &Searchable) -> Scalar {
        let names: Vec<&str> = searchable.field.segments().collect();
        match self {
            Dialect::Sqlite => {
                let path = format!("'$.{}'", names.join("."));
                Scalar {
                    kind: format!("json_type({record}, {path})"),
                    value: format!("json_extract({record}, {path})"),
                }
            }
            Dialect::Postgres => {
                let path = format!("'{{{}}}'", names.join(","));
                Scalar { kind: format!("jsonb_typeof({record} #> {path})"), value: format!("({record} #>> {path})") }
            }
        }
    }
}

/// `$."name"`, for SQLite. Names of fields have no quotes and no backslashes.
pub(super) fn sqlite_step(name: &str) -> String {
    format!("$.\"{name}\"")
}

/// `$."a"."b"`, for both.
pub(super) fn path(field: &Field) -> String {
    field.segments().fold("$".to_owned(), |path, name| format!("{path}.\"{name}\""))
}
