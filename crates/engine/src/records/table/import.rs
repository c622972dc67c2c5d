//! Rows of a CSV text as records, batch by batch.

use std::collections::HashMap;
use std::io::Cursor;
use std::sync::Arc;

use serde_json::{Map, Value};
use toolwright_query::{Field, Filter, Sort};
use toolwright_store::{RecordPage, Selection};

use super::super::error::{Part, RecordError};
use super::super::rules::RecordAction;
use super::super::save::Entity;
use super::super::source::{Change, Written};
use super::super::{CompiledType, Records, Wish};
use super::cell::{Column, place, put};
use super::quotes;
use crate::access::Session;

/// Rows of one transaction.
const BATCH: usize = 500;
/// Columns of a row.
const MOST_COLUMNS: usize = 500;

/// An import under way.
pub struct Import {
    records: Records,
    session: Session,
    of: Arc<CompiledType>,
    columns: Vec<Column>,
    rows: csv::Reader<Cursor<Vec<u8>>>,
    progress: Progress,
}

/// What an import has come to.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Progress {
    /// Records that are new.
    pub created: u64,
    /// Records that were there.
    pub updated: u64,
    /// Rows that were not written, of this batch.
    pub failed: Vec<FailedRow>,
    /// How many were not written at all.
    pub failures: u64,
    /// Whether this is the end.
    pub done: bool,
}

/// A row that was not written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FailedRow {
    /// The line it begins on, the header's being the first.
    pub line: u64,
    /// Why.
    pub message: String,
}

/// A row that can be written.
struct Row {
    line: u64,
    /// The record, if it is new.
    entity: Entity,
    /// What each cell says of one that is there.
    cells: Vec<(Field, Value)>,
}

impl Records {
    /// Begins to import a text whose first row names the fields.
    pub async fn import(&self, session: &Session, of: &str, text: Vec<u8>) -> Result<Import, RecordError> {
        let of = self.permitted(session, of, RecordAction::Write).await?;
        if let Some(open) = quotes::never_closed(&text) {
            return Err(RecordError::open_quote(open));
        }
        let mut rows = csv::ReaderBuilder::new().flexible(true).from_reader(Cursor::new(text));
        let unreadable = |error: csv::Error| RecordError::asked(Part::Text, format!("it is no CSV: {error}"));
        let header = rows.headers().map_err(unreadable)?.clone();
        let columns = columns(&of, header.iter())?;
        let (records, session) = (self.clone(), session.clone());
        Ok(Import { records, session, of, columns, rows, progress: Progress::default() })
    }
}

fn columns<'h>(of: &CompiledType, header: impl Iterator<Item = &'h str>) -> Result<Vec<Column>, RecordError> {
    let mut columns: Vec<Column> = Vec::new();
    for name in header {
        // Spreadsheets put a mark before the first name.
        let name = name.trim_start_matches('\u{feff}').trim();
        let wrong = |why: String| RecordError::asked(Part::Columns, why);
        let field = Field::parse(name).map_err(|error| wrong(error.to_string()))?;
        if !of.may_have(&field) {
            return Err(wrong(format!("type `{}` has no field `{name}`", of.name())));
        }
        if columns.iter().any(|column| column.field == field) {
            return Err(wrong(format!("there are two columns `{name}`")));
        }
        columns.push(Column::new(of, field));
        if columns.len() > MOST_COLUMNS {
            return Err(wrong(format!("a row has at most {MOST_COLUMNS} columns")));
        }
    }
    if columns.is_empty() {
        Err(RecordError::asked(Part::Columns, "the first row names the fields"))
    } else {
        Ok(columns)
    }
}

impl Import {
    /// Writes the next batch and says what all came to; none after the end.
    pub async fn step(&mut self) -> Result<Option<Progress>, RecordError> {
        if self.progress.done {
            return Ok(None);
        }
        self.progress.failed.clear();
        let (rows, end) = self.batch();
        self.write(rows).await?;
        self.progress.done = end;
        self.progress.failures += u64::try_from(self.progress.failed.len()).unwrap_or(u64::MAX);
        self.progress.failed.sort_by_key(|row| row.line);
        Ok(Some(self.progress.clone()))
    }

    /// The rows of the next batch that can be read, and whether it is the last.
    fn batch(&mut self) -> (Vec<Row>, bool) {
        let mut rows: Vec<Row> = Vec::new();
        let mut record = csv::StringRecord::new();
        for _ in 0..BATCH {
            let line = self.rows.position().line();
            let read = self.rows.read_record(&mut record);
            let line = record.position().map_or(line, csv::Position::line);
            let row = match read {
                Ok(false) => return (rows, true),
                Ok(true) => self.read(&record),
                Err(error) => Err(error.to_string()),
            };
            let row = row.and_then(|(entity, cells)| {
                match rows.iter().find(|row| row.entity.id.is_some() && row.entity.id == entity.id) {
                    Some(row) => Err(format!("the id is also that of line {}", row.line)),
                    None => Ok(Row { line, entity, cells }),
                }
            });
            match row {
                Ok(row) => rows.push(row),
                Err(message) => self.progress.failed.push(FailedRow { line, message }),
            }
        }
        (rows, false)
    }

    /// The record that a row is, and what its cells say one by one.
    fn read(&self, row: &csv::StringRecord) -> Result<(Entity, Vec<(Field, Value)>), String> {
        if row.len() != self.columns.len() {
            return Err(format!("has {} cells, and the first row has {}", row.len(), self.columns.len()));
        }
        let (mut body, mut cells) = (Map::new(), Vec::new());
        for (column, cell) in self.columns.iter().zip(row) {
            let managed = column.field.segments().next().is_some_and(|first| self.of.managed.contains(&first));
            let keep = !managed || matches!(column.field.as_str(), "id" | "version");
            let Some(value) = column.read(cell)?.filter(|_| keep) else { continue };
            if !managed {
                cells.push((column.field.clone(), value.clone()));
            }
            if !put(&mut body, &column.field, value) {
                return Err(format!("`{}` is inside of another column's value", column.field));
            }
        }
        let entity = Entity::read(&self.of, Value::Object(body)).map_err(|error| error.to_string())?;
        Ok((entity, cells))
    }

    /// Writes what can be written, in one transaction.
    async fn write(&mut self, rows: Vec<Row>) -> Result<(), RecordError> {
        let writing = self.records.writing(&self.session, &self.of).await?;
        let mut current = self.current(&rows).await?;
        let (mut changes, mut lines): (Vec<Change>, Vec<(u64, String, bool)>) = Default::default();
        let mut failed = Vec::new();
        for Row { line, mut entity, cells } in rows {
            let current = entity.id.as_ref().and_then(|id| current.remove(id));
            let wish = match current.as_ref().and_then(Value::as_object) {
                // A cell is a value as a whole, so an object in one takes the place of what was there.
                Some(current) => {
                    entity.body = current.clone();
                    cells.into_iter().for_each(|(field, value)| place(&mut entity.body, &field, value));
                    self.of.managed.iter().for_each(|name| drop(entity.body.shift_remove(*name)));
                    Wish::Save
                }
                None => Wish::Create,
            };
            let decided = self.records.decide(&writing, current, entity, wish);
            match decided {
                Ok(change) => {
                    let id = change.id.clone().unwrap_or_default();
                    lines.push((line, id, change.replaces.is_none()));
                    changes.push(change);
                }
                Err(error) => failed.push(FailedRow { line, message: error.to_string() }),
            }
        }
        if !changes.is_empty() {
            let written = self.records.write(&writing, changes).await?;
            for ((line, id, new), written) in lines.into_iter().zip(written) {
                match written {
                    Written::Done(_) if new => self.progress.created += 1,
                    Written::Done(_) => self.progress.updated += 1,
                    Written::Overtaken => failed.push(FailedRow {
                        line,
                        message: format!("record `{id}` was changed meanwhile; import the row again"),
                    }),
                    Written::Refused(violation) => {
                        failed.push(FailedRow {
                            line,
                            message: RecordError::refused(self.of.name(), violation).to_string(),
                        });
                    }
                }
            }
        }
        self.progress.failed.extend(failed);
        Ok(())
    }

    /// What is stored under the ids of these rows.
    async fn current(&self, rows: &[Row]) -> Result<HashMap<String, Value>, RecordError> {
        let ids: Vec<String> = rows.iter().filter_map(|row| row.entity.id.clone()).collect();
        if ids.is_empty() {
            return Ok(HashMap::new());
        }
        let limit = u32::try_from(ids.len()).unwrap_or(u32::MAX);
        let page = RecordPage { sort: Sort::default(), after: None, skip: 0, limit };
        let selection = Selection::of(Filter::ids(ids.clone()), self.of.searchable.clone());
        let set = self.records.set(&self.session, &self.of);
        let found = self.records.source(&self.of).find(set, &selection, &page).await?;
        // What is found under an id that nobody wrote was found under another spelling of it.
        let asked = |id: &str| {
            let spelled = ids
                .iter()
                .find(|asked| asked.eq_ignore_ascii_case(id))
                .filter(|_| !ids.iter().any(|asked| asked == id));
            spelled.map_or_else(|| id.to_owned(), String::clone)
        };
        let by_id = |record: Value| Some((asked(record.get("id")?.as_str()?), record));
        Ok(found.into_iter().filter_map(by_id).collect())
    }
}
