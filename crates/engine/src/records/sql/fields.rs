//! A type held against its table: which column each field is.

use toolwright_query::sql::{Layout, TableColumn, TableName};
use toolwright_store::{ColumnInfo, Table, TableInfo};
use toolwright_tools::DefinitionIssue;
use toolwright_types::{SqlRecords, TypeDefinition};

use super::schema_and_table;
use crate::records::shape;

/// The table as the definition wants to see it, or everything that is wrong with that.
pub(super) fn table(
    definition: &TypeDefinition,
    sql: &SqlRecords,
    info: &TableInfo,
) -> Result<Table, Vec<DefinitionIssue>> {
    let mut issues = Vec::new();
    let mut wrong = |path: String, message: String| issues.push(DefinitionIssue { path, message });
    let key = column_of(sql, &sql.id_field, info)
        .and_then(|column| made(&sql.id_field, column, &mut wrong, "/records/idField"));
    if key.is_none() {
        let name = sql.columns.get(&sql.id_field).unwrap_or(&sql.id_field);
        wrong("/records/idField".to_owned(), format!("table `{}` has no column `{name}`", sql.table));
    }
    for (field, column) in &sql.columns {
        if find(info, column).is_none() {
            let path = format!("/records/columns/{}", escaped(field));
            wrong(path, format!("table `{}` has no column `{column}`", sql.table));
        }
    }
    let mut fields = Vec::new();
    for field in wanted(definition, sql, info) {
        match column_of(sql, &field, info) {
            Some(column) => {
                let refers = definition.relations.iter().any(|relation| relation.field == field);
                let place = format!("/jsonSchema/properties/{}", escaped(&field));
                // Ids are texts, and so is what refers to one.
                fields.extend(
                    made(&field, column, &mut wrong, &place)
                        .map(|made| if refers { made.as_reference() } else { made }),
                );
            }
            None if sql.columns.contains_key(&field) => {}
            None => wrong(
                format!("/jsonSchema/properties/{}", escaped(&field)),
                format!(
                    "table `{}` has no column `{field}`; name it in `records.columns`, or leave the field out",
                    sql.table
                ),
            ),
        }
    }
    let name = match schema_and_table(&sql.table) {
        (_, table) if info.schema.is_none() => TableName::new(None, table),
        (schema, table) => TableName::new(Some(schema), table),
    };
    let name = name.map_err(|error| wrong("/records/table".to_owned(), error.to_string())).ok();
    match (name, key, issues.is_empty()) {
        (Some(name), Some(key), true) => Ok(Table { name, layout: Layout::of_columns(key, fields) }),
        _ => Err(issues),
    }
}

/// The fields that the schema declares. What it leaves out is not shown; one that declares nothing shows every column.
fn wanted(definition: &TypeDefinition, sql: &SqlRecords, info: &TableInfo) -> Vec<String> {
    let schema = definition.effective_schema();
    let declared: Vec<String> = shape::properties(&schema).map(|(name, _)| name.clone()).collect();
    let all = if declared.is_empty() {
        let named = |column: &ColumnInfo| {
            sql.columns.iter().find(|(_, name)| **name == column.name).map(|(field, _)| field.clone())
        };
        let usable = |name: &String| toolwright_query::Field::parse(name).is_ok() && !name.contains('.');
        info.columns.iter().map(|column| named(column).unwrap_or_else(|| column.name.clone())).filter(usable).collect()
    } else {
        declared
    };
    // The key as `id` is there by itself.
    all.into_iter().filter(|field| field != "id").collect()
}

fn column_of<'t>(sql: &SqlRecords, field: &str, info: &'t TableInfo) -> Option<&'t ColumnInfo> {
    find(info, sql.columns.get(field).map_or(field, String::as_str))
}

fn find<'t>(info: &'t TableInfo, name: &str) -> Option<&'t ColumnInfo> {
    info.columns.iter().find(|column| column.name == name)
}

fn made(field: &str, column: &ColumnInfo, wrong: &mut impl FnMut(String, String), place: &str) -> Option<TableColumn> {
    let made = TableColumn::new(field, &column.name, column.holds);
    made.map_err(|error| wrong(place.to_owned(), error.to_string())).ok()
}

fn escaped(name: &str) -> String {
    name.replace('~', "~0").replace('/', "~1")
}
