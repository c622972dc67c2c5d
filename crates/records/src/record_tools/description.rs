//! Builds the descriptions of generated tools for the model. A description contains the operation, the fields, the
//! query syntax and two examples.

use serde_json::Value;
use toolwright_types::{Operation, TypeDefinition};

use toolwright_catalog::entity_type::field_schema;

/// The maximum number of listed fields. To see the other fields, a model can read a record.
const MAX_FIELDS: usize = 40;
/// The maximum number of listed enumeration values.
const MAX_CHOICES: usize = 20;

/// The query syntax, as short as possible.
const QUERY_SYNTAX: &str = "\
A query consists of conditions `field:value`, joined by `&&` and `||`, negated by `!!`, grouped by ( ).
Values: plain words, other strings in \"quotes\", integers `#42`, decimals `##19.99`, dates `2024-01-31`, `true`, `false`, `null`.
Other operators than `:` are `:!` (not), `:>` `:>=` `:<` `:<=`, `:~` (present), `:^[a, b]` (one of).
`name:*part*` is a pattern; `lines:{sku:A-1 && qty:>#2}` requires both of the same list element.
`text(\"words\")` searches all strings; dots select nested fields, as in `address.city`.";

/// Describes the tool for an operation.
pub(super) fn describe(entity_type: &TypeDefinition, operation: Operation) -> String {
    let (one, many) = (entity_type.singular().replace('_', " "), entity_type.plural().replace('_', " "));
    let summary = match operation {
        Operation::Search => format!("Finds {many} by a query, a page at a time."),
        Operation::Count => format!("Counts {many} that match a query, without reading them."),
        Operation::Get => format!("Reads one {one} by its id."),
        Operation::Create => format!("Creates a new {one} and returns its id."),
        Operation::Update => {
            format!("Updates fields of one {one} by its id; absent fields stay unchanged, null removes a field.")
        }
        Operation::Delete => format!("Deletes one {one} by its id."),
    };
    let mut parts = vec![summary];
    parts.extend(entity_type.description.as_deref().map(str::trim).filter(|text| !text.is_empty()).map(str::to_owned));
    if matches!(operation, Operation::Search | Operation::Count | Operation::Get) {
        parts.extend(fields(entity_type));
    }
    if matches!(operation, Operation::Search | Operation::Count) {
        parts.push(QUERY_SYNTAX.to_owned());
        parts.extend(relations(entity_type));
        parts.push(format!("Examples: {}", quoted(&examples(entity_type))));
    }
    parts.join("\n")
}

/// Returns two example queries on the type's fields. The second query combines two conditions if possible.
pub(super) fn examples(entity_type: &TypeDefinition) -> Vec<String> {
    let schema = entity_type.effective_schema();
    let mut declared: Vec<(&String, &Value)> = field_schema::properties(&schema).collect();
    // Indexed fields come first, because queries on them are fast.
    declared.sort_by_key(|(name, _)| !entity_type.searchable_fields.contains(name));
    let mut conditions = declared.iter().filter_map(|(name, property)| condition(name, property));
    match (conditions.next(), conditions.next()) {
        (Some(first), Some(second)) => vec![first.clone(), format!("{first} && {second}")],
        (Some(only), None) if entity_type.records.is_some() => vec![only.clone(), format!("!!{only}")],
        (Some(only), None) => vec![only.clone(), format!("{only} && auditInfo.createdAt:>=2024-01-01")],
        _ if entity_type.records.is_some() => vec!["id:~".to_owned(), "text(\"some words\")".to_owned()],
        _ => vec!["auditInfo.createdAt:>=2024-01-01".to_owned(), "text(\"some words\")".to_owned()],
    }
}

/// An example condition on a field; `None` for objects and for field names that the query syntax does not support.
fn condition(name: &str, property: &Value) -> Option<String> {
    toolwright_query::Field::parse(name).ok().filter(|_| !name.contains([' ', '.', '&']))?;
    let types = field_schema::types(property);
    let choice =
        property.get("enum").and_then(Value::as_array).and_then(|values| values.iter().find_map(Value::as_str));
    let format = property.get("format").and_then(Value::as_str);
    let written = match (choice, format) {
        (Some(choice), _) if is_word(choice) => format!("{name}:{choice}"),
        (Some(choice), _) => format!("{name}:\"{}\"", choice.replace('"', "\"\"")),
        (None, Some("date" | "date-time")) => format!("{name}:>=2024-01-01"),
        _ if types.contains(&"integer") || types.contains(&"number") => format!("{name}:>#100"),
        _ if types.contains(&"string") => format!("{name}:*part*"),
        _ if types.contains(&"boolean") => format!("{name}:true"),
        _ => return None,
    };
    // A condition that does not parse must not be shown to the model.
    toolwright_query::Query::parse(&written).ok().map(|_| written)
}

fn is_word(text: &str) -> bool {
    let reserved = ["null", "true", "false"].iter().any(|word| text.eq_ignore_ascii_case(word));
    !text.is_empty() && !reserved && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-".contains(&byte))
}

fn quoted(queries: &[String]) -> String {
    queries.iter().map(|query| format!("`{query}`")).collect::<Vec<_>>().join(", ")
}

fn relations(entity_type: &TypeDefinition) -> Option<String> {
    let each = |relation: &toolwright_types::Relation| {
        format!("{} ({}, by {})", relation.name, relation.target, relation.field)
    };
    let all: Vec<String> = entity_type.relations.iter().map(each).collect();
    let first = entity_type.relations.first()?;
    Some(format!(
        "Relations: {}. `hasEdge({}, ID)` filters by relation, `expand({})` includes the related records.",
        all.join(", "),
        first.name,
        first.name
    ))
}

/// The list of fields, one line for each field.
fn fields(entity_type: &TypeDefinition) -> Option<String> {
    let schema = entity_type.effective_schema();
    let mut lines: Vec<String> = field_schema::properties(&schema)
        .take(MAX_FIELDS)
        .map(|(name, property)| {
            let searchable = if entity_type.searchable_fields.contains(name) { "; fast to search" } else { "" };
            format!("- {name}: {}{searchable}", field_summary(property))
        })
        .collect();
    let left = field_schema::properties(&schema).count().saturating_sub(MAX_FIELDS);
    if left > 0 {
        lines.push(format!("- and {left} more"));
    }
    (!lines.is_empty()).then(|| {
        let managed = match entity_type.records {
            None => "id, version, auditInfo.createdAt and auditInfo.lastUpdatedAt",
            Some(_) if entity_type.is_versioned() => "id and version",
            Some(_) => "id",
        };
        format!("Fields, besides {managed}:\n{}", lines.join("\n"))
    })
}

/// The type, the permitted values and the description of a field, in one line.
fn field_summary(property: &Value) -> String {
    let types: Vec<&str> = field_schema::types(property).into_iter().filter(|name| *name != "null").collect();
    let mut text = match (types.as_slice(), property.get("format").and_then(Value::as_str)) {
        (["string"], Some(format @ ("date" | "date-time"))) => format.to_owned(),
        (["string"], _) => "text".to_owned(),
        (["array"], _) => {
            let inner = property.get("items").map(property_names).unwrap_or_default();
            if inner.is_empty() { "list".to_owned() } else { format!("list of objects with {inner}") }
        }
        (["object"], _) => {
            let inner = property_names(property);
            if inner.is_empty() { "object".to_owned() } else { format!("object with {inner}") }
        }
        ([], _) => "any value".to_owned(),
        (several, _) => several.join(" or "),
    };
    if let Some(values) = property.get("enum").and_then(Value::as_array) {
        let shown: Vec<String> = values
            .iter()
            .take(MAX_CHOICES)
            .map(|value| match value {
                Value::String(text) => text.clone(),
                other => other.to_string(),
            })
            .collect();
        let more = if values.len() > MAX_CHOICES { ", …" } else { "" };
        text = format!("{}, one of {}{more}", if types.is_empty() { "text" } else { text.as_str() }, shown.join(", "));
    }
    match property.get("description").and_then(Value::as_str) {
        Some(description) => {
            format!("{text}. {}", description.lines().next().unwrap_or_default().trim_end_matches('.'))
        }
        None => text,
    }
}

fn property_names(schema: &Value) -> String {
    field_schema::properties(schema).take(MAX_FIELDS).map(|(name, _)| name.as_str()).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn sales_order(schema: Value) -> TypeDefinition {
        serde_json::from_value(json!({ "refName": "SalesOrder", "description": "Orders.", "jsonSchema": schema, "searchableFields": ["total"] }))
            .unwrap()
    }

    #[test]
    fn tool_description_contains_the_operation_the_fields_and_two_example_queries() {
        let text = describe(
            &sales_order(json!({ "properties": {
                "status": { "type": "string", "enum": ["open", "in review"], "description": "Where it stands." },
                "total": { "type": "number" },
                "lines": { "type": "array", "items": { "properties": { "sku": {} } } },
            } })),
            Operation::Search,
        );
        for part in [
            "Finds sales orders by a query",
            "- status: text, one of open, in review. Where it stands",
            "- total: number; fast to search",
            "- lines: list of objects with sku",
            "Examples: `total:>#100`, `total:>#100 && status:open`",
        ] {
            assert!(text.contains(part), "{part}\n{text}");
        }
    }

    #[test]
    fn example_queries_in_tool_descriptions_are_valid() {
        for schema in [
            json!({}),
            json!({ "properties": { "a b": { "type": "string" }, "x'y": { "enum": ["say \"hi\"", 1] }, "": { "type": "string" } } }),
            json!({ "properties": { "flag": { "type": "boolean" } } }),
            json!({ "properties": { "kind": { "enum": ["null", "true"] } } }),
            json!({ "properties": { "loop": { "$ref": "#/properties/loop" } } }),
        ] {
            for query in examples(&sales_order(schema.clone())) {
                toolwright_query::Query::parse(&query).unwrap_or_else(|error| panic!("{query} of {schema}: {error}"));
            }
        }
    }
}
