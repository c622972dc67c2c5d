//! The parameters of lists: filters, query, order, page size and cursor.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::{Map, Value};
use toolwright_catalog::registry::{Definition, DefinitionQuery, DocumentSort, DocumentSortKey, FieldEquals};
use toolwright_query::{BindContext, Filter, Position, Query};
use toolwright_types::{DefinitionSource, field_names};

use crate::extract::unknown_name;
use crate::problem::{Code, Problem, TextSpan};

/// The largest page size.
pub(crate) const MAX_LIMIT: u32 = 100;

/// The body of `POST …/query`.
#[derive(Debug, Default, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct QueryBody {
    /// The values that fields must have. If a field is a list, one of its elements must have the value. Dots address
    /// nested fields.
    #[serde(default, deserialize_with = "toolwright_types::null_as_default")]
    #[schema(value_type = Object)]
    filter: Map<String, Value>,
    /// A query in the query language, on the fields of the returned definitions.
    #[serde(default)]
    query: Option<String>,
    /// The page size, from 1 to 100. Default: 20.
    #[serde(default)]
    limit: Option<u32>,
    /// `nextCursor` of the previous page.
    #[serde(default)]
    cursor: Option<String>,
    /// The order: `refName`, `createdAt` or `updatedAt`, with `-` for descending.
    #[serde(default)]
    sort: Option<String>,
}

impl QueryBody {
    /// Returns the query that the body describes. Rejects a filter by a field that `T` does not have.
    pub(crate) fn into_query<T: Definition>(self) -> Result<DefinitionQuery, Problem> {
        if let Some((name, rule)) = unknown_name(&first_segments(self.filter.keys()), field_names::<T>()) {
            return Err(Problem::invalid(&format!("/filter/{name}"), rule));
        }
        let matching = parse_filter(self.query.as_deref())?;
        let query = definition_query(filters(self.filter), self.limit, self.cursor.as_deref(), self.sort.as_deref())?;
        Ok(DefinitionQuery { matching, ..query })
    }
}

/// The parameters of `GET` on a collection that do not filter by a field.
pub(crate) const LIST_PARAMS: [&str; 6] = ["query", "limit", "cursor", "sort", "source", "applySet"];

/// Converts the parameters of `GET` on a collection to a query. A parameter without a special meaning filters by the
/// field with the same name. Rejects a filter by a field that `T` does not have.
pub(crate) fn from_query_params<T: Definition>(
    mut parameters: BTreeMap<String, String>,
) -> Result<DefinitionQuery, Problem> {
    check_filter_names::<T>(parameters.keys(), &LIST_PARAMS)?;
    let limit = match parameters.remove("limit") {
        Some(text) => Some(text.parse().map_err(|_| invalid_limit(&text))?),
        None => None,
    };
    let (cursor, sort) = (parameters.remove("cursor"), parameters.remove("sort"));
    let source = parameters.remove("source").map(|text| source(&text)).transpose()?;
    let apply_set = parameters.remove("applySet");
    let matching = parse_filter(parameters.remove("query").as_deref())?;
    let query = definition_query(query_param_filters(parameters), limit, cursor.as_deref(), sort.as_deref())?;
    Ok(DefinitionQuery { source, apply_set, matching, ..query })
}

/// Converts the parameters of `GET` on `/count` of a collection to a query and filters.
pub(crate) fn from_count_params<T: Definition>(
    mut parameters: BTreeMap<String, String>,
) -> Result<(Option<Filter>, Vec<FieldEquals>), Problem> {
    check_filter_names::<T>(parameters.keys(), &["query"])?;
    let matching = parse_filter(parameters.remove("query").as_deref())?;
    Ok((matching, query_param_filters(parameters)))
}

/// Rejects the first parameter that is neither in `others` nor a field of `T`.
pub(crate) fn check_filter_names<'n, T: Definition>(
    names: impl IntoIterator<Item = &'n String>,
    others: &[&str],
) -> Result<(), Problem> {
    let tag = field_names::<T>().contains(&"tags").then_some("tag");
    let known: Vec<&str> = others.iter().chain(field_names::<T>()).copied().chain(tag).collect();
    match unknown_name(&first_segments(names), &known) {
        Some((name, rule)) => Err(Problem::invalid(name, rule)),
        None => Ok(()),
    }
}

/// Returns the first segment of each dotted name. The names of nested fields are not checked.
fn first_segments<'n>(names: impl IntoIterator<Item = &'n String>) -> Vec<String> {
    names.into_iter().map(|name| name.split('.').next().unwrap_or_default().to_owned()).collect()
}

/// Converts query parameters to filters. The values `true` and `false` become booleans, and all other values remain
/// strings.
fn query_param_filters(parameters: BTreeMap<String, String>) -> Vec<FieldEquals> {
    let fields = parameters.into_iter().map(|(field, text)| {
        // Both `tag=x` and `tags=x` are accepted.
        let field = if field == "tag" { "tags".to_owned() } else { field };
        let value = match text.as_str() {
            "true" => Value::Bool(true),
            "false" => Value::Bool(false),
            _ => Value::String(text),
        };
        (field, value)
    });
    filters(fields.collect())
}

fn filters(fields: Map<String, Value>) -> Vec<FieldEquals> {
    let path = |field: &str| field.split('.').map(str::to_owned).collect();
    fields.into_iter().map(|(field, value)| FieldEquals { path: path(&field), value }).collect()
}

fn definition_query(
    filters: Vec<FieldEquals>,
    limit: Option<u32>,
    cursor: Option<&str>,
    sort: Option<&str>,
) -> Result<DefinitionQuery, Problem> {
    let (limit, cursor) = (self::limit(limit)?, self::cursor(cursor)?);
    let sort = sort.map_or(Ok(DocumentSort::default()), parse_sort)?;
    Ok(DefinitionQuery { filters, matching: None, source: None, apply_set: None, sort, limit, cursor })
}

/// Parses the parameter `query` of a list request. The query cannot contain variables. Returns `None` if the query is
/// absent or empty.
pub(crate) fn parse_filter(text: Option<&str>) -> Result<Option<Filter>, Problem> {
    let Some(text) = text.filter(|text| !text.trim().is_empty()) else { return Ok(None) };
    let invalid = |message: String| Problem::new(Code::InvalidQuery, format!("query: {message}"));
    let query = Query::parse(text).map_err(|error| {
        let Position { line, column, offset } = error.position();
        let span = TextSpan { line, column, start: offset, end: offset };
        invalid(error.to_string()).with_span("/query", error.message(), span)
    })?;
    let bound = query.bind(&BindContext::empty());
    bound.map(Some).map_err(|error| invalid(error.to_string()).with_field("/query", error.to_string()))
}

/// Parses a query in the same way as [`parse_filter`], for lists whose items have fixed fields. Rejects a query that
/// uses a field for which `is_known` returns false.
pub(crate) fn filter_on_known_fields(
    text: Option<&str>,
    is_known: fn(&str) -> bool,
) -> Result<Option<Filter>, Problem> {
    let filter = parse_filter(text)?;
    let query = text.filter(|_| filter.is_some()).and_then(|text| Query::parse(text).ok());
    let requested = query.as_ref().map(Query::dependencies).unwrap_or_default();
    match requested.fields.iter().find(|field| !is_known(field)) {
        None => Ok(filter),
        Some(field) => {
            let message = format!("the items of this list have no field `{field}`");
            Err(Problem::new(Code::InvalidQuery, format!("query: {message}")).with_field("/query", message))
        }
    }
}

/// Checks the page size.
pub(crate) fn limit(requested: Option<u32>) -> Result<u32, Problem> {
    let limit = requested.unwrap_or(20);
    if (1..=MAX_LIMIT).contains(&limit) { Ok(limit) } else { Err(invalid_limit(&limit)) }
}

fn invalid_limit(limit: &dyn std::fmt::Display) -> Problem {
    Problem::invalid("limit", format!("must be a number between 1 and {MAX_LIMIT}, got `{limit}`"))
}

/// Parses a cursor.
pub(crate) fn cursor<C: std::str::FromStr>(text: Option<&str>) -> Result<Option<C>, Problem> {
    text.map(str::parse).transpose().map_err(|_| invalid_cursor())
}

/// Returns the problem for a cursor that cannot be parsed.
pub(crate) fn invalid_cursor() -> Problem {
    Problem::invalid("cursor", "must be a `nextCursor` that this server returned")
}

fn source(text: &str) -> Result<DefinitionSource, Problem> {
    let parsed = serde_json::from_value(Value::String(text.to_owned()));
    let rule = "must be `manual`, `auto-generated`, `mcp-imported`, `gram` or `built-in`";
    parsed.map_err(|_| Problem::invalid("source", format!("{rule}, got `{text}`")))
}

/// Parses the order of a list of definitions.
pub(crate) fn parse_sort(text: &str) -> Result<DocumentSort, Problem> {
    let (key, descending) = text.strip_prefix('-').map_or((text, false), |key| (key, true));
    let by = match key {
        "refName" => DocumentSortKey::RefName,
        "createdAt" => DocumentSortKey::CreatedAt,
        "updatedAt" => DocumentSortKey::UpdatedAt,
        _ => {
            let rule = "must be `refName`, `createdAt` or `updatedAt`, with `-` for descending";
            return Err(Problem::invalid("sort", format!("{rule}, got `{text}`")));
        }
    };
    Ok(DocumentSort { by, descending })
}
