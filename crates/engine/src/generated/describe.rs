//! What a model is told about a generated tool: what the records are, their fields, the language, two examples.

use serde_json::Value;
use toolwright_types::{Operation, TypeDefinition};

use crate::records::shape;

/// Fields that are listed; a model that needs more looks at a record.
const MOST_FIELDS: usize = 40;
/// Values of a choice that are listed.
const MOST_CHOICES: usize = 20;

/// The language, in as few lines as it takes to write a query.
const LANGUAGE: &str = "\
A query is made of conditions `field:value`, joined by `&&` and `||`, negated by `!!`, grouped by ( ).
Values: words as they are, other texts in \"quotes\", whole numbers `#42`, decimals `##19.99`, dates `2024-01-31`, `true`, `false`, `null`.
Instead of `:` also `:!` (not), `:>` `:>=` `:<` `:<=`, `:~` (present), `:^[a, b]` (one of).
`name:*part*` is a pattern; `lines:{sku:A-1 && qty:>#2}` asks both of one element of a list.
`text(\"words\")` looks into every text; dots reach into objects, as in `address.city`.";

/// What the tool for an operation does.
pub(super) fn description(of: &TypeDefinition, operation: Operation) -> String {
    let (one, many) = (of.singular().replace('_', " "), of.plural().replace('_', " "));
    let does = match operation {
        Operation::Search => format!("Finds {many} by a query, a page at a time."),
        Operation::Count => format!("Counts {many} that fit a query, without reading them."),
        Operation::Get => format!("Reads one {one} by its id."),
        Operation::Create => format!("Makes a new {one}. The answer has its id."),
        Operation::Update => {
            format!("Changes fields of one {one} by its id; what is not given stays, null removes a field.")
        }
        Operation::Delete => format!("Removes one {one} by its id."),
    };
    let mut parts = vec![does];
    parts.extend(of.description.as_deref().map(str::trim).filter(|text| !text.is_empty()).map(str::to_owned));
    if matches!(operation, Operation::Search | Operation::Count | Operation::Get) {
        parts.extend(fields(of));
    }
    if matches!(operation, Operation::Search | Operation::Count) {
        parts.push(LANGUAGE.to_owned());
        parts.extend(relations(of));
        parts.push(format!("Examples: {}", quoted(&examples(of))));
    }
    parts.join("\n")
}

/// Two queries made of the type's own fields, the second joined from two conditions where there are two.
pub(super) fn examples(of: &TypeDefinition) -> Vec<String> {
    let schema = of.effective_schema();
    let mut declared: Vec<(&String, &Value)> = shape::properties(&schema).collect();
    // Those that an index serves are the better advice.
    declared.sort_by_key(|(name, _)| !of.searchable_fields.contains(name));
    let mut conditions = declared.iter().filter_map(|(name, property)| condition(name, property));
    match (conditions.next(), conditions.next()) {
        (Some(first), Some(second)) => vec![first.clone(), format!("{first} && {second}")],
        (Some(only), None) if of.records.is_some() => vec![only.clone(), format!("!!{only}")],
        (Some(only), None) => vec![only.clone(), format!("{only} && auditInfo.createdAt:>=2024-01-01")],
        _ if of.records.is_some() => vec!["id:~".to_owned(), "text(\"some words\")".to_owned()],
        _ => vec!["auditInfo.createdAt:>=2024-01-01".to_owned(), "text(\"some words\")".to_owned()],
    }
}

/// A condition on the field that is likely to be asked. None for names that the language cannot write, and for objects.
fn condition(name: &str, property: &Value) -> Option<String> {
    toolwright_query::Field::parse(name).ok().filter(|_| !name.contains([' ', '.', '&']))?;
    let types = shape::types(property);
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
    // What cannot be read must not be recommended.
    toolwright_query::Query::parse(&written).ok().map(|_| written)
}

fn is_word(text: &str) -> bool {
    let reserved = ["null", "true", "false"].iter().any(|word| text.eq_ignore_ascii_case(word));
    !text.is_empty() && !reserved && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-".contains(&byte))
}

fn quoted(queries: &[String]) -> String {
    queries.iter().map(|query| format!("`{query}`")).collect::<Vec<_>>().join(", ")
}

fn relations(of: &TypeDefinition) -> Option<String> {
    let each = |relation: &toolwright_types::Relation| {
        format!("{} ({}, by {})", relation.name, relation.target, relation.field)
    };
    let all: Vec<String> = of.relations.iter().map(each).collect();
    let first = of.relations.first()?;
    Some(format!(
        "Relations: {}. `hasEdge({}, ID)` finds by them, `expand({})` brings the related records along.",
        all.join(", "),
        first.name,
        first.name
    ))
}

/// The fields, one line each.
fn fields(of: &TypeDefinition) -> Option<String> {
    let schema = of.effective_schema();
    let mut lines: Vec<String> = shape::properties(&schema)
        .take(MOST_FIELDS)
        .map(|(name, property)| {
            let searchable = if of.searchable_fields.contains(name) { "; fast to search" } else { "" };
            format!("- {name}: {}{searchable}", kind(property))
        })
        .collect();
    let left = shape::properties(&schema).count().saturating_sub(MOST_FIELDS);
    if left > 0 {
        lines.push(format!("- and {left} more"));
    }
    (!lines.is_empty()).then(|| {
        let managed = match of.records {
            None => "id, version, auditInfo.createdAt and auditInfo.lastUpdatedAt",
            Some(_) if of.is_versioned() => "id and version",
            Some(_) => "id",
        };
        format!("Fields, beside {managed}:\n{}", lines.join("\n"))
    })
}

/// What a field holds, in a few words.
fn kind(property: &Value) -> String {
    let types: Vec<&str> = shape::types(property).into_iter().filter(|name| *name != "null").collect();
    let mut text = match (types.as_slice(), property.get("format").and_then(Value::as_str)) {
        (["string"], Some(format @ ("date" | "date-time"))) => format.to_owned(),
        (["string"], _) => "text".to_owned(),
        (["array"], _) => {
            let inner = property.get("items").map(names).unwrap_or_default();
            if inner.is_empty() { "list".to_owned() } else { format!("list of objects with {inner}") }
        }
        (["object"], _) => {
            let inner = names(property);
            if inner.is_empty() { "object".to_owned() } else { format!("object with {inner}") }
        }
        ([], _) => "any value".to_owned(),
        (several, _) => several.join(" or "),
    };
    if let Some(values) = property.get("enum").and_then(Value::as_array) {
        let shown: Vec<String> = values
            .iter()
            .take(MOST_CHOICES)
            .map(|value| match value {
                Value::String(text) => text.clone(),
                other => other.to_string(),
            })
            .collect();
        let more = if values.len() > MOST_CHOICES { ", …" } else { "" };
        text = format!("{}, one of {}{more}", if types.is_empty() { "text" } else { text.as_str() }, shown.join(", "));
    }
    match property.get("description").and_then(Value::as_str) {
        Some(said) => format!("{text}. {}", said.lines().next().unwrap_or_default().trim_end_matches('.')),
        None => text,
    }
}

fn names(schema: &Value) -> String {
    shape::properties(schema).take(MOST_FIELDS).map(|(name, _)| name.as_str()).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn of(schema: Value) -> TypeDefinition {
        serde_json::from_value(json!({ "refName": "SalesOrder", "description": "Orders.", "jsonSchema": schema, "searchableFields": ["total"] }))
            .unwrap()
    }

    #[test]
    fn a_model_is_told_fields_language_and_examples() {
        let text = description(
            &of(json!({ "properties": {
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
    fn every_example_is_a_query() {
        for schema in [
            json!({}),
            json!({ "properties": { "a b": { "type": "string" }, "x'y": { "enum": ["say \"hi\"", 1] }, "": { "type": "string" } } }),
            json!({ "properties": { "flag": { "type": "boolean" } } }),
            json!({ "properties": { "kind": { "enum": ["null", "true"] } } }),
            json!({ "properties": { "loop": { "$ref": "#/properties/loop" } } }),
        ] {
            for query in examples(&of(schema.clone())) {
                toolwright_query::Query::parse(&query).unwrap_or_else(|error| panic!("{query} of {schema}: {error}"));
            }
        }
    }
}
