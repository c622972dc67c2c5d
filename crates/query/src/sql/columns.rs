//! Columns of a table that somebody else made, as the fields of a record.
//!
//! What a column means is the JSON that its row is shown as. Conditions are asked of that JSON, so they mean what they mean
//! everywhere; how an index is used nevertheless is in `narrow`.

use super::layout::InvalidName;
use super::value::Scalar;
use super::{Dialect, Fragment};
use crate::Field;

/// What the table is called in a statement.
pub const TABLE: &str = "t";

/// The field that tells records apart.
pub(super) const ID: &str = "id";

/// Bytes of a name. Postgres has 63, SQLite any number.
const LONGEST_NAME: usize = 255;
/// Fields of an object that one call of a function makes: Postgres takes 100 arguments, SQLite 127.
const FIELDS_AT_ONCE: usize = 48;

/// What a column holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Holds {
    /// Text.
    Text,
    /// Whole numbers of at most 64 bits.
    Integer,
    /// Doubles.
    Double,
    /// Floating point numbers of another width.
    Float,
    /// Decimal numbers of any length. They are numbers where a double has all of their digits, else texts.
    Decimal,
    /// Booleans.
    Truth,
    /// Moments with a zone.
    Moment,
    /// Moments without one, which are taken for UTC.
    LocalMoment,
    /// Days.
    Day,
    /// UUIDs.
    Uuid,
    /// Bytes, shown in hexadecimal digits.
    Bytes,
    /// JSON.
    Json,
    /// Arrays and rows.
    Composite,
    /// Anything else that has a text.
    Other,
}

/// A column, and the field that it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TableColumn {
    pub(super) field: String,
    /// Quoted, with the name of the table.
    pub(super) column: String,
    pub(super) holds: Holds,
    /// Whether the field is the text of what the column holds.
    as_text: bool,
}

/// The name of a table, perhaps with that of its schema.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TableName(String);

impl TableName {
    /// Any name that a database can have.
    pub fn new(schema: Option<&str>, table: &str) -> Result<Self, InvalidName> {
        let table = quoted(table)?;
        Ok(Self(match schema {
            Some(schema) => format!("{}.{table}", quoted(schema)?),
            None => table,
        }))
    }

    /// The name as a statement has it.
    pub fn fragment(&self) -> Fragment {
        Fragment { sql: self.0.clone(), params: Vec::new() }
    }
}

impl TableColumn {
    /// The column of that name, as a field of this one.
    pub fn new(field: &str, column: &str, holds: Holds) -> Result<Self, InvalidName> {
        let one_name = Field::parse(field).is_ok() && !field.contains('.');
        if !one_name {
            return Err(InvalidName::ColumnField(field.chars().take(64).collect()));
        }
        let column = format!("{TABLE}.{}", quoted(column)?);
        Ok(Self { field: field.to_owned(), column, holds, as_text: false })
    }

    /// The name of the column, as a statement has it that writes it.
    pub fn name(&self) -> Fragment {
        let name = self.column.strip_prefix(TABLE).and_then(|rest| rest.strip_prefix('.')).unwrap_or(&self.column);
        Fragment { sql: name.to_owned(), params: Vec::new() }
    }

    /// The same with that of the table, [`TABLE`].
    pub fn qualified(&self) -> Fragment {
        Fragment { sql: self.column.clone(), params: Vec::new() }
    }

    /// The same column as the `id` of the record: the text of it.
    pub(super) fn as_id(&self) -> Self {
        Self { field: ID.to_owned(), as_text: true, ..self.clone() }
    }

    /// The same column as a field that refers to other records, whose ids are texts.
    pub fn as_reference(self) -> Self {
        let as_text = !matches!(self.holds, Holds::Json | Holds::Composite);
        Self { as_text, ..self }
    }

    /// Whether the field has one value at most, which is no list and no object.
    pub(super) fn is_single(&self) -> bool {
        self.as_text || !matches!(self.holds, Holds::Json | Holds::Composite)
    }

    /// Whether the field is text in every row.
    pub(super) fn is_text(&self) -> bool {
        self.as_text || matches!(self.holds, Holds::Text | Holds::Uuid | Holds::Other)
    }

    /// Whether the field may be text in some row. In SQLite any may.
    pub(super) fn may_be_text(&self, dialect: Dialect) -> bool {
        dialect == Dialect::Sqlite || self.as_text || !matches!(self.holds, Holds::Integer | Holds::Truth)
    }

    /// The value of the field, of which there is one at most.
    pub(super) fn scalar(&self, dialect: Dialect) -> Scalar {
        match dialect {
            Dialect::Sqlite if self.holds == Holds::Truth && !self.as_text => {
                let c = &self.column;
                let kind = format!("CASE {c} WHEN 0 THEN 'false' WHEN 1 THEN 'true' ELSE typeof({}) END", plain(c));
                Scalar { kind, value: plain(c) }
            }
            Dialect::Sqlite => {
                let value = self.sqlite_value();
                Scalar { kind: format!("typeof({value})"), value }
            }
            Dialect::Postgres if self.is_text() => {
                Scalar { kind: "'string'".to_owned(), value: format!("({}::text COLLATE \"C\")", self.column) }
            }
            Dialect::Postgres => {
                let json = self.postgres_json();
                Scalar { kind: format!("jsonb_typeof({json})"), value: format!("({json} #>> '{{}}')") }
            }
        }
    }

    /// The column as rows are ordered by it where nothing else tells them apart.
    pub(super) fn ordered(&self, dialect: Dialect) -> String {
        match (self.holds, dialect) {
            (Holds::Text | Holds::Integer | Holds::Uuid, _) => self.column.clone(),
            (_, Dialect::Sqlite) => format!("CAST({} AS TEXT) COLLATE BINARY", self.column),
            (_, Dialect::Postgres) => format!("({}::text COLLATE \"C\")", self.column),
        }
    }

    fn postgres_json(&self) -> String {
        let c = &self.column;
        if self.is_text() {
            return format!("to_jsonb({c}::text)");
        }
        match self.holds {
            // 15 digits are what every decimal keeps on its way through a double.
            Holds::Decimal => format!(
                "(CASE WHEN abs({c}) < 1e15 AND scale(trim_scale({c})) <= 15 \
                 AND length(ltrim(replace(abs(trim_scale({c}))::text, '.', ''), '0')) <= 15 \
                 THEN to_jsonb(trim_scale({c})) ELSE to_jsonb({c}::text) END)"
            ),
            Holds::LocalMoment => format!("to_jsonb({c} AT TIME ZONE 'UTC')"),
            Holds::Bytes => format!("to_jsonb(encode({c}, 'hex'))"),
            _ => format!("to_jsonb({c})"),
        }
    }

    /// The value as SQLite makes JSON of it by itself.
    fn sqlite_value(&self) -> String {
        let c = &self.column;
        if self.as_text {
            return format!("(CAST({c} AS TEXT) || '')");
        }
        match self.holds {
            // What SQLite itself writes for a time, in UTC.
            Holds::Moment | Holds::LocalMoment => {
                let day = "[0-9][0-9][0-9][0-9]-[0-9][0-9]-[0-9][0-9]";
                let time = "[0-2][0-9]:[0-5][0-9]:[0-5][0-9]";
                let told = format!("substr({c}, 1, 10) || 'T' || substr({c}, 12) || 'Z'");
                format!(
                    "(CASE WHEN typeof({c}) = 'text' AND ({c} GLOB '{day} {time}' \
                     OR ({c} GLOB '{day} {time}.[0-9]*' AND substr({c}, 21) NOT GLOB '*[^0-9]*')) \
                     THEN {told} ELSE {} END)",
                    plain(c)
                )
            }
            _ => plain(c),
        }
    }

    fn sqlite_json(&self) -> String {
        let c = &self.column;
        match self.holds {
            _ if self.as_text => self.sqlite_value(),
            // Texts by their affinity, or times, which are made into texts.
            Holds::Text | Holds::Moment | Holds::LocalMoment => self.sqlite_value(),
            Holds::Truth => format!("json(CASE {c} WHEN 0 THEN 'false' WHEN 1 THEN 'true' ELSE {} END)", told(c)),
            Holds::Json | Holds::Composite => {
                format!("json(CASE WHEN typeof({c}) = 'text' AND json_valid({c}) THEN {c} ELSE {} END)", told(c))
            }
            _ => format!("json({})", told(c)),
        }
    }
}

/// SQLite: whatever a row has, as JSON text. By itself SQLite would leave out the last digits of a number.
fn told(c: &str) -> String {
    let value = plain(c);
    format!("CASE typeof({value}) WHEN 'real' THEN printf('%!.17g', {c}) ELSE json_quote({value}) END")
}

/// SQLite: whatever a row has, as something that JSON has. There is no bytes and no infinity in JSON.
fn plain(c: &str) -> String {
    format!(
        "(CASE typeof({c}) WHEN 'blob' THEN lower(hex({c})) \
         WHEN 'real' THEN CASE WHEN abs({c}) > 1.7976931348623157e308 THEN CAST({c} AS TEXT) ELSE {c} END ELSE {c} END)"
    )
}

/// The object of these columns.
pub(super) fn object<'c>(columns: impl Iterator<Item = &'c TableColumn>, dialect: Dialect) -> String {
    let pairs: Vec<String> = columns
        .map(|column| {
            let json = match dialect {
                Dialect::Sqlite => column.sqlite_json(),
                Dialect::Postgres => column.postgres_json(),
            };
            format!("'{}', {json}", column.field.replace('\'', "''"))
        })
        .collect();
    let parts = pairs.chunks(FIELDS_AT_ONCE).map(|pairs| pairs.join(", "));
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
                // Objects are joined as texts: what merges them takes null for a wish to remove.
                many => {
                    let inner: Vec<String> =
                        many.iter().map(|part| format!("substr({part}, 2, length({part}) - 2)")).collect();
                    format!("('{{' || {} || '}}')", inner.join(" || ',' || "))
                }
            }
        }
    }
}

fn quoted(name: &str) -> Result<String, InvalidName> {
    if name.is_empty() || name.len() > LONGEST_NAME || name.contains('\0') {
        return Err(InvalidName::Identifier(name.chars().take(64).collect()));
    }
    Ok(format!("\"{}\"", name.replace('"', "\"\"")))
}
