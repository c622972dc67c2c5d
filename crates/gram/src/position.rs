//! Spans and positions in a source text.

use std::fmt;

use serde::Serialize;

/// A range of bytes in a source text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct Span {
    /// The offset of the first byte.
    pub start: usize,
    /// The offset after the last byte.
    pub end: usize,
}

impl Span {
    /// Creates the span from `start` up to, but not including, `end`.
    pub fn new(start: usize, end: usize) -> Self {
        Self { start, end }
    }

    /// Returns the part of `text` inside the span, or an empty string if the span is outside of `text`.
    pub fn slice(self, text: &str) -> &str {
        text.get(self.start..self.end).unwrap_or_default()
    }
}

/// A line and column in a source text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Position {
    /// The line, counted from 1.
    pub line: u32,
    /// The column in characters, counted from 1.
    pub column: u32,
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.line, self.column)
    }
}

/// The offsets at which the lines of a text start. With these offsets, the line of a position is found by binary search
/// instead of a scan of the text.
#[derive(Debug)]
pub(crate) struct LineIndex<'s> {
    text: &'s str,
    starts: Vec<usize>,
}

impl<'s> LineIndex<'s> {
    pub(crate) fn new(text: &'s str) -> Self {
        let breaks = text.bytes().enumerate().filter(|(_, byte)| *byte == b'\n').map(|(at, _)| at + 1);
        Self { text, starts: std::iter::once(0).chain(breaks).collect() }
    }

    pub(crate) fn position(&self, offset: usize) -> Position {
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
    fn byte_offset_is_converted_to_a_column_in_characters() {
        let text = "é\nxü=";
        let at = LineIndex::new(text).position(text.len() - 1);
        assert_eq!((at.line, at.column), (2, 3));
    }

    #[test]
    fn line_index_returns_a_position_for_the_end_of_the_text() {
        assert_eq!(LineIndex::new("").position(0).to_string(), "1:1");
        assert_eq!(LineIndex::new("a\n").position(2).to_string(), "2:1");
    }
}
