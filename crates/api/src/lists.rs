//! The parameters of lists: how many, from where, in which order, which.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::{Map, Value};
use toolwright_engine::registry::{Equals, Sort, SortKey, Wanted};
use toolwright_query::{Filter, Position, Query, Scope};
use toolwright_types::Source;

use crate::problem::{Code, Place, Problem};

/// The body of `POST …/query`.
#[derive(Debug, Default, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct QueryBody {
    /// Values that fields must have; a list field matches if one of its elements does. Dots reach into objects.
    #[serde(default, deserialize_with = "toolwright_types::or_default")]
    #[schema(value_type = Object)]
    filter: Map<String, Value>,
    /// In the query language, over the definition as it is shown.
    #[serde(default)]
    query: Option<String>,
    /// 1 to 100; 20 when absent.
    #[serde(default)]
    limit: Option<u32>,
    /// Where the page before ended.
    #[serde(default)]
    cursor: Option<String>,
    /// `refName`, `createdAt` or `updatedAt`, with `-` for descending.
    #[serde(default)]
    sort: Option<String>,
}

impl QueryBody {
    /// What the body asks for.
    pub fn wanted(self) -> Result<Wanted, Problem> {
        let matching = matching(self.query.as_deref())?;
        let wanted = wanted(filters(self.filter), self.limit, self.cursor.as_deref(), self.sort.as_deref())?;
        Ok(Wanted { matching, ..wanted })
    }
}

/// What the parameters of `GET` on a collection ask for. Parameters that are not known filter by that field.
pub fn from_parameters(mut parameters: BTreeMap<String, String>) -> Result<Wanted, Problem> {
    let limit = match parameters.remove("limit") {
        Some(text) => Some(text.parse().map_err(|_| Problem::invalid("limit", "is a number from 1 to 100"))?),
        None => None,
    };
    let (cursor, sort) = (parameters.remove("cursor"), parameters.remove("sort"));
    let source = parameters.remove("source").map(|text| source(&text)).transpose()?;
    let matching = matching(parameters.remove("query").as_deref())?;
    let wanted = wanted(parameter_filters(parameters), limit, cursor.as_deref(), sort.as_deref())?;
    Ok(Wanted { source, matching, ..wanted })
}

/// The filters of `GET …/count`.
pub fn parameter_filters(parameters: BTreeMap<String, String>) -> Vec<Equals> {
    let fields = parameters.into_iter().map(|(field, text)| {
        // `tag=x` reads better than `tags=x`, and both are meant.
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

fn filters(fields: Map<String, Value>) -> Vec<Equals> {
    let path = |field: &str| field.split('.').map(str::to_owned).collect();
    fields.into_iter().map(|(field, value)| Equals { path: path(&field), value }).collect()
}

fn wanted(
    filters: Vec<Equals>,
    limit: Option<u32>,
    cursor: Option<&str>,
    sort: Option<&str>,
) -> Result<Wanted, Problem> {
    let (limit, cursor) = (self::limit(limit)?, self::cursor(cursor)?);
    let sort = sort.map_or(Ok(Sort::default()), parse_sort)?;
    Ok(Wanted { filters, matching: None, source: None, sort, limit, cursor })
}

/// What a query asks of what is listed; nothing when it is absent or empty.
pub fn matching(text: Option<&str>) -> Result<Option<Filter>, Problem> {
    let Some(text) = text.filter(|text| !text.trim().is_empty()) else { return Ok(None) };
    let invalid = |message: String| Problem::new(Code::InvalidQuery, format!("query: {message}"));
    let query = Query::parse(text).map_err(|error| {
        let Position { line, column, offset } = error.position();
        let place = Place { line, column, start: offset, end: offset };
        invalid(error.to_string()).at_place("/query", error.message(), place)
    })?;
    let bound = query.bind(&Scope::empty());
    bound.map(Some).map_err(|error| invalid(error.to_string()).at_field("/query", error.to_string()))
}

/// The same over what is not of everybody's making: a field that nothing listed has is a mistake in the question.
pub fn matching_known(text: Option<&str>, knows: fn(&str) -> bool) -> Result<Option<Filter>, Problem> {
    let filter = matching(text)?;
    let query = text.filter(|_| filter.is_some()).and_then(|text| Query::parse(text).ok());
    let asked = query.as_ref().map(Query::asked).unwrap_or_default();
    match asked.fields.iter().find(|field| !knows(field)) {
        None => Ok(filter),
        Some(field) => {
            let message = format!("nothing that is listed here has a field `{field}` to ask about");
            Err(Problem::new(Code::InvalidQuery, format!("query: {message}")).at_field("/query", message))
        }
    }
}

/// How many items a page has.
pub fn limit(wanted: Option<u32>) -> Result<u32, Problem> {
    let limit = wanted.unwrap_or(20);
    if (1..=100).contains(&limit) { Ok(limit) } else { Err(Problem::invalid("limit", "is a number from 1 to 100")) }
}

/// Where a page begins.
pub fn cursor<C: std::str::FromStr>(text: Option<&str>) -> Result<Option<C>, Problem> {
    text.map(str::parse).transpose().map_err(|_| Problem::invalid("cursor", "is not one this server gave"))
}

fn source(text: &str) -> Result<Source, Problem> {
    let read = serde_json::from_value(Value::String(text.to_owned()));
    let known = "is `manual`, `auto-generated`, `mcp-imported`, `gram` or `built-in`";
    read.map_err(|_| Problem::invalid("source", known))
}

fn parse_sort(text: &str) -> Result<Sort, Problem> {
    let (key, descending) = text.strip_prefix('-').map_or((text, false), |key| (key, true));
    let by = match key {
        "refName" => SortKey::RefName,
        "createdAt" => SortKey::CreatedAt,
        "updatedAt" => SortKey::UpdatedAt,
        _ => {
            return Err(Problem::invalid("sort", "is `refName`, `createdAt` or `updatedAt`, with `-` for descending"));
        }
    };
    Ok(Sort { by, descending })
}
