//! The times of a schedule: a cron expression in a time zone.

use croner::Cron;
use croner::parser::{CronParser, Seconds, Year};
use jiff::Zoned;
use jiff::tz::TimeZone;
use toolwright_types::{MissedRuns, Timestamp};

/// A due time is missed if it is older than this, because no server was running.
const MISSED_AFTER_MICROS: i64 = 60_000_000;
/// The maximum number of missed times for which runs start.
pub const MAX_MISSED_RUNS: usize = 100;
/// The maximum number of characters of a cron expression.
const MAX_CRON_CHARS: usize = 200;
/// A schedule must have a time within this number of years. The 29th of February can be 8 years away.
const MAX_YEARS: i64 = 9;

/// The times at which a trigger starts runs.
#[derive(Debug, Clone)]
pub struct Schedule {
    cron: Cron,
    zone: TimeZone,
}

/// The times of a schedule that are due.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DueTimes {
    /// The times for which runs start, oldest first.
    pub fire: Vec<Timestamp>,
    /// The number of missed times for which no run starts.
    pub skipped: usize,
    /// The next time after `now`.
    pub next: Option<Timestamp>,
}

impl Schedule {
    /// Parses a time zone of the IANA database.
    pub fn parse_zone(name: &str) -> Result<TimeZone, String> {
        TimeZone::get(name).map_err(|_| {
            format!("must be a time zone of the IANA database, such as `Europe/Berlin` or `UTC`, got `{name}`")
        })
    }

    /// Parses a cron expression with five fields. `now` is the time from which it must have a next time.
    pub fn parse(cron: &str, zone: TimeZone, now: Timestamp) -> Result<Self, String> {
        const RULE: &str = "must be a cron expression with five fields: minute, hour, day of the month, month and day \
                            of the week, such as `0 2 * * *`";
        if cron.chars().count() > MAX_CRON_CHARS {
            return Err(format!("must have at most {MAX_CRON_CHARS} characters"));
        }
        let parser = CronParser::builder().seconds(Seconds::Disallowed).year(Year::Disallowed).build();
        let parsed = parser.parse(cron).map_err(|error| format!("{RULE}; {error}"))?;
        if never_matches(cron) {
            return Err(format!("`{cron}` never matches: no such day exists in these months"));
        }
        let schedule = Self { cron: parsed, zone };
        match schedule.next_after(now) {
            Some(_) => Ok(schedule),
            None => Err(format!("`{cron}` does not match any time in the next {MAX_YEARS} years")),
        }
    }

    /// Returns the first time after `time`.
    pub fn next_after(&self, time: Timestamp) -> Option<Timestamp> {
        let from = Zoned::new(time.to_jiff(), self.zone.clone());
        let next = self.cron.find_next_occurrence(&from, false).ok()?.timestamp();
        Some(Timestamp::from_micros(next.as_microsecond()))
    }

    /// Returns the times from `due` to `now`. A time that no server was running at is treated as `missed` says.
    pub fn due_times(&self, due: Timestamp, now: Timestamp, missed: MissedRuns) -> DueTimes {
        let (mut fire, mut skipped) = (Vec::new(), 0);
        let mut time = Some(due);
        while let Some(at) = time.filter(|at| *at <= now) {
            let is_missed = now.as_micros() - at.as_micros() > MISSED_AFTER_MICROS;
            match missed {
                MissedRuns::Skip if is_missed => skipped += 1,
                MissedRuns::Once if !fire.is_empty() => {
                    fire.clear();
                    fire.push(at);
                    skipped += 1;
                }
                _ => fire.push(at),
            }
            if fire.len() > MAX_MISSED_RUNS {
                fire.remove(0);
                skipped += 1;
            }
            if fire.len() + skipped > MAX_COUNTED {
                return DueTimes { fire, skipped, next: self.next_after(now) };
            }
            time = self.next_after(at);
        }
        DueTimes { fire, skipped, next: time }
    }
}

/// The maximum number of missed times that are counted. A server that did not run for a year missed 525,600 times of a
/// schedule with one time per minute.
const MAX_COUNTED: usize = 10_000;

/// Whether no day of the month in the expression exists in any of its months, as in `0 0 30 2 *`. The search for the
/// next time of such an expression takes long.
fn never_matches(cron: &str) -> bool {
    let fields: Vec<&str> = cron.split_whitespace().collect();
    let [_, _, days, months, weekdays] = fields.as_slice() else { return false };
    if *weekdays != "*" && *weekdays != "?" {
        return false;
    }
    let first_day = days.split(',').map(|part| {
        let digits = part.bytes().take_while(u8::is_ascii_digit).count();
        part.get(..digits).and_then(|digits| digits.parse::<u32>().ok()).unwrap_or(1)
    });
    let Some(first_day) = first_day.min() else { return false };
    let lengths = [31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
    let names = ["JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC"];
    let month_length = |text: &str| {
        let by_name = names.iter().position(|name| text.eq_ignore_ascii_case(name));
        let position = by_name.or_else(|| text.parse::<usize>().ok()?.checked_sub(1));
        position.and_then(|position| lengths.get(position).copied())
    };
    // A range or a step of months is not examined here.
    let longest = months.split(',').map(|part| month_length(part).unwrap_or(31)).max();
    longest.is_some_and(|longest| first_day > longest)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    fn schedule(cron: &str, zone: &str) -> Schedule {
        Schedule::parse(cron, Schedule::parse_zone(zone).unwrap(), at("2026-11-20T00:00:00Z")).unwrap()
    }

    #[test]
    fn next_time_follows_the_time_zone_and_daylight_saving_time() {
        let berlin = schedule("30 2 * * *", "Europe/Berlin");
        assert_eq!(berlin.next_after(at("2026-11-20T00:00:00Z")), Some(at("2026-11-20T01:30:00Z")));
        // On 2027-03-28 the clock goes from 02:00 to 03:00, so 02:30 does not exist.
        assert_eq!(berlin.next_after(at("2027-03-27T12:00:00Z")), Some(at("2027-03-28T01:00:00Z")));
        assert_eq!(berlin.next_after(at("2027-03-28T12:00:00Z")), Some(at("2027-03-29T00:30:00Z")));
        // On 2026-10-25 02:30 occurs twice and matches once.
        let first = berlin.next_after(at("2026-10-24T12:00:00Z")).unwrap();
        assert_eq!(first, at("2026-10-25T00:30:00Z"));
        assert_eq!(berlin.next_after(first), Some(at("2026-10-26T01:30:00Z")));
    }

    #[test]
    fn due_times_follow_the_rule_for_missed_runs() {
        let hourly = schedule("0 * * * *", "UTC");
        let (due, now) = (at("2026-11-20T01:00:00Z"), at("2026-11-20T03:00:10Z"));
        let times = |missed| hourly.due_times(due, now, missed);
        let hours =
            |list: &[u32]| list.iter().map(|hour| at(&format!("2026-11-20T0{hour}:00:00Z"))).collect::<Vec<_>>();
        let next = Some(at("2026-11-20T04:00:00Z"));
        assert_eq!(times(MissedRuns::All), DueTimes { fire: hours(&[1, 2, 3]), skipped: 0, next });
        assert_eq!(times(MissedRuns::Once), DueTimes { fire: hours(&[3]), skipped: 2, next });
        assert_eq!(times(MissedRuns::Skip), DueTimes { fire: hours(&[3]), skipped: 2, next });
        let late = hourly.due_times(due, at("2026-11-20T03:30:00Z"), MissedRuns::Skip);
        assert_eq!(late, DueTimes { fire: Vec::new(), skipped: 3, next });
        let punctual = hourly.due_times(due, at("2026-11-20T01:00:01Z"), MissedRuns::Skip);
        assert_eq!(punctual.fire, hours(&[1]));
    }

    #[test]
    fn number_of_missed_runs_that_start_is_limited() {
        let minutely = schedule("* * * * *", "UTC");
        let due = minutely.due_times(at("2025-11-20T00:00:00Z"), at("2026-11-20T00:00:30Z"), MissedRuns::All);
        assert!(due.fire.len() <= MAX_MISSED_RUNS, "{}", due.fire.len());
        assert_eq!(due.next, Some(at("2026-11-20T00:01:00Z")));
    }

    #[test]
    fn expressions_that_are_not_valid_or_never_match_are_refused() {
        let now = at("2026-11-20T00:00:00Z");
        for cron in [
            "",
            "* * * *",
            "* * * * * *",
            "61 * * * *",
            "0 0 30 2 *",
            "0 0 31 4,6,9,11 *",
            "0 0 31 NOV *",
            "a b c d e",
            "0 0 30,31 feb *",
            "0 0 * * * 2030",
        ] {
            let error = Schedule::parse(cron, TimeZone::UTC, now).unwrap_err();
            assert!(error.len() > 10, "{cron}: {error}");
        }
        for cron in ["0 0 29 2 *", "*/5 9-17 * * MON-FRI", "0 0 L * *", "0 0 31 1,2 *", "@daily", "0 0 30 2 MON"] {
            Schedule::parse(cron, TimeZone::UTC, now).unwrap_or_else(|error| panic!("{cron}: {error}"));
        }
        assert!(Schedule::parse_zone("Mars/Olympus").unwrap_err().contains("IANA"));
    }
}
