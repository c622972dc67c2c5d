//! A question, read and checked against the type and the rule before anything is looked up.

use serde_json::{Map, Value};
use toolwright_query::{Cursor, Field, Filter, Plan, Projection, Query, Scope, Sort};
use toolwright_store::Selection;

use super::error::{Part, RecordError};
use super::rules::RecordRule;
use super::{CompiledType, Records};
use crate::access::Session;

/// What someone asks about records, as texts.
#[derive(Debug, Clone, Default)]
pub struct Question {
    /// In the query language; everything when absent or empty.
    pub query: Option<String>,
    /// `name, -created`; by id when absent.
    pub sort: Option<String>,
    /// `+name, -secret`; everything when absent.
    pub fields: Option<String>,
    /// Where the page before ended.
    pub cursor: Option<String>,
    /// How many to leave out.
    pub skip: u64,
    /// How many at most.
    pub limit: u32,
    /// How many bytes they may come to together; one record is given in any case.
    pub most_bytes: Option<usize>,
    /// Whether it matters how many there are on all pages.
    pub total: bool,
    /// Values for variables of the query.
    pub variables: Map<String, Value>,
}

impl Question {
    /// The question that only a query asks.
    pub fn of(query: Option<String>, variables: Map<String, Value>) -> Self {
        Self { query, variables, ..Self::default() }
    }
}

/// A question that can be asked.
pub(super) struct Asking {
    pub selection: Selection,
    pub query: Option<Query>,
    pub sort: Sort,
    pub after: Option<Cursor>,
    pub plan: Option<Plan>,
    pub fields: Option<Projection>,
}

impl Records {
    /// Reads a question. Whatever is hidden from the asker is not asked about.
    pub(super) async fn asking(
        &self,
        session: &Session,
        of: &CompiledType,
        rule: &RecordRule,
        question: &Question,
    ) -> Result<Asking, RecordError> {
        let query = query(of, rule, question.query.as_deref())?;
        let sort = parsed(question.sort.as_deref(), Part::Sort, Sort::parse)?.unwrap_or_default();
        let fields = parsed(question.fields.as_deref(), Part::Fields, Projection::parse)?;
        let sorted: Vec<String> = sort.keys().iter().map(|key| key.field.as_str().to_owned()).collect();
        sorted.iter().try_for_each(|field| check_field(of, rule, field, Part::Sort))?;
        let asked = query.as_ref().map(Query::asked).unwrap_or_default();
        self.check_known(session, of, &asked.fields, Part::Query).await?;
        self.check_known(session, of, &sorted, Part::Sort).await?;
        let after = question.cursor.as_deref().map(|text| Cursor::decode(text, query.as_ref(), &sort)).transpose();
        let after = after.map_err(|error| RecordError::asked(Part::Cursor, error.to_string()))?;
        let seen = match &query {
            Some(query) => self.bound(session, of, rule, query, &question.variables).await?,
            None => Filter::everything(),
        };
        let unseen = if asked.whole { rule.unseen() } else { Vec::new() };
        let selection = Selection { stored: rule.filter(), seen, unseen, searchable: of.searchable.clone() };
        Ok(Asking { selection, plan: query.as_ref().map(Query::plan), query, sort, after, fields })
    }

    /// Asks the place of the records about fields that the schema leaves open.
    pub(super) async fn check_known(
        &self,
        session: &Session,
        of: &CompiledType,
        fields: &[String],
        part: Part,
    ) -> Result<(), RecordError> {
        let open: Vec<String> = fields.iter().filter(|field| of.leaves_open(field)).cloned().collect();
        if open.is_empty() {
            return Ok(());
        }
        match self.source(of).unknown(self.set(session, of), &open).await? {
            Some(field) => Err(no_field(of, field, part)),
            None => Ok(()),
        }
    }

    /// The query with its variables and relations.
    pub(super) async fn bound(
        &self,
        session: &Session,
        of: &CompiledType,
        rule: &RecordRule,
        query: &Query,
        variables: &Map<String, Value>,
    ) -> Result<Filter, RecordError> {
        let variables = self.variables(session, variables).await?;
        let scope = Scope::new(&variables);
        let unbound = |error: toolwright_query::BindError| RecordError::asked(Part::Query, error.to_string());
        let wanted = query.edges(&scope).map_err(unbound)?;
        let edges = self.edges(session, of, rule, wanted).await?;
        query.bind(&scope.with_edges(&edges)).map_err(unbound)
    }
}

/// A query whose fields can be asked about.
pub(super) fn query(of: &CompiledType, rule: &RecordRule, text: Option<&str>) -> Result<Option<Query>, RecordError> {
    let query = parsed(text, Part::Query, Query::parse)?;
    let asked = query.as_ref().map(Query::asked).unwrap_or_default();
    asked.fields.iter().try_for_each(|field| check_field(of, rule, field, Part::Query))?;
    Ok(query)
}

/// An empty text asks nothing.
fn parsed<T>(
    text: Option<&str>,
    part: Part,
    parse: impl Fn(&str) -> Result<T, toolwright_query::ParseError>,
) -> Result<Option<T>, RecordError> {
    let text = text.filter(|text| !text.trim().is_empty());
    text.map(parse).transpose().map_err(|error| RecordError::unreadable(part, &error))
}

/// A field that no record can have is a mistake in the question, not an answer of none.
pub(super) fn check_field(of: &CompiledType, rule: &RecordRule, text: &str, part: Part) -> Result<(), RecordError> {
    let field = Field::parse(text).map_err(|error| RecordError::asked(part, error.to_string()))?;
    if rule.hides(text) {
        return Err(RecordError::asked(
            part,
            format!("field `{text}` of type `{}` is not yours to ask about", of.name()),
        ));
    }
    if !of.may_have(&field) {
        return Err(no_field(of, text, part));
    }
    Ok(())
}

fn no_field(of: &CompiledType, field: &str, part: Part) -> RecordError {
    RecordError::asked(part, format!("type `{}` has no field `{field}`", of.name()))
}
