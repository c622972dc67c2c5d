//! Entity types: the schema of records, where the records are stored, and the tools generated for them.

use indexmap::IndexMap;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Value, json};

use crate::nullable::null_as_default;
use crate::{JsonSchema, RefName};

/// The default category of generated tools.
pub const GENERATED_CATEGORY: &str = "quantum.crud";

/// An entity type as its author wrote it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct TypeDefinition {
    /// The reference name of the type. Default: the value of `name`.
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub ref_name: RefName,
    /// A name in any form, without the restrictions of `refName`. Default: `refName`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The singular form in tool names. Default: derived from the name, e.g. `sales_order` from `SalesOrder`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub singular_name: Option<String>,
    /// The plural form in tool names. Default: derived from the singular form.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plural_name: Option<String>,
    /// A description of the records, shown to the model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// The category of the generated tools. Default: `quantum.crud`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub category: Option<String>,
    /// Tags of the generated tools.
    #[serde(default, deserialize_with = "null_as_default", skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<String>,
    /// The JSON Schema of a record (draft 2020-12), as an object or as a string that contains JSON. If absent, any
    /// object is valid.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<Value>))]
    pub json_schema: Option<JsonSchema>,
    /// Fields that are indexed. Tool descriptions recommend them for filters.
    #[serde(default, deserialize_with = "null_as_default", skip_serializing_if = "Vec::is_empty")]
    pub searchable_fields: Vec<String>,
    /// Operations for which no tool is generated, in upper or lower case.
    #[serde(default, deserialize_with = "null_as_default", skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(feature = "openapi", schema(value_type = Vec<String>))]
    pub exclude_operations: Vec<Operation>,
    /// Fields that contain ids of other records.
    #[serde(default, deserialize_with = "null_as_default", skip_serializing_if = "Vec::is_empty")]
    pub relations: Vec<Relation>,
    /// Where the records are stored. Default: on this server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub records: Option<RecordLocation>,
}

/// The location of records that are stored outside of this server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(tag = "kind", rename_all = "lowercase")]
#[cfg_attr(feature = "openapi", schema(as = RecordsIn))]
pub enum RecordLocation {
    /// The rows of a database table.
    Sql(SqlRecords),
    /// A resource of an API.
    Rest(RestRecords),
}

/// A table or view of a SQLite or Postgres database.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SqlRecords {
    /// The name of the secret with the database URL. It must be a secret of the realm or the org, not of a user.
    pub url_secret_ref: String,
    /// `table` or `schema.table`. The default schema is `public`.
    pub table: String,
    /// The field that identifies a record. Its value, converted to text, is the `id` of the record.
    #[serde(
        default = "default_id_field",
        deserialize_with = "null_as_default_id_field",
        skip_serializing_if = "is_default_id_field"
    )]
    pub id_field: String,
    /// Maps field names to column names. Only columns whose name differs from the field are listed.
    #[serde(default, deserialize_with = "null_as_default", skip_serializing_if = "IndexMap::is_empty")]
    #[cfg_attr(feature = "openapi", schema(value_type = BTreeMap<String, String>))]
    pub columns: IndexMap<String, String>,
    /// Whether records may be written. Default: false.
    #[serde(default, deserialize_with = "null_as_default", skip_serializing_if = "std::ops::Not::not")]
    pub writable: bool,
    /// An integer field that counts the writes of a record. Its value is the `version` of the record. A write that
    /// expects another version is refused. If absent, records have no version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version_field: Option<String>,
}

/// A resource of an API, accessed through read-only tools.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RestRecords {
    /// The tool that lists all records. It is called without arguments.
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub list: RefName,
    /// The tool that reads one record. Its only argument is the id. If absent, the record is looked up in the output
    /// of `list`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>))]
    pub get: Option<RefName>,
    /// The name of the argument of `get`. Default: the value of `idField`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id_parameter: Option<String>,
    /// The JSONPath of the records in the output of `list`. Default: the whole output.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub items: Option<String>,
    /// The field that identifies a record. Its value, converted to text, is the `id` of the record.
    #[serde(
        default = "default_id_field",
        deserialize_with = "null_as_default_id_field",
        skip_serializing_if = "is_default_id_field"
    )]
    pub id_field: String,
}

impl RestRecords {
    /// The tools that read these records. Each comes with the field that names it: `list` or `get`.
    pub fn tools(&self) -> impl Iterator<Item = (&'static str, &RefName)> {
        [("list", Some(&self.list)), ("get", self.get.as_ref())]
            .into_iter()
            .filter_map(|(field, name)| Some((field, name?)))
    }
}

fn default_id_field() -> String {
    "id".to_owned()
}

fn null_as_default_id_field<'de, D: Deserializer<'de>>(d: D) -> Result<String, D::Error> {
    Ok(Option::deserialize(d)?.unwrap_or_else(default_id_field))
}

fn is_default_id_field(field: &str) -> bool {
    field == "id"
}

/// A field that contains the id or the ids of related records.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Relation {
    /// The name of the relation in `hasEdge(…)` and `expand(…)`.
    pub name: String,
    /// The type of the related records.
    #[serde(rename = "type")]
    pub target: String,
    /// The field with the ids.
    pub field: String,
    /// Whether the field is a list.
    #[serde(default, deserialize_with = "null_as_default")]
    pub many: bool,
}

/// An operation on records. One tool is generated for each operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "lowercase")]
pub enum Operation {
    /// Search records.
    Search,
    /// Count records.
    Count,
    /// Read one record.
    Get,
    /// Create a record.
    Create,
    /// Update a record.
    Update,
    /// Delete a record.
    Delete,
}

impl Operation {
    /// All operations, in the order in which their tools are generated.
    pub const ALL: [Operation; 6] =
        [Operation::Search, Operation::Count, Operation::Get, Operation::Create, Operation::Update, Operation::Delete];

    /// The name on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Operation::Search => "search",
            Operation::Count => "count",
            Operation::Get => "get",
            Operation::Create => "create",
            Operation::Update => "update",
            Operation::Delete => "delete",
        }
    }

    /// Parses an operation case-insensitively.
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|operation| operation.as_str().eq_ignore_ascii_case(text))
    }

    /// Whether the operation changes records.
    pub fn writes(self) -> bool {
        matches!(self, Operation::Create | Operation::Update | Operation::Delete)
    }
}

impl<'de> Deserialize<'de> for Operation {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        Self::parse(&text).ok_or_else(|| {
            let known = Self::ALL.map(Self::as_str).join(", ");
            serde::de::Error::custom(format!("`{text}` is not an operation; use one of {known}"))
        })
    }
}

impl TypeDefinition {
    /// The value of `name`, or the reference name if `name` is absent.
    pub fn display_name(&self) -> &str {
        self.name.as_deref().unwrap_or(self.ref_name.as_str())
    }

    /// The singular form in tool names.
    pub fn singular(&self) -> String {
        match &self.singular_name {
            Some(name) => snake_case(name),
            // The part after the last `/` or `.` is the name, as in `sales/Order` and `com.example.Order`.
            None => snake_case(self.ref_name.as_str().rsplit(['/', '.']).next().unwrap_or_default()),
        }
    }

    /// The plural form in tool names.
    pub fn plural(&self) -> String {
        self.plural_name.as_deref().map_or_else(|| pluralize(&self.singular()), snake_case)
    }

    /// The name of the tool for an operation.
    pub fn tool_name(&self, operation: Operation) -> String {
        let noun = match operation {
            Operation::Search | Operation::Count => self.plural(),
            Operation::Get | Operation::Create | Operation::Update | Operation::Delete => self.singular(),
        };
        format!("{}_{noun}", operation.as_str())
    }

    /// The operations that records of this type support, in the order of [`Operation::ALL`].
    pub fn operations(&self) -> impl Iterator<Item = Operation> + '_ {
        let possible = |operation: &Operation| self.is_writable() || !operation.writes();
        Operation::ALL.into_iter().filter(possible).filter(|operation| !self.exclude_operations.contains(operation))
    }

    /// Whether records of this type can be written.
    pub fn is_writable(&self) -> bool {
        match &self.records {
            None => true,
            Some(RecordLocation::Sql(sql)) => sql.writable,
            Some(RecordLocation::Rest(_)) => false,
        }
    }

    /// Whether records of this type have a version.
    pub fn is_versioned(&self) -> bool {
        match &self.records {
            None => true,
            Some(RecordLocation::Sql(sql)) => sql.version_field.is_some(),
            Some(RecordLocation::Rest(_)) => false,
        }
    }

    /// The schema of a record.
    pub fn effective_schema(&self) -> Value {
        self.json_schema.as_ref().map_or_else(|| json!({ "type": "object" }), |schema| schema.0.clone())
    }
}

/// Converts to snake case: `SalesOrder`, `sales order` and `sales-order` all become `sales_order`.
fn snake_case(text: &str) -> String {
    let mut snake = String::with_capacity(text.len() + 4);
    let mut before: Option<char> = None;
    let mut letters = text.chars().peekable();
    while let Some(letter) = letters.next() {
        if letter.is_ascii_alphanumeric() {
            // A capital letter starts a word. Capital letters within an acronym, as in `HTTPRoute`, do not.
            let after_small = before.is_some_and(|c| c.is_ascii_lowercase() || c.is_ascii_digit());
            let ends_acronym =
                before.is_some_and(|c| c.is_ascii_uppercase()) && letters.peek().is_some_and(char::is_ascii_lowercase);
            let begins = letter.is_ascii_uppercase() && (after_small || ends_acronym);
            if begins || (before.is_some_and(|c| !c.is_ascii_alphanumeric()) && !snake.is_empty()) {
                snake.push('_');
            }
            snake.push(letter.to_ascii_lowercase());
        }
        before = Some(letter);
    }
    snake
}

/// Forms a regular English plural: `orders`, `boxes`, `categories`. For irregular plurals, authors set `pluralName`.
fn pluralize(singular: &str) -> String {
    let ends = |endings: &[&str]| endings.iter().any(|ending| singular.ends_with(ending));
    match singular.strip_suffix('y') {
        Some(stem) if !stem.is_empty() && !stem.ends_with(['a', 'e', 'i', 'o', 'u']) => format!("{stem}ies"),
        _ if ends(&["s", "x", "z", "ch", "sh"]) => format!("{singular}es"),
        _ => format!("{singular}s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(name: &str) -> TypeDefinition {
        serde_json::from_value(json!({ "refName": name })).unwrap()
    }

    #[test]
    fn tool_names_contain_the_singular_or_plural_type_name_in_snake_case() {
        for (name, singular, plural) in [
            ("Order", "order", "orders"),
            ("SalesOrder", "sales_order", "sales_orders"),
            ("HTTPRoute", "http_route", "http_routes"),
            ("order2Line", "order2_line", "order2_lines"),
            ("Box", "box", "boxes"),
            ("Category", "category", "categories"),
            ("Day", "day", "days"),
            ("Address", "address", "addresses"),
            ("sales/Order", "order", "orders"),
            ("com.example.Order", "order", "orders"),
            ("sales-order", "sales_order", "sales_orders"),
        ] {
            let named = named(name);
            assert_eq!((named.singular().as_str(), named.plural().as_str()), (singular, plural), "{name}");
        }
        let mut given = named("Person");
        given.plural_name = Some("Nice People".into());
        assert_eq!(given.tool_name(Operation::Search), "search_nice_people");
        assert_eq!(given.tool_name(Operation::Delete), "delete_person");
    }

    #[test]
    fn excluded_operations_are_case_insensitive_and_unknown_operations_are_rejected() {
        let read: TypeDefinition =
            serde_json::from_value(json!({ "refName": "Order", "excludeOperations": ["DELETE", "Update", "count"] }))
                .unwrap();
        assert_eq!(read.exclude_operations, [Operation::Delete, Operation::Update, Operation::Count]);
        assert_eq!(serde_json::to_value(&read).unwrap()["excludeOperations"], json!(["delete", "update", "count"]));
        let wrong = serde_json::from_value::<TypeDefinition>(json!({ "refName": "O", "excludeOperations": ["drop"] }));
        assert!(wrong.unwrap_err().to_string().contains("`drop` is not an operation; use one of search, count, get"));
    }
}
