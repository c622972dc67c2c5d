//! Durations in definitions, such as `30s`, `5m` or `1500` (milliseconds).

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// The units from the largest to the smallest, with their lengths in milliseconds.
const UNITS: [(&str, u64); 5] = [("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1000), ("ms", 1)];

/// A duration in milliseconds. In JSON it is a text such as `30s`, `5m`, `2h` or `1d`, or a number of milliseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[cfg_attr(feature = "openapi", schema(value_type = String, example = "30s"))]
pub struct DurationMs(pub u64);

/// The text is not a duration.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("must be a duration such as `500ms`, `30s`, `5m`, `2h` or `1d`, got `{0}`")]
pub struct InvalidDuration(String);

impl fmt::Display for DurationMs {
    /// Writes the duration in the largest unit that divides it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let exact = UNITS.iter().find(|(_, length)| self.0 > 0 && self.0.is_multiple_of(*length));
        match exact {
            Some((unit, length)) => write!(f, "{}{unit}", self.0 / length),
            None => f.write_str("0s"),
        }
    }
}

impl FromStr for DurationMs {
    type Err = InvalidDuration;

    fn from_str(text: &str) -> Result<Self, InvalidDuration> {
        let invalid = || InvalidDuration(text.to_owned());
        let digits = text.bytes().take_while(u8::is_ascii_digit).count();
        let (number, unit) = text.split_at(digits);
        let count: u64 = number.parse().map_err(|_| invalid())?;
        let (_, length) = UNITS.iter().find(|(name, _)| *name == unit).ok_or_else(invalid)?;
        count.checked_mul(*length).map(Self).ok_or_else(invalid)
    }
}

impl Serialize for DurationMs {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for DurationMs {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Written {
            Number(u64),
            Text(String),
        }
        let expected = "must be a duration such as `30s` or `5m`, or a number of milliseconds";
        match Written::deserialize(deserializer).map_err(|_| serde::de::Error::custom(expected))? {
            Written::Number(ms) => Ok(Self(ms)),
            Written::Text(text) => text.parse().map_err(serde::de::Error::custom),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn duration_reads_each_unit_and_prints_the_largest_exact_unit() {
        for (text, ms, printed) in [
            ("500ms", 500, "500ms"),
            ("1000ms", 1000, "1s"),
            ("90s", 90_000, "90s"),
            ("60m", 3_600_000, "1h"),
            ("2d", 172_800_000, "2d"),
            ("0s", 0, "0s"),
        ] {
            let duration: DurationMs = text.parse().unwrap();
            assert_eq!((duration.0, duration.to_string().as_str()), (ms, printed), "{text}");
        }
        let number: DurationMs = serde_json::from_str("1500").unwrap();
        assert_eq!(serde_json::to_string(&number).unwrap(), "\"1500ms\"");
    }

    #[test]
    fn text_that_is_not_a_duration_is_refused() {
        for text in ["", "s", "5", "5x", "-5s", "1.5s", "99999999999999999999s", "18446744073709551615d", "5 s"] {
            assert!(text.parse::<DurationMs>().is_err(), "{text}");
        }
        assert!(serde_json::from_str::<DurationMs>("-1").is_err());
    }
}
