//! SQL expressions for a JSON value as text, number or timestamp. Each expression is NULL if the value has another
//! type. A comparison with NULL is never true.

use super::Dialect;

/// A JSON value as two SQL expressions: its JSON type and its SQL value.
#[derive(Debug, Clone)]
pub(super) struct Scalar {
    pub json_type: String,
    pub value: String,
}

impl Scalar {
    /// The string, compared by code point.
    pub(super) fn text(&self, dialect: Dialect) -> String {
        let Self { json_type, value } = self;
        match dialect {
            Dialect::Sqlite => format!("CASE {json_type} WHEN 'text' THEN {value} END"),
            Dialect::Postgres => format!("(CASE {json_type} WHEN 'string' THEN {value} END) COLLATE \"C\""),
        }
    }

    /// The string with ASCII letters in lower case. Other letters are unchanged, because both databases need an extra
    /// library to convert them.
    pub(super) fn folded(&self, dialect: Dialect) -> String {
        format!("lower({})", self.text(dialect))
    }

    /// The number as a double.
    pub(super) fn number(&self, dialect: Dialect) -> String {
        let Self { json_type, value } = self;
        match dialect {
            Dialect::Sqlite => format!("CASE WHEN {json_type} IN ('integer', 'real') THEN CAST({value} AS REAL) END"),
            Dialect::Postgres => format!("CASE {json_type} WHEN 'number' THEN ({value})::float8 END"),
        }
    }

    /// The boolean as the text `true` or `false`.
    pub(super) fn boolean(&self, dialect: Dialect) -> String {
        let Self { json_type, value } = self;
        match dialect {
            Dialect::Sqlite => format!("CASE WHEN {json_type} IN ('true', 'false') THEN {json_type} END"),
            Dialect::Postgres => format!("CASE {json_type} WHEN 'boolean' THEN {value} END"),
        }
    }

    /// A string with a date, or a date with a time, as microseconds since 1970.
    pub(super) fn timestamp(&self, dialect: Dialect) -> String {
        match dialect {
            Dialect::Sqlite => sqlite_timestamp(self),
            Dialect::Postgres => postgres_timestamp(self),
        }
    }
}

/// The date functions of SQLite accept invalid dates. The expression therefore checks the format first, and rejects a
/// date that SQLite would change, such as February 30.
fn sqlite_timestamp(Scalar { json_type, value: v }: &Scalar) -> String {
    const DAY: &str = "[0-9][0-9][0-9][0-9]-[0-9][0-9]-[0-9][0-9]";
    const TIME: &str = "T[0-2][0-9]:[0-5][0-9]:[0-5][0-9]";
    let tail = format!("substr({v}, 20)");
    let zone = format!(
        "CASE WHEN {tail} GLOB '*Z' THEN 'Z' WHEN {tail} GLOB '*[+-][01][0-9]:[0-5][0-9]' THEN substr({v}, -6) ELSE '' END"
    );
    let fraction = format!("substr({v}, 20, length({v}) - 19 - length({zone}))");
    let good_fraction = format!(
        "({fraction} = '' OR ({fraction} GLOB '.[0-9]*' AND substr({fraction}, 2) NOT GLOB '*[^0-9]*' \
         AND length({fraction}) <= 10))"
    );
    let good_day = format!("date(substr({v}, 1, 10)) = substr({v}, 1, 10) AND substr({v}, 1, 4) <> '0000'");
    let micros = format!("CAST(substr(substr({fraction}, 2) || '000000', 1, 6) AS INTEGER)");
    format!(
        "CASE WHEN {json_type} IS NOT 'text' THEN NULL \
         WHEN {v} GLOB '{DAY}' THEN CASE WHEN {good_day} THEN unixepoch({v}) * 1000000 END \
         WHEN {v} GLOB '{DAY}{TIME}*' THEN CASE WHEN {good_day} AND substr({v}, 12, 2) < '24' AND {good_fraction} \
         THEN unixepoch(substr({v}, 1, 19) || {zone}) * 1000000 + {micros} END END"
    )
}

/// The date functions of Postgres abort the statement for an invalid date, and their results depend on settings. The
/// expression therefore checks the date with a regular expression and computes the timestamp with integer arithmetic,
/// which is allowed in an index.
fn postgres_timestamp(Scalar { json_type, value: v }: &Scalar) -> String {
    const SHAPE: &str = "^[0-9]{4}-((0[13578]|1[02])-(0[1-9]|[12][0-9]|3[01])|(0[469]|11)-(0[1-9]|[12][0-9]|30)\
        |02-(0[1-9]|[12][0-9]))(T([01][0-9]|2[0-3])(:[0-5][0-9]){2}([.][0-9]{1,9})?\
        (Z|[+-](0[0-9]|1[0-4]):[0-5][0-9])?)?$";
    let year = format!("substr({v}, 1, 4)::int");
    let leap = format!("({year} % 4 = 0 AND ({year} % 100 <> 0 OR {year} % 400 = 0))");
    let day = format!("make_date({year}, substr({v}, 6, 2)::int, substr({v}, 9, 2)::int)");
    let part = |from: u8| format!("coalesce(nullif(substr({v}, {from}, 2), ''), '0')::bigint");
    let (hour, minute, second) = (part(12), part(15), part(18));
    let zone = format!("substring({v} from '[+-][0-9][0-9]:[0-9][0-9]$')");
    let offset = format!(
        "coalesce((left({zone}, 1) || '1')::bigint * (substr({zone}, 2, 2)::bigint * 3600 + substr({zone}, 5, 2)::bigint * 60), 0)"
    );
    let micros = format!("coalesce(rpad(substring({v} from '[.]([0-9]+)'), 6, '0'), '0')::bigint");
    format!(
        "CASE WHEN {json_type} IS DISTINCT FROM 'string' THEN NULL \
         WHEN {v} !~ '{SHAPE}' OR {v} ~ '^0000' THEN NULL \
         WHEN substr({v}, 6, 5) = '02-29' AND NOT {leap} THEN NULL \
         ELSE (({day} - make_date(1970, 1, 1))::bigint * 86400 + {hour} * 3600 + {minute} * 60 + {second} - {offset}) * 1000000 \
         + {micros} END"
    )
}
