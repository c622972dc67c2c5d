//! Wraps streamed text at words. Does no IO.

use unicode_width::UnicodeWidthStr;

/// Wraps a text that arrives in parts. A part can end inside a word, which then continues without a line break.
pub(super) struct WordWrap {
    /// The width of the terminal; `None` if the text is not wrapped.
    width: Option<usize>,
    column: usize,
    /// The number of spaces at the end of the text so far. They become a line break if the next word does not fit.
    spaces: usize,
}

impl WordWrap {
    pub(super) fn new(width: Option<usize>) -> Self {
        Self { width, column: 0, spaces: 0 }
    }

    /// Starts a new line.
    pub(super) fn start_line(&mut self) {
        (self.column, self.spaces) = (0, 0);
    }

    /// Returns the text to print for the next part.
    pub(super) fn push(&mut self, part: &str) -> String {
        let Some(width) = self.width.filter(|width| *width > 0) else { return part.to_owned() };
        let mut printed = String::with_capacity(part.len());
        for piece in part.split_inclusive([' ', '\n']) {
            let word = piece.trim_end_matches([' ', '\n']);
            if !word.is_empty() {
                self.word(word, width, &mut printed);
            }
            if piece.ends_with('\n') {
                printed.push('\n');
                self.start_line();
            } else if piece.ends_with(' ') {
                self.spaces += 1;
            }
        }
        printed
    }

    fn word(&mut self, word: &str, width: usize, printed: &mut String) {
        let (spaces, columns) = (std::mem::take(&mut self.spaces), word.width());
        if spaces > 0 && self.column > 0 && self.column + spaces + columns > width {
            printed.push('\n');
            self.column = 0;
        } else {
            printed.extend(std::iter::repeat_n(' ', spaces));
            self.column += spaces;
        }
        printed.push_str(word);
        // The terminal breaks a word that is wider than a line.
        let end = self.column + columns;
        self.column = if end > width { end % width } else { end };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wrapped(width: Option<usize>, parts: &[&str]) -> String {
        let mut wrap = WordWrap::new(width);
        parts.iter().map(|part| wrap.push(part)).collect()
    }

    #[test]
    fn streamed_text_breaks_at_words_and_not_at_the_ends_of_parts() {
        assert_eq!(wrapped(Some(10), &["one two ", "three", " four"]), "one two\nthree four");
        assert_eq!(wrapped(Some(10), &["one tw", "o three"]), "one two\nthree");
        assert_eq!(wrapped(Some(10), &["a\n  b c d e f g\n", "h"]), "a\n  b c d e\nf g\nh");
        assert_eq!(wrapped(None, &["one two ", "three four five"]), "one two three four five");
    }
}
