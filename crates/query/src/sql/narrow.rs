//! What the indexes of somebody else's table can find.
//!
//! A condition on JSON that is made of a row uses no index. So beside it stands a condition on the column itself wherever
//! there is one that the first implies: it changes nothing but the time.
//!
//! Texts are equal in any case of letters, which no plain index serves; what is compared exactly (`~cs`, lists, ids) does.

use super::builder::{Builder, INTEGER, NUMBER, TEXT, UUID, joined};
use super::columns::{Holds, TableColumn};
use super::{Dialect, Param};
use crate::Order;
use crate::filter::{Among, Limit, Probe};

/// Whole numbers up to here are told apart by doubles.
const EXACT: f64 = 9_007_199_254_740_992.0;

/// Moments of a list that are looked up one by one.
const MOST_MOMENTS: usize = 16;

const NOTHING: &str = "(1 = 0)";

impl Builder<'_> {
    /// A condition on the column that every row fulfils whose field passes; none if there is no useful one.
    pub(super) fn narrowed(&mut self, column: &TableColumn, probe: &Probe) -> Option<String> {
        match probe {
            Probe::Among(among) => self.narrowed_among(column, among),
            Probe::Order(order, limit) => self.narrowed_order(column, *order, limit),
            Probe::Truth(_) | Probe::Like(_) => None,
        }
    }

    /// The rows with these keys.
    pub(super) fn keys(&mut self, key: &TableColumn, ids: &[String]) -> String {
        if ids.is_empty() {
            return NOTHING.to_owned();
        }
        match key.holds {
            Holds::Integer => self.integers(key, ids),
            Holds::Uuid if self.dialect == Dialect::Postgres => self.uuids(key, ids),
            holds => {
                let exact = self.exactly(key, ids);
                match holds {
                    Holds::Text => format!("({} AND {exact})", self.indexed(key, ids)),
                    _ => exact,
                }
            }
        }
    }

    /// The rows whose key comes after this one, in the order of the key.
    pub(super) fn after_key(&mut self, key: &TableColumn, id: &str) -> String {
        let place = match (key.holds, self.dialect) {
            (Holds::Integer, _) => match whole(id) {
                Some(number) => self.bind(Param::Integer(number)),
                None => return NOTHING.to_owned(),
            },
            (Holds::Uuid, Dialect::Postgres) if is_uuid(id) => format!("{}::uuid", self.text(id)),
            (Holds::Uuid, Dialect::Postgres) => return NOTHING.to_owned(),
            _ => self.text(id),
        };
        format!("{} > {place}", key.ordered(self.dialect))
    }

    fn narrowed_among(&mut self, column: &TableColumn, among: &Among) -> Option<String> {
        let Among { exact, folded, numbers, moments, .. } = among;
        let by_id = column.is_text() && matches!(column.holds, Holds::Integer | Holds::Uuid);
        match (column.holds, self.dialect) {
            // Their texts have no case.
            (Holds::Integer, _) | (Holds::Uuid, Dialect::Postgres) if by_id => {
                let texts: Vec<String> = [exact, folded].into_iter().flatten().cloned().collect();
                Some(match column.holds {
                    Holds::Integer => self.integers(column, &texts),
                    _ => self.uuids(column, &texts),
                })
            }
            (Holds::Text, _) if folded.is_empty() && moments.is_empty() => {
                Some(if exact.is_empty() { NOTHING.to_owned() } else { self.indexed(column, exact) })
            }
            _ if column.is_text() => None,
            (Holds::Integer, Dialect::Postgres) if numbers.iter().all(|number| number.abs() < EXACT) => {
                let whole = numbers.iter().filter(|number| number.fract() == 0.0).map(|number| as_integer(*number));
                let whole: Vec<i64> = whole.collect();
                Some(self.is_in(&whole, &column.column, INTEGER).unwrap_or_else(|| NOTHING.to_owned()))
            }
            // Any column of SQLite may hold any number, and texts, which come after all numbers.
            (Holds::Integer | Holds::Double | Holds::Float | Holds::Decimal, Dialect::Sqlite)
                if numbers.iter().all(|number| number.abs() < EXACT) =>
            {
                let among = self.is_in(numbers, &column.column, NUMBER).unwrap_or_else(|| NOTHING.to_owned());
                Some(format!("({among} OR {} >= '')", column.column))
            }
            (Holds::Moment | Holds::LocalMoment | Holds::Day, Dialect::Postgres)
                if exact.is_empty() && folded.is_empty() && moments.len() <= MOST_MOMENTS =>
            {
                let one = |at: &i64| {
                    let at = self.moment(column, *at);
                    format!("{} = {at}", column.column)
                };
                let all: Vec<String> = moments.iter().map(one).collect();
                Some(joined(all, "OR").unwrap_or_else(|| NOTHING.to_owned()))
            }
            _ => None,
        }
    }

    fn narrowed_order(&mut self, column: &TableColumn, order: Order, limit: &Limit) -> Option<String> {
        let sign = order.sign();
        match (column.holds, self.dialect) {
            _ if column.is_text() => None,
            (Holds::Integer | Holds::Double | Holds::Float | Holds::Decimal, Dialect::Sqlite) => {
                let number = limit.number.filter(|number| number.abs() < EXACT)?;
                let (c, number) = (&column.column, self.bind(Param::Real(number)));
                Some(format!("({c} {sign} {number} OR {c} >= '')"))
            }
            (Holds::Integer, Dialect::Postgres) => {
                let number = limit.number.filter(|number| number.abs() < EXACT)?;
                let (sign, bound) = if sign.starts_with('<') { ("<=", number.ceil()) } else { (">=", number.floor()) };
                Some(format!("{} {sign} {}", column.column, self.bind(Param::Integer(as_integer(bound)))))
            }
            // What is no number in JSON is a text there.
            (Holds::Double, Dialect::Postgres) if limit.text.is_none() => {
                let number = self.bind(Param::Real(limit.number?));
                Some(format!("{} {sign} {number}", column.column))
            }
            (Holds::Decimal, Dialect::Postgres) if limit.text.is_none() => {
                // The shortest text of a double is the decimal that became this double, if that had 15 digits.
                let number = self.text(limit.number?.to_string());
                Some(format!("{} {sign} {number}::numeric", column.column))
            }
            (Holds::Moment | Holds::LocalMoment, Dialect::Postgres) if limit.text.is_none() => {
                let at = self.moment(column, limit.moment?);
                Some(format!("{} {sign} {at}", column.column))
            }
            (Holds::Day, Dialect::Postgres) if limit.text.is_none() => {
                let sign = if sign.starts_with('<') { "<=" } else { ">=" };
                let at = self.moment(column, limit.moment?);
                Some(format!("{} {sign} {at}", column.column))
            }
            _ => None,
        }
    }

    /// A moment as the column has it; of a day, the day it is in.
    fn moment(&mut self, column: &TableColumn, micros: i64) -> String {
        let at = self.bind(Param::Integer(micros));
        let moment = format!("timestamp '1970-01-01' + {at} * interval '1 microsecond'");
        match column.holds {
            Holds::Moment => format!("(({moment}) AT TIME ZONE 'UTC')"),
            Holds::Day => format!("({moment})::date"),
            _ => format!("({moment})"),
        }
    }

    /// Equal as the column compares, which may find more than what is equal.
    fn indexed(&mut self, column: &TableColumn, texts: &[String]) -> String {
        self.is_in(texts, &column.column, TEXT).unwrap_or_else(|| NOTHING.to_owned())
    }

    /// Equal in every byte of the text.
    fn exactly(&mut self, column: &TableColumn, texts: &[String]) -> String {
        let c = &column.column;
        let value = match self.dialect {
            Dialect::Sqlite => format!("(CAST({c} AS TEXT) || '')"),
            Dialect::Postgres => format!("({c}::text COLLATE \"C\")"),
        };
        self.is_in(texts, &value, TEXT).unwrap_or_else(|| NOTHING.to_owned())
    }

    /// Those of the texts that are whole numbers as they are written out.
    fn integers(&mut self, column: &TableColumn, texts: &[String]) -> String {
        let numbers: Vec<i64> = texts.iter().filter_map(|text| whole(text)).collect();
        self.is_in(&numbers, &column.column, INTEGER).unwrap_or_else(|| NOTHING.to_owned())
    }

    fn uuids(&mut self, column: &TableColumn, texts: &[String]) -> String {
        let lower = texts.iter().map(|text| text.to_ascii_lowercase());
        let texts: Vec<String> = lower.filter(|text| is_uuid(text)).collect();
        match texts.as_slice() {
            [] => NOTHING.to_owned(),
            [one] => format!("{} = {}::uuid", column.column, self.text(one.as_str())),
            many => self.is_in(many, &column.column, UUID).unwrap_or_default(),
        }
    }
}

/// The number that a text is, if the number is written so.
fn whole(text: &str) -> Option<i64> {
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

/// A double below 2⁵³ without a fraction.
#[expect(clippy::cast_possible_truncation, reason = "the number has no fraction and fits")]
fn as_integer(number: f64) -> i64 {
    number as i64
}
