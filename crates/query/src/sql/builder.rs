//! Compiles a filter to an SQL condition.
//!
//! A condition is NULL if the type of a value differs from the type that the condition expects. NULL and false have the
//! same effect: a row matches only if the whole condition is true, and a negation is written as `IS NOT TRUE`.

use super::columns::TableColumn;
use super::dialect::{path, sqlite_path_segment};
use super::layout::{IdColumn, IndexKind, Layout};
use super::value::Scalar;
use super::{Dialect, Fragment, Param};
use crate::filter::{Bound, Like, Predicate, ValueSet, ValueTest, Words};
use crate::{Case, CompareOp, Field};

pub(super) struct Builder<'l> {
    pub layout: &'l Layout,
    pub dialect: Dialect,
    first: usize,
    params: Vec<Param>,
    /// The number of subquery aliases that exist so far.
    aliases: usize,
}

/// The JSON object that contains a field.
pub(super) enum Container {
    Record,
    /// An element of an array, identified by the alias of its row in a subquery.
    Element(String),
}

/// The SQL that converts each item of a list to an SQL value. The whole list is one parameter: the text of a JSON
/// array.
pub(super) struct ItemCast {
    sqlite: &'static str,
    postgres: &'static str,
}

pub(super) const TEXT: ItemCast = ItemCast { sqlite: "value", postgres: "" };
const TIMESTAMP: ItemCast = ItemCast { sqlite: "value", postgres: "::bigint" };
pub(super) const INTEGER: ItemCast = ItemCast { sqlite: "value", postgres: "::bigint" };
pub(super) const UUID: ItemCast = ItemCast { sqlite: "value", postgres: "::uuid" };
/// The SQLite expression adds 0.0 instead of using `CAST`. With `CAST`, the list would have another type affinity than
/// the indexed expression, and SQLite would not use the index.
pub(super) const NUMBER: ItemCast = ItemCast { sqlite: "value + 0.0", postgres: "::float8" };

impl<'l> Builder<'l> {
    pub(super) fn new(layout: &'l Layout, dialect: Dialect, first: usize) -> Self {
        Self { layout, dialect, first, params: Vec::new(), aliases: 0 }
    }

    pub(super) fn finish(self, sql: String) -> Fragment {
        Fragment { sql, params: self.params }
    }

    pub(super) fn bind_text(&mut self, text: impl Into<String>) -> String {
        self.bind(Param::Text(text.into()))
    }

    pub(super) fn bind(&mut self, param: Param) -> String {
        self.params.push(param);
        format!("${}", self.first + self.params.len() - 1)
    }

    fn alias(&mut self) -> String {
        self.aliases += 1;
        format!("v{}", self.aliases)
    }

    pub(super) fn predicate(&mut self, predicate: &Predicate, container: &Container) -> String {
        match predicate {
            Predicate::And(parts) => {
                let parts = self.predicates(parts, container);
                join_conditions(parts, "AND").unwrap_or_else(|| "(1 = 1)".to_owned())
            }
            Predicate::Or(parts) => {
                let parts = self.predicates(parts, container);
                join_conditions(parts, "OR").unwrap_or_else(|| "(1 = 0)".to_owned())
            }
            Predicate::Not(inner) => format!("({} IS NOT TRUE)", self.predicate(inner, container)),
            Predicate::Shared(inner) => self.predicate(inner, container),
            Predicate::Present(field) => self.present(field, container),
            Predicate::Value { field, value_test } => self.value(field, value_test, container),
            Predicate::Element { field, inner } => self.element(field, inner, container),
            Predicate::Ids(ids) => self.ids(ids, container),
            Predicate::Words(words) => self.words(words),
        }
    }

    fn predicates(&mut self, parts: &[Predicate], container: &Container) -> Vec<String> {
        parts.iter().map(|part| self.predicate(part, container)).collect()
    }

    fn present(&mut self, field: &Field, container: &Container) -> String {
        if let (Container::Record, Some(column)) = (container, self.layout.column(field)) {
            return format!("({} IS NOT NULL)", column.column);
        }
        match self.dialect {
            Dialect::Sqlite => {
                let (rows, last) = self.sqlite_rows(field, container);
                exists(&rows, &format!("json_type({last}) <> 'null'"))
            }
            Dialect::Postgres => {
                let (rows, row) = self.postgres_rows(field, container, "");
                exists(&[rows], &format!("jsonb_typeof({row}) <> 'null'"))
            }
        }
    }

    fn value(&mut self, field: &Field, value_test: &ValueTest, container: &Container) -> String {
        if let (Container::Record, Some(searchable)) = (container, self.layout.searchable_field(field)) {
            let scalar = self.dialect.searchable(&self.layout.json_containing(field, self.dialect), searchable);
            return self.value_test(value_test, &scalar, Some(searchable.kind));
        }
        if let (Container::Record, Some(column)) = (container, self.layout.column(field)) {
            let condition = self.value_test(value_test, &column.scalar(self.dialect), None);
            // Every row that satisfies the condition also satisfies the prefilter. The prefilter can use an index of
            // the table.
            let prefilter = self.prefilter(column, value_test);
            return join_conditions(prefilter.into_iter().chain([condition]).collect(), "AND").unwrap_or_default();
        }
        let (rows, scalar) = match self.dialect {
            Dialect::Sqlite => {
                let (mut rows, last) = self.sqlite_rows(field, container);
                let row = self.alias();
                rows.push(format!("json_each({}) AS {row}", elements_or_itself(&last)));
                (rows, Scalar { json_type: format!("{row}.type"), value: format!("{row}.value") })
            }
            Dialect::Postgres => {
                let (rows, row) = self.postgres_rows(field, container, "[*]");
                (vec![rows], Scalar { json_type: format!("jsonb_typeof({row})"), value: format!("({row} #>> '{{}}')") })
            }
        };
        let condition = self.value_test(value_test, &scalar, None);
        exists(&rows, &condition)
    }

    fn element(&mut self, field: &Field, inner: &Predicate, container: &Container) -> String {
        let row;
        let rows = match self.dialect {
            Dialect::Sqlite => {
                let (mut rows, last) = self.sqlite_rows(field, container);
                row = self.alias();
                rows.push(format!("json_each(CASE json_type({last}) WHEN 'array' THEN {last} END) AS {row}"));
                rows
            }
            Dialect::Postgres => {
                let (rows, array) = self.postgres_rows(field, container, "");
                row = self.alias();
                let items = format!("CASE jsonb_typeof({array}) WHEN 'array' THEN {array} END");
                vec![rows, format!("jsonb_array_elements({items}) AS {row}({row})")]
            }
        };
        let condition = self.predicate(inner, &Container::Element(row));
        exists(&rows, &condition)
    }

    /// Returns calls of `json_each` that iterate over the arrays on the path, and an expression for the JSON value at
    /// the end of the path.
    fn sqlite_rows(&mut self, field: &Field, container: &Container) -> (Vec<String>, String) {
        let mut rows = Vec::new();
        let mut last = match container {
            Container::Record => self.layout.json_containing(field, Dialect::Sqlite),
            Container::Element(row) => object_in(row),
        };
        for (index, name) in field.segments().enumerate() {
            if index > 0 {
                let row = self.alias();
                rows.push(format!("json_each({}) AS {row}", elements_or_itself(&last)));
                last = object_in(&row);
            }
            let segment = self.bind_text(sqlite_path_segment(name));
            last = format!("({last} -> {segment})");
        }
        (rows, last)
    }

    /// Returns a call of `jsonb_path_query` that iterates over the values at the end of the path, and the alias of its
    /// rows. A JSON path in Postgres continues into the elements of an array, as a field path does.
    fn postgres_rows(&mut self, field: &Field, container: &Container, end: &str) -> (String, String) {
        let path = self.bind_text(format!("{}{end}", path(field)));
        let within = match container {
            Container::Record => self.layout.json_containing(field, Dialect::Postgres),
            Container::Element(row) => format!("CASE jsonb_typeof({row}) WHEN 'object' THEN {row} END"),
        };
        let row = self.alias();
        (format!("jsonb_path_query({within}, {path}::jsonpath) AS {row}({row})"), row)
    }

    fn value_test(&mut self, value_test: &ValueTest, scalar: &Scalar, kind: Option<IndexKind>) -> String {
        let parts = match value_test {
            ValueTest::Bool(wanted) => self.boolean(*wanted, scalar, kind),
            ValueTest::In(values) => self.equal_any(values, scalar, kind),
            ValueTest::Compare(op, bound) => self.compare(*op, bound, scalar, kind),
            ValueTest::Like(like) => self.like(like, scalar, kind),
        };
        join_conditions(parts, "OR").unwrap_or_else(|| "(1 = 0)".to_owned())
    }

    fn boolean(&mut self, wanted: bool, scalar: &Scalar, kind: Option<IndexKind>) -> Vec<String> {
        let mut parts = Vec::new();
        if kind.is_none() {
            parts.push(format!("{} = '{wanted}'", scalar.boolean(self.dialect)));
        }
        if may_be_number(kind) {
            parts.push(format!("{} {} 0", scalar.number(self.dialect), if wanted { "<>" } else { "=" }));
        }
        if may_be_text(kind) {
            parts.push(format!("{} = '{wanted}'", scalar.folded(self.dialect)));
        }
        parts
    }

    fn equal_any(&mut self, values: &ValueSet, scalar: &Scalar, kind: Option<IndexKind>) -> Vec<String> {
        let mut parts = Vec::new();
        if may_be_text(kind) {
            parts.extend(self.exact(&values.exact, scalar, kind));
            parts.extend(self.is_in(&values.folded, &scalar.folded(self.dialect), TEXT));
            if !values.timestamps.is_empty() {
                // The timestamp expression is the longest of all expressions, so it is generated only if needed.
                parts.extend(self.is_in(&values.timestamps, &scalar.timestamp(self.dialect), TIMESTAMP));
            }
        }
        if may_be_number(kind) {
            parts.extend(self.is_in(&values.numbers, &scalar.number(self.dialect), NUMBER));
        }
        if kind.is_none() {
            let boolean = scalar.boolean(self.dialect);
            parts.extend(values.bools.iter().map(|wanted| format!("{boolean} = '{wanted}'")));
            if !values.ids.is_empty() || !values.folded_ids.is_empty() {
                let id = self.id_of(scalar);
                parts.extend(self.is_in(&values.ids, &id.text(self.dialect), TEXT));
                parts.extend(self.is_in(&values.folded_ids, &id.folded(self.dialect), TEXT));
            }
        }
        parts
    }

    /// Compares texts case-sensitively. For an indexed field, adds a comparison of the lower-case texts, because only
    /// this comparison can use the index.
    fn exact(&mut self, exact: &[String], scalar: &Scalar, kind: Option<IndexKind>) -> Option<String> {
        let text = self.is_in(exact, &scalar.text(self.dialect), TEXT)?;
        if kind != Some(IndexKind::Text) {
            return Some(text);
        }
        let folded: Vec<String> = exact.iter().map(|text| text.to_ascii_lowercase()).collect();
        let indexed = self.is_in(&folded, &scalar.folded(self.dialect), TEXT)?;
        Some(format!("({indexed} AND {text})"))
    }

    /// The `id` field of a value that is an object.
    fn id_of(&mut self, scalar: &Scalar) -> Scalar {
        let Scalar { json_type, value } = scalar;
        match self.dialect {
            Dialect::Sqlite => {
                let object = format!("CASE {json_type} WHEN 'object' THEN {value} END");
                Scalar {
                    json_type: format!("json_type({object}, '$.id')"),
                    value: format!("json_extract({object}, '$.id')"),
                }
            }
            Dialect::Postgres => {
                let object = format!("(CASE {json_type} WHEN 'object' THEN {value}::jsonb END)");
                Scalar { json_type: format!("jsonb_typeof({object} -> 'id')"), value: format!("({object} ->> 'id')") }
            }
        }
    }

    pub(super) fn is_in<T>(&mut self, items: &[T], value: &str, cast: ItemCast) -> Option<String>
    where
        T: Clone + Into<Param> + Into<serde_json::Value>,
    {
        match items {
            [] => None,
            [only] => Some(format!("{value} = {}", self.bind(only.clone().into()))),
            many => {
                let list = self.bind_text(serde_json::Value::from(many).to_string());
                Some(match self.dialect {
                    Dialect::Sqlite => format!("{value} IN (SELECT {} FROM json_each({list}))", cast.sqlite),
                    Dialect::Postgres => {
                        let items = format!("jsonb_array_elements_text({list}::jsonb){}", cast.postgres);
                        format!("{value} = ANY (ARRAY(SELECT {items}))")
                    }
                })
            }
        }
    }

    fn compare(&mut self, op: CompareOp, bound: &Bound, scalar: &Scalar, kind: Option<IndexKind>) -> Vec<String> {
        let operator = op.symbol();
        let mut parts = Vec::new();
        if let (true, Some((bound, case))) = (may_be_text(kind), &bound.text) {
            let value = match case {
                Case::Sensitive => scalar.text(self.dialect),
                Case::Insensitive => scalar.folded(self.dialect),
            };
            parts.push(format!("{value} {operator} {}", self.bind_text(bound.as_str())));
        }
        if let (true, Some(bound)) = (may_be_text(kind), bound.timestamp) {
            parts.push(format!("{} {operator} {}", scalar.timestamp(self.dialect), self.bind(Param::Integer(bound))));
        }
        if let (true, Some(bound)) = (may_be_number(kind), bound.number) {
            parts.push(format!("{} {operator} {}", scalar.number(self.dialect), self.bind(Param::Real(bound))));
        }
        parts
    }

    fn like(&mut self, like: &Like, scalar: &Scalar, kind: Option<IndexKind>) -> Vec<String> {
        if !may_be_text(kind) {
            return Vec::new();
        }
        let folded = scalar.folded(self.dialect);
        let (value, fold): (_, fn(&str) -> String) = match like.case {
            Case::Sensitive => (scalar.text(self.dialect), str::to_owned),
            Case::Insensitive => (folded.clone(), str::to_ascii_lowercase),
        };
        let matches = match self.dialect {
            Dialect::Sqlite => format!("{value} GLOB {}", self.bind_text(fold(&like.pattern.glob()))),
            Dialect::Postgres => format!("{value} LIKE {} ESCAPE '\\'", self.bind_text(fold(&like.pattern.like()))),
        };
        let prefix = like.pattern.prefix().to_ascii_lowercase();
        if kind != Some(IndexKind::Text) || prefix.is_empty() {
            return vec![matches];
        }
        // The texts that begin with `prefix` form a range, and a range condition can use the index.
        let from = self.bind_text(prefix.as_str());
        let mut parts = vec![format!("{folded} >= {from}")];
        if let Some(end) = prefix_end(&prefix) {
            parts.push(format!("{folded} < {}", self.bind_text(end)));
        }
        parts.push(matches);
        join_conditions(parts, "AND").into_iter().collect()
    }

    fn ids(&mut self, ids: &[String], container: &Container) -> String {
        let id = match (container, self.dialect) {
            (Container::Record, dialect) => match &self.layout.id {
                IdColumn::Key(key) => return self.key_in(key, ids),
                IdColumn::Text(id) if dialect == Dialect::Sqlite => id.to_string(),
                IdColumn::Text(id) => format!("{id} COLLATE \"C\""),
            },
            (Container::Element(row), Dialect::Sqlite) => {
                let object = object_in(row);
                let (json_type, value) =
                    (format!("json_type({object}, '$.id')"), format!("json_extract({object}, '$.id')"));
                Scalar { json_type, value }.text(Dialect::Sqlite)
            }
            (Container::Element(row), Dialect::Postgres) => {
                let (json_type, value) = (format!("jsonb_typeof({row} -> 'id')"), format!("({row} ->> 'id')"));
                Scalar { json_type, value }.text(Dialect::Postgres)
            }
        };
        self.is_in(ids, &id, TEXT).unwrap_or_else(|| "(1 = 0)".to_owned())
    }

    /// A condition that is true if at least one of the words occurs in a string of the record.
    // INVARIANT: the parser rejects `text(…)` inside `{…}`, so the container is always the record.
    fn words(&mut self, words: &Words) -> String {
        let (columns, rest) = self.layout.split_scalars(self.dialect);
        let parts: Vec<String> = [self.words_in_columns(words, columns), rest.map(|json| self.words_in(words, &json))]
            .into_iter()
            .flatten()
            .collect();
        join_conditions(parts, "OR").unwrap_or_else(|| "(1 = 0)".to_owned())
    }

    /// Searches the scalar columns without converting them to JSON. Converting them would take a hundred times as long.
    fn words_in_columns(&mut self, words: &Words, columns: Vec<&TableColumn>) -> Option<String> {
        let texts: Vec<String> = columns
            .into_iter()
            .filter(|column| column.may_be_text(self.dialect))
            .map(|column| column.scalar(self.dialect).folded(self.dialect))
            .collect();
        let list = serde_json::Value::from(words.list.as_slice()).to_string();
        let word = self.alias();
        let (rows, each): (_, fn(&str, &str) -> String) = match self.dialect {
            Dialect::Sqlite => ("json_each", |text, word| format!("instr({text}, {word}.value) > 0")),
            Dialect::Postgres => ("jsonb_array_elements_text", |text, word| format!("strpos({text}, {word}) > 0")),
        };
        let found = join_conditions(texts.iter().map(|text| each(text, &word)).collect(), "OR")?;
        let list = self.bind_text(list);
        let rows = match self.dialect {
            Dialect::Sqlite => format!("{rows}({list}) AS {word}"),
            Dialect::Postgres => format!("{rows}({list}::jsonb) AS {word}({word})"),
        };
        Some(exists(&[rows], &found))
    }

    fn words_in(&mut self, words: &Words, record: &str) -> String {
        let list = self.bind_text(serde_json::Value::from(words.list.as_slice()).to_string());
        let (value, word) = (self.alias(), self.alias());
        match self.dialect {
            Dialect::Sqlite => exists(
                &[format!("json_tree({record}) AS {value}"), format!("json_each({list}) AS {word}")],
                &format!("{value}.type = 'text' AND instr(lower({value}.value), {word}.value) > 0"),
            ),
            Dialect::Postgres => exists(
                &[
                    format!("jsonb_path_query({record}, 'strict $.**') AS {value}({value})"),
                    format!("jsonb_array_elements_text({list}::jsonb) AS {word}({word})"),
                ],
                &format!(
                    "jsonb_typeof({value}) = 'string' AND strpos(lower(({value} #>> '{{}}') COLLATE \"C\"), {word}) > 0"
                ),
            ),
        }
    }
}

fn may_be_text(kind: Option<IndexKind>) -> bool {
    kind != Some(IndexKind::Number)
}

fn may_be_number(kind: Option<IndexKind>) -> bool {
    matches!(kind, None | Some(IndexKind::Number))
}

/// SQLite: the JSON text of a `json_each` row if its value is an object, otherwise NULL. For scalars, the column
/// `value` is not JSON text.
fn object_in(row: &str) -> String {
    format!("CASE {row}.type WHEN 'object' THEN {row}.value END")
}

/// SQLite: wraps a value that is not an array into an array. `json_each` then returns the elements of an array, or the
/// single value.
fn elements_or_itself(json: &str) -> String {
    format!("CASE json_type({json}) WHEN 'array' THEN {json} ELSE json_array(json({json})) END")
}

fn exists(rows: &[String], condition: &str) -> String {
    match rows {
        [] => format!("({condition})"),
        rows => format!("EXISTS (SELECT 1 FROM {} WHERE {condition})", rows.join(" CROSS JOIN ")),
    }
}

/// Joins conditions as a balanced tree of nested parentheses, because databases limit the nesting depth of an
/// expression.
pub(super) fn join_conditions(mut parts: Vec<String>, operator: &str) -> Option<String> {
    if parts.len() < 2 {
        return parts.pop().map(|only| format!("({only})"));
    }
    let right = parts.split_off(parts.len() / 2);
    Some(format!("({} {operator} {})", join_conditions(parts, operator)?, join_conditions(right, operator)?))
}

/// Returns the smallest text that is greater than all texts with the prefix.
fn prefix_end(prefix: &str) -> Option<String> {
    let mut kept: Vec<char> = prefix.chars().collect();
    while let Some(last) = kept.pop() {
        let next = (u32::from(last) + 1..=u32::from(char::MAX)).find_map(char::from_u32);
        if let Some(next) = next {
            kept.push(next);
            return Some(kept.into_iter().collect());
        }
    }
    None
}
