//! Reference names: how people and programs address a definition.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// Words that are routes under a collection and so cannot be names.
const RESERVED: [&str; 6] = ["query", "count", "generate", "generated", "import", "export"];

/// The name of a definition, unique in its realm without regard to case.
///
/// `[A-Za-z0-9][A-Za-z0-9_.-]{0,127}` with at most one `/` between two such parts.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct RefName(String);

/// Why a text cannot be a reference name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidName {
    /// Nothing was given.
    #[error("a refName must not be empty")]
    Empty,
    /// Longer than 128 characters.
    #[error("a refName has at most 128 characters, this one has {0}")]
    TooLong(usize),
    /// A character outside the alphabet, or one that cannot come first.
    #[error(
        "refName `{name}` has `{found}` at character {at}; use letters, digits, `_`, `.` and `-`, starting with a letter or digit"
    )]
    Character { name: String, found: char, at: usize },
    /// More than one slash, or nothing beside one.
    #[error("refName `{0}` must have the form `name` or `namespace/name`")]
    Slash(String),
    /// The name of a route.
    #[error("refName `{0}` is reserved")]
    Reserved(String),
}

impl RefName {
    /// The name as it was written.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The form under which names are compared: two names with one key are the same name.
    pub fn key(&self) -> String {
        self.0.to_ascii_lowercase()
    }
}

impl FromStr for RefName {
    type Err = InvalidName;

    fn from_str(name: &str) -> Result<Self, InvalidName> {
        if name.is_empty() {
            return Err(InvalidName::Empty);
        }
        let length = name.chars().count();
        if length > 128 {
            return Err(InvalidName::TooLong(length));
        }
        if RESERVED.contains(&name.to_ascii_lowercase().as_str()) {
            return Err(InvalidName::Reserved(name.to_owned()));
        }
        let mut part_start = true;
        let mut slashes = 0;
        for (at, found) in name.chars().enumerate() {
            match found {
                '/' if part_start => return Err(InvalidName::Slash(name.to_owned())),
                '/' => {
                    slashes += 1;
                    part_start = true;
                }
                c if c.is_ascii_alphanumeric() => part_start = false,
                '_' | '.' | '-' if !part_start => {}
                _ => {
                    return Err(InvalidName::Character { name: name.to_owned(), found, at: at + 1 });
                }
            }
        }
        if slashes > 1 || part_start {
            return Err(InvalidName::Slash(name.to_owned()));
        }
        Ok(Self(name.to_owned()))
    }
}

impl TryFrom<String> for RefName {
    type Error = InvalidName;

    fn try_from(name: String) -> Result<Self, InvalidName> {
        name.parse()
    }
}

impl From<RefName> for String {
    fn from(name: RefName) -> String {
        name.0
    }
}

impl fmt::Display for RefName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for RefName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_follow_the_published_rule() {
        for good in ["a", "search_customers", "hubspot/search-deals", "v1.2-x", "9", "A".repeat(128).as_str()] {
            assert!(good.parse::<RefName>().is_ok(), "{good}");
        }
        for (bad, because) in [
            ("", "empty"),
            ("/a", "form"),
            ("a/", "form"),
            ("a/b/c", "form"),
            ("a//b", "form"),
            ("-a", "`-` at character 1"),
            ("a/.b", "`.` at character 3"),
            ("a b", "` ` at character 2"),
            ("ä", "`ä`"),
            ("query", "reserved"),
            ("Export", "reserved"),
            ("a".repeat(129).as_str(), "128"),
        ] {
            let error = bad.parse::<RefName>().unwrap_err().to_string();
            assert!(error.contains(because), "{bad}: {error}");
        }
    }

    #[test]
    fn case_does_not_distinguish_names() {
        let (a, b): (RefName, RefName) = ("Search".parse().unwrap(), "search".parse().unwrap());
        assert_ne!(a, b);
        assert_eq!(a.key(), b.key());
    }
}
