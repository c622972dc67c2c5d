//! Maps the fields of a type to the columns of its table.

use toolwright_query::sql::{ColumnType, Layout, TableColumn, TableName};
use toolwright_store::{ColumnInfo, ExternalTable, TableInfo, WritableColumn};
use toolwright_tools::DefinitionIssue;
use toolwright_types::{SqlRecords, TypeDefinition};

use super::schema_and_table;
use toolwright_catalog::entity_type::field_schema;

/// Maps a definition to its table, or returns all issues of the definition.
pub(super) fn map_table(
    definition: &TypeDefinition,
    sql: &SqlRecords,
    info: &TableInfo,
) -> Result<ExternalTable, Vec<DefinitionIssue>> {
    let mut issues = Vec::new();
    let mut report = |path: String, message: String| issues.push(DefinitionIssue { path, message });
    let key = column_for(sql, &sql.id_field, info)
        .and_then(|column| writable_column(info, &sql.id_field, column, &mut report, "/records/idField"));
    if key.is_none() {
        let name = sql.columns.get(&sql.id_field).unwrap_or(&sql.id_field);
        report("/records/idField".to_owned(), format!("table `{}` has no column `{name}`", sql.table));
    }
    if let Some(key) = key.as_ref().filter(|key| sql.writable && !info.view && !info.unique.contains(&key.name)) {
        let rule = "writable records need a unique id: name the primary key or a column with a unique index";
        report("/records/idField".to_owned(), format!("several rows may have the same `{}`; {rule}", key.name));
    }
    for (field, column) in &sql.columns {
        if find_column(info, column).is_none() {
            let path = format!("/records/columns/{}", escape_pointer(field));
            report(path, format!("table `{}` has no column `{column}`", sql.table));
        }
    }
    let version = sql.version_field.as_deref().and_then(|field| version_column(sql, field, info, &mut report));
    if sql.writable && info.view {
        report("/records/writable".to_owned(), format!("`{}` is a view, and views are read-only", sql.table));
    }
    let mut columns: Vec<WritableColumn> = Vec::new();
    for field in mapped_fields(definition, sql, info) {
        match column_for(sql, &field, info) {
            Some(column) => {
                let is_reference = definition.relations.iter().any(|relation| relation.field == field);
                let path = format!("/jsonSchema/properties/{}", escape_pointer(&field));
                let mapped = writable_column(info, &field, column, &mut report, &path);
                // Ids of records are strings. So a column that refers to other records is read as a string too.
                columns.extend(mapped.map(|mapped| match is_reference {
                    true => WritableColumn { column: mapped.column.as_reference(), ..mapped },
                    false => mapped,
                }));
            }
            None if sql.columns.contains_key(&field) => {}
            None => report(
                format!("/jsonSchema/properties/{}", escape_pointer(&field)),
                format!(
                    "table `{}` has no column `{field}`; map it in `records.columns`, or remove the field",
                    sql.table
                ),
            ),
        }
    }
    if sql.writable {
        check_shared_columns(sql, key.as_ref(), version.as_ref(), &columns, &mut report);
    }
    let name = match schema_and_table(&sql.table) {
        (_, table) if info.schema.is_none() => TableName::new(None, table),
        (schema, table) => TableName::new(Some(schema), table),
    };
    let name = name.map_err(|error| report("/records/table".to_owned(), error.to_string())).ok();
    match (name, key, issues.is_empty()) {
        (Some(name), Some(key), true) => {
            let fields = columns.iter().chain(&version).map(|column| column.column.clone());
            let layout = Layout::from_columns(key.column.clone(), fields);
            Ok(ExternalTable { name, layout, key, columns, version })
        }
        _ => Err(issues),
    }
}

/// Reports fields that share a column, because one write could set two values for the column.
fn check_shared_columns(
    sql: &SqlRecords,
    key: Option<&WritableColumn>,
    version: Option<&WritableColumn>,
    columns: &[WritableColumn],
    report: &mut impl FnMut(String, String),
) {
    if let (Some(key), Some(version)) = (key, version)
        && key.name == version.name
    {
        let message = format!("column `{}` is the key and cannot be the version too", key.name);
        report("/records/versionField".to_owned(), message);
    }
    for (at, column) in columns.iter().enumerate() {
        let own = column.field == sql.id_field;
        let taken = columns.iter().take(at).any(|other| other.name == column.name)
            || version.is_some_and(|version| version.name == column.name)
            || key.is_some_and(|key| key.name == column.name && !own);
        if taken {
            let path = format!("/records/columns/{}", escape_pointer(&column.field));
            report(path, format!("column `{}` is already mapped to another field; remove one of them", column.name));
        }
    }
}

/// Returns the fields that the schema declares, or every column if it declares none.
fn mapped_fields(definition: &TypeDefinition, sql: &SqlRecords, info: &TableInfo) -> Vec<String> {
    let schema = definition.effective_schema();
    let declared: Vec<String> = field_schema::properties(&schema).map(|(name, _)| name.clone()).collect();
    let all = if declared.is_empty() {
        let named = |column: &ColumnInfo| {
            sql.columns.iter().find(|(_, name)| **name == column.name).map(|(field, _)| field.clone())
        };
        let usable = |name: &String| toolwright_query::Field::parse(name).is_ok() && !name.contains('.');
        info.columns.iter().map(|column| named(column).unwrap_or_else(|| column.name.clone())).filter(usable).collect()
    } else {
        declared
    };
    // The caller maps `id` and the version field separately.
    let is_version =
        |field: &str| sql.version_field.as_deref().is_some_and(|own| own == field || field == VERSION_FIELD);
    all.into_iter().filter(|field| field != "id" && !is_version(field)).collect()
}

/// The name of the record field that contains the version.
const VERSION_FIELD: &str = "version";

fn version_column(
    sql: &SqlRecords,
    field: &str,
    info: &TableInfo,
    report: &mut impl FnMut(String, String),
) -> Option<WritableColumn> {
    const PATH: &str = "/records/versionField";
    match column_for(sql, field, info) {
        Some(column) if column.holds == ColumnType::Integer && !column.computed => {
            writable_column(info, VERSION_FIELD, column, report, PATH)
        }
        Some(column) => {
            let kind = if column.declared.is_empty() { "untyped" } else { &column.declared };
            report(PATH.to_owned(), format!("must be an integer column, and column `{}` is {kind}", column.name));
            None
        }
        None => {
            let name = sql.columns.get(field).map_or(field, String::as_str);
            report(PATH.to_owned(), format!("table `{}` has no column `{name}`", sql.table));
            None
        }
    }
}

fn column_for<'t>(sql: &SqlRecords, field: &str, info: &'t TableInfo) -> Option<&'t ColumnInfo> {
    find_column(info, sql.columns.get(field).map_or(field, String::as_str))
}

fn find_column<'t>(info: &'t TableInfo, name: &str) -> Option<&'t ColumnInfo> {
    info.columns.iter().find(|column| column.name == name)
}

fn writable_column(
    info: &TableInfo,
    field: &str,
    column: &ColumnInfo,
    report: &mut impl FnMut(String, String),
    path: &str,
) -> Option<WritableColumn> {
    let mapped = TableColumn::new(field, &column.name, column.holds);
    let mapped = mapped.map_err(|error| report(path.to_owned(), error.to_string())).ok()?;
    // A table without a schema is in SQLite, where a column whose declared type contains `BLOB` stores bytes.
    let blob = info.schema.is_none() && column.declared.to_ascii_uppercase().contains("BLOB");
    Some(WritableColumn {
        field: field.to_owned(),
        name: column.name.clone(),
        column: mapped,
        holds: column.holds,
        has_default: column.has_default,
        computed: column.computed,
        bytes: blob || column.holds == ColumnType::Bytes,
    })
}

pub(super) fn escape_pointer(name: &str) -> String {
    name.replace('~', "~0").replace('/', "~1")
}
