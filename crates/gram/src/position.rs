//! Where in a text something stands.

use std::fmt;

use serde::Serialize;

/// A range of bytes in a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct Span {
    /// First byte.
    pub start: usize,
    /// One past the last byte.
    pub end: usize,
}

impl Span {
    /// The bytes from `start` up to `end`.
    pub fn new(start: usize, end: usize) -> Self {
        Self { start, end }
    }

    /// The part of `text` that the span covers; empty when it does not lie in it.
    pub fn of(self, text: &str) -> &str {
        text.get(self.start..self.end).unwrap_or_default()
    }
}

/// A place in a text, for editors.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Position {
    /// Line, counted from 1.
    pub line: u32,
    /// Column in characters, counted from 1.
    pub column: u32,
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.line, self.column)
    }
}

/// The lines of one text, so that a position costs a search instead of a walk through the text.
#[derive(Debug)]
pub(crate) struct Lines<'s> {
    text: &'s str,
    starts: Vec<usize>,
}

impl<'s> Lines<'s> {
    pub fn of(text: &'s str) -> Self {
        let breaks = text.bytes().enumerate().filter(|(_, byte)| *byte == b'\n').map(|(at, _)| at + 1);
        Self { text, starts: std::iter::once(0).chain(breaks).collect() }
    }

    pub fn position(&self, offset: usize) -> Position {
        let line = self.starts.partition_point(|start| *start <= offset);
        let start = line.checked_sub(1).and_then(|index| self.starts.get(index)).copied().unwrap_or_default();
        let before = self.text.get(start..offset).unwrap_or_default();
        Position { line: to_u32(line), column: to_u32(before.chars().count()).saturating_add(1) }
    }
}

fn to_u32(count: usize) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_count_characters_and_spans_count_bytes() {
        let text = "é\nxü=";
        let at = Lines::of(text).position(text.len() - 1);
        assert_eq!((at.line, at.column), (2, 3));
    }

    #[test]
    fn the_end_of_a_text_is_a_position() {
        assert_eq!(Lines::of("").position(0).to_string(), "1:1");
        assert_eq!(Lines::of("a\n").position(2).to_string(), "2:1");
    }
}
