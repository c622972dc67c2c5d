//! Detects an unclosed quote in CSV text. The CSV reader would silently treat all text after such a quote as one cell.

use toolwright_query::Position;

/// The state of the scanner before the next byte.
#[derive(Clone, Copy, PartialEq)]
enum State {
    /// At the start of a cell. Only here does a quote open a quoted cell.
    Start,
    Plain,
    Quoted,
    /// After a quote inside a quoted cell. This quote closes the cell unless another quote follows.
    Closed,
}

/// Returns the position of a quote that is opened and never closed.
pub(super) fn find_unclosed_quote(text: &[u8]) -> Option<Position> {
    let mut state = State::Start;
    let (mut line, mut line_start, mut opened) = (1, 0, None);
    for (at, byte) in text.iter().enumerate() {
        state = match (state, byte) {
            (State::Start, b'"') => {
                opened = Some((at, line, line_start));
                State::Quoted
            }
            (State::Quoted, b'"') => State::Closed,
            (State::Closed, b'"') | (State::Quoted, _) => State::Quoted,
            (_, b',' | b'\n' | b'\r') => State::Start,
            _ => State::Plain,
        };
        if *byte == b'\n' {
            (line, line_start) = (line + 1, at + 1);
        }
    }
    let (offset, line, line_start) = opened.filter(|_| state == State::Quoted)?;
    let before = text.get(line_start..offset).unwrap_or_default();
    // Columns are counted in characters, so UTF-8 continuation bytes are not counted.
    let characters = before.iter().filter(|byte| **byte & 0xc0 != 0x80).count();
    Some(Position { offset, line, column: u32::try_from(characters + 1).unwrap_or(u32::MAX) })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn unclosed_quote_in_csv_text_is_found_with_its_line_and_column() {
        for (text, expected) in [
            ("", None),
            ("a,b\n1,\"x\"\n", None),
            ("a,b\n1,\"x", Some((2, 3))),
            ("a\nä,\"x\n\ny\n", Some((2, 3))),
            ("\"a", Some((1, 1))),
            ("\"\"\"", Some((1, 1))),
            ("\"\"", None),
            ("a \"b\n", None),
            ("\"a\"b\"\n", None),
            ("a\r\"b", Some((1, 3))),
            ("\"a\"\n\"b\"\n\"c", Some((3, 1))),
        ] {
            let found = find_unclosed_quote(text.as_bytes()).map(|at| (at.line, at.column));
            assert_eq!(found, expected, "{text:?}");
        }
    }

    proptest! {
        /// A quote is unclosed if and only if the CSV reader treats appended text as part of the quoted cell.
        #[test]
        fn unclosed_quote_is_found_if_and_only_if_the_csv_reader_ends_inside_a_quote(text in "[a\",\n\r ]{0,24}") {
            let read = |text: &str| -> Vec<csv::StringRecord> {
                let mut reader = csv::ReaderBuilder::new().flexible(true).has_headers(false).from_reader(text.as_bytes());
                reader.records().map(Result::unwrap).collect()
            };
            // If the quote is unclosed, `,#` becomes a part of the last cell. Otherwise the comma starts a new cell
            // with `#`.
            let marked = read(&format!("{text},#"));
            let last = marked.last().and_then(|row| row.iter().next_back()).unwrap_or_default().to_owned();
            prop_assert_eq!(find_unclosed_quote(text.as_bytes()).is_some(), last != "#", "{:?}", text);
        }
    }
}
