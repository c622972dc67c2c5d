//! The table: what its columns are called, and which fields can be searched through an index.

use std::fmt;

use super::Dialect;
use super::columns::{ID, TableColumn, object};
use super::value::Scalar;
use crate::{Field, InvalidField};

/// The names that a statement is made of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Layout {
    pub(super) id: Id,
    pub(super) record: Record,
    pub(super) searchable: Vec<Searchable>,
}

/// What tells records apart.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Id {
    /// Text that equals the `id` of the record.
    Text(Column),
    /// A key of any kind, of which the `id` is the text.
    Key(TableColumn),
}

/// Where a record is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Record {
    /// Whole, as JSON.
    Json(Column),
    /// In columns, one for each field.
    Columns(Vec<TableColumn>),
}

impl Layout {
    /// `id` is text and equals the `id` of the record; `record` is the record itself.
    pub fn new(id: Column, record: Column) -> Self {
        Self { id: Id::Text(id), record: Record::Json(record), searchable: Vec::new() }
    }

    /// A table that was not made for this: a record is made of its columns, and the text of its key is the `id`. The table is
    /// called [`super::TABLE`] in the statement.
    pub fn of_columns(key: TableColumn, fields: impl IntoIterator<Item = TableColumn>) -> Self {
        let id = key.as_id();
        // The field of that name would be the same column, and not be text.
        let others = fields.into_iter().filter(|field| field.field != ID);
        let columns = std::iter::once(id).chain(others).collect();
        Self { id: Id::Key(key), record: Record::Columns(columns), searchable: Vec::new() }
    }

    /// The same without some fields, which do not exist for whoever asks. Only where fields are columns.
    pub fn without(&self, fields: &[String]) -> Self {
        let mut layout = self.clone();
        if let Record::Columns(columns) = &mut layout.record {
            columns.retain(|column| !fields.contains(&column.field));
        }
        layout
    }

    /// Whether a record can have this field, by the first name of its path. A record that is JSON can have any.
    pub fn may_have(&self, field: &str) -> bool {
        let first = field.split('.').next().unwrap_or_default();
        match &self.record {
            Record::Json(_) => true,
            Record::Columns(columns) => columns.iter().any(|column| column.field == first),
        }
    }

    /// The record as JSON, to be selected.
    pub fn record(&self, dialect: Dialect) -> super::Fragment {
        let sql = format!("CAST({} AS TEXT)", self.whole(dialect));
        super::Fragment { sql, params: Vec::new() }
    }

    /// The record as JSON.
    pub(super) fn whole(&self, dialect: Dialect) -> String {
        match &self.record {
            Record::Json(column) => column.to_string(),
            Record::Columns(columns) => object(columns.iter(), dialect),
        }
    }

    /// The columns that hold one value each, and all else of the record as JSON.
    pub(super) fn parts(&self, dialect: Dialect) -> (Vec<&TableColumn>, Option<String>) {
        match &self.record {
            Record::Json(column) => (Vec::new(), Some(column.to_string())),
            Record::Columns(columns) => {
                let (single, others): (Vec<_>, Vec<_>) = columns.iter().partition(|column| column.is_single());
                let others = (!others.is_empty()).then(|| object(others.into_iter(), dialect));
                (single, others)
            }
        }
    }

    /// As much of the record as holds the field: making JSON of a column that nobody asks for would cost most of the time.
    pub(super) fn holding(&self, field: &Field, dialect: Dialect) -> String {
        match &self.record {
            Record::Json(column) => column.to_string(),
            Record::Columns(columns) => {
                let first = field.segments().next().unwrap_or_default();
                object(columns.iter().filter(|column| column.field == first), dialect)
            }
        }
    }

    /// The column that is the field, if it holds one value at most.
    pub(super) fn column(&self, field: &Field) -> Option<&TableColumn> {
        match &self.record {
            Record::Json(_) => None,
            Record::Columns(columns) => {
                columns.iter().find(|column| column.field == field.as_str() && column.is_single())
            }
        }
    }

    /// With fields that an index serves.
    pub fn with_searchable(mut self, searchable: impl IntoIterator<Item = Searchable>) -> Self {
        self.searchable.extend(searchable);
        self
    }

    /// What an index must be made of to serve this field, as in `CREATE INDEX name ON table (…)`.
    ///
    /// Databases use an index when a condition holds the same expression, so this text is the one that [`super::compile`] emits.
    pub fn index_expression(&self, field: &Searchable, dialect: Dialect) -> String {
        let record = match &self.record {
            Record::Json(column) => column.bare().to_owned(),
            Record::Columns(_) => self.holding(&field.field, dialect),
        };
        let scalar = dialect.searchable(&record, field);
        format!("({})", field.kind.indexed(&scalar, dialect))
    }

    pub(super) fn find(&self, field: &Field) -> Option<&Searchable> {
        self.searchable.iter().find(|known| known.field == *field)
    }
}

/// The name of a column, perhaps with that of its table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Column(Box<str>);

impl Column {
    /// Takes `record` or `r.record`: letters, digits and `_`.
    pub fn new(name: &str) -> Result<Self, InvalidName> {
        let parts: Vec<&str> = name.split('.').collect();
        if parts.len() > 2 || !parts.iter().all(|part| is_name(part)) {
            return Err(InvalidName::Column(name.into()));
        }
        Ok(Self(name.into()))
    }

    /// Without the table, as an index needs it.
    fn bare(&self) -> &str {
        self.0.rsplit('.').next().unwrap_or_default()
    }
}

impl fmt::Display for Column {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A field that an index serves.
///
/// Whoever declares one promises that its value in every record is of that kind, null or missing, and that no array is on
/// the way to it. A schema that is checked before a record is stored keeps such a promise.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Searchable {
    pub(super) field: Field,
    pub(super) kind: Kind,
}

impl Searchable {
    /// Takes a path of names that are made of letters, digits and `_` only, because it becomes part of the SQL.
    pub fn new(field: &str, kind: Kind) -> Result<Self, InvalidName> {
        let field = Field::parse(field)?;
        if !field.segments().all(is_name) {
            return Err(InvalidName::Searchable(field.as_str().into()));
        }
        Ok(Self { field, kind })
    }
}

/// What a searchable field holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Strings.
    Text,
    /// Numbers.
    Number,
    /// Strings that are dates or times.
    Moment,
}

impl Kind {
    fn indexed(self, scalar: &Scalar, dialect: Dialect) -> String {
        match self {
            Kind::Text => scalar.folded(dialect),
            Kind::Number => scalar.number(dialect),
            Kind::Moment => scalar.moment(dialect),
        }
    }
}

/// A name that cannot be part of a statement.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidName {
    /// Not the name of a column.
    #[error("`{0}` is not the name of a column; write letters, digits and `_`")]
    Column(Box<str>),
    /// Not a name that a database can have.
    #[error("`{0}` is no name in a database: it is empty, too long, or has a character that no name has")]
    Identifier(Box<str>),
    /// Not a field that a column can be.
    #[error("`{0}` cannot be the field of a column; write one name of letters, digits, `_` and `-`")]
    ColumnField(Box<str>),
    /// Not a field that an index can be made of.
    #[error("`{0}` cannot be searchable; its names must be made of the letters a to z, digits and `_`")]
    Searchable(Box<str>),
    /// Not a field at all.
    #[error(transparent)]
    Field(#[from] InvalidField),
}

/// Databases cut longer names off.
const MAX_NAME: usize = 63;

fn is_name(text: &str) -> bool {
    let begins = text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    begins && text.len() <= MAX_NAME && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}
