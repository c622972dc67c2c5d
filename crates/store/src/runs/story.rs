//! The whole journal of a run as one text: a line for each entry, with its time, its hash, its kind and what it says.
//!
//! A run that is over before it is written needs no more than this: nobody appends to it, and whoever reads one entry reads
//! the others too. Three rows less, with their keys, are most of what such a run costs.

use std::fmt::Write as _;

use data_encoding::BASE64URL_NOPAD;
use toolwright_types::Timestamp;

use super::{Entry, EntryHash, Mark};
use crate::db::Unavailable;

/// Stands for the hash of the last entry, which is in the row already.
const IN_THE_ROW: &str = "-";

/// The text of these entries, which are numbered from 1 on, of a run whose row has `mark`.
pub(super) fn write(entries: &[&Entry], mark: &Mark) -> String {
    let length = entries.iter().map(|entry| entry.body.len() + entry.kind.len() + 70).sum();
    let mut text = String::with_capacity(length);
    for Entry { n, at, kind, body, hash } in entries {
        // Writing to a String cannot fail.
        let _ = write!(text, "{} ", at.as_micros());
        if (*n, *hash) == (mark.n, mark.hash) {
            text.push_str(IN_THE_ROW);
        } else {
            BASE64URL_NOPAD.encode_append(hash, &mut text);
        }
        // JSON has no line breaks but those it is laid out with, and bodies are not laid out.
        for part in [" ", kind, " ", body, "\n"] {
            text.push_str(part);
        }
    }
    text
}

/// The entries of a text.
pub(super) fn read(text: &str, marked: &EntryHash) -> Result<Vec<Entry>, Unavailable> {
    let entry = |(line, n)| read_line(n, line, marked).ok_or_else(|| Unavailable::unreadable(Broken(n)));
    text.lines().zip(1..).map(entry).collect()
}

fn read_line(n: u64, line: &str, marked: &EntryHash) -> Option<Entry> {
    let mut words = line.splitn(4, ' ');
    let at = Timestamp::from_micros(words.next()?.parse().ok()?);
    let hash = match words.next()? {
        IN_THE_ROW => *marked,
        hash => BASE64URL_NOPAD.decode(hash.as_bytes()).ok()?.try_into().ok()?,
    };
    let (kind, body) = (words.next()?.to_owned(), words.next()?.to_owned());
    Some(Entry { n, at, kind, body, hash })
}

/// A line that is no entry.
#[derive(Debug, thiserror::Error)]
#[error("line {0} of a run's journal is no entry")]
struct Broken(u64);

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn what_is_written_is_read(entries in proptest::collection::vec((any::<i64>(), any::<[u8; 32]>(), "[a-z_]{1,12}", any::<String>()), 0..5)) {
            let entries: Vec<Entry> = entries.into_iter().zip(1..).map(|((at, hash, kind, said), n)| {
                let body = serde_json::json!({ "said": said }).to_string();
                Entry { n, at: Timestamp::from_micros(at), kind, body, hash }
            }).collect();
            let last = entries.last().map(|last| Mark { n: last.n, hash: last.hash }).unwrap_or_default();
            for mark in [last, Mark::default()] {
                let text = write(&entries.iter().collect::<Vec<_>>(), &mark);
                prop_assert_eq!(read(&text, &mark.hash).unwrap(), entries.clone());
            }
        }
    }

    #[test]
    fn a_line_that_was_changed_is_told() {
        for text in ["x", "1 00 began {}", "1 é began {}", "began {}"] {
            assert!(read(text, &[0; 32]).is_err(), "{text}");
        }
    }
}
