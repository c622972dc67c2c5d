//! Proposes entity types for the tables of a database.

use std::collections::HashMap;

use indexmap::IndexMap;
use serde_json::{Map, Value, json};
use toolwright_query::sql::{ColumnType, SearchableField};
use toolwright_store::{ColumnInfo, ForeignKey, TableInfo};
use toolwright_types::{JsonSchema, RecordLocation, Relation, SqlRecords, TypeDefinition};

use super::naming::{self, UniqueNames};
use super::{ProposedType, SkippedType, TypeProposal, clean_description};

/// The maximum number of searchable fields of a type. Also the maximum number of relations of a type.
const MAX_FIELDS: usize = 32;
/// The maximum number of columns of a table.
const MAX_COLUMNS: usize = 500;

/// The fields of a type, one for each column.
struct Fields<'t> {
    /// The field names and their columns, in the order of the table.
    all: Vec<(String, &'t ColumnInfo)>,
    /// The column of the primary key.
    key: &'t ColumnInfo,
}

/// Proposes a type for each table whose name `selected` accepts. The other tables get type names too, so that the name
/// of a type does not depend on the selection.
pub(super) fn propose(tables: &[TableInfo], secret: &str, selected: impl Fn(&str) -> bool) -> TypeProposal {
    let mut proposal = TypeProposal::default();
    let mut names = UniqueNames::default();
    let keyed: Vec<(&TableInfo, Result<&ColumnInfo, String>, String)> =
        tables.iter().map(|table| (table, key_column(table), names.assign(&naming::type_name(&table.name)))).collect();
    // The tables that can be the target of a relation, each with the name of its type and the column of its primary
    // key.
    let targets: HashMap<(Option<&str>, &str), (&str, &str)> = keyed
        .iter()
        .filter_map(|(table, key, name)| {
            let key = key.as_ref().ok()?;
            Some(((table.schema.as_deref(), table.name.as_str()), (name.as_str(), key.name.as_str())))
        })
        .collect();
    for (table, key, name) in keyed.iter().filter(|(table, ..)| selected(&table.name)) {
        match key {
            Err(reason) => proposal.skipped.push(SkippedType { name: table.name.clone(), reason: reason.clone() }),
            Ok(key) => match definition(table, key, name, secret, &targets) {
                Ok(definition) => proposal.types.push(ProposedType { source_name: table.name.clone(), definition }),
                Err(reason) => proposal.skipped.push(SkippedType { name: table.name.clone(), reason }),
            },
        }
    }
    proposal
}

/// Returns the column that identifies the rows of a table, or the reason why the table cannot be imported.
fn key_column(table: &TableInfo) -> Result<&ColumnInfo, String> {
    let named = |name: &str| table.columns.iter().find(|column| column.name == name);
    let found = match table.key.as_slice() {
        [only] => named(only),
        // A view has no primary key, so its column `id` is used.
        [] if table.view => named("id"),
        [] => None,
        many => {
            return Err(format!(
                "its primary key has {} columns; define the type manually over a view with a single key column",
                many.len()
            ));
        }
    };
    let key = found.ok_or_else(|| {
        let reason = if table.view { "it is a view without a column `id`" } else { "it has no primary key" };
        format!("{reason}; define the type manually and name the identifying column as `records.idField`")
    })?;
    if matches!(key.holds, ColumnType::Json | ColumnType::Composite) {
        return Err(format!("its key `{}` has the type {}, which cannot be used as an id", key.name, key.declared));
    }
    Ok(key)
}

fn definition(
    table: &TableInfo,
    key: &ColumnInfo,
    name: &str,
    secret: &str,
    targets: &HashMap<(Option<&str>, &str), (&str, &str)>,
) -> Result<TypeDefinition, String> {
    if table.columns.len() > MAX_COLUMNS {
        return Err(format!("it has more than {MAX_COLUMNS} columns; define the type manually with the relevant ones"));
    }
    if table.name.contains('.') || table.schema.as_ref().is_some_and(|schema| schema.contains('.')) {
        return Err("its name and the name of its schema must not contain a dot".to_owned());
    }
    let fields = fields(table, key);
    let relations = relations(table, &fields, targets);
    let id_field = fields.all.iter().find(|(_, column)| column.name == key.name).map(|(field, _)| field.clone());
    let columns: IndexMap<String, String> = fields
        .all
        .iter()
        .filter(|(field, column)| *field != column.name)
        .map(|(field, column)| (field.clone(), column.name.clone()))
        .collect();
    let mut definition: TypeDefinition =
        serde_json::from_value(json!({ "refName": name })).map_err(|error| error.to_string())?;
    definition.description = Some(match &table.comment {
        Some(comment) => clean_description(comment),
        None if table.view => format!("Rows of the view {}.", table.name),
        None => format!("Rows of the table {}.", table.name),
    });
    definition.json_schema = Some(JsonSchema(schema(&fields, &relations)));
    definition.searchable_fields = searchable(table, &fields, &relations);
    definition.relations = relations;
    definition.records = Some(RecordLocation::Sql(SqlRecords {
        url_secret_ref: secret.to_owned(),
        table: match &table.schema {
            Some(schema) => format!("{schema}.{}", table.name),
            None => table.name.clone(),
        },
        id_field: id_field.unwrap_or_else(|| "id".to_owned()),
        columns,
        writable: false,
        version_field: None,
    }));
    Ok(definition)
}

/// Assigns a field name to each column. Only the primary key may get the name `id`.
fn fields<'t>(table: &'t TableInfo, key: &'t ColumnInfo) -> Fields<'t> {
    let mut names = UniqueNames::reserving(&["id"]);
    let assign = |column: &'t ColumnInfo| {
        let is_id = column.name == "id" && column.name == key.name;
        let field = if is_id { "id".to_owned() } else { names.assign(&naming::field_name(&column.name)) };
        (field, column)
    };
    Fields { all: table.columns.iter().map(assign).collect(), key }
}

fn relations(
    table: &TableInfo,
    fields: &Fields<'_>,
    targets: &HashMap<(Option<&str>, &str), (&str, &str)>,
) -> Vec<Relation> {
    let taken: Vec<&str> = fields.all.iter().map(|(field, _)| field.as_str()).chain(["id"]).collect();
    let mut names = UniqueNames::reserving(&taken);
    let relation = |foreign: &ForeignKey| {
        let (field, column) = fields.all.iter().find(|(_, column)| column.name == foreign.column)?;
        let (target, key) = targets.get(&(foreign.schema.as_deref(), foreign.table.as_str()))?;
        let references_key = foreign.references.as_deref().is_none_or(|referenced| referenced == *key);
        if field == "id" || !references_key || matches!(column.holds, ColumnType::Json | ColumnType::Composite) {
            return None;
        }
        let name = names.assign(&naming::relation_name(field));
        Some(Relation { name, target: (*target).to_owned(), field: field.clone(), many: false })
    };
    table.foreign_keys.iter().filter_map(relation).take(MAX_FIELDS).collect()
}

/// Returns the searchable fields: those whose columns have an index in the table, and those of relations. JSON,
/// composite, Boolean and binary columns are not searchable.
fn searchable(table: &TableInfo, fields: &Fields<'_>, relations: &[Relation]) -> Vec<String> {
    let single = |holds: ColumnType| {
        !matches!(holds, ColumnType::Json | ColumnType::Composite | ColumnType::Bool | ColumnType::Bytes)
    };
    let indexed = fields.all.iter().filter(|(field, column)| {
        let is_reference = relations.iter().any(|relation| relation.field == *field);
        *field != "id" && single(column.holds) && (table.indexed.contains(&column.name) || is_reference)
    });
    let names = indexed.map(|(field, _)| field.clone());
    names
        .filter(|name| SearchableField::new(name, toolwright_query::sql::IndexKind::Text).is_ok())
        .take(MAX_FIELDS)
        .collect()
}

fn schema(fields: &Fields<'_>, relations: &[Relation]) -> Value {
    let mut properties = Map::new();
    let mut required = Vec::new();
    for (field, column) in fields.all.iter().filter(|(field, _)| field != "id") {
        let is_reference = relations.iter().any(|relation| relation.field == *field);
        properties.insert(field.clone(), property(column, is_reference));
        // The key column is not required in a new record, because the key can be sent as `id`. Columns with a default
        // and computed columns are not required either.
        if !column.nullable && !column.has_default && !column.computed && column.name != fields.key.name {
            required.push(field.clone());
        }
    }
    json!({ "type": "object", "properties": properties, "required": required, "additionalProperties": false })
}

/// Returns the schema of the values of a column.
fn property(column: &ColumnInfo, is_reference: bool) -> Value {
    let mut schema = Map::new();
    let kind: &[&str] = match column.holds {
        _ if is_reference => &["string"],
        ColumnType::Text
        | ColumnType::Timestamp
        | ColumnType::LocalTimestamp
        | ColumnType::Date
        | ColumnType::Uuid
        | ColumnType::Bytes => &["string"],
        // This is an SQLite column without a declared type, which can contain any value.
        ColumnType::Other if column.declared.is_empty() => &[],
        ColumnType::Other => &["string"],
        ColumnType::Integer => &["integer"],
        ColumnType::Double | ColumnType::Float => &["number"],
        ColumnType::Decimal if column.digits.is_some_and(|digits| digits <= 15) => &["number"],
        ColumnType::Decimal => &["number", "string"],
        ColumnType::Bool => &["boolean"],
        ColumnType::Composite if column.declared.starts_with('_') => &["array"],
        ColumnType::Composite => &["object"],
        ColumnType::Json => &[],
    };
    let null = (column.nullable && !kind.is_empty()).then_some("null");
    let kinds: Vec<&str> = kind.iter().copied().chain(null).collect();
    match kinds.as_slice() {
        [] => {}
        [one] => drop(schema.insert("type".into(), json!(one))),
        several => drop(schema.insert("type".into(), json!(several))),
    }
    let format = match column.holds {
        _ if is_reference => None,
        ColumnType::Timestamp | ColumnType::LocalTimestamp => Some(("format", "date-time")),
        ColumnType::Date => Some(("format", "date")),
        ColumnType::Uuid => Some(("format", "uuid")),
        ColumnType::Bytes => Some(("contentEncoding", "base16")),
        _ => None,
    };
    schema.extend(format.map(|(keyword, value)| (keyword.to_owned(), json!(value))));
    if let Some(choices) = column.choices.as_ref().filter(|choices| !choices.is_empty() && !is_reference) {
        let null = column.nullable.then_some(Value::Null);
        let choices: Vec<Value> = choices.iter().map(|choice| json!(choice)).chain(null).collect();
        schema.insert("enum".into(), Value::Array(choices));
    }
    schema
        .extend(column.comment.as_deref().map(|comment| ("description".to_owned(), json!(clean_description(comment)))));
    Value::Object(schema)
}

#[cfg(test)]
mod tests {
    use super::*;
    use toolwright_catalog::CompiledType;
    use toolwright_types::Document;

    fn table(name: &str, columns: &[(&str, ColumnType)], key: &[&str]) -> TableInfo {
        let columns = columns
            .iter()
            .map(|(name, holds)| {
                let mut column: ColumnInfo = serde_json::from_value(json!({
                    "name": name, "type": "x", "nullable": *name != "id", "has_default": false, "computed": false,
                }))
                .unwrap();
                column.holds = *holds;
                column
            })
            .collect();
        let key = key.iter().map(|name| (*name).to_owned()).collect();
        TableInfo {
            schema: None,
            name: name.into(),
            view: false,
            comment: None,
            columns,
            key,
            indexed: vec![],
            unique: vec![],
            foreign_keys: vec![],
        }
    }

    fn propose_all(tables: &[TableInfo]) -> TypeProposal {
        propose(tables, "shop-db", |_| true)
    }

    fn sql(definition: &TypeDefinition) -> &SqlRecords {
        match &definition.records {
            Some(RecordLocation::Sql(sql)) => sql,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn foreign_keys_to_primary_keys_become_relations() {
        let mut orders = table(
            "orders",
            &[("id", ColumnType::Integer), ("customer_id", ColumnType::Integer), ("region", ColumnType::Text)],
            &["id"],
        );
        let foreign = |column: &str, table: &str, references: Option<&str>| ForeignKey {
            column: column.into(),
            schema: None,
            table: table.into(),
            references: references.map(str::to_owned),
        };
        orders.foreign_keys = vec![
            foreign("customer_id", "customers", None),
            foreign("region", "customers", Some("name")),
            foreign("region", "nowhere", None),
        ];
        let customers = table("customers", &[("id", ColumnType::Integer), ("name", ColumnType::Text)], &["id"]);
        let proposal = propose_all(&[orders, customers]);
        let order = &proposal.types[0].definition;
        assert_eq!(
            serde_json::to_value(&order.relations).unwrap(),
            json!([{ "name": "customer", "type": "Customer", "field": "customer_id", "many": false }])
        );
        let schema = order.effective_schema();
        assert_eq!(schema["properties"]["customer_id"], json!({ "type": ["string", "null"] }));
        assert_eq!(schema["properties"].get("id"), None);
        assert_eq!(order.searchable_fields, ["customer_id"]);
    }

    #[test]
    fn table_with_a_dot_in_its_name_or_without_a_usable_key_column_is_skipped() {
        let odd = [
            table("pairs", &[("a", ColumnType::Integer), ("b", ColumnType::Integer)], &["a", "b"]),
            table("heap", &[("a", ColumnType::Integer)], &[]),
            table("docs", &[("doc", ColumnType::Json)], &["doc"]),
            table("a.b", &[("id", ColumnType::Integer)], &["id"]),
            TableInfo {
                view: true,
                ..table("totals", &[("id", ColumnType::Integer), ("sum", ColumnType::Decimal)], &[])
            },
            TableInfo { view: true, ..table("sums", &[("sum", ColumnType::Decimal)], &[]) },
        ];
        let proposal = propose_all(&odd);
        let skipped: Vec<(&str, bool)> =
            proposal.skipped.iter().map(|one| (one.name.as_str(), one.reason.len() > 20)).collect();
        assert_eq!(skipped, [("pairs", true), ("heap", true), ("docs", true), ("a.b", true), ("sums", true)]);
        assert_eq!(proposal.types[0].definition.ref_name.as_str(), "Total");
    }

    #[test]
    fn number_is_appended_to_a_type_or_field_name_that_is_already_taken() {
        let columns = [
            ("Größe", ColumnType::Text),
            ("Gr--e", ColumnType::Text),
            ("id", ColumnType::Text),
            ("ID", ColumnType::Text),
            ("o\"x", ColumnType::Text),
            ("no", ColumnType::Integer),
        ];
        let tables = [
            table("orders", &columns, &["no"]),
            table("order", &columns, &["no"]),
            table("ORDERS", &columns, &["no"]),
            table("query", &columns, &["no"]),
        ];
        let proposal = propose_all(&tables);
        let names: Vec<&str> = proposal.types.iter().map(|one| one.definition.ref_name.as_str()).collect();
        assert_eq!(names, ["Order", "Order_2", "Order_3", "QueryRecord"]);
        let order = &proposal.types[0].definition;
        assert_eq!(sql(order).id_field, "no");
        assert_eq!(
            serde_json::to_value(&sql(order).columns).unwrap(),
            json!({ "Gr__e": "Größe", "id_2": "id", "ID_3": "ID", "o_x": "o\"x" })
        );
        for proposed in proposal.types {
            let name = proposed.definition.ref_name.clone();
            CompiledType::compile(Document::unsaved(name, proposed.definition)).unwrap();
        }
    }

    #[test]
    fn table_with_more_than_500_columns_is_skipped_and_at_most_32_fields_are_searchable() {
        let names: Vec<String> = (0..501).map(|n| format!("c{n}")).collect();
        let columns = |count: usize| -> Vec<(&str, ColumnType)> {
            names[..count].iter().map(|name| (name.as_str(), ColumnType::Text)).collect()
        };
        let mut wide = table("wide", &columns(300), &["c0"]);
        wide.indexed = names[..300].to_vec();
        let proposal = propose_all(&[wide, table("wider", &columns(501), &["c0"])]);
        assert_eq!(proposal.types[0].definition.searchable_fields.len(), 32);
        assert!(proposal.skipped[0].reason.contains("more than 500 columns"));
    }
}
