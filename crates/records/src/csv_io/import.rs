//! Imports records from CSV, batch by batch.

use std::collections::HashMap;
use std::io::Cursor;
use std::sync::Arc;

use serde_json::{Map, Value};
use toolwright_query::{Field, Filter, Sort};
use toolwright_store::{RecordPage, Selection};

use super::super::error::{RecordError, RequestPart};
use super::super::rules::RecordAction;
use super::super::save::IncomingRecord;
use super::super::source::{ChangeOutcome, RecordChange};
use super::super::{CompiledType, Records, SaveMode};
use super::cell::{Column, insert_new, set_path};
use super::quotes;
use toolwright_catalog::Session;

/// The number of rows per transaction.
const BATCH_SIZE: usize = 500;
/// The maximum number of columns.
const MAX_COLUMNS: usize = 500;

/// A running import.
pub struct Import {
    records: Records,
    session: Session,
    entity_type: Arc<CompiledType>,
    columns: Vec<Column>,
    rows: csv::Reader<Cursor<Vec<u8>>>,
    progress: ImportProgress,
}

/// The progress of an import.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ImportProgress {
    /// The number of records created so far.
    pub created: u64,
    /// The number of records updated so far.
    pub updated: u64,
    /// The rows of the latest batch that were not written.
    pub failed: Vec<FailedRow>,
    /// The number of rows so far that were not written.
    pub failures: u64,
    /// Whether the import is complete.
    pub done: bool,
}

/// A row that was not written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FailedRow {
    /// The line on which the row starts; the header is line 1.
    pub line: u64,
    /// The reason.
    pub message: String,
}

/// A parsed row.
struct Row {
    line: u64,
    /// The row as a record, which is created if no stored record has the same id.
    entity: IncomingRecord,
    /// The fields to set, with their values, if a stored record has the same id.
    cells: Vec<(Field, Value)>,
}

impl Records {
    /// Starts the import of a CSV text whose first row names the fields.
    pub async fn import(&self, session: &Session, entity_type: &str, text: Vec<u8>) -> Result<Import, RecordError> {
        let entity_type = self.permitted_type(session, entity_type, RecordAction::Write).await?;
        if let Some(open) = quotes::find_unclosed_quote(&text) {
            return Err(RecordError::unclosed_quote(open));
        }
        let mut rows = csv::ReaderBuilder::new().flexible(true).from_reader(Cursor::new(text));
        let unreadable =
            |error: csv::Error| RecordError::invalid_request(RequestPart::Text, format!("must be CSV: {error}"));
        let header = rows.headers().map_err(unreadable)?.clone();
        let columns = parse_header(&entity_type, header.iter())?;
        let (records, session) = (self.clone(), session.clone());
        Ok(Import { records, session, entity_type, columns, rows, progress: ImportProgress::default() })
    }
}

fn parse_header<'h>(
    entity_type: &CompiledType,
    header: impl Iterator<Item = &'h str>,
) -> Result<Vec<Column>, RecordError> {
    let mut columns: Vec<Column> = Vec::new();
    for name in header {
        // Spreadsheets write a byte order mark before the first name.
        let name = name.trim_start_matches('\u{feff}').trim();
        let wrong = |why: String| RecordError::invalid_request(RequestPart::Columns, why);
        let field = Field::parse(name).map_err(|error| wrong(error.to_string()))?;
        if !entity_type.allows_field(&field) {
            return Err(wrong(format!("type `{}` has no field `{name}`", entity_type.name())));
        }
        if columns.iter().any(|column| column.field == field) {
            return Err(wrong(format!("column `{name}` appears twice")));
        }
        columns.push(Column::new(entity_type, field));
        if columns.len() > MAX_COLUMNS {
            return Err(wrong(format!("must have at most {MAX_COLUMNS} columns")));
        }
    }
    if columns.is_empty() {
        Err(RecordError::invalid_request(RequestPart::Columns, "the first row must name the fields"))
    } else {
        Ok(columns)
    }
}

impl Import {
    /// Writes the next batch and returns the progress; `None` after the last batch.
    pub async fn next_batch(&mut self) -> Result<Option<ImportProgress>, RecordError> {
        if self.progress.done {
            return Ok(None);
        }
        self.progress.failed.clear();
        let (rows, end) = self.read_batch();
        self.write_batch(rows).await?;
        self.progress.done = end;
        self.progress.failures += u64::try_from(self.progress.failed.len()).unwrap_or(u64::MAX);
        self.progress.failed.sort_by_key(|row| row.line);
        Ok(Some(self.progress.clone()))
    }

    /// Returns the valid rows of the next batch, and whether this batch is the last one.
    fn read_batch(&mut self) -> (Vec<Row>, bool) {
        let mut rows: Vec<Row> = Vec::new();
        let mut record = csv::StringRecord::new();
        for _ in 0..BATCH_SIZE {
            let line = self.rows.position().line();
            let read = self.rows.read_record(&mut record);
            let line = record.position().map_or(line, csv::Position::line);
            let row = match read {
                Ok(false) => return (rows, true),
                Ok(true) => self.read_row(&record),
                Err(error) => Err(error.to_string()),
            };
            let row = row.and_then(|(entity, cells)| {
                match rows.iter().find(|row| row.entity.id.is_some() && row.entity.id == entity.id) {
                    Some(row) => Err(format!("the id is already used on line {}", row.line)),
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

    /// Parses a row into a record and a list of field values.
    fn read_row(&self, row: &csv::StringRecord) -> Result<(IncomingRecord, Vec<(Field, Value)>), String> {
        if row.len() != self.columns.len() {
            return Err(format!("must have {} cells like the first row, got {}", self.columns.len(), row.len()));
        }
        let (mut body, mut cells) = (Map::new(), Vec::new());
        for (column, cell) in self.columns.iter().zip(row) {
            let managed = column.field.segments().next().is_some_and(|first| self.entity_type.managed.contains(&first));
            let keep = !managed || matches!(column.field.as_str(), "id" | "version");
            let Some(value) = column.read(cell)?.filter(|_| keep) else { continue };
            if !managed {
                cells.push((column.field.clone(), value.clone()));
            }
            if !insert_new(&mut body, &column.field, value) {
                return Err(format!("`{}` is inside the value of another column", column.field));
            }
        }
        let entity =
            IncomingRecord::parse(&self.entity_type, Value::Object(body)).map_err(|error| error.to_string())?;
        Ok((entity, cells))
    }

    /// Writes the valid rows of a batch in one transaction.
    async fn write_batch(&mut self, rows: Vec<Row>) -> Result<(), RecordError> {
        let context = self.records.write_context(&self.session, &self.entity_type).await?;
        let mut current = self.stored_records(&rows).await?;
        let (mut changes, mut lines): (Vec<RecordChange>, Vec<(u64, String, bool)>) = Default::default();
        let mut failed = Vec::new();
        for Row { line, mut entity, cells } in rows {
            let current = entity.id.as_ref().and_then(|id| current.remove(id));
            let mode = match current.as_ref().and_then(Value::as_object) {
                // A cell contains a complete value. So an object in a cell replaces the stored object and is not merged
                // with it.
                Some(current) => {
                    entity.body = current.clone();
                    cells.into_iter().for_each(|(field, value)| set_path(&mut entity.body, &field, value));
                    self.entity_type.managed.iter().for_each(|name| drop(entity.body.shift_remove(*name)));
                    SaveMode::Upsert
                }
                None => SaveMode::Create,
            };
            match self.records.prepare_change(&context, current, entity, mode).await {
                Ok(change) => {
                    let id = change.id.clone().unwrap_or_default();
                    lines.push((line, id, change.replaces.is_none()));
                    changes.push(change);
                }
                Err(error) => failed.push(FailedRow { line, message: error.to_string() }),
            }
        }
        if !changes.is_empty() {
            let written = self.records.write(&context, changes).await?;
            for ((line, id, new), written) in lines.into_iter().zip(written) {
                match written {
                    ChangeOutcome::Written(_) if new => self.progress.created += 1,
                    ChangeOutcome::Written(_) => self.progress.updated += 1,
                    ChangeOutcome::Conflict => failed.push(FailedRow {
                        line,
                        message: format!("record `{id}` was changed during the import; import the row again"),
                    }),
                    ChangeOutcome::Rejected(violation) => {
                        failed.push(FailedRow {
                            line,
                            message: RecordError::from_violation(self.entity_type.name(), violation).to_string(),
                        });
                    }
                }
            }
        }
        self.progress.failed.extend(failed);
        Ok(())
    }

    /// Returns the stored records with the ids of these rows, by id.
    async fn stored_records(&self, rows: &[Row]) -> Result<HashMap<String, Value>, RecordError> {
        let ids: Vec<String> = rows.iter().filter_map(|row| row.entity.id.clone()).collect();
        if ids.is_empty() {
            return Ok(HashMap::new());
        }
        let limit = u32::try_from(ids.len()).unwrap_or(u32::MAX);
        let page = RecordPage { sort: Sort::default(), after: None, skip: 0, limit };
        let selection = Selection::of(Filter::ids(ids.clone()), self.entity_type.searchable.clone());
        let set = self.records.record_set(&self.session, &self.entity_type);
        let found = self.records.source(&self.entity_type).find(set, &selection, &page).await?;
        // The source may find a record whose id differs in case from the id in the row. The record is returned under
        // the id of the row.
        let row_id = |id: &str| {
            let spelled = ids
                .iter()
                .find(|given| given.eq_ignore_ascii_case(id))
                .filter(|_| !ids.iter().any(|given| given == id));
            spelled.map_or_else(|| id.to_owned(), String::clone)
        };
        let by_id = |record: Value| Some((row_id(record.get("id")?.as_str()?), record));
        Ok(found.into_iter().filter_map(by_id).collect())
    }
}
