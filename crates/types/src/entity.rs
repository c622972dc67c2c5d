//! Entity types: what records there are, what they look like, and which tools are made for them.

use indexmap::IndexMap;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Value, json};

use crate::tool::or_default;
use crate::{JsonSchema, RefName};

/// The category of generated tools whose type names none.
pub const GENERATED_CATEGORY: &str = "quantum.crud";

/// A type of records as its author wrote it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct TypeDefinition {
    /// How the type is addressed; `name` serves when it is absent.
    #[schema(value_type = String)]
    pub ref_name: RefName,
    /// Its free name; `refName` when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// What one record is called, in names of tools; `SalesOrder` gives `sales_order` when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub singular_name: Option<String>,
    /// What several are called; the singular with an ending when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plural_name: Option<String>,
    /// What the records are, for a model that chooses a tool.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// The category of the generated tools; `quantum.crud` when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub category: Option<String>,
    /// Labels of the generated tools.
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<String>,
    /// What a record looks like (draft 2020-12), an object or a string holding JSON; any object when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub json_schema: Option<JsonSchema>,
    /// Fields that an index serves and that descriptions of tools recommend.
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "Vec::is_empty")]
    pub searchable_fields: Vec<String>,
    /// Operations for which no tool is made.
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "Vec::is_empty")]
    pub exclude_operations: Vec<Operation>,
    /// Which fields hold ids of other records.
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "Vec::is_empty")]
    pub relations: Vec<Relation>,
    /// Where the records are; in the store of this server when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub records: Option<RecordsIn>,
}

/// Where records are that stay where they are.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(tag = "kind", rename_all = "lowercase")]
pub enum RecordsIn {
    /// The rows of a table.
    Sql(SqlRecords),
    /// What an API lists.
    Rest(RestRecords),
}

/// A table or a view of a database, SQLite or Postgres.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SqlRecords {
    /// The secret that holds the URL of the database. It is one of the realm or of the org, never of a user.
    pub url_secret_ref: String,
    /// `table`, or `schema.table`; the schema is `public` when absent.
    pub table: String,
    /// The field that tells records apart; the text of it is the `id` of a record.
    #[serde(default = "id", skip_serializing_if = "is_id")]
    pub id_field: String,
    /// Fields whose columns have other names.
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "IndexMap::is_empty")]
    #[schema(value_type = BTreeMap<String, String>)]
    pub columns: IndexMap<String, String>,
    /// Whether records are written, too; they are only read when absent.
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "std::ops::Not::not")]
    pub writable: bool,
    /// The field that counts the writes of a record, a whole number: it is the `version` of the record, and a write that names
    /// another one is refused. Records have no version when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version_field: Option<String>,
}

/// A resource of an API, reached by tools that read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RestRecords {
    /// The tool that lists all records. It is called without arguments.
    #[schema(value_type = String)]
    pub list: RefName,
    /// The tool that reads one. It is called with one argument, the id. Without it, the list is looked through.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub get: Option<RefName>,
    /// What `get` calls its argument; like `idField` when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id_parameter: Option<String>,
    /// Where the list is in what `list` answers, as a JSONPath; the answer is the list when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub items: Option<String>,
    /// The field that tells records apart; the text of it is the `id` of a record.
    #[serde(default = "id", skip_serializing_if = "is_id")]
    pub id_field: String,
}

impl RestRecords {
    /// The tools that it names, each with the field that names it.
    pub fn tools(&self) -> impl Iterator<Item = (&'static str, &RefName)> {
        [("list", Some(&self.list)), ("get", self.get.as_ref())]
            .into_iter()
            .filter_map(|(field, name)| Some((field, name?)))
    }
}

fn id() -> String {
    "id".to_owned()
}

fn is_id(field: &str) -> bool {
    field == "id"
}

/// A field that holds the id of a record, or the ids of several.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Relation {
    /// What the relation is called in `hasEdge(…)` and `expand(…)`.
    pub name: String,
    /// The type of the other records.
    #[serde(rename = "type")]
    pub target: String,
    /// The field with the ids.
    pub field: String,
    /// Whether the field is a list.
    #[serde(default, deserialize_with = "or_default")]
    pub many: bool,
}

/// What can be done with records, each by a tool of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, utoipa::ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum Operation {
    /// Find records.
    Search,
    /// Count records.
    Count,
    /// Read one record.
    Get,
    /// Make a record.
    Create,
    /// Change a record.
    Update,
    /// Remove a record.
    Delete,
}

impl Operation {
    /// All of them, in the order of the tools.
    pub const ALL: [Operation; 6] =
        [Operation::Search, Operation::Count, Operation::Get, Operation::Create, Operation::Update, Operation::Delete];

    /// The operation as it is written on the wire.
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

    /// The operation of that name, in any case.
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|operation| operation.as_str().eq_ignore_ascii_case(text))
    }

    /// Whether it changes records.
    pub fn writes(self) -> bool {
        matches!(self, Operation::Create | Operation::Update | Operation::Delete)
    }
}

impl<'de> Deserialize<'de> for Operation {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        Self::parse(&text).ok_or_else(|| {
            let known = Self::ALL.map(Self::as_str).join(", ");
            serde::de::Error::custom(format!("`{text}` is no operation; there are {known}"))
        })
    }
}

impl TypeDefinition {
    /// The free name, or the reference name.
    pub fn display_name(&self) -> &str {
        self.name.as_deref().unwrap_or(self.ref_name.as_str())
    }

    /// What one record is called in names of tools.
    pub fn singular(&self) -> String {
        match &self.singular_name {
            Some(name) => snake_case(name),
            // Of `sales/Order` and `com.example.Order` the last part is the name; the rest says where it is from.
            None => snake_case(self.ref_name.as_str().rsplit(['/', '.']).next().unwrap_or_default()),
        }
    }

    /// What several records are called in names of tools.
    pub fn plural(&self) -> String {
        self.plural_name.as_deref().map_or_else(|| plural_of(&self.singular()), snake_case)
    }

    /// The name of the tool for an operation.
    pub fn tool_name(&self, operation: Operation) -> String {
        let noun = match operation {
            Operation::Search | Operation::Count => self.plural(),
            Operation::Get | Operation::Create | Operation::Update | Operation::Delete => self.singular(),
        };
        format!("{}_{noun}", operation.as_str())
    }

    /// The operations that there are for its records, in the order of the tools.
    pub fn operations(&self) -> impl Iterator<Item = Operation> + '_ {
        let possible = |operation: &Operation| self.is_writable() || !operation.writes();
        Operation::ALL.into_iter().filter(possible).filter(|operation| !self.exclude_operations.contains(operation))
    }

    /// Whether its records are written here, and not only read.
    pub fn is_writable(&self) -> bool {
        match &self.records {
            None => true,
            Some(RecordsIn::Sql(sql)) => sql.writable,
            Some(RecordsIn::Rest(_)) => false,
        }
    }

    /// Whether its records have a version.
    pub fn is_versioned(&self) -> bool {
        match &self.records {
            None => true,
            Some(RecordsIn::Sql(sql)) => sql.version_field.is_some(),
            Some(RecordsIn::Rest(_)) => false,
        }
    }

    /// The schema of a record.
    pub fn effective_schema(&self) -> Value {
        self.json_schema.as_ref().map_or_else(|| json!({ "type": "object" }), |schema| schema.0.clone())
    }
}

/// `SalesOrder`, `sales order` and `sales-order` are all `sales_order`.
fn snake_case(text: &str) -> String {
    let mut snake = String::with_capacity(text.len() + 4);
    let mut before: Option<char> = None;
    let mut letters = text.chars().peekable();
    while let Some(letter) = letters.next() {
        if letter.is_ascii_alphanumeric() {
            // A capital begins a word, unless it is inside of an acronym.
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

/// `orders`, `boxes`, `categories`: English, by its endings. What this gets wrong is written in `pluralName`.
fn plural_of(singular: &str) -> String {
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
    fn names_of_tools_follow_from_the_name_of_the_type() {
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
    fn operations_are_read_in_any_case() {
        let read: TypeDefinition =
            serde_json::from_value(json!({ "refName": "Order", "excludeOperations": ["DELETE", "Update", "count"] }))
                .unwrap();
        assert_eq!(read.exclude_operations, [Operation::Delete, Operation::Update, Operation::Count]);
        assert_eq!(serde_json::to_value(&read).unwrap()["excludeOperations"], json!(["delete", "update", "count"]));
        let wrong = serde_json::from_value::<TypeDefinition>(json!({ "refName": "O", "excludeOperations": ["drop"] }));
        assert!(wrong.unwrap_err().to_string().contains("`drop` is no operation; there are search, count, get"));
    }
}
