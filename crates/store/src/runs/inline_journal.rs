//! Reads and writes the inline format of a journal: one text in the run's row, with one line per entry. A line consists
//! of time, hash, kind and content.
//!
//! The format is used for runs that have ended before they are first written. Nothing is appended to such a journal
//! later, and readers usually need all entries. The inline format avoids rows and index entries in the journal table.
//! These rows and index entries would be most of the cost of storing such a run.

use std::fmt::Write as _;

use data_encoding::BASE64URL_NOPAD;
use toolwright_types::Timestamp;

use super::{EntryHash, EntryNotes, JournalEntry, JournalPosition};
use crate::db::StoreError;

/// Written in place of the last entry's hash, because the run's row has a separate column for that hash.
const HASH_IN_ROW: &str = "-";

/// Formats the entries of a run, which are numbered from 1. `journal_position` is the position of the last entry, as
/// stored in the run's row.
pub(super) fn write(entries: &[&JournalEntry], journal_position: &JournalPosition) -> String {
    let length = entries.iter().map(|entry| entry.body.len() + entry.kind.len() + 70).sum();
    let mut text = String::with_capacity(length);
    for JournalEntry { n, at, kind, body, hash, .. } in entries {
        // Writing to a String cannot fail.
        let _ = write!(text, "{} ", at.as_micros());
        if (*n, *hash) == (journal_position.n, journal_position.hash) {
            text.push_str(HASH_IN_ROW);
        } else {
            BASE64URL_NOPAD.encode_append(hash, &mut text);
        }
        // One line per entry is possible because the bodies are compact JSON, which has no line breaks.
        for part in [" ", kind, " ", body, "\n"] {
            text.push_str(part);
        }
    }
    text
}

/// Parses the entries. `last_hash` is the hash of the last entry, which is stored in the run's row.
pub(super) fn read(text: &str, last_hash: &EntryHash) -> Result<Vec<JournalEntry>, StoreError> {
    let entry = |(line, n)| read_line(n, line, last_hash).ok_or_else(|| StoreError::unreadable(InvalidLine(n)));
    text.lines().zip(1..).map(entry).collect()
}

fn read_line(n: u64, line: &str, last_hash: &EntryHash) -> Option<JournalEntry> {
    let mut words = line.splitn(4, ' ');
    let at = Timestamp::from_micros(words.next()?.parse().ok()?);
    let hash = match words.next()? {
        HASH_IN_ROW => *last_hash,
        hash => BASE64URL_NOPAD.decode(hash.as_bytes()).ok()?.try_into().ok()?,
    };
    let (kind, body) = (words.next()?.to_owned(), words.next()?.to_owned());
    Some(JournalEntry { n, at, kind, body, hash, notes: EntryNotes::default() })
}

/// The error for a line that is not an entry.
#[derive(Debug, thiserror::Error)]
#[error("line {0} of an inline journal is not an entry")]
struct InvalidLine(u64);

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn formatted_entries_parse_to_the_same_entries(entries in proptest::collection::vec((any::<i64>(), any::<[u8; 32]>(), "[a-z_]{1,12}", any::<String>()), 0..5)) {
            let entries: Vec<JournalEntry> = entries.into_iter().zip(1..).map(|((at, hash, kind, text), n)| {
                let body = serde_json::json!({ "text": text }).to_string();
                JournalEntry { n, at: Timestamp::from_micros(at), kind, body, hash, notes: EntryNotes::default() }
            }).collect();
            let last = entries.last().map(|last| JournalPosition { n: last.n, hash: last.hash }).unwrap_or_default();
            for journal_position in [last, JournalPosition::default()] {
                let text = write(&entries.iter().collect::<Vec<_>>(), &journal_position);
                prop_assert_eq!(read(&text, &journal_position.hash).unwrap(), entries.clone());
            }
        }
    }

    #[test]
    fn malformed_line_of_an_inline_journal_is_an_error() {
        for text in ["x", "1 00 started {}", "1 é started {}", "started {}"] {
            assert!(read(text, &[0; 32]).is_err(), "{text}");
        }
    }
}
