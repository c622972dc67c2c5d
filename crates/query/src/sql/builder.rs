//! From a filter to a condition.
//!
//! Conditions may be NULL where a value is of another kind. A row is found when the whole is true, and every negation is
//! written `IS NOT TRUE`, so NULL and false are the same thing throughout.

use super::columns::TableColumn;
use super::dialect::{path, sqlite_step};
use super::layout::{Id, Kind, Layout};
use super::value::Scalar;
use super::{Dialect, Fragment, Param};
use crate::filter::{Among, Like, Limit, Probe, Test, Words};
use crate::{Case, Field, Order};

pub(super) struct Builder<'l> {
    pub layout: &'l Layout,
    pub dialect: Dialect,
    first: usize,
    params: Vec<Param>,
    /// Names given to rows of subqueries so far.
    aliases: usize,
}

/// What a field is looked up in.
pub(super) enum Place {
    Record,
    /// An element of an array, by the name of its row.
    Element(String),
}

/// How the items of a list, which is bound as one JSON text, become SQL values.
pub(super) struct Reading {
    sqlite: &'static str,
    postgres: &'static str,
}

pub(super) const TEXT: Reading = Reading { sqlite: "value", postgres: "" };
const MOMENT: Reading = Reading { sqlite: "value", postgres: "::bigint" };
pub(super) const INTEGER: Reading = Reading { sqlite: "value", postgres: "::bigint" };
pub(super) const UUID: Reading = Reading { sqlite: "value", postgres: "::uuid" };
/// A `CAST` in SQLite would give the list an affinity that the index does not have.
pub(super) const NUMBER: Reading = Reading { sqlite: "value + 0.0", postgres: "::float8" };

impl<'l> Builder<'l> {
    pub fn new(layout: &'l Layout, dialect: Dialect, first: usize) -> Self {
        Self { layout, dialect, first, params: Vec::new(), aliases: 0 }
    }

    pub fn finish(self, sql: String) -> Fragment {
        Fragment { sql, params: self.params }
    }

    pub fn text(&mut self, text: impl Into<String>) -> String {
        self.bind(Param::Text(text.into()))
    }

    pub fn bind(&mut self, param: Param) -> String {
        self.params.push(param);
        format!("${}", self.first + self.params.len() - 1)
    }

    fn alias(&mut self) -> String {
        self.aliases += 1;
        format!("v{}", self.aliases)
    }

    pub fn test(&mut self, test: &Test, place: &Place) -> String {
        match test {
            Test::All(parts) => {
                let parts = self.tests(parts, place);
                joined(parts, "AND").unwrap_or_else(|| "(1 = 1)".to_owned())
            }
            Test::Any(parts) => {
                let parts = self.tests(parts, place);
                joined(parts, "OR").unwrap_or_else(|| "(1 = 0)".to_owned())
            }
            Test::Not(inner) => format!("({} IS NOT TRUE)", self.test(inner, place)),
            Test::Shared(inner) => self.test(inner, place),
            Test::Present(field) => self.present(field, place),
            Test::Value { field, probe } => self.value(field, probe, place),
            Test::Element { field, inner } => self.element(field, inner, place),
            Test::Ids(ids) => self.ids(ids, place),
            Test::Words(words) => self.words(words),
        }
    }

    fn tests(&mut self, parts: &[Test], place: &Place) -> Vec<String> {
        parts.iter().map(|part| self.test(part, place)).collect()
    }

    fn present(&mut self, field: &Field, place: &Place) -> String {
        if let (Place::Record, Some(column)) = (place, self.layout.column(field)) {
            return format!("({} IS NOT NULL)", column.column);
        }
        match self.dialect {
            Dialect::Sqlite => {
                let (rows, last) = self.sqlite_rows(field, place);
                exists(&rows, &format!("json_type({last}) <> 'null'"))
            }
            Dialect::Postgres => {
                let (rows, row) = self.postgres_rows(field, place, "");
                exists(&[rows], &format!("jsonb_typeof({row}) <> 'null'"))
            }
        }
    }

    fn value(&mut self, field: &Field, probe: &Probe, place: &Place) -> String {
        if let (Place::Record, Some(searchable)) = (place, self.layout.find(field)) {
            let scalar = self.dialect.searchable(&self.layout.holding(field, self.dialect), searchable);
            return self.probe(probe, &scalar, Some(searchable.kind));
        }
        if let (Place::Record, Some(column)) = (place, self.layout.column(field)) {
            let condition = self.probe(probe, &column.scalar(self.dialect), None);
            // What an index of the table can find, and what the condition implies.
            let narrowed = self.narrowed(column, probe);
            return joined(narrowed.into_iter().chain([condition]).collect(), "AND").unwrap_or_default();
        }
        let (rows, scalar) = match self.dialect {
            Dialect::Sqlite => {
                let (mut rows, last) = self.sqlite_rows(field, place);
                let row = self.alias();
                rows.push(format!("json_each({}) AS {row}", elements_or_itself(&last)));
                (rows, Scalar { kind: format!("{row}.type"), value: format!("{row}.value") })
            }
            Dialect::Postgres => {
                let (rows, row) = self.postgres_rows(field, place, "[*]");
                (vec![rows], Scalar { kind: format!("jsonb_typeof({row})"), value: format!("({row} #>> '{{}}')") })
            }
        };
        let condition = self.probe(probe, &scalar, None);
        exists(&rows, &condition)
    }

    fn element(&mut self, field: &Field, inner: &Test, place: &Place) -> String {
        let row;
        let rows = match self.dialect {
            Dialect::Sqlite => {
                let (mut rows, last) = self.sqlite_rows(field, place);
                row = self.alias();
                rows.push(format!("json_each(CASE json_type({last}) WHEN 'array' THEN {last} END) AS {row}"));
                rows
            }
            Dialect::Postgres => {
                let (rows, array) = self.postgres_rows(field, place, "");
                row = self.alias();
                let items = format!("CASE jsonb_typeof({array}) WHEN 'array' THEN {array} END");
                vec![rows, format!("jsonb_array_elements({items}) AS {row}({row})")]
            }
        };
        let condition = self.test(inner, &Place::Element(row));
        exists(&rows, &condition)
    }

    /// Rows, one for each way through arrays to the object that holds the last name, and the JSON that is there.
    fn sqlite_rows(&mut self, field: &Field, place: &Place) -> (Vec<String>, String) {
        let mut rows = Vec::new();
        let mut last = match place {
            Place::Record => self.layout.holding(field, Dialect::Sqlite),
            Place::Element(row) => object_in(row),
        };
        for (index, name) in field.segments().enumerate() {
            if index > 0 {
                let row = self.alias();
                rows.push(format!("json_each({}) AS {row}", elements_or_itself(&last)));
                last = object_in(&row);
            }
            let step = self.text(sqlite_step(name));
            last = format!("({last} -> {step})");
        }
        (rows, last)
    }

    /// Rows of the values at the end of the path. Postgres' own paths go through arrays as ours do.
    fn postgres_rows(&mut self, field: &Field, place: &Place, end: &str) -> (String, String) {
        let path = self.text(format!("{}{end}", path(field)));
        let within = match place {
            Place::Record => self.layout.holding(field, Dialect::Postgres),
            Place::Element(row) => format!("CASE jsonb_typeof({row}) WHEN 'object' THEN {row} END"),
        };
        let row = self.alias();
        (format!("jsonb_path_query({within}, {path}::jsonpath) AS {row}({row})"), row)
    }

    fn probe(&mut self, probe: &Probe, scalar: &Scalar, kind: Option<Kind>) -> String {
        let parts = match probe {
            Probe::Truth(wanted) => self.truth(*wanted, scalar, kind),
            Probe::Among(among) => self.among(among, scalar, kind),
            Probe::Order(order, limit) => self.order(*order, limit, scalar, kind),
            Probe::Like(like) => self.like(like, scalar, kind),
        };
        joined(parts, "OR").unwrap_or_else(|| "(1 = 0)".to_owned())
    }

    fn truth(&mut self, wanted: bool, scalar: &Scalar, kind: Option<Kind>) -> Vec<String> {
        let mut parts = Vec::new();
        if kind.is_none() {
            parts.push(format!("{} = '{wanted}'", scalar.truth(self.dialect)));
        }
        if may_be_number(kind) {
            parts.push(format!("{} {} 0", scalar.number(self.dialect), if wanted { "<>" } else { "=" }));
        }
        if may_be_text(kind) {
            parts.push(format!("{} = '{wanted}'", scalar.folded(self.dialect)));
        }
        parts
    }

    fn among(&mut self, among: &Among, scalar: &Scalar, kind: Option<Kind>) -> Vec<String> {
        let mut parts = Vec::new();
        if may_be_text(kind) {
            parts.extend(self.exact(&among.exact, scalar, kind));
            parts.extend(self.is_in(&among.folded, &scalar.folded(self.dialect), TEXT));
            if !among.moments.is_empty() {
                // The longest of all expressions: made only when it is needed.
                parts.extend(self.is_in(&among.moments, &scalar.moment(self.dialect), MOMENT));
            }
        }
        if may_be_number(kind) {
            parts.extend(self.is_in(&among.numbers, &scalar.number(self.dialect), NUMBER));
        }
        if kind.is_none() {
            let truth = scalar.truth(self.dialect);
            parts.extend(among.truths.iter().map(|wanted| format!("{truth} = '{wanted}'")));
            if !among.ids.is_empty() || !among.folded_ids.is_empty() {
                let id = self.id_of(scalar);
                parts.extend(self.is_in(&among.ids, &id.text(self.dialect), TEXT));
                parts.extend(self.is_in(&among.folded_ids, &id.folded(self.dialect), TEXT));
            }
        }
        parts
    }

    /// An index knows texts in lower case; a text that is equal is also equal in lower case.
    fn exact(&mut self, exact: &[String], scalar: &Scalar, kind: Option<Kind>) -> Option<String> {
        let text = self.is_in(exact, &scalar.text(self.dialect), TEXT)?;
        if kind != Some(Kind::Text) {
            return Some(text);
        }
        let folded: Vec<String> = exact.iter().map(|text| text.to_ascii_lowercase()).collect();
        let indexed = self.is_in(&folded, &scalar.folded(self.dialect), TEXT)?;
        Some(format!("({indexed} AND {text})"))
    }

    /// The `id` of an object, as a value of its own.
    fn id_of(&mut self, scalar: &Scalar) -> Scalar {
        let Scalar { kind, value } = scalar;
        match self.dialect {
            Dialect::Sqlite => {
                let object = format!("CASE {kind} WHEN 'object' THEN {value} END");
                Scalar {
                    kind: format!("json_type({object}, '$.id')"),
                    value: format!("json_extract({object}, '$.id')"),
                }
            }
            Dialect::Postgres => {
                let object = format!("(CASE {kind} WHEN 'object' THEN {value}::jsonb END)");
                Scalar { kind: format!("jsonb_typeof({object} -> 'id')"), value: format!("({object} ->> 'id')") }
            }
        }
    }

    pub(super) fn is_in<T>(&mut self, items: &[T], value: &str, read: Reading) -> Option<String>
    where
        T: Clone + Into<Param> + Into<serde_json::Value>,
    {
        match items {
            [] => None,
            [only] => Some(format!("{value} = {}", self.bind(only.clone().into()))),
            many => {
                let list = self.text(serde_json::Value::from(many).to_string());
                Some(match self.dialect {
                    Dialect::Sqlite => format!("{value} IN (SELECT {} FROM json_each({list}))", read.sqlite),
                    Dialect::Postgres => {
                        let items = format!("jsonb_array_elements_text({list}::jsonb){}", read.postgres);
                        format!("{value} = ANY (ARRAY(SELECT {items}))")
                    }
                })
            }
        }
    }

    fn order(&mut self, order: Order, limit: &Limit, scalar: &Scalar, kind: Option<Kind>) -> Vec<String> {
        let sign = order.sign();
        let mut parts = Vec::new();
        if let (true, Some((limit, case))) = (may_be_text(kind), &limit.text) {
            let value = match case {
                Case::Sensitive => scalar.text(self.dialect),
                Case::Insensitive => scalar.folded(self.dialect),
            };
            parts.push(format!("{value} {sign} {}", self.text(limit.as_str())));
        }
        if let (true, Some(limit)) = (may_be_text(kind), limit.moment) {
            parts.push(format!("{} {sign} {}", scalar.moment(self.dialect), self.bind(Param::Integer(limit))));
        }
        if let (true, Some(limit)) = (may_be_number(kind), limit.number) {
            parts.push(format!("{} {sign} {}", scalar.number(self.dialect), self.bind(Param::Real(limit))));
        }
        parts
    }

    fn like(&mut self, like: &Like, scalar: &Scalar, kind: Option<Kind>) -> Vec<String> {
        if !may_be_text(kind) {
            return Vec::new();
        }
        let folded = scalar.folded(self.dialect);
        let (value, fold): (_, fn(&str) -> String) = match like.case {
            Case::Sensitive => (scalar.text(self.dialect), str::to_owned),
            Case::Insensitive => (folded.clone(), str::to_ascii_lowercase),
        };
        let matches = match self.dialect {
            Dialect::Sqlite => format!("{value} GLOB {}", self.text(fold(&like.pattern.glob()))),
            Dialect::Postgres => format!("{value} LIKE {} ESCAPE '\\'", self.text(fold(&like.pattern.like()))),
        };
        let prefix = like.pattern.prefix().to_ascii_lowercase();
        if kind != Some(Kind::Text) || prefix.is_empty() {
            return vec![matches];
        }
        // What begins with the prefix lies in a range, which an index can find.
        let from = self.text(prefix.as_str());
        let mut parts = vec![format!("{folded} >= {from}")];
        if let Some(end) = after_all_with(&prefix) {
            parts.push(format!("{folded} < {}", self.text(end)));
        }
        parts.push(matches);
        joined(parts, "AND").into_iter().collect()
    }

    fn ids(&mut self, ids: &[String], place: &Place) -> String {
        let id = match (place, self.dialect) {
            (Place::Record, dialect) => match &self.layout.id {
                Id::Key(key) => return self.keys(key, ids),
                Id::Text(id) if dialect == Dialect::Sqlite => id.to_string(),
                Id::Text(id) => format!("{id} COLLATE \"C\""),
            },
            (Place::Element(row), Dialect::Sqlite) => {
                let object = object_in(row);
                let (kind, value) = (format!("json_type({object}, '$.id')"), format!("json_extract({object}, '$.id')"));
                Scalar { kind, value }.text(Dialect::Sqlite)
            }
            (Place::Element(row), Dialect::Postgres) => {
                let (kind, value) = (format!("jsonb_typeof({row} -> 'id')"), format!("({row} ->> 'id')"));
                Scalar { kind, value }.text(Dialect::Postgres)
            }
        };
        self.is_in(ids, &id, TEXT).unwrap_or_else(|| "(1 = 0)".to_owned())
    }

    /// Every string of the record against every word.
    // INVARIANT: the parser refuses `text(…)` inside of `{…}`, so that the place is always the record.
    fn words(&mut self, words: &Words) -> String {
        let (columns, rest) = self.layout.parts(self.dialect);
        let parts: Vec<String> = [self.words_in_columns(words, columns), rest.map(|json| self.words_in(words, &json))]
            .into_iter()
            .flatten()
            .collect();
        joined(parts, "OR").unwrap_or_else(|| "(1 = 0)".to_owned())
    }

    /// Columns that hold one text each need not become JSON for that, which takes a hundred times as long.
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
        let found = joined(texts.iter().map(|text| each(text, &word)).collect(), "OR")?;
        let list = self.text(list);
        let rows = match self.dialect {
            Dialect::Sqlite => format!("{rows}({list}) AS {word}"),
            Dialect::Postgres => format!("{rows}({list}::jsonb) AS {word}({word})"),
        };
        Some(exists(&[rows], &found))
    }

    fn words_in(&mut self, words: &Words, record: &str) -> String {
        let list = self.text(serde_json::Value::from(words.list.as_slice()).to_string());
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

fn may_be_text(kind: Option<Kind>) -> bool {
    kind != Some(Kind::Number)
}

fn may_be_number(kind: Option<Kind>) -> bool {
    matches!(kind, None | Some(Kind::Number))
}

/// SQLite: the JSON text of a row of `json_each`, if it is an object. Its `value` is JSON text for objects and arrays only.
fn object_in(row: &str) -> String {
    format!("CASE {row}.type WHEN 'object' THEN {row}.value END")
}

/// SQLite: JSON text as an array, so that `json_each` gives elements or the value itself.
fn elements_or_itself(json: &str) -> String {
    format!("CASE json_type({json}) WHEN 'array' THEN {json} ELSE json_array(json({json})) END")
}

fn exists(rows: &[String], condition: &str) -> String {
    match rows {
        [] => format!("({condition})"),
        rows => format!("EXISTS (SELECT 1 FROM {} WHERE {condition})", rows.join(" CROSS JOIN ")),
    }
}

/// As a tree that is flat, since databases limit how deep a condition may be.
pub(super) fn joined(mut parts: Vec<String>, sign: &str) -> Option<String> {
    if parts.len() < 2 {
        return parts.pop().map(|only| format!("({only})"));
    }
    let right = parts.split_off(parts.len() / 2);
    Some(format!("({} {sign} {})", joined(parts, sign)?, joined(right, sign)?))
}

/// The first text that is greater than everything that begins with the prefix.
fn after_all_with(prefix: &str) -> Option<String> {
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
