//! Tables as types. Looks nothing up.

use std::collections::HashMap;

use indexmap::IndexMap;
use serde_json::{Map, Value, json};
use toolwright_query::sql::{Holds, Searchable};
use toolwright_store::{ColumnInfo, ForeignKey, TableInfo};
use toolwright_types::{JsonSchema, RecordsIn, Relation, SqlRecords, TypeDefinition};

use super::naming::{self, Names};
use super::{PlannedType, SkippedType, TypePlan, described};

/// Searchable fields and relations of one type.
const MOST_FIELDS: usize = 32;
/// Columns of a table.
const MOST_COLUMNS: usize = 500;

/// The columns of one table as fields.
struct Fields<'t> {
    /// Field and column, in the order of the table.
    all: Vec<(String, &'t ColumnInfo)>,
    key: &'t ColumnInfo,
}

/// A type for each table that `wanted` lets through. Names do not depend on what else is wanted.
pub(super) fn plan(tables: &[TableInfo], secret: &str, wanted: impl Fn(&str) -> bool) -> TypePlan {
    let mut plan = TypePlan::default();
    let mut names = Names::default();
    let keyed: Vec<(&TableInfo, Result<&ColumnInfo, String>, String)> =
        tables.iter().map(|table| (table, key(table), names.give(&naming::of_type(&table.name)))).collect();
    // Where a relation may lead: the name of the type, and the column that tells its records apart.
    let targets: HashMap<(Option<&str>, &str), (&str, &str)> = keyed
        .iter()
        .filter_map(|(table, key, name)| {
            let key = key.as_ref().ok()?;
            Some(((table.schema.as_deref(), table.name.as_str()), (name.as_str(), key.name.as_str())))
        })
        .collect();
    for (table, key, name) in keyed.iter().filter(|(table, ..)| wanted(&table.name)) {
        match key {
            Err(reason) => plan.skipped.push(SkippedType { name: table.name.clone(), reason: reason.clone() }),
            Ok(key) => match definition(table, key, name, secret, &targets) {
                Ok(definition) => plan.types.push(PlannedType { from: table.name.clone(), definition }),
                Err(reason) => plan.skipped.push(SkippedType { name: table.name.clone(), reason }),
            },
        }
    }
    plan
}

/// The column that tells rows apart, or why there is none.
fn key(table: &TableInfo) -> Result<&ColumnInfo, String> {
    let named = |name: &str| table.columns.iter().find(|column| column.name == name);
    let found = match table.key.as_slice() {
        [only] => named(only),
        // A view has no key; one that has an `id` means it.
        [] if table.view => named("id"),
        [] => None,
        many => {
            return Err(format!(
                "its primary key has {} columns; write the type by hand over a view that has one",
                many.len()
            ));
        }
    };
    let key = found.ok_or_else(|| {
        let noun = if table.view { "a view has none, and this one has no column `id`" } else { "it has none" };
        format!("rows are told apart by a primary key, and {noun}; write the type by hand and name a column as `records.idField`")
    })?;
    if matches!(key.holds, Holds::Json | Holds::Composite) {
        return Err(format!("its key `{}` is {}, which is no id", key.name, key.declared));
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
    if table.columns.len() > MOST_COLUMNS {
        return Err(format!("it has more than {MOST_COLUMNS} columns; write the type by hand with those that matter"));
    }
    if table.name.contains('.') || table.schema.as_ref().is_some_and(|schema| schema.contains('.')) {
        return Err("there is a dot in its name, or in that of its schema".to_owned());
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
        Some(comment) => described(comment),
        None if table.view => format!("Rows of the view {}.", table.name),
        None => format!("Rows of the table {}.", table.name),
    });
    definition.json_schema = Some(JsonSchema(schema(&fields, &relations)));
    definition.searchable_fields = searchable(table, &fields, &relations);
    definition.relations = relations;
    definition.records = Some(RecordsIn::Sql(SqlRecords {
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

/// A name for each column. `id` is the key's, which has it if it is called that.
fn fields<'t>(table: &'t TableInfo, key: &'t ColumnInfo) -> Fields<'t> {
    let mut names = Names::taken(&["id"]);
    let named = |column: &'t ColumnInfo| {
        let own = column.name == "id" && column.name == key.name;
        let field = if own { "id".to_owned() } else { names.give(&naming::of_field(&column.name)) };
        (field, column)
    };
    Fields { all: table.columns.iter().map(named).collect(), key }
}

fn relations(
    table: &TableInfo,
    fields: &Fields<'_>,
    targets: &HashMap<(Option<&str>, &str), (&str, &str)>,
) -> Vec<Relation> {
    let taken: Vec<&str> = fields.all.iter().map(|(field, _)| field.as_str()).chain(["id"]).collect();
    let mut names = Names::taken(&taken);
    let relation = |foreign: &ForeignKey| {
        let (field, column) = fields.all.iter().find(|(_, column)| column.name == foreign.column)?;
        let (target, key) = targets.get(&(foreign.schema.as_deref(), foreign.table.as_str()))?;
        let leads_to_key = foreign.references.as_deref().is_none_or(|referenced| referenced == *key);
        if field == "id" || !leads_to_key || matches!(column.holds, Holds::Json | Holds::Composite) {
            return None;
        }
        let name = names.give(&naming::of_relation(field));
        Some(Relation { name, target: (*target).to_owned(), field: field.clone(), many: false })
    };
    table.foreign.iter().filter_map(relation).take(MOST_FIELDS).collect()
}

/// What an index of the table serves.
fn searchable(table: &TableInfo, fields: &Fields<'_>, relations: &[Relation]) -> Vec<String> {
    let single = |holds: Holds| !matches!(holds, Holds::Json | Holds::Composite | Holds::Truth | Holds::Bytes);
    let indexed = fields.all.iter().filter(|(field, column)| {
        let refers = relations.iter().any(|relation| relation.field == *field);
        *field != "id" && single(column.holds) && (table.indexed.contains(&column.name) || refers)
    });
    let names = indexed.map(|(field, _)| field.clone());
    names.filter(|name| Searchable::new(name, toolwright_query::sql::Kind::Text).is_ok()).take(MOST_FIELDS).collect()
}

fn schema(fields: &Fields<'_>, relations: &[Relation]) -> Value {
    let mut properties = Map::new();
    let mut required = Vec::new();
    for (field, column) in fields.all.iter().filter(|(field, _)| field != "id") {
        let refers = relations.iter().any(|relation| relation.field == *field);
        properties.insert(field.clone(), property(column, refers));
        // The key may be sent as `id`, and what the database fills in need not be sent at all.
        if !column.nullable && !column.filled && !column.computed && column.name != fields.key.name {
            required.push(field.clone());
        }
    }
    json!({ "type": "object", "properties": properties, "required": required, "additionalProperties": false })
}

/// What a column holds, as it is shown.
fn property(column: &ColumnInfo, refers: bool) -> Value {
    let mut schema = Map::new();
    let kind: &[&str] = match column.holds {
        _ if refers => &["string"],
        Holds::Text | Holds::Moment | Holds::LocalMoment | Holds::Day | Holds::Uuid | Holds::Bytes => &["string"],
        // SQLite: a column without a type.
        Holds::Other if column.declared.is_empty() => &[],
        Holds::Other => &["string"],
        Holds::Integer => &["integer"],
        Holds::Double | Holds::Float => &["number"],
        Holds::Decimal if column.digits.is_some_and(|digits| digits <= 15) => &["number"],
        Holds::Decimal => &["number", "string"],
        Holds::Truth => &["boolean"],
        Holds::Composite if column.declared.starts_with('_') => &["array"],
        Holds::Composite => &["object"],
        Holds::Json => &[],
    };
    let null = (column.nullable && !kind.is_empty()).then_some("null");
    let kinds: Vec<&str> = kind.iter().copied().chain(null).collect();
    match kinds.as_slice() {
        [] => {}
        [one] => drop(schema.insert("type".into(), json!(one))),
        several => drop(schema.insert("type".into(), json!(several))),
    }
    let format = match column.holds {
        _ if refers => None,
        Holds::Moment | Holds::LocalMoment => Some(("format", "date-time")),
        Holds::Day => Some(("format", "date")),
        Holds::Uuid => Some(("format", "uuid")),
        Holds::Bytes => Some(("contentEncoding", "base16")),
        _ => None,
    };
    schema.extend(format.map(|(keyword, value)| (keyword.to_owned(), json!(value))));
    if let Some(choices) = column.choices.as_ref().filter(|choices| !choices.is_empty() && !refers) {
        let null = column.nullable.then_some(Value::Null);
        let choices: Vec<Value> = choices.iter().map(|choice| json!(choice)).chain(null).collect();
        schema.insert("enum".into(), Value::Array(choices));
    }
    schema.extend(column.comment.as_deref().map(|comment| ("description".to_owned(), json!(described(comment)))));
    Value::Object(schema)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::records::CompiledType;
    use toolwright_types::Document;

    fn table(name: &str, columns: &[(&str, Holds)], key: &[&str]) -> TableInfo {
        let columns = columns
            .iter()
            .map(|(name, holds)| {
                let mut column: ColumnInfo = serde_json::from_value(json!({
                    "name": name, "type": "x", "nullable": *name != "id", "filled": false, "computed": false,
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
            foreign: vec![],
        }
    }

    fn planned(tables: &[TableInfo]) -> TypePlan {
        plan(tables, "shop-db", |_| true)
    }

    fn sql(definition: &TypeDefinition) -> &SqlRecords {
        match &definition.records {
            Some(RecordsIn::Sql(sql)) => sql,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn foreign_keys_become_relations_where_they_lead_to_a_key() {
        let mut orders = table(
            "orders",
            &[("id", Holds::Integer), ("customer_id", Holds::Integer), ("region", Holds::Text)],
            &["id"],
        );
        let foreign = |column: &str, table: &str, references: Option<&str>| ForeignKey {
            column: column.into(),
            schema: None,
            table: table.into(),
            references: references.map(str::to_owned),
        };
        orders.foreign = vec![
            foreign("customer_id", "customers", None),
            foreign("region", "customers", Some("name")),
            foreign("region", "nowhere", None),
        ];
        let customers = table("customers", &[("id", Holds::Integer), ("name", Holds::Text)], &["id"]);
        let plan = planned(&[orders, customers]);
        let order = &plan.types[0].definition;
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
    fn odd_tables_have_types_or_reasons() {
        let odd = [
            table("pairs", &[("a", Holds::Integer), ("b", Holds::Integer)], &["a", "b"]),
            table("heap", &[("a", Holds::Integer)], &[]),
            table("docs", &[("doc", Holds::Json)], &["doc"]),
            table("a.b", &[("id", Holds::Integer)], &["id"]),
            TableInfo { view: true, ..table("totals", &[("id", Holds::Integer), ("sum", Holds::Decimal)], &[]) },
            TableInfo { view: true, ..table("sums", &[("sum", Holds::Decimal)], &[]) },
        ];
        let plan = planned(&odd);
        let skipped: Vec<(&str, bool)> =
            plan.skipped.iter().map(|one| (one.name.as_str(), one.reason.len() > 20)).collect();
        assert_eq!(skipped, [("pairs", true), ("heap", true), ("docs", true), ("a.b", true), ("sums", true)]);
        assert_eq!(plan.types[0].definition.ref_name.as_str(), "Total");
    }

    #[test]
    fn names_collide_without_harm() {
        let columns = [
            ("Größe", Holds::Text),
            ("Gr--e", Holds::Text),
            ("id", Holds::Text),
            ("ID", Holds::Text),
            ("o\"x", Holds::Text),
            ("no", Holds::Integer),
        ];
        let tables = [
            table("orders", &columns, &["no"]),
            table("order", &columns, &["no"]),
            table("ORDERS", &columns, &["no"]),
            table("query", &columns, &["no"]),
        ];
        let plan = planned(&tables);
        let names: Vec<&str> = plan.types.iter().map(|one| one.definition.ref_name.as_str()).collect();
        assert_eq!(names, ["Order", "Order_2", "Order_3", "QueryRecord"]);
        let order = &plan.types[0].definition;
        assert_eq!(sql(order).id_field, "no");
        assert_eq!(
            serde_json::to_value(&sql(order).columns).unwrap(),
            json!({ "Gr__e": "Größe", "id_2": "id", "ID_3": "ID", "o_x": "o\"x" })
        );
        for planned in plan.types {
            let name = planned.definition.ref_name.clone();
            CompiledType::compile(Document::unsaved(name, planned.definition)).unwrap();
        }
    }

    #[test]
    fn a_wide_table_is_a_type_until_it_is_too_wide() {
        let names: Vec<String> = (0..501).map(|n| format!("c{n}")).collect();
        let columns = |count: usize| -> Vec<(&str, Holds)> {
            names[..count].iter().map(|name| (name.as_str(), Holds::Text)).collect()
        };
        let mut wide = table("wide", &columns(300), &["c0"]);
        wide.indexed = names[..300].to_vec();
        let plan = planned(&[wide, table("wider", &columns(501), &["c0"])]);
        assert_eq!(plan.types[0].definition.searchable_fields.len(), 32);
        assert!(plan.skipped[0].reason.contains("more than 500 columns"));
    }
}
