//! Parses record queries and checks their fields against the type and the caller's record rule, before any record is
//! read.

use serde_json::{Map, Value};
use toolwright_query::{BindContext, Cursor, Field, Filter, OutputOptions, Projection, Query, Sort};
use toolwright_store::Selection;

use super::error::{RecordError, RequestPart};
use super::rules::RecordRule;
use super::{CompiledType, Records};
use toolwright_catalog::Session;

/// A query for records, as the caller wrote it.
#[derive(Debug, Clone, Default)]
pub struct RecordQuery {
    /// The filter in the query language. `None` or an empty text matches every record.
    pub query: Option<String>,
    /// The sort order, such as `name, -created`. `None` sorts by id.
    pub sort: Option<String>,
    /// The projection, such as `+name, -secret`. `None` returns all fields.
    pub fields: Option<String>,
    /// The cursor that the previous page returned.
    pub cursor: Option<String>,
    /// The number of records to skip.
    pub skip: u64,
    /// The maximum number of records to return.
    pub limit: u32,
    /// The maximum size of the page in bytes. A single record may exceed it, so that no page is empty.
    pub max_bytes: Option<usize>,
    /// Whether to count the records on all pages.
    pub total: bool,
    /// The values of the query's variables.
    pub variables: Map<String, Value>,
}

impl RecordQuery {
    /// Creates a query that has only a filter and its variables.
    pub fn filter(query: Option<String>, variables: Map<String, Value>) -> Self {
        Self { query, variables, ..Self::default() }
    }
}

/// A query that was parsed and checked. Its variables and `hasEdge(…)` conditions are resolved.
pub(super) struct ResolvedQuery {
    pub selection: Selection,
    pub query: Option<Query>,
    pub sort: Sort,
    pub after: Option<Cursor>,
    pub plan: Option<OutputOptions>,
    pub fields: Option<Projection>,
}

impl Records {
    /// Parses a query and binds its filter. Rejects fields that the record rule hides from the caller.
    pub(super) async fn resolve_query(
        &self,
        session: &Session,
        entity_type: &CompiledType,
        rule: &RecordRule,
        request: &RecordQuery,
    ) -> Result<ResolvedQuery, RecordError> {
        let query = parse_query(entity_type, rule, request.query.as_deref())?;
        let sort = parse_optional(request.sort.as_deref(), RequestPart::Sort, Sort::parse)?.unwrap_or_default();
        let fields = parse_optional(request.fields.as_deref(), RequestPart::Fields, Projection::parse)?;
        let sort_fields: Vec<String> = sort.keys().iter().map(|key| key.field.as_str().to_owned()).collect();
        sort_fields.iter().try_for_each(|field| check_field(entity_type, rule, field, RequestPart::Sort))?;
        let asked = query.as_ref().map(Query::dependencies).unwrap_or_default();
        self.check_open_fields(session, entity_type, &asked.fields, RequestPart::Query).await?;
        self.check_open_fields(session, entity_type, &sort_fields, RequestPart::Sort).await?;
        let after = request.cursor.as_deref().map(|text| Cursor::decode(text, query.as_ref(), &sort)).transpose();
        let after = after.map_err(|error| RecordError::invalid_request(RequestPart::Cursor, error.to_string()))?;
        let visible = match &query {
            Some(query) => self.bind_query(session, entity_type, rule, query, &request.variables).await?,
            None => Filter::match_all(),
        };
        let hidden = if asked.full_text { rule.hidden_top_level() } else { Vec::new() };
        let selection =
            Selection { stored: rule.filter(), visible, hidden, searchable: entity_type.searchable.clone() };
        Ok(ResolvedQuery { selection, plan: query.as_ref().map(Query::output_options), query, sort, after, fields })
    }

    /// Checks fields that the schema does not declare: rejects a field if the record source knows that no record has
    /// it.
    pub(super) async fn check_open_fields(
        &self,
        session: &Session,
        entity_type: &CompiledType,
        fields: &[String],
        part: RequestPart,
    ) -> Result<(), RecordError> {
        let open: Vec<String> = fields.iter().filter(|field| entity_type.is_unconstrained(field)).cloned().collect();
        if open.is_empty() {
            return Ok(());
        }
        match self.source(entity_type).first_unknown_field(self.record_set(session, entity_type), &open).await? {
            Some(field) => Err(unknown_field(entity_type, field, part)),
            None => Ok(()),
        }
    }

    /// Converts a query to a filter. Inserts the values of the variables and resolves the `hasEdge(…)` conditions.
    pub(super) async fn bind_query(
        &self,
        session: &Session,
        entity_type: &CompiledType,
        rule: &RecordRule,
        query: &Query,
        variables: &Map<String, Value>,
    ) -> Result<Filter, RecordError> {
        let variables = self.variables(session, variables).await?;
        let scope = BindContext::new(&variables);
        let unbound = |error: toolwright_query::QueryBindError| {
            RecordError::invalid_request(RequestPart::Query, error.to_string())
        };
        let edges = query.edges(&scope).map_err(unbound)?;
        let edges = self.resolve_edges(session, entity_type, rule, edges).await?;
        query.bind(&scope.with_edges(&edges)).map_err(unbound)
    }
}

/// Parses a query and checks that the caller may use each of its fields.
pub(super) fn parse_query(
    entity_type: &CompiledType,
    rule: &RecordRule,
    text: Option<&str>,
) -> Result<Option<Query>, RecordError> {
    let query = parse_optional(text, RequestPart::Query, Query::parse)?;
    let asked = query.as_ref().map(Query::dependencies).unwrap_or_default();
    asked.fields.iter().try_for_each(|field| check_field(entity_type, rule, field, RequestPart::Query))?;
    Ok(query)
}

/// Parses a text. Returns `None` if the text is missing or blank.
fn parse_optional<T>(
    text: Option<&str>,
    part: RequestPart,
    parse: impl Fn(&str) -> Result<T, toolwright_query::ParseError>,
) -> Result<Option<T>, RecordError> {
    let text = text.filter(|text| !text.trim().is_empty());
    text.map(parse).transpose().map_err(|error| RecordError::from_parse_error(part, &error))
}

/// Rejects a field that no record can have, because an empty result would not reveal the mistake. Also rejects hidden
/// fields.
pub(super) fn check_field(
    entity_type: &CompiledType,
    rule: &RecordRule,
    text: &str,
    part: RequestPart,
) -> Result<(), RecordError> {
    let field = Field::parse(text).map_err(|error| RecordError::invalid_request(part, error.to_string()))?;
    if rule.hides(text) {
        return Err(RecordError::invalid_request(
            part,
            format!("field `{text}` of type `{}` is hidden from you and cannot be queried", entity_type.name()),
        ));
    }
    if !entity_type.allows_field(&field) {
        return Err(unknown_field(entity_type, text, part));
    }
    Ok(())
}

fn unknown_field(entity_type: &CompiledType, field: &str, part: RequestPart) -> RecordError {
    RecordError::invalid_request(part, format!("type `{}` has no field `{field}`", entity_type.name()))
}
