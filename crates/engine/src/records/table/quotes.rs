//! Whether a text ends within quotes: a reader of CSV takes its end for the end of the cell, and all that was to follow for one cell.

use toolwright_query::Position;

/// Where in a row the next byte stands.
#[derive(Clone, Copy, PartialEq)]
enum State {
    /// Where a cell begins: the only place where a quote opens.
    Start,
    Plain,
    Quoted,
    /// After a quote in quotes, which ends them unless another follows.
    Closed,
}

/// The place of a quote that opens and is never closed.
pub(super) fn never_closed(text: &[u8]) -> Option<Position> {
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
    // Bytes that go on with a character count for none.
    let characters = before.iter().filter(|byte| **byte & 0xc0 != 0x80).count();
    Some(Position { offset, line, column: u32::try_from(characters + 1).unwrap_or(u32::MAX) })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_quote_that_stays_open_is_found_where_it_opens() {
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
            let found = never_closed(text.as_bytes()).map(|at| (at.line, at.column));
            assert_eq!(found, expected, "{text:?}");
        }
    }

    proptest! {
        /// A reader that takes the end of the text for the closing quote reads the same if there is one.
        #[test]
        fn the_reader_would_have_closed_it(text in "[a\",\n\r ]{0,24}") {
            let read = |text: &str| -> Vec<csv::StringRecord> {
                let mut reader = csv::ReaderBuilder::new().flexible(true).has_headers(false).from_reader(text.as_bytes());
                reader.records().map(Result::unwrap).collect()
            };
            // In quotes the mark is a part of the last cell; outside of them a comma before it begins a new one.
            let marked = read(&format!("{text},#"));
            let last = marked.last().and_then(|row| row.iter().next_back()).unwrap_or_default().to_owned();
            prop_assert_eq!(never_closed(text.as_bytes()).is_some(), last != "#", "{:?}", text);
        }
    }
}
