//! Positions in a source text.

use std::fmt;

/// A position in a source text, as line and column and as a byte offset.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Position {
    /// Bytes from the start of the text.
    pub offset: usize,
    /// Line, counted from 1.
    pub line: u32,
    /// Column in characters, counted from 1.
    pub column: u32,
}

impl Position {
    /// The position of byte `offset` in `text`.
    pub(crate) fn from_offset(text: &str, offset: usize) -> Self {
        let before = text.get(..offset).unwrap_or(text);
        let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
        let in_line = before.get(line_start..).unwrap_or_default();
        Self {
            offset: before.len(),
            line: count(before.bytes().filter(|byte| *byte == b'\n')) + 1,
            column: count(in_line.chars()) + 1,
        }
    }
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.line, self.column)
    }
}

fn count(items: impl Iterator) -> u32 {
    u32::try_from(items.count()).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn position_column_counts_characters_and_offset_counts_bytes() {
        let text = "é\nxü=";
        let position = Position::from_offset(text, text.len() - 1);
        assert_eq!((position.offset, position.line, position.column), (6, 2, 3));
    }

    #[test]
    fn position_of_an_offset_beyond_the_text_is_the_end_of_the_text() {
        assert_eq!(Position::from_offset("ab", 9).column, 3);
    }
}
