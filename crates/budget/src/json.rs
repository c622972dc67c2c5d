//! Decodes JSON within the limits for bytes and nodes.

use bytes::Bytes;
use serde::de::DeserializeOwned;

use crate::{INLINE_BYTES, MAX_BYTES, MAX_NODES, Stopped, offload};

/// The error for a document that exceeds a limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum LimitExceeded {
    /// The document has too many bytes.
    #[error("the document must have at most {MAX_BYTES} bytes; use less data")]
    Bytes,
    /// The document has too many nodes.
    #[error("the document must have at most {MAX_NODES} JSON nodes; use less data")]
    Nodes,
}

/// The error for a document that cannot be decoded.
#[derive(Debug, thiserror::Error)]
pub enum JsonError {
    /// The document exceeds a limit.
    #[error(transparent)]
    Limit(#[from] LimitExceeded),
    /// The document is not JSON, or not of the expected form.
    #[error(transparent)]
    Malformed(#[from] serde_json::Error),
    /// The decoding did not finish.
    #[error(transparent)]
    Stopped(#[from] Stopped),
}

/// Decodes a document.
pub fn from_slice<T: DeserializeOwned>(document: &[u8]) -> Result<T, JsonError> {
    check(document)?;
    Ok(serde_json::from_slice(document)?)
}

/// Decodes a document. A large document is decoded on a thread for blocking work.
pub async fn parse<T: DeserializeOwned + Send + 'static>(document: Bytes) -> Result<T, JsonError> {
    if document.len() <= INLINE_BYTES {
        return from_slice(&document);
    }
    offload(move || from_slice(&document)).await?
}

/// Checks the size of a document without decoding it, for documents that another crate decodes.
pub fn check(document: &[u8]) -> Result<(), LimitExceeded> {
    if document.len() > MAX_BYTES {
        return Err(LimitExceeded::Bytes);
    }
    // Each node needs a byte of its own and a separator, so a shorter document cannot exceed the limit.
    if document.len() / 2 < MAX_NODES {
        return Ok(());
    }
    NodeCounter::default().add(document)
}

/// Counts the bytes and nodes of a document that arrives in parts. The count is exact for valid JSON and does not
/// depend on how the document is divided.
#[derive(Debug, Clone, Default)]
pub struct NodeCounter {
    bytes: usize,
    /// The number of nodes without the root. Keys of objects are nodes too. Each `,` and `:` adds one, and the start of
    /// each container that is not empty adds one.
    nodes: usize,
    in_string: bool,
    escaped: bool,
    /// Whether the last token was `[` or `{`.
    opened: bool,
}

impl NodeCounter {
    /// Counts the next part of the document.
    pub fn add(&mut self, part: &[u8]) -> Result<(), LimitExceeded> {
        self.bytes = self.bytes.saturating_add(part.len());
        if self.bytes > MAX_BYTES {
            return Err(LimitExceeded::Bytes);
        }
        for byte in part {
            if self.in_string {
                self.string_byte(*byte);
            } else {
                self.token_byte(*byte);
            }
        }
        if self.nodes() > MAX_NODES { Err(LimitExceeded::Nodes) } else { Ok(()) }
    }

    /// Returns the number of nodes of the parts so far.
    pub fn nodes(&self) -> usize {
        self.nodes + 1
    }

    fn string_byte(&mut self, byte: u8) {
        match byte {
            _ if self.escaped => self.escaped = false,
            b'\\' => self.escaped = true,
            b'"' => self.in_string = false,
            _ => {}
        }
    }

    fn token_byte(&mut self, byte: u8) {
        if byte.is_ascii_whitespace() {
            return;
        }
        self.nodes += usize::from(self.opened && !matches!(byte, b']' | b'}'));
        self.nodes += usize::from(matches!(byte, b',' | b':'));
        self.in_string = byte == b'"';
        self.opened = matches!(byte, b'[' | b'{');
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;

    fn count(value: &Value) -> usize {
        match value {
            Value::Array(items) => 1 + items.iter().map(count).sum::<usize>(),
            Value::Object(fields) => 1 + fields.values().map(|field| 1 + count(field)).sum::<usize>(),
            _ => 1,
        }
    }

    fn values() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            r#"[a"\\\\,:{}\[\] é]{0,6}"#.prop_map(Value::from),
        ];
        leaf.prop_recursive(4, 60, 6, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
                prop::collection::vec((r#"[a"\\\\,: ]{0,3}"#, inner), 0..6)
                    .prop_map(|fields| Value::Object(fields.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn node_count_does_not_depend_on_how_the_document_is_split(value in values(), pretty: bool, size in 1_usize..9) {
            let text = if pretty { serde_json::to_string_pretty(&value) } else { serde_json::to_string(&value) }.unwrap();
            let mut counter = NodeCounter::default();
            for part in text.as_bytes().chunks(size) {
                counter.add(part).unwrap();
            }
            prop_assert_eq!(counter.nodes(), count(&value));
        }

        #[test]
        fn decoding_within_the_limits_gives_the_result_of_serde_json(text in r#"[\[\]{}:,"\\0-9a-e. \n-]{0,40}"#) {
            let expected: Result<Value, _> = serde_json::from_str(&text);
            match (from_slice::<Value>(text.as_bytes()), expected) {
                (Ok(value), Ok(expected)) => prop_assert_eq!(value, expected),
                (Err(JsonError::Malformed(error)), Err(expected)) => {
                    prop_assert_eq!(error.to_string(), expected.to_string());
                }
                (got, expected) => prop_assert!(false, "{:?} {:?}", got, expected),
            }
        }
    }

    #[test]
    fn document_with_too_many_nodes_is_rejected() {
        let list = |items: usize| format!("[{}[]]", "[],".repeat(items - 1)).into_bytes();
        assert!(from_slice::<Value>(&list(MAX_NODES - 1)).is_ok());
        let rejected = from_slice::<Value>(&list(MAX_NODES));
        assert!(matches!(rejected, Err(JsonError::Limit(LimitExceeded::Nodes))));
    }

    #[test]
    fn counter_stops_at_the_part_that_exceeds_the_limit() {
        let mut counter = NodeCounter::default();
        let part = "[],".repeat(1_000);
        let accepted = (0..).take_while(|_| counter.add(part.as_bytes()).is_ok()).count();
        assert_eq!(accepted, MAX_NODES / 1_000 - 1);
    }

    #[tokio::test]
    async fn parse_decodes_a_large_document_and_rejects_a_malformed_one() {
        let large = json!(vec!["a"; INLINE_BYTES]);
        let decoded: Value = parse(Bytes::from(large.to_string())).await.unwrap();
        assert_eq!(decoded, large);
        assert!(matches!(parse::<Value>(Bytes::from_static(b"[")).await, Err(JsonError::Malformed(_))));
    }
}
