//! Reads table descriptions from an SQLite schema.

use toolwright_query::sql::ColumnType;

/// The query returns one JSON text per table. `$1` is the table or null for all tables, `$2` the limit.
pub(super) const TABLES: &str = "
SELECT json_object(
    'schema', NULL,
    'name', m.name,
    'view', json(CASE m.type WHEN 'view' THEN 'true' ELSE 'false' END),
    'comment', NULL,
    'columns', (
        SELECT json_group_array(json_object(
            'name', x.name,
            'type', x.type,
            'nullable', json(CASE WHEN x.\"notnull\" = 1 OR x.pk > 0 THEN 'false' ELSE 'true' END),
            'has_default', json(CASE WHEN x.dflt_value IS NOT NULL OR (x.pk = 1 AND upper(x.type) = 'INTEGER'
                AND (SELECT max(k.pk) FROM pragma_table_xinfo(m.name) k) = 1) THEN 'true' ELSE 'false' END),
            'computed', json(CASE WHEN x.hidden IN (2, 3) THEN 'true' ELSE 'false' END)))
        FROM pragma_table_xinfo(m.name) x WHERE x.hidden <> 1 AND x.name <> ''),
    'key', (
        SELECT json_group_array(k.name)
        FROM (SELECT x.name FROM pragma_table_xinfo(m.name) x WHERE x.pk > 0 ORDER BY x.pk) k),
    'indexed', (
        SELECT json_group_array(DISTINCT i.name)
        FROM pragma_index_list(m.name) l JOIN pragma_index_info(l.name) i
        WHERE i.seqno = 0 AND i.name IS NOT NULL AND l.partial = 0),
    'unique', (
        SELECT json_group_array(u.name) FROM (
            SELECT min(i.name) AS name FROM pragma_index_list(m.name) l JOIN pragma_index_info(l.name) i
            WHERE l.\"unique\" = 1 AND l.partial = 0 GROUP BY l.name HAVING count(*) = 1 AND min(i.cid) >= 0
            UNION SELECT min(x.name) FROM pragma_table_xinfo(m.name) x WHERE x.pk > 0 HAVING count(*) = 1) u),
    'foreign_keys', (
        SELECT json_group_array(json_object('column', f.\"from\", 'table', f.\"table\", 'references', f.\"to\"))
        FROM pragma_foreign_key_list(m.name) f
        WHERE f.id NOT IN (SELECT g.id FROM pragma_foreign_key_list(m.name) g WHERE g.seq > 0))
)
FROM sqlite_schema m
WHERE m.type IN ('table', 'view')
    AND m.name NOT IN (SELECT l.name FROM pragma_table_list l WHERE l.type IN ('shadow', 'virtual'))
    AND m.name NOT LIKE 'sqlite\\_%' ESCAPE '\\' AND ($1 IS NULL OR m.name = $1)
ORDER BY m.name LIMIT $2";

/// Converts a declared SQLite type to a [`ColumnType`]. Common type names are checked first, then SQLite's rules for
/// type affinity apply.
pub(super) fn holds(declared: &str) -> ColumnType {
    let name = declared.to_ascii_uppercase();
    let has = |parts: &[&str]| parts.iter().any(|part| name.contains(part));
    match name.split('(').next().unwrap_or_default().trim() {
        "BOOLEAN" | "BOOL" => return ColumnType::Bool,
        "JSON" | "JSONB" => return ColumnType::Json,
        "DATE" => return ColumnType::Date,
        "DATETIME" | "TIMESTAMP" => return ColumnType::LocalTimestamp,
        _ => {}
    }
    if has(&["INT"]) {
        ColumnType::Integer
    } else if has(&["CHAR", "CLOB", "TEXT"]) {
        ColumnType::Text
    } else if has(&["REAL", "FLOA", "DOUB"]) {
        ColumnType::Double
    } else if name.is_empty() || has(&["BLOB", "UUID", "ENUM"]) {
        ColumnType::Other
    } else {
        ColumnType::Decimal
    }
}
