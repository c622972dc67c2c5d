//! One JSON value in SQL, as text, number or moment. Each expression is NULL when the value is of another kind, so that
//! comparing it is not true, whatever it is compared with.

use super::Dialect;

/// Two expressions that know a value: its JSON type, and itself as SQL.
#[derive(Debug, Clone)]
pub(super) struct Scalar {
    pub kind: String,
    pub value: String,
}

impl Scalar {
    /// The string, compared by code point.
    pub fn text(&self, dialect: Dialect) -> String {
        let Self { kind, value } = self;
        match dialect {
            Dialect::Sqlite => format!("CASE {kind} WHEN 'text' THEN {value} END"),
            Dialect::Postgres => format!("(CASE {kind} WHEN 'string' THEN {value} END) COLLATE \"C\""),
        }
    }

    /// The string with the letters of ASCII in lower case: in both databases, no others have a case without a library.
    pub fn folded(&self, dialect: Dialect) -> String {
        format!("lower({})", self.text(dialect))
    }

    /// The number as a double.
    pub fn number(&self, dialect: Dialect) -> String {
        let Self { kind, value } = self;
        match dialect {
            Dialect::Sqlite => format!("CASE WHEN {kind} IN ('integer', 'real') THEN CAST({value} AS REAL) END"),
            Dialect::Postgres => format!("CASE {kind} WHEN 'number' THEN ({value})::float8 END"),
        }
    }

    /// `true` or `false` as text.
    pub fn truth(&self, dialect: Dialect) -> String {
        let Self { kind, value } = self;
        match dialect {
            Dialect::Sqlite => format!("CASE WHEN {kind} IN ('true', 'false') THEN {kind} END"),
            Dialect::Postgres => format!("CASE {kind} WHEN 'boolean' THEN {value} END"),
        }
    }

    /// Microseconds since 1970 of a string that is a date or a time.
    pub fn moment(&self, dialect: Dialect) -> String {
        match dialect {
            Dialect::Sqlite => sqlite_moment(self),
            Dialect::Postgres => postgres_moment(self),
        }
    }
}

/// SQLite knows dates, but is generous: the shape is checked first, and a day of which it makes another is no date.
fn sqlite_moment(Scalar { kind, value: v }: &Scalar) -> String {
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
        "CASE WHEN {kind} IS NOT 'text' THEN NULL \
         WHEN {v} GLOB '{DAY}' THEN CASE WHEN {good_day} THEN unixepoch({v}) * 1000000 END \
         WHEN {v} GLOB '{DAY}{TIME}*' THEN CASE WHEN {good_day} AND substr({v}, 12, 2) < '24' AND {good_fraction} \
         THEN unixepoch(substr({v}, 1, 19) || {zone}) * 1000000 + {micros} END END"
    )
}

/// Postgres knows dates too, but stops the statement at one that does not exist, and what it reads depends on settings. So
/// the calendar is in a regular expression, and the rest is arithmetic that an index may contain.
fn postgres_moment(Scalar { kind, value: v }: &Scalar) -> String {
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
        "CASE WHEN {kind} IS DISTINCT FROM 'string' THEN NULL \
         WHEN {v} !~ '{SHAPE}' OR {v} ~ '^0000' THEN NULL \
         WHEN substr({v}, 6, 5) = '02-29' AND NOT {leap} THEN NULL \
         ELSE (({day} - make_date(1970, 1, 1))::bigint * 86400 + {hour} * 3600 + {minute} * 60 + {second} - {offset}) * 1000000 \
         + {micros} END"
    )
}
