//! Parses dates and times to microseconds.
//!
//! The generated SQL accepts the same formats as this module, in SQLite and in Postgres. `docs/queries.md` describes
//! the formats.

use std::fmt;

/// A date, or a date with a time, together with its original text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DateTimeLiteral {
    text: Box<str>,
    micros: i64,
}

impl DateTimeLiteral {
    pub(crate) fn parse(text: &str) -> Option<Self> {
        Some(Self { text: text.into(), micros: micros(text)? })
    }

    /// Microseconds since 1970-01-01T00:00:00Z.
    pub fn as_micros(&self) -> i64 {
        self.micros
    }
}

impl fmt::Display for DateTimeLiteral {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// Whether the text has the form `YYYY-MM-DD` with a plausible month and day. Does not check the calendar.
pub(crate) fn looks_like_date(text: &str) -> bool {
    let Ok([y1, y2, y3, y4, b'-', m1, m2, b'-', d1, d2]) = <[u8; 10]>::try_from(text.as_bytes()) else { return false };
    let month = matches!((m1, m2), (b'0', b'1'..=b'9') | (b'1', b'0'..=b'2'));
    let year = [y1, y2, y3, y4].iter().all(u8::is_ascii_digit);
    year && month && matches!(d1, b'0'..=b'3') && d2.is_ascii_digit()
}

/// Parses a date or a date with a time to microseconds since 1970. A date means midnight. Without an offset, the time
/// is UTC. Digits after the microseconds are ignored.
pub(crate) fn micros(text: &str) -> Option<i64> {
    let seconds = days(text.get(..10)?)?.checked_mul(86_400)?;
    let Some(time) = text.get(10..).filter(|time| !time.is_empty()) else {
        return seconds.checked_mul(1_000_000);
    };
    let clock = time.strip_prefix('T')?;
    let (clock, tail) = clock.split_at_checked(8)?;
    let (fraction, zone) = split_zone(tail);
    let seconds = seconds + seconds_of_day(clock)? - offset(zone)?;
    seconds.checked_mul(1_000_000)?.checked_add(sub_second(fraction)?)
}

fn days(text: &str) -> Option<i64> {
    let bytes = text.as_bytes();
    let (b'-', b'-') = (*bytes.get(4)?, *bytes.get(7)?) else { return None };
    let (year, month, day) = (number(text.get(..4)?)?, number(text.get(5..7)?)?, number(text.get(8..10)?)?);
    let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let last = match month {
        1 | 3 | 5 | 7 | 8 | 10 | 12 => 31,
        4 | 6 | 9 | 11 => 30,
        2 if leap => 29,
        2 => 28,
        _ => return None,
    };
    if year == 0 || !(1..=last).contains(&day) {
        return None;
    }
    // The calculation uses years that begin in March. The leap day is then the last day of the year, so every month
    // starts on the same day of each year.
    let year = if month <= 2 { year - 1 } else { year };
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    Some(365 * year + year / 4 - year / 100 + year / 400 + day_of_year - 719_468)
}

fn seconds_of_day(clock: &str) -> Option<i64> {
    let bytes = clock.as_bytes();
    let (b':', b':') = (*bytes.get(2)?, *bytes.get(5)?) else { return None };
    let (hour, minute, second) = (number(clock.get(..2)?)?, number(clock.get(3..5)?)?, number(clock.get(6..8)?)?);
    (hour < 24 && minute < 60 && second < 60).then_some(hour * 3600 + minute * 60 + second)
}

fn split_zone(tail: &str) -> (&str, &str) {
    if let Some(fraction) = tail.strip_suffix('Z') {
        return (fraction, "Z");
    }
    let signed = |at: &usize| tail.as_bytes().get(*at).is_some_and(|sign| matches!(sign, b'+' | b'-'));
    let cut = tail.len().checked_sub(6).filter(signed).unwrap_or(tail.len());
    tail.split_at_checked(cut).unwrap_or((tail, ""))
}

/// Parses an offset to seconds east of UTC. The maximum is 14:59.
fn offset(zone: &str) -> Option<i64> {
    if matches!(zone, "" | "Z") {
        return Some(0);
    }
    let b':' = *zone.as_bytes().get(3)? else { return None };
    let (hours, minutes) = (number(zone.get(1..3)?)?, number(zone.get(4..6)?)?);
    let seconds = (hours <= 14 && minutes < 60).then_some(hours * 3600 + minutes * 60)?;
    Some(if zone.starts_with('-') { -seconds } else { seconds })
}

fn sub_second(fraction: &str) -> Option<i64> {
    if fraction.is_empty() {
        return Some(0);
    }
    let digits = fraction.strip_prefix('.')?;
    if !(1..=9).contains(&digits.len()) {
        return None;
    }
    let micros = format!("{digits:0<6}");
    number(digits)?;
    number(micros.get(..6)?)
}

/// Parses digits. Rejects a sign, which `parse` would accept.
fn number(digits: &str) -> Option<i64> {
    digits.bytes().all(|byte| byte.is_ascii_digit()).then(|| digits.parse().ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn valid_dates_parse_to_microseconds_since_1970_and_invalid_dates_do_not_parse() {
        let cases = [
            ("1970-01-01", Some(0)),
            ("1970-01-02", Some(86_400_000_000)),
            ("1969-12-31T23:59:59.999999Z", Some(-1)),
            ("2000-02-29", Some(951_782_400_000_000)),
            ("2024-01-01T02:00:00+02:00", Some(1_704_067_200_000_000)),
            ("2024-01-01T00:00:00", Some(1_704_067_200_000_000)),
            ("2024-01-01T00:00:00.1234567Z", Some(1_704_067_200_123_456)),
            ("0001-01-01", Some(-62_135_596_800_000_000)),
            ("9999-12-31T23:59:59Z", Some(253_402_300_799_000_000)),
            ("1900-02-29", None),
            ("2024-02-30", None),
            ("0000-01-01", None),
            ("2024-01-01T24:00:00", None),
            ("2024-01-01T00:60:00", None),
            ("2024-01-01T00:00:00+15:00", None),
            ("2024-01-01T00:00:00.", None),
            ("2024-01-01T00:00:00.1234567890", None),
            ("2024-01-01 00:00:00", None),
            ("2024-01-01T00:00:00.+1Z", None),
            ("2024-01-01T", None),
            ("2024-1-1", None),
            ("éééééé", None),
            ("", None),
        ];
        for (text, expected) in cases {
            assert_eq!(micros(text), expected, "{text}");
        }
    }
}
