//! Exports records as CSV, page by page.

use std::sync::Arc;

use serde_json::{Map, Value};
use toolwright_query::Field;

use super::super::error::{RecordError, RequestPart};
use super::super::rules::RecordAction;
use super::super::{CompiledType, RecordQuery, Records};
use super::cell::Column;
use toolwright_catalog::Session;
use toolwright_catalog::Unavailable;
use toolwright_catalog::entity_type::field_schema;

/// The number of records per chunk.
const PAGE_SIZE: u32 = 500;

/// A request to export records.
#[derive(Debug, Clone, Default)]
pub struct ExportRequest {
    /// The filter in the query language. `None` matches every record.
    pub query: Option<String>,
    /// The sort order, such as `name, -created`. `None` sorts by id.
    pub sort: Option<String>,
    /// The columns, such as `id, name`. `None` exports the properties of the type.
    pub columns: Option<String>,
    /// The values of the query's variables.
    pub variables: Map<String, Value>,
}

/// A running export.
pub struct Export {
    records: Records,
    session: Session,
    entity_type: Arc<CompiledType>,
    columns: Vec<Column>,
    request: RecordQuery,
    /// Whether the fields of the first records determine the columns.
    discover_columns: bool,
    header_written: bool,
    done: bool,
}

impl Records {
    /// Starts an export. Returns an error at once if the request is invalid.
    pub async fn export(
        &self,
        session: &Session,
        entity_type: &str,
        request: ExportRequest,
    ) -> Result<Export, RecordError> {
        let entity_type = self.permitted_type(session, entity_type, RecordAction::Read).await?;
        let ExportRequest { query, sort, columns, variables } = request;
        let request = RecordQuery { query, sort, limit: PAGE_SIZE, variables, ..RecordQuery::default() };
        let rule = self.inner.rules.rule(session, &entity_type, RecordAction::Read).await?;
        self.resolve_query(session, &entity_type, &rule, &request).await?;
        let (columns, discover_columns) = match columns.as_deref().filter(|text| !text.trim().is_empty()) {
            Some(text) => (parse_columns(&entity_type, text)?, false),
            None => {
                (declared_columns(&entity_type), field_schema::properties(entity_type.schema.source()).next().is_none())
            }
        };
        let (records, session) = (self.clone(), session.clone());
        Ok(Export {
            records,
            session,
            entity_type,
            columns,
            request,
            discover_columns,
            header_written: false,
            done: false,
        })
    }
}

fn parse_columns(entity_type: &CompiledType, text: &str) -> Result<Vec<Column>, RecordError> {
    let wrong = |why: String| RecordError::invalid_request(RequestPart::Columns, why);
    let column = |name: &str| {
        let field = Field::parse(name.trim()).map_err(|error| wrong(error.to_string()))?;
        if entity_type.allows_field(&field) {
            Ok(Column::new(entity_type, field))
        } else {
            Err(wrong(format!("type `{}` has no field `{field}`", entity_type.name())))
        }
    };
    text.split(',').map(column).collect()
}

/// Returns a column for the id, and a column for each property that the server does not set. Omits properties whose
/// names cannot be column names.
fn declared_columns(entity_type: &CompiledType) -> Vec<Column> {
    let own = field_schema::properties(entity_type.schema.source()).map(|(name, _)| name.as_str());
    let names = ["id"].into_iter().chain(own.filter(|name| !entity_type.managed.contains(name) && !name.contains('.')));
    names.filter_map(|name| Some(Column::new(entity_type, Field::parse(name).ok()?))).collect()
}

impl Export {
    /// Returns the next chunk of CSV text; `None` after the last one.
    pub async fn next_chunk(&mut self) -> Result<Option<Vec<u8>>, RecordError> {
        if self.done {
            return Ok(None);
        }
        let found = self.records.find(&self.session, self.entity_type.name(), &self.request).await?;
        self.done = found.next.is_none();
        self.request.cursor = found.next;
        let mut writer = csv::Writer::from_writer(Vec::new());
        if !self.header_written {
            self.header_written = true;
            // The schema declares no properties, so the first records determine the columns.
            if self.discover_columns {
                self.columns.extend(discovered_columns(&self.entity_type, &found.records));
            }
            let names: Vec<&str> = self.columns.iter().map(|column| column.field.as_str()).collect();
            writer.write_record(names).map_err(write_failed)?;
        }
        for record in &found.records {
            let cells: Vec<String> = self.columns.iter().map(|column| column.write(record)).collect();
            writer.write_record(cells).map_err(write_failed)?;
        }
        let text = writer.into_inner().map_err(|error| write_failed(error.into_error()))?;
        Ok(Some(text))
    }
}

fn discovered_columns(entity_type: &CompiledType, records: &[Value]) -> Vec<Column> {
    let mut names: Vec<&String> = Vec::new();
    for name in records.iter().filter_map(Value::as_object).flat_map(Map::keys) {
        if !entity_type.managed.contains(&name.as_str()) && !names.contains(&name) {
            names.push(name);
        }
    }
    names.sort_unstable();
    names.into_iter().filter_map(|name| Some(Column::new(entity_type, Field::parse(name).ok()?))).collect()
}

/// The error of a CSV writer. Writing to memory does not fail, so this error would be a bug.
fn write_failed(error: impl std::error::Error + Send + Sync + 'static) -> RecordError {
    Unavailable::new("the CSV text could not be written", error).into()
}
