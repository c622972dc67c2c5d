//! Prefilters: additional conditions on the columns of an existing table. A prefilter can use the indexes of the table.
//!
//! A condition on the JSON of a row cannot use an index. If every matching row also satisfies a condition on the plain
//! column, that condition is added as a prefilter. It makes the statement faster and does not change its result.
//!
//! By default, texts are compared case-insensitively, and such a comparison cannot use an ordinary index.
//! Case-sensitive comparisons (`~cs`, lists, ids) can use an ordinary index.

use super::builder::{Builder, INTEGER, NUMBER, TEXT, UUID, join_conditions};
use super::columns::{ColumnType, TableColumn};
use super::{Dialect, Param};
use crate::CompareOp;
use crate::filter::{Bound, ValueSet, ValueTest};

/// A double represents every integer below this number exactly.
const MAX_EXACT_INTEGER: f64 = 9_007_199_254_740_992.0;

/// The maximum number of timestamps in a list for which a prefilter is generated. The prefilter compares them one by
/// one.
const MAX_TIMESTAMPS: usize = 16;

/// A condition that is never true.
const NEVER: &str = "(1 = 0)";

impl Builder<'_> {
    /// Returns a condition on the column. Every row whose value passes the test also satisfies this condition. Returns
    /// `None` if no such condition can use an index.
    pub(super) fn prefilter(&mut self, column: &TableColumn, value_test: &ValueTest) -> Option<String> {
        match value_test {
            ValueTest::In(values) => self.prefilter_equal(column, values),
            ValueTest::Compare(op, bound) => self.prefilter_compare(column, *op, bound),
            ValueTest::Bool(_) | ValueTest::Like(_) => None,
        }
    }

    /// The condition for the rows whose key, converted to text, is in `ids`.
    pub(super) fn key_in(&mut self, key: &TableColumn, ids: &[String]) -> String {
        if ids.is_empty() {
            return NEVER.to_owned();
        }
        match key.column_type {
            ColumnType::Integer => self.integer_in(key, ids),
            ColumnType::Uuid if self.dialect == Dialect::Postgres => self.uuid_in(key, ids),
            column_type => {
                let exact = self.equal_bytes(key, ids);
                match column_type {
                    ColumnType::Text => format!("({} AND {exact})", self.equal_in_column(key, ids)),
                    _ => exact,
                }
            }
        }
    }

    /// The condition for the rows whose key comes after the key of the row `id`.
    pub(super) fn after_key(&mut self, key: &TableColumn, id: &str) -> String {
        let key_value = match (key.column_type, self.dialect) {
            (ColumnType::Integer, _) => match canonical_integer(id) {
                Some(number) => self.bind(Param::Integer(number)),
                None => return NEVER.to_owned(),
            },
            (ColumnType::Uuid, Dialect::Postgres) if is_uuid(id) => format!("{}::uuid", self.bind_text(id)),
            (ColumnType::Uuid, Dialect::Postgres) => return NEVER.to_owned(),
            _ => self.bind_text(id),
        };
        format!("{} > {key_value}", key.order_expression(self.dialect))
    }

    fn prefilter_equal(&mut self, column: &TableColumn, values: &ValueSet) -> Option<String> {
        let ValueSet { exact, folded, numbers, timestamps, .. } = values;
        let by_id = column.is_text() && matches!(column.column_type, ColumnType::Integer | ColumnType::Uuid);
        match (column.column_type, self.dialect) {
            // Integers and UUIDs have no upper and lower case, so a case-insensitive test can use the index.
            (ColumnType::Integer, _) | (ColumnType::Uuid, Dialect::Postgres) if by_id => {
                let texts: Vec<String> = [exact, folded].into_iter().flatten().cloned().collect();
                Some(match column.column_type {
                    ColumnType::Integer => self.integer_in(column, &texts),
                    _ => self.uuid_in(column, &texts),
                })
            }
            (ColumnType::Text, _) if folded.is_empty() && timestamps.is_empty() => {
                Some(if exact.is_empty() { NEVER.to_owned() } else { self.equal_in_column(column, exact) })
            }
            _ if column.is_text() => None,
            (ColumnType::Integer, Dialect::Postgres)
                if numbers.iter().all(|number| number.abs() < MAX_EXACT_INTEGER) =>
            {
                let integers = numbers.iter().filter(|number| number.fract() == 0.0).map(|number| to_integer(*number));
                let integers: Vec<i64> = integers.collect();
                Some(self.is_in(&integers, &column.column, INTEGER).unwrap_or_else(|| NEVER.to_owned()))
            }
            // In SQLite, a column of any type may contain numbers and texts. Texts sort after all numbers, so `>= ''`
            // includes them.
            (ColumnType::Integer | ColumnType::Double | ColumnType::Float | ColumnType::Decimal, Dialect::Sqlite)
                if numbers.iter().all(|number| number.abs() < MAX_EXACT_INTEGER) =>
            {
                let equal = self.is_in(numbers, &column.column, NUMBER).unwrap_or_else(|| NEVER.to_owned());
                Some(format!("({equal} OR {} >= '')", column.column))
            }
            (ColumnType::Timestamp | ColumnType::LocalTimestamp | ColumnType::Date, Dialect::Postgres)
                if exact.is_empty() && folded.is_empty() && timestamps.len() <= MAX_TIMESTAMPS =>
            {
                let one = |at: &i64| {
                    let at = self.timestamp(column, *at);
                    format!("{} = {at}", column.column)
                };
                let all: Vec<String> = timestamps.iter().map(one).collect();
                Some(join_conditions(all, "OR").unwrap_or_else(|| NEVER.to_owned()))
            }
            _ => None,
        }
    }

    fn prefilter_compare(&mut self, column: &TableColumn, op: CompareOp, bound: &Bound) -> Option<String> {
        let operator = op.symbol();
        match (column.column_type, self.dialect) {
            _ if column.is_text() => None,
            (ColumnType::Integer | ColumnType::Double | ColumnType::Float | ColumnType::Decimal, Dialect::Sqlite) => {
                let number = bound.number.filter(|number| number.abs() < MAX_EXACT_INTEGER)?;
                let (c, number) = (&column.column, self.bind(Param::Real(number)));
                Some(format!("({c} {operator} {number} OR {c} >= '')"))
            }
            (ColumnType::Integer, Dialect::Postgres) => {
                let number = bound.number.filter(|number| number.abs() < MAX_EXACT_INTEGER)?;
                let (operator, bound) =
                    if operator.starts_with('<') { ("<=", number.ceil()) } else { (">=", number.floor()) };
                Some(format!("{} {operator} {}", column.column, self.bind(Param::Integer(to_integer(bound)))))
            }
            // In JSON, NaN and infinity are texts. A bound that can also be compared as a text could match these
            // values, although a numeric prefilter would exclude them. Such a bound therefore gets no prefilter.
            (ColumnType::Double, Dialect::Postgres) if bound.text.is_none() => {
                let number = self.bind(Param::Real(bound.number?));
                Some(format!("{} {operator} {number}", column.column))
            }
            (ColumnType::Decimal, Dialect::Postgres) if bound.text.is_none() => {
                // Only decimals with at most 15 digits are numbers in JSON. For these decimals, a `numeric` comparison
                // with the shortest decimal text of the bound gives the same result as a comparison of doubles.
                let number = self.bind_text(bound.number?.to_string());
                Some(format!("{} {operator} {number}::numeric", column.column))
            }
            (ColumnType::Timestamp | ColumnType::LocalTimestamp, Dialect::Postgres) if bound.text.is_none() => {
                let at = self.timestamp(column, bound.timestamp?);
                Some(format!("{} {operator} {at}", column.column))
            }
            (ColumnType::Date, Dialect::Postgres) if bound.text.is_none() => {
                let operator = if operator.starts_with('<') { "<=" } else { ">=" };
                let at = self.timestamp(column, bound.timestamp?);
                Some(format!("{} {operator} {at}", column.column))
            }
            _ => None,
        }
    }

    /// Converts a timestamp to the type of the column. For a date column, this is the date of the timestamp.
    fn timestamp(&mut self, column: &TableColumn, micros: i64) -> String {
        let at = self.bind(Param::Integer(micros));
        let timestamp = format!("timestamp '1970-01-01' + {at} * interval '1 microsecond'");
        match column.column_type {
            ColumnType::Timestamp => format!("(({timestamp}) AT TIME ZONE 'UTC')"),
            ColumnType::Date => format!("({timestamp})::date"),
            _ => format!("({timestamp})"),
        }
    }

    /// Compares with the collation of the column. Depending on the collation, texts that are not identical can match
    /// too.
    fn equal_in_column(&mut self, column: &TableColumn, texts: &[String]) -> String {
        self.is_in(texts, &column.column, TEXT).unwrap_or_else(|| NEVER.to_owned())
    }

    /// Compares the texts byte by byte.
    fn equal_bytes(&mut self, column: &TableColumn, texts: &[String]) -> String {
        let c = &column.column;
        let value = match self.dialect {
            Dialect::Sqlite => format!("(CAST({c} AS TEXT) || '')"),
            Dialect::Postgres => format!("({c}::text COLLATE \"C\")"),
        };
        self.is_in(texts, &value, TEXT).unwrap_or_else(|| NEVER.to_owned())
    }

    /// Compares the column with those `texts` that are integers in their usual form, such as `7`. An integer converted
    /// to text never equals another text, such as `07` or `+7`.
    fn integer_in(&mut self, column: &TableColumn, texts: &[String]) -> String {
        let numbers: Vec<i64> = texts.iter().filter_map(|text| canonical_integer(text)).collect();
        self.is_in(&numbers, &column.column, INTEGER).unwrap_or_else(|| NEVER.to_owned())
    }

    fn uuid_in(&mut self, column: &TableColumn, texts: &[String]) -> String {
        let lower = texts.iter().map(|text| text.to_ascii_lowercase());
        let texts: Vec<String> = lower.filter(|text| is_uuid(text)).collect();
        match texts.as_slice() {
            [] => NEVER.to_owned(),
            [one] => format!("{} = {}::uuid", column.column, self.bind_text(one.as_str())),
            many => self.is_in(many, &column.column, UUID).unwrap_or_default(),
        }
    }
}

/// Parses an integer. Rejects forms such as `07` or `+7` that are not the usual text of the integer.
fn canonical_integer(text: &str) -> Option<i64> {
    text.parse::<i64>().ok().filter(|number| number.to_string() == text)
}

fn is_uuid(text: &str) -> bool {
    let dashes = [8, 13, 18, 23];
    text.len() == 36
        && text.bytes().enumerate().all(|(at, byte)| match dashes.contains(&at) {
            true => byte == b'-',
            false => matches!(byte, b'0'..=b'9' | b'a'..=b'f'),
        })
}

/// Converts a double to an integer. The double must have no fraction and be below 2⁵³.
#[expect(clippy::cast_possible_truncation, reason = "the number has no fraction and is below 2⁵³")]
fn to_integer(number: f64) -> i64 {
    number as i64
}
