//! Reference names of definitions.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// Reserved names. The REST API uses them as path segments below a collection, as in `/tools/generate`.
const RESERVED: [&str; 6] = ["query", "count", "generate", "generated", "import", "export"];

/// The name of a definition. It is unique in its realm; upper and lower case are not distinguished.
///
/// A name is one part, or two parts separated by `/`. Each part matches `[A-Za-z0-9][A-Za-z0-9_.-]*`. The whole name
/// has at most 128 characters.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct RefName(String);

/// The reason why a text is not a valid reference name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidRefName {
    /// The name is empty.
    #[error("a refName must not be empty")]
    Empty,
    /// The name is longer than 128 characters.
    #[error("a refName must have at most 128 characters, got {0}")]
    TooLong(usize),
    /// A character is not allowed at its position.
    #[error(
        "refName `{name}` has `{found}` at character {at}; use letters, digits, `_`, `.` and `-`, starting with a letter or digit"
    )]
    Character {
        /// The invalid name.
        name: String,
        /// The character.
        found: char,
        /// The position of the character, counted from 1.
        at: usize,
    },
    /// The name has more than one slash, or a slash at the start or end.
    #[error("refName `{0}` must have the form `name` or `namespace/name`")]
    Slash(String),
    /// The name is reserved.
    #[error("refName `{0}` is reserved; choose another name")]
    Reserved(String),
}

impl RefName {
    /// The name as written.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The key for comparisons: two names with the same key are the same name.
    pub fn key(&self) -> String {
        self.0.to_ascii_lowercase()
    }
}

impl FromStr for RefName {
    type Err = InvalidRefName;

    fn from_str(name: &str) -> Result<Self, InvalidRefName> {
        if name.is_empty() {
            return Err(InvalidRefName::Empty);
        }
        let length = name.chars().count();
        if length > 128 {
            return Err(InvalidRefName::TooLong(length));
        }
        if RESERVED.contains(&name.to_ascii_lowercase().as_str()) {
            return Err(InvalidRefName::Reserved(name.to_owned()));
        }
        let mut part_start = true;
        let mut slashes = 0;
        for (at, found) in name.chars().enumerate() {
            match found {
                '/' if part_start => return Err(InvalidRefName::Slash(name.to_owned())),
                '/' => {
                    slashes += 1;
                    part_start = true;
                }
                c if c.is_ascii_alphanumeric() => part_start = false,
                '_' | '.' | '-' if !part_start => {}
                _ => {
                    return Err(InvalidRefName::Character { name: name.to_owned(), found, at: at + 1 });
                }
            }
        }
        if slashes > 1 || part_start {
            return Err(InvalidRefName::Slash(name.to_owned()));
        }
        Ok(Self(name.to_owned()))
    }
}

impl TryFrom<String> for RefName {
    type Error = InvalidRefName;

    fn try_from(name: String) -> Result<Self, InvalidRefName> {
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
    fn malformed_or_reserved_or_too_long_ref_name_is_rejected() {
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
    fn ref_names_that_differ_only_in_case_have_the_same_key() {
        let (a, b): (RefName, RefName) = ("Search".parse().unwrap(), "search".parse().unwrap());
        assert_ne!(a, b);
        assert_eq!(a.key(), b.key());
    }
}
