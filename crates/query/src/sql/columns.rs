//! Maps the columns of an existing table to the fields of a record.
//!
//! Each column is converted to JSON. Conditions apply to this JSON, so they have the same semantics as for records
//! stored as JSON. The module `prefilter` adds conditions that can use the indexes of the table.

use super::layout::InvalidIdentifier;
use super::value::Scalar;
use super::{Dialect, Fragment};
use crate::Field;

/// The alias of the table in a statement.
pub const TABLE_ALIAS: &str = "t";

/// The field that identifies a record.
pub(super) const ID: &str = "id";

/// The maximum length of a name, in bytes. Postgres allows 63 bytes, and SQLite has no limit.
const MAX_IDENTIFIER: usize = 255;
/// The maximum number of fields that one function call adds to an object. Each field takes two arguments. Postgres
/// accepts 100 arguments, SQLite 127.
const FIELDS_PER_CALL: usize = 48;

/// The type of a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ColumnType {
    /// Text.
    Text,
    /// Integers of at most 64 bits.
    Integer,
    /// Doubles.
    Double,
    /// Floating point numbers of another width.
    Float,
    /// Decimal numbers of any length. They become JSON numbers if a double can represent all digits, and texts
    /// otherwise.
    Decimal,
    /// Booleans.
    Bool,
    /// Timestamps with a time zone.
    Timestamp,
    /// Timestamps without a time zone, which are interpreted as UTC.
    LocalTimestamp,
    /// Dates.
    Date,
    /// UUIDs.
    Uuid,
    /// Bytes, converted to hexadecimal digits.
    Bytes,
    /// JSON.
    Json,
    /// Arrays and composite types (rows).
    Composite,
    /// Any other type, converted to text.
    Other,
}

/// A column and the field that it maps to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TableColumn {
    pub(super) field: String,
    /// The quoted name with the table alias as a prefix.
    pub(super) column: String,
    pub(super) column_type: ColumnType,
    /// Whether the value of the field is the value of the column converted to text.
    as_text: bool,
}

/// The name of a table, optionally with its schema.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TableName(String);

impl TableName {
    /// Creates a table name from identifiers. They are quoted, so reserved words and special characters are allowed.
    pub fn new(schema: Option<&str>, table: &str) -> Result<Self, InvalidIdentifier> {
        let table = quoted(table)?;
        Ok(Self(match schema {
            Some(schema) => format!("{}.{table}", quoted(schema)?),
            None => table,
        }))
    }

    /// The quoted name for a statement.
    pub fn fragment(&self) -> Fragment {
        Fragment { sql: self.0.clone(), params: Vec::new() }
    }
}

impl TableColumn {
    /// Maps `column` to `field`.
    pub fn new(field: &str, column: &str, column_type: ColumnType) -> Result<Self, InvalidIdentifier> {
        let one_name = Field::parse(field).is_ok() && !field.contains('.');
        if !one_name {
            return Err(InvalidIdentifier::ColumnField(field.chars().take(64).collect()));
        }
        let column = format!("{TABLE_ALIAS}.{}", quoted(column)?);
        Ok(Self { field: field.to_owned(), column, column_type, as_text: false })
    }

    /// The quoted name of the column without the table alias, for `INSERT` and `UPDATE` statements.
    pub fn name(&self) -> Fragment {
        let name =
            self.column.strip_prefix(TABLE_ALIAS).and_then(|rest| rest.strip_prefix('.')).unwrap_or(&self.column);
        Fragment { sql: name.to_owned(), params: Vec::new() }
    }

    /// The quoted name of the column with the table alias [`TABLE_ALIAS`].
    pub fn qualified(&self) -> Fragment {
        Fragment { sql: self.column.clone(), params: Vec::new() }
    }

    /// Returns a copy of the column that maps to the field `id` of the record. Its value is converted to text.
    pub(super) fn as_id(&self) -> Self {
        Self { field: ID.to_owned(), as_text: true, ..self.clone() }
    }

    /// Returns the column for a field that refers to other records. Its value is converted to text, because ids of
    /// records are texts.
    pub fn as_reference(self) -> Self {
        let as_text = !matches!(self.column_type, ColumnType::Json | ColumnType::Composite);
        Self { as_text, ..self }
    }

    /// Whether the field is a scalar: neither a list nor an object.
    pub(super) fn is_scalar(&self) -> bool {
        self.as_text || !matches!(self.column_type, ColumnType::Json | ColumnType::Composite)
    }

    /// Whether the value of the field is text in every row.
    pub(super) fn is_text(&self) -> bool {
        self.as_text || matches!(self.column_type, ColumnType::Text | ColumnType::Uuid | ColumnType::Other)
    }

    /// Whether the value of the field may be text in some rows. In SQLite, a column of any type may contain text.
    pub(super) fn may_be_text(&self, dialect: Dialect) -> bool {
        dialect == Dialect::Sqlite
            || self.as_text
            || !matches!(self.column_type, ColumnType::Integer | ColumnType::Bool)
    }

    /// The SQL expressions for the type and the value of the field, which must be a scalar.
    pub(super) fn scalar(&self, dialect: Dialect) -> Scalar {
        match dialect {
            Dialect::Sqlite if self.column_type == ColumnType::Bool && !self.as_text => {
                let c = &self.column;
                let json_type =
                    format!("CASE {c} WHEN 0 THEN 'false' WHEN 1 THEN 'true' ELSE typeof({}) END", json_compatible(c));
                Scalar { json_type, value: json_compatible(c) }
            }
            Dialect::Sqlite => {
                let value = self.sqlite_value();
                Scalar { json_type: format!("typeof({value})"), value }
            }
            Dialect::Postgres if self.is_text() => {
                Scalar { json_type: "'string'".to_owned(), value: format!("({}::text COLLATE \"C\")", self.column) }
            }
            Dialect::Postgres => {
                let json = self.postgres_json();
                Scalar { json_type: format!("jsonb_typeof({json})"), value: format!("({json} #>> '{{}}')") }
            }
        }
    }

    /// The expression that orders rows with equal sort values by this column.
    pub(super) fn order_expression(&self, dialect: Dialect) -> String {
        match (self.column_type, dialect) {
            (ColumnType::Text | ColumnType::Integer | ColumnType::Uuid, _) => self.column.clone(),
            (_, Dialect::Sqlite) => format!("CAST({} AS TEXT) COLLATE BINARY", self.column),
            (_, Dialect::Postgres) => format!("({}::text COLLATE \"C\")", self.column),
        }
    }

    fn postgres_json(&self) -> String {
        let c = &self.column;
        if self.is_text() {
            return format!("to_jsonb({c}::text)");
        }
        match self.column_type {
            // A decimal with at most 15 digits does not change when it is converted to a double and back.
            ColumnType::Decimal => format!(
                "(CASE WHEN abs({c}) < 1e15 AND scale(trim_scale({c})) <= 15 \
                 AND length(ltrim(replace(abs(trim_scale({c}))::text, '.', ''), '0')) <= 15 \
                 THEN to_jsonb(trim_scale({c})) ELSE to_jsonb({c}::text) END)"
            ),
            ColumnType::LocalTimestamp => format!("to_jsonb({c} AT TIME ZONE 'UTC')"),
            ColumnType::Bytes => format!("to_jsonb(encode({c}, 'hex'))"),
            _ => format!("to_jsonb({c})"),
        }
    }

    /// The value of the column in a form that SQLite's JSON functions accept.
    fn sqlite_value(&self) -> String {
        let c = &self.column;
        if self.as_text {
            return format!("(CAST({c} AS TEXT) || '')");
        }
        match self.column_type {
            // Timestamps in the format of SQLite's date functions are UTC and are converted to RFC 3339.
            ColumnType::Timestamp | ColumnType::LocalTimestamp => {
                let day = "[0-9][0-9][0-9][0-9]-[0-9][0-9]-[0-9][0-9]";
                let time = "[0-2][0-9]:[0-5][0-9]:[0-5][0-9]";
                let rfc3339 = format!("substr({c}, 1, 10) || 'T' || substr({c}, 12) || 'Z'");
                format!(
                    "(CASE WHEN typeof({c}) = 'text' AND ({c} GLOB '{day} {time}' \
                     OR ({c} GLOB '{day} {time}.[0-9]*' AND substr({c}, 21) NOT GLOB '*[^0-9]*')) \
                     THEN {rfc3339} ELSE {} END)",
                    json_compatible(c)
                )
            }
            _ => json_compatible(c),
        }
    }

    fn sqlite_json(&self) -> String {
        let c = &self.column;
        match self.column_type {
            _ if self.as_text => self.sqlite_value(),
            // Both `Text` columns and timestamps are strings in JSON.
            ColumnType::Text | ColumnType::Timestamp | ColumnType::LocalTimestamp => self.sqlite_value(),
            ColumnType::Bool => {
                format!("json(CASE {c} WHEN 0 THEN 'false' WHEN 1 THEN 'true' ELSE {} END)", json_text(c))
            }
            ColumnType::Json | ColumnType::Composite => {
                format!("json(CASE WHEN typeof({c}) = 'text' AND json_valid({c}) THEN {c} ELSE {} END)", json_text(c))
            }
            _ => format!("json({})", json_text(c)),
        }
    }
}

/// SQLite: converts a value of any type to JSON text. Floating point numbers are formatted with 17 digits, because
/// SQLite's conversion to JSON drops the last digits.
fn json_text(c: &str) -> String {
    let value = json_compatible(c);
    format!("CASE typeof({value}) WHEN 'real' THEN printf('%!.17g', {c}) ELSE json_quote({value}) END")
}

/// SQLite: converts bytes and infinite numbers to text, because JSON cannot represent them. Other values are unchanged.
fn json_compatible(c: &str) -> String {
    format!(
        "(CASE typeof({c}) WHEN 'blob' THEN lower(hex({c})) \
         WHEN 'real' THEN CASE WHEN abs({c}) > 1.7976931348623157e308 THEN CAST({c} AS TEXT) ELSE {c} END ELSE {c} END)"
    )
}

/// An SQL expression for a JSON object with a field for each column.
pub(super) fn json_object<'c>(columns: impl Iterator<Item = &'c TableColumn>, dialect: Dialect) -> String {
    let pairs: Vec<String> = columns
        .map(|column| {
            let json = match dialect {
                Dialect::Sqlite => column.sqlite_json(),
                Dialect::Postgres => column.postgres_json(),
            };
            format!("'{}', {json}", column.field.replace('\'', "''"))
        })
        .collect();
    let parts = pairs.chunks(FIELDS_PER_CALL).map(|pairs| pairs.join(", "));
    match dialect {
        Dialect::Postgres => {
            let parts: Vec<String> = parts.map(|pairs| format!("jsonb_build_object({pairs})")).collect();
            if parts.is_empty() { "'{}'::jsonb".to_owned() } else { format!("({})", parts.join(" || ")) }
        }
        Dialect::Sqlite => {
            let parts: Vec<String> = parts.map(|pairs| format!("json_object({pairs})")).collect();
            match parts.as_slice() {
                [] => "'{}'".to_owned(),
                [only] => only.clone(),
                // The JSON objects are joined as texts, because `json_patch` would remove fields with the value null.
                many => {
                    let inner: Vec<String> =
                        many.iter().map(|part| format!("substr({part}, 2, length({part}) - 2)")).collect();
                    format!("('{{' || {} || '}}')", inner.join(" || ',' || "))
                }
            }
        }
    }
}

fn quoted(name: &str) -> Result<String, InvalidIdentifier> {
    if name.is_empty() || name.len() > MAX_IDENTIFIER || name.contains('\0') {
        return Err(InvalidIdentifier::Identifier(name.chars().take(64).collect()));
    }
    Ok(format!("\"{}\"", name.replace('"', "\"\"")))
}
