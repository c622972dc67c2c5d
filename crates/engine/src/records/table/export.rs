//! Records as rows of a CSV text, page by page.

use std::sync::Arc;

use serde_json::{Map, Value};
use toolwright_query::Field;

use super::super::error::{Part, RecordError};
use super::super::rules::RecordAction;
use super::super::shape;
use super::super::{CompiledType, Question, Records};
use super::cell::Column;
use crate::Unavailable;
use crate::access::Session;

/// Records that are read at once.
const PAGE: u32 = 500;

/// Which records, and which of their fields.
#[derive(Debug, Clone, Default)]
pub struct ExportRequest {
    /// In the query language; everything when absent.
    pub query: Option<String>,
    /// `name, -created`; by id when absent.
    pub sort: Option<String>,
    /// `id, name`; the properties of the type when absent.
    pub columns: Option<String>,
    /// Values for variables of the query.
    pub variables: Map<String, Value>,
}

/// An export under way.
pub struct Export {
    records: Records,
    session: Session,
    of: Arc<CompiledType>,
    columns: Vec<Column>,
    question: Question,
    /// Whether the first records say what the columns are.
    open: bool,
    begun: bool,
    done: bool,
}

impl Records {
    /// Begins to export; what is wrong with the request is told now.
    pub async fn export(&self, session: &Session, of: &str, request: ExportRequest) -> Result<Export, RecordError> {
        let of = self.permitted(session, of, RecordAction::Read).await?;
        let ExportRequest { query, sort, columns, variables } = request;
        let question = Question { query, sort, limit: PAGE, variables, ..Question::default() };
        let rule = self.0.rules.rule(session, &of, RecordAction::Read).await?;
        self.asking(session, &of, &rule, &question).await?;
        let (columns, open) = match columns.as_deref().filter(|text| !text.trim().is_empty()) {
            Some(text) => (named(&of, text)?, false),
            None => (declared(&of), shape::properties(of.schema.source()).next().is_none()),
        };
        let (records, session) = (self.clone(), session.clone());
        Ok(Export { records, session, of, columns, question, open, begun: false, done: false })
    }
}

fn named(of: &CompiledType, text: &str) -> Result<Vec<Column>, RecordError> {
    let wrong = |why: String| RecordError::asked(Part::Columns, why);
    let column = |name: &str| {
        let field = Field::parse(name.trim()).map_err(|error| wrong(error.to_string()))?;
        if of.may_have(&field) {
            Ok(Column::new(of, field))
        } else {
            Err(wrong(format!("type `{}` has no field `{field}`", of.name())))
        }
    };
    text.split(',').map(column).collect()
}

/// The id, and every property whose name can be a column.
fn declared(of: &CompiledType) -> Vec<Column> {
    let own = shape::properties(of.schema.source()).map(|(name, _)| name.as_str());
    let names = ["id"].into_iter().chain(own.filter(|name| !of.managed.contains(name) && !name.contains('.')));
    names.filter_map(|name| Some(Column::new(of, Field::parse(name).ok()?))).collect()
}

impl Export {
    /// The next part of the text; none after the end.
    pub async fn step(&mut self) -> Result<Option<Vec<u8>>, RecordError> {
        if self.done {
            return Ok(None);
        }
        let found = self.records.find(&self.session, self.of.name(), &self.question).await?;
        self.done = found.next.is_none();
        self.question.cursor = found.next;
        let mut writer = csv::Writer::from_writer(Vec::new());
        if !self.begun {
            self.begun = true;
            // A type that declares nothing shows what its first records have.
            if self.open {
                self.columns.extend(found_in(&self.of, &found.records));
            }
            let names: Vec<&str> = self.columns.iter().map(|column| column.field.as_str()).collect();
            writer.write_record(names).map_err(unwritable)?;
        }
        for record in &found.records {
            let cells: Vec<String> = self.columns.iter().map(|column| column.write(record)).collect();
            writer.write_record(cells).map_err(unwritable)?;
        }
        let text = writer.into_inner().map_err(|error| unwritable(error.into_error()))?;
        Ok(Some(text))
    }
}

fn found_in(of: &CompiledType, records: &[Value]) -> Vec<Column> {
    let mut names: Vec<&String> = Vec::new();
    for name in records.iter().filter_map(Value::as_object).flat_map(Map::keys) {
        if !of.managed.contains(&name.as_str()) && !names.contains(&name) {
            names.push(name);
        }
    }
    names.sort_unstable();
    names.into_iter().filter_map(|name| Some(Column::new(of, Field::parse(name).ok()?))).collect()
}

/// Writing to memory does not fail; if it did, it would be a defect of ours.
fn unwritable(error: impl std::error::Error + Send + Sync + 'static) -> RecordError {
    Unavailable::new("the text could not be made")(Box::new(error)).into()
}
