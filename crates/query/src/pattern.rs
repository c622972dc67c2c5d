//! Wildcard patterns: `*` matches any number of characters, `?` matches one.

use std::fmt::{self, Display, Formatter};

use regex::Regex;

use crate::text::{Case, write_quoted};

/// A wildcard pattern. Wildcards in quotes are literal characters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WildcardPattern(Vec<Piece>);

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Piece {
    /// `*`
    Any,
    /// `?`
    One,
    Word(Box<str>),
    Quoted(Box<str>),
}

impl WildcardPattern {
    pub(crate) fn new(pieces: Vec<Piece>) -> Self {
        Self(pieces)
    }

    /// Returns a regular expression for strings in memory. Matching takes linear time.
    pub(crate) fn regex(&self, case: Case) -> Result<Regex, regex::Error> {
        // Without the flag `u`, only ASCII letters are case-insensitive. This is the behavior of the databases.
        let flags = match case {
            Case::Sensitive => "-u",
            Case::Insensitive => "i-u",
        };
        let source = self.render("(?s:.*)", "(?s:.)", |text| format!("(?{flags}:{})", regex::escape(text)));
        Regex::new(&format!(r"\A{source}\z"))
    }

    /// Returns a pattern for `GLOB` of SQLite. A special character is written as a set, such as `[*]`, because `GLOB`
    /// has no escape character.
    pub(crate) fn glob(&self) -> String {
        self.render("*", "?", |text| escaped(text, &['*', '?', '['], |c| format!("[{c}]")))
    }

    /// Returns a pattern for `LIKE` with the escape character `\`.
    pub(crate) fn like(&self) -> String {
        self.render("%", "_", |text| escaped(text, &['%', '_', '\\'], |c| format!("\\{c}")))
    }

    /// Returns the literal text that every match begins with.
    pub(crate) fn prefix(&self) -> String {
        let literal = self.0.iter().map_while(Piece::literal);
        literal.collect()
    }

    fn render(&self, any: &str, one: &str, text: impl Fn(&str) -> String) -> String {
        let pieces = self.0.iter().map(|piece| match piece {
            Piece::Any => any.to_owned(),
            Piece::One => one.to_owned(),
            Piece::Word(literal) | Piece::Quoted(literal) => text(literal),
        });
        pieces.collect()
    }
}

impl Piece {
    fn literal(&self) -> Option<&str> {
        match self {
            Piece::Word(text) | Piece::Quoted(text) => Some(text),
            Piece::Any | Piece::One => None,
        }
    }
}

fn escaped(text: &str, special: &[char], escape: impl Fn(char) -> String) -> String {
    text.chars().map(|c| if special.contains(&c) { escape(c) } else { c.to_string() }).collect()
}

impl Display for WildcardPattern {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|piece| match piece {
            Piece::Any => f.write_str("*"),
            Piece::One => f.write_str("?"),
            Piece::Word(text) => f.write_str(text),
            Piece::Quoted(text) => write_quoted(f, text),
        })
    }
}
