//! Parses and formats times and durations.

use std::time::Duration;

use toolwright_types::Timestamp;

/// Parses a duration such as `90s`, `15m`, `12h`, `30d` or `2w`.
pub(super) fn parse_duration(text: &str) -> Result<Duration, String> {
    let invalid = || format!("expected a duration such as `12h`, `30d` or `2w`, got `{text}`");
    let unit = text.chars().last().ok_or_else(invalid)?;
    let seconds = match unit {
        's' => 1,
        'm' => 60,
        'h' => 60 * 60,
        'd' => 24 * 60 * 60,
        'w' => 7 * 24 * 60 * 60,
        _ => return Err(invalid()),
    };
    let amount: u32 = text.strip_suffix(unit).and_then(|digits| digits.parse().ok()).ok_or_else(invalid)?;
    if amount == 0 { Err(invalid()) } else { Ok(Duration::from_secs(u64::from(amount) * seconds)) }
}

/// Formats a time to the minute, in UTC.
pub(super) fn format_minute(time: Timestamp) -> String {
    time.to_jiff().strftime("%Y-%m-%d %H:%M").to_string()
}

/// Formats a time to the second, in UTC.
pub(super) fn format_second(time: Timestamp) -> String {
    time.to_jiff().strftime("%Y-%m-%d %H:%M:%S").to_string()
}

/// Parses a `Date` header.
pub(super) fn parse_http_date(text: &str) -> Option<Timestamp> {
    let zoned = jiff::fmt::rfc2822::parse(text).ok()?;
    Some(Timestamp::from_micros(zoned.timestamp().as_microsecond()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn duration_must_have_a_positive_whole_number_and_a_unit() {
        for (text, seconds) in [("90s", 90), ("15m", 900), ("12h", 43_200), ("30d", 2_592_000), ("2w", 1_209_600)] {
            assert_eq!(parse_duration(text).unwrap(), Duration::from_secs(seconds), "{text}");
        }
        for text in ["", "d", "30", "-1d", "1.5h", "0d", "30 d", "5ö", "99999999999d"] {
            assert!(parse_duration(text).is_err(), "{text}");
        }
    }

    #[test]
    fn http_date_header_is_parsed() {
        let time = parse_http_date("Sun, 15 Nov 2026 05:01:47 GMT").unwrap();
        assert_eq!(format_minute(time), "2026-11-15 05:01");
        assert_eq!(format_minute(time.saturating_add(Duration::from_secs(86_400))), "2026-11-16 05:01");
        assert!(parse_http_date("yesterday").is_none());
    }
}
