//! The table: what its columns are called, and which fields can be searched through an index.

use std::fmt;

use super::Dialect;
use super::value::Scalar;
use crate::{Field, InvalidField};

/// The names that a statement is made of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Layout {
    pub(super) id: Column,
    pub(super) record: Column,
    pub(super) searchable: Vec<Searchable>,
}

impl Layout {
    /// `id` is text and equals the `id` of the record; `record` is the record itself.
    pub fn new(id: Column, record: Column) -> Self {
        Self { id, record, searchable: Vec::new() }
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
        let scalar = dialect.searchable(self.record.bare(), field);
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
    /// Not a field that an index can be made of.
    #[error("`{0}` cannot be searchable; its names must be made of letters, digits and `_`")]
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
