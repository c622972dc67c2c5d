//! The layout of a table: its columns, and the fields that have an index.

use std::fmt;

use super::Dialect;
use super::columns::{ID, TableColumn, json_object};
use super::value::Scalar;
use crate::{Field, InvalidField};

/// The columns and indexed fields of a table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Layout {
    pub(super) id: IdColumn,
    pub(super) record: RecordStorage,
    pub(super) searchable: Vec<SearchableField>,
}

/// The column that identifies a record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum IdColumn {
    /// A text column whose value is the `id` of the record.
    Text(Column),
    /// A column of any type. Its value, converted to text, is the `id` of the record.
    Key(TableColumn),
}

/// The representation of a record in the table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum RecordStorage {
    /// One column with the record as JSON.
    Json(Column),
    /// One column for each field.
    Columns(Vec<TableColumn>),
}

impl Layout {
    /// Creates the layout of a table with two columns: the text column `id` with the id of the record, and the JSON
    /// column `record`.
    pub fn new(id: Column, record: Column) -> Self {
        Self { id: IdColumn::Text(id), record: RecordStorage::Json(record), searchable: Vec::new() }
    }

    /// Creates the layout of an existing table whose columns are the fields of a record. The value of the column `key`,
    /// converted to text, is the `id` of the record. Statements must use [`super::TABLE_ALIAS`] as the alias of the
    /// table.
    pub fn from_columns(key: TableColumn, fields: impl IntoIterator<Item = TableColumn>) -> Self {
        let id = key.as_id();
        // A field named `id` is dropped, because the record already has the key as `id`.
        let others = fields.into_iter().filter(|field| field.field != ID);
        let columns = std::iter::once(id).chain(others).collect();
        Self { id: IdColumn::Key(key), record: RecordStorage::Columns(columns), searchable: Vec::new() }
    }

    /// Returns the layout without these fields, for principals who may not read them. Has no effect if the record is
    /// stored in a JSON column.
    pub fn without_fields(&self, fields: &[String]) -> Self {
        let mut layout = self.clone();
        if let RecordStorage::Columns(columns) = &mut layout.record {
            columns.retain(|column| !fields.contains(&column.field));
        }
        layout
    }

    /// Whether a record can have this field. In a table with columns, the first name of the path must be the field of a
    /// column. A record in a JSON column can have any field.
    pub fn may_have_field(&self, field: &str) -> bool {
        let first = field.split('.').next().unwrap_or_default();
        match &self.record {
            RecordStorage::Json(_) => true,
            RecordStorage::Columns(columns) => columns.iter().any(|column| column.field == first),
        }
    }

    /// The expression that selects the record as JSON text.
    pub fn record(&self, dialect: Dialect) -> super::Fragment {
        let sql = format!("CAST({} AS TEXT)", self.record_json(dialect));
        super::Fragment { sql, params: Vec::new() }
    }

    /// The SQL expression for the whole record as JSON.
    pub(super) fn record_json(&self, dialect: Dialect) -> String {
        match &self.record {
            RecordStorage::Json(column) => column.to_string(),
            RecordStorage::Columns(columns) => json_object(columns.iter(), dialect),
        }
    }

    /// Returns the columns with scalar values, and a JSON expression for all other columns.
    pub(super) fn split_scalars(&self, dialect: Dialect) -> (Vec<&TableColumn>, Option<String>) {
        match &self.record {
            RecordStorage::Json(column) => (Vec::new(), Some(column.to_string())),
            RecordStorage::Columns(columns) => {
                let (single, others): (Vec<_>, Vec<_>) = columns.iter().partition(|column| column.is_scalar());
                let others = (!others.is_empty()).then(|| json_object(others.into_iter(), dialect));
                (single, others)
            }
        }
    }

    /// A JSON expression that contains at least this field. Unused columns are left out, because converting them to
    /// JSON would take most of the time.
    pub(super) fn json_containing(&self, field: &Field, dialect: Dialect) -> String {
        match &self.record {
            RecordStorage::Json(column) => column.to_string(),
            RecordStorage::Columns(columns) => {
                let first = field.segments().next().unwrap_or_default();
                json_object(columns.iter().filter(|column| column.field == first), dialect)
            }
        }
    }

    /// The column of the field, if the field has a column with scalar values.
    pub(super) fn column(&self, field: &Field) -> Option<&TableColumn> {
        match &self.record {
            RecordStorage::Json(_) => None,
            RecordStorage::Columns(columns) => {
                columns.iter().find(|column| column.field == field.as_str() && column.is_scalar())
            }
        }
    }

    /// Adds fields that have an index.
    pub fn with_searchable(mut self, searchable: impl IntoIterator<Item = SearchableField>) -> Self {
        self.searchable.extend(searchable);
        self
    }

    /// The expression of an index for this field, as in `CREATE INDEX name ON table (…)`.
    ///
    /// A database uses the index only if a condition contains the same expression. [`super::compile`] therefore
    /// generates the same text.
    pub fn index_expression(&self, field: &SearchableField, dialect: Dialect) -> String {
        let record = match &self.record {
            RecordStorage::Json(column) => column.bare().to_owned(),
            RecordStorage::Columns(_) => self.json_containing(&field.field, dialect),
        };
        let scalar = dialect.searchable(&record, field);
        format!("({})", field.kind.index_value(&scalar, dialect))
    }

    pub(super) fn searchable_field(&self, field: &Field) -> Option<&SearchableField> {
        self.searchable.iter().find(|known| known.field == *field)
    }
}

/// The name of a column, optionally with its table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Column(Box<str>);

impl Column {
    /// Creates a column from a name such as `record` or `r.record`. A name consists of letters, digits and `_`.
    pub fn new(name: &str) -> Result<Self, InvalidIdentifier> {
        let split_scalars: Vec<&str> = name.split('.').collect();
        if split_scalars.len() > 2 || !split_scalars.iter().all(|part| is_name(part)) {
            return Err(InvalidIdentifier::Column(name.into()));
        }
        Ok(Self(name.into()))
    }

    /// The column name without the table, for index expressions.
    fn bare(&self) -> &str {
        self.0.rsplit('.').next().unwrap_or_default()
    }
}

impl fmt::Display for Column {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A field that has an index.
///
/// The caller guarantees two things for every record: the value has the declared type, is null or is missing, and no
/// array is on the path. The caller can ensure this by validating each record against a schema before storing it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SearchableField {
    pub(super) field: Field,
    pub(super) kind: IndexKind,
}

impl SearchableField {
    /// Creates a searchable field. The path becomes part of the SQL text, so its names may contain only letters, digits
    /// and `_`.
    pub fn new(field: &str, kind: IndexKind) -> Result<Self, InvalidIdentifier> {
        let field = Field::parse(field)?;
        if !field.segments().all(is_name) {
            return Err(InvalidIdentifier::SearchableField(field.as_str().into()));
        }
        Ok(Self { field, kind })
    }
}

/// The type of the values of a searchable field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IndexKind {
    /// Strings.
    Text,
    /// Numbers.
    Number,
    /// Strings that are dates or times.
    Timestamp,
}

impl IndexKind {
    fn index_value(self, scalar: &Scalar, dialect: Dialect) -> String {
        match self {
            IndexKind::Text => scalar.folded(dialect),
            IndexKind::Number => scalar.number(dialect),
            IndexKind::Timestamp => scalar.timestamp(dialect),
        }
    }
}

/// The reason why a name cannot be used in an SQL statement.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidIdentifier {
    /// An invalid column name.
    #[error("`{0}` is not a valid column name; write letters, digits and `_`")]
    Column(Box<str>),
    /// An invalid database identifier.
    #[error("`{0}` is not a valid database identifier; it must have 1 to 255 bytes and no U+0000")]
    Identifier(Box<str>),
    /// The name cannot be the field of a column.
    #[error("`{0}` is not a valid field for a column; write one name of letters, digits, `_` and `-`")]
    ColumnField(Box<str>),
    /// The field cannot have an index.
    #[error("`{0}` cannot be searchable; its names must consist of the letters a to z, digits and `_`")]
    SearchableField(Box<str>),
    /// An invalid field path.
    #[error(transparent)]
    Field(#[from] InvalidField),
}

/// The maximum length of a name, in bytes. Databases truncate longer names.
const MAX_NAME: usize = 63;

fn is_name(text: &str) -> bool {
    let begins = text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    begins && text.len() <= MAX_NAME && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}
