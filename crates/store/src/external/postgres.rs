//! Reads table descriptions from the Postgres catalog.

use toolwright_query::sql::ColumnType;

/// The query returns one JSON text per table. `$1` is the schema, `$2` the table or null for all tables, `$3` the
/// limit.
pub(super) const TABLES: &str = "
SELECT jsonb_build_object(
    'schema', n.nspname,
    'name', c.relname,
    'view', c.relkind IN ('v', 'm'),
    'comment', obj_description(c.oid, 'pg_class'),
    'columns', (
        SELECT coalesce(jsonb_agg(jsonb_build_object(
            'name', a.attname,
            'type', coalesce(base.typname, type.typname),
            'category', coalesce(base.typcategory, type.typcategory)::text,
            'nullable', NOT (a.attnotnull OR type.typnotnull),
            'has_default', a.atthasdef OR a.attidentity <> '',
            'computed', a.attgenerated <> '' OR a.attidentity = 'a',
            'comment', col_description(c.oid, a.attnum),
            'digits', CASE WHEN type.typname = 'numeric' AND a.atttypmod > 4 THEN ((a.atttypmod - 4) >> 16) & 65535 END,
            'choices', (SELECT jsonb_agg(e.enumlabel ORDER BY e.enumsortorder) FROM pg_enum e
                        WHERE e.enumtypid = coalesce(base.oid, type.oid)),
            'check', (SELECT min(pg_get_constraintdef(k.oid)) FROM pg_constraint k
                      WHERE k.conrelid = c.oid AND k.contype = 'c' AND k.conkey = ARRAY[a.attnum])
        ) ORDER BY a.attnum), '[]')
        FROM pg_attribute a JOIN pg_type type ON type.oid = a.atttypid
        LEFT JOIN pg_type base ON type.typtype = 'd' AND base.oid = type.typbasetype
        WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
          AND has_column_privilege(c.oid, a.attnum, 'SELECT')),
    'key', (
        SELECT coalesce(jsonb_agg(a.attname ORDER BY place.at), '[]')
        FROM pg_index i CROSS JOIN LATERAL unnest(i.indkey::int2[]) WITH ORDINALITY AS place(attnum, at)
        JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum = place.attnum
        WHERE i.indrelid = c.oid AND i.indisprimary),
    'indexed', (
        SELECT coalesce(jsonb_agg(DISTINCT a.attname), '[]')
        FROM pg_index i JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum = i.indkey[0]
        WHERE i.indrelid = c.oid AND i.indisvalid AND i.indpred IS NULL),
    'unique', (
        SELECT coalesce(jsonb_agg(DISTINCT a.attname), '[]')
        FROM pg_index i JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum = i.indkey[0]
        WHERE i.indrelid = c.oid AND i.indisunique AND i.indisvalid AND i.indpred IS NULL AND i.indnkeyatts = 1),
    'foreign_keys', (
        SELECT coalesce(jsonb_agg(jsonb_build_object('column', a.attname, 'schema', other_schema.nspname,
            'table', other.relname, 'references', there.attname) ORDER BY a.attnum), '[]')
        FROM pg_constraint k
        JOIN pg_class other ON other.oid = k.confrelid
        JOIN pg_namespace other_schema ON other_schema.oid = other.relnamespace
        JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum = k.conkey[1]
        JOIN pg_attribute there ON there.attrelid = k.confrelid AND there.attnum = k.confkey[1]
        WHERE k.conrelid = c.oid AND k.contype = 'f' AND array_length(k.conkey, 1) = 1)
)::text
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE c.relkind IN ('r', 'p', 'v', 'm', 'f') AND NOT c.relispartition
  AND n.nspname = $1 AND ($2::text IS NULL OR c.relname = $2)
  AND (has_table_privilege(c.oid, 'SELECT') OR has_any_column_privilege(c.oid, 'SELECT'))
ORDER BY c.relname LIMIT $3";

/// Converts a Postgres type to a [`ColumnType`].
pub(super) fn holds(name: &str, category: &str) -> ColumnType {
    match (name, category) {
        ("text" | "varchar", _) => ColumnType::Text,
        ("int2" | "int4" | "int8", _) => ColumnType::Integer,
        ("float8", _) => ColumnType::Double,
        ("float4", _) => ColumnType::Float,
        ("numeric", _) => ColumnType::Decimal,
        ("bool", _) => ColumnType::Bool,
        ("timestamptz", _) => ColumnType::Timestamp,
        ("timestamp", _) => ColumnType::LocalTimestamp,
        ("date", _) => ColumnType::Date,
        ("uuid", _) => ColumnType::Uuid,
        ("bytea", _) => ColumnType::Bytes,
        ("json" | "jsonb", _) => ColumnType::Json,
        (_, "A" | "C") => ColumnType::Composite,
        _ => ColumnType::Other,
    }
}

/// Returns the strings that a check constraint allows. Postgres stores `IN (…)` as `CHECK ((status = ANY
/// (ARRAY['open'::text, …])))`. `None` for any other constraint.
pub(super) fn choices(check: &str) -> Option<Vec<String>> {
    let list = check.strip_prefix("CHECK (")?.split_once(" = ANY (")?.1;
    let list = list.trim_start_matches('(').strip_prefix("ARRAY[")?;
    let (mut found, mut rest) = (Vec::new(), list);
    loop {
        let (text, after) = literal(rest.strip_prefix('\'')?)?;
        found.push(text);
        let after = after.trim_start_matches(|c: char| c.is_ascii_alphanumeric() || matches!(c, ':' | ' ' | '_'));
        match after.strip_prefix(", ").or_else(|| after.strip_prefix(',')) {
            Some(next) => rest = next.trim_start(),
            None => {
                // The constraint must end here. A further condition, such as `OR …`, could allow other values.
                let end = after.strip_prefix(']')?;
                let closing = |c: char| matches!(c, ')' | ':' | '[' | ']') || c.is_ascii_lowercase();
                return end.chars().all(closing).then_some(found);
            }
        }
    }
}

/// Parses a string literal up to its closing quote. Returns the string and the remaining text.
fn literal(text: &str) -> Option<(String, &str)> {
    let mut found = String::new();
    let mut rest = text;
    loop {
        let (part, after) = rest.split_once('\'')?;
        found.push_str(part);
        match after.strip_prefix('\'') {
            Some(more) => {
                found.push('\'');
                rest = more;
            }
            None => return Some((found, after)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn choices_are_returned_only_for_a_check_constraint_with_a_plain_string_list() {
        for (check, expected) in [
            ("CHECK ((status = ANY (ARRAY['open'::text, 'paid'::text])))", Some(vec!["open", "paid"])),
            (
                "CHECK (((status)::text = ANY ((ARRAY['it''s'::character varying, 'b'::character varying])::text[])))",
                Some(vec!["it's", "b"]),
            ),
            ("CHECK ((total > (0)::numeric))", None),
            ("CHECK (((status = ANY (ARRAY['a'::text])) OR (status IS NULL)))", None),
            ("CHECK ((n = ANY (ARRAY[1, 2])))", None),
            ("CHECK ((status <> ALL (ARRAY['a'::text])))", None),
            ("CHECK ((status = ANY (ARRAY['a", None),
        ] {
            let found = choices(check);
            let found: Option<Vec<&str>> = found.as_ref().map(|list| list.iter().map(String::as_str).collect());
            assert_eq!(found, expected, "{check}");
        }
    }
}
