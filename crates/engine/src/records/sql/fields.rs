//! A type held against its table: which column each field is.

use toolwright_query::sql::{Holds, Layout, TableColumn, TableName};
use toolwright_store::{ColumnInfo, Table, TableInfo, WritableColumn};
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
        .and_then(|column| writable(info, &sql.id_field, column, &mut wrong, "/records/idField"));
    if key.is_none() {
        let name = sql.columns.get(&sql.id_field).unwrap_or(&sql.id_field);
        wrong("/records/idField".to_owned(), format!("table `{}` has no column `{name}`", sql.table));
    }
    if let Some(key) = key.as_ref().filter(|key| sql.writable && !info.view && !info.unique.contains(&key.name)) {
        let rule = "records are written where each has an id of its own: name the primary key, or a column with a unique index";
        wrong("/records/idField".to_owned(), format!("several rows may have the same `{}`; {rule}", key.name));
    }
    for (field, column) in &sql.columns {
        if find(info, column).is_none() {
            let path = format!("/records/columns/{}", escaped(field));
            wrong(path, format!("table `{}` has no column `{column}`", sql.table));
        }
    }
    let version = sql.version_field.as_deref().and_then(|field| version(sql, field, info, &mut wrong));
    if sql.writable && info.view {
        wrong("/records/writable".to_owned(), format!("`{}` is a view, and those are only read", sql.table));
    }
    let mut columns: Vec<WritableColumn> = Vec::new();
    for field in wanted(definition, sql, info) {
        match column_of(sql, &field, info) {
            Some(column) => {
                let refers = definition.relations.iter().any(|relation| relation.field == field);
                let place = format!("/jsonSchema/properties/{}", escaped(&field));
                // Ids are texts, and so is what refers to one.
                let made = writable(info, &field, column, &mut wrong, &place);
                columns.extend(made.map(|made| match refers {
                    true => WritableColumn { column: made.column.as_reference(), ..made },
                    false => made,
                }));
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
    if sql.writable {
        shared(sql, key.as_ref(), version.as_ref(), &columns, &mut wrong);
    }
    let name = match schema_and_table(&sql.table) {
        (_, table) if info.schema.is_none() => TableName::new(None, table),
        (schema, table) => TableName::new(Some(schema), table),
    };
    let name = name.map_err(|error| wrong("/records/table".to_owned(), error.to_string())).ok();
    match (name, key, issues.is_empty()) {
        (Some(name), Some(key), true) => {
            let fields = columns.iter().chain(&version).map(|column| column.column.clone());
            let layout = Layout::of_columns(key.column.clone(), fields);
            Ok(Table { name, layout, key, columns, version })
        }
        _ => Err(issues),
    }
}

/// Fields that share a column, which could be told two things at once.
fn shared(
    sql: &SqlRecords,
    key: Option<&WritableColumn>,
    version: Option<&WritableColumn>,
    columns: &[WritableColumn],
    wrong: &mut impl FnMut(String, String),
) {
    if let (Some(key), Some(version)) = (key, version)
        && key.name == version.name
    {
        let message = format!("column `{}` tells records apart, and cannot count their writes, too", key.name);
        wrong("/records/versionField".to_owned(), message);
    }
    for (at, column) in columns.iter().enumerate() {
        let own = column.field == sql.id_field;
        let taken = columns.iter().take(at).any(|other| other.name == column.name)
            || version.is_some_and(|version| version.name == column.name)
            || key.is_some_and(|key| key.name == column.name && !own);
        if taken {
            let path = format!("/records/columns/{}", escaped(&column.field));
            wrong(path, format!("column `{}` is another field already; leave one of them out", column.name));
        }
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
    // The key as `id` is there by itself, and so is the version.
    let counts = |field: &str| sql.version_field.as_deref().is_some_and(|own| own == field || field == VERSION);
    all.into_iter().filter(|field| field != "id" && !counts(field)).collect()
}

/// What the column that counts writes is called in a record.
const VERSION: &str = "version";

fn version(
    sql: &SqlRecords,
    field: &str,
    info: &TableInfo,
    wrong: &mut impl FnMut(String, String),
) -> Option<WritableColumn> {
    const PLACE: &str = "/records/versionField";
    match column_of(sql, field, info) {
        Some(column) if column.holds == Holds::Integer && !column.computed => {
            writable(info, VERSION, column, wrong, PLACE)
        }
        Some(column) => {
            let kind = if column.declared.is_empty() { "of no type" } else { &column.declared };
            wrong(PLACE.to_owned(), format!("counts writes in whole numbers, and column `{}` is {kind}", column.name));
            None
        }
        None => {
            let name = sql.columns.get(field).map_or(field, String::as_str);
            wrong(PLACE.to_owned(), format!("table `{}` has no column `{name}`", sql.table));
            None
        }
    }
}

fn column_of<'t>(sql: &SqlRecords, field: &str, info: &'t TableInfo) -> Option<&'t ColumnInfo> {
    find(info, sql.columns.get(field).map_or(field, String::as_str))
}

fn find<'t>(info: &'t TableInfo, name: &str) -> Option<&'t ColumnInfo> {
    info.columns.iter().find(|column| column.name == name)
}

fn writable(
    info: &TableInfo,
    field: &str,
    column: &ColumnInfo,
    wrong: &mut impl FnMut(String, String),
    place: &str,
) -> Option<WritableColumn> {
    let made = TableColumn::new(field, &column.name, column.holds);
    let made = made.map_err(|error| wrong(place.to_owned(), error.to_string())).ok()?;
    // SQLite has no schemas, and bytes under any name that says so.
    let blob = info.schema.is_none() && column.declared.to_ascii_uppercase().contains("BLOB");
    Some(WritableColumn {
        field: field.to_owned(),
        name: column.name.clone(),
        column: made,
        holds: column.holds,
        filled: column.filled,
        computed: column.computed,
        bytes: blob || column.holds == Holds::Bytes,
    })
}

pub(super) fn escaped(name: &str) -> String {
    name.replace('~', "~0").replace('/', "~1")
}
