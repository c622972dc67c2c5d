//! The size of an output: what is too large goes to blob storage, and its beginning stays in the envelope.

use bytes::Bytes;
use serde_json::{Map, Value};
use toolwright_types::{Attachment, AttachmentKind, ToolError};

use super::run::Reply;
use super::{Ports, secrets};
use crate::ports::Payload;
use crate::{CallContext, CompiledTool};

/// An output of bounded size.
#[derive(Debug)]
pub struct Capped {
    pub output: Value,
    pub truncated: bool,
    pub attachments: Vec<Attachment>,
}

pub(super) async fn cap(
    ports: &Ports,
    cx: &CallContext,
    tool: &CompiledTool,
    reply: Reply,
) -> Result<Capped, ToolError> {
    let Reply { output, mut attachments, payloads, truncated, .. } = reply;
    for payload in payloads {
        attachments.push(put(ports, cx, payload).await?);
    }
    let limit = usize::try_from(tool.definition.output_limit()).unwrap_or(usize::MAX);
    if fits(&output, limit) {
        return Ok(Capped { output, truncated, attachments });
    }
    let whole = match &output {
        Value::String(text) => Payload {
            kind: AttachmentKind::Blob,
            content_type: "text/plain; charset=utf-8".into(),
            bytes: Bytes::from(text.clone()),
        },
        other => Payload {
            kind: AttachmentKind::Blob,
            content_type: "application/json".into(),
            bytes: Bytes::from(other.to_string()),
        },
    };
    attachments.push(put(ports, cx, whole).await?);
    let mut budget = limit;
    Ok(Capped { output: beginning(output, &mut budget).unwrap_or_default(), truncated: true, attachments })
}

async fn put(ports: &Ports, cx: &CallContext, payload: Payload) -> Result<Attachment, ToolError> {
    ports.blobs.put(&cx.realm, payload).await.map_err(|error| secrets::unavailable(&error))
}

/// Whether the value's JSON has at most `limit` bytes, found out without writing more than that.
fn fits(value: &Value, limit: usize) -> bool {
    struct Counter(usize);
    impl std::io::Write for Counter {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0 = self.0.checked_sub(bytes.len()).ok_or_else(|| std::io::Error::other("full"))?;
            Ok(bytes.len())
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    serde_json::to_writer(Counter(limit), value).is_ok()
}

/// The value's beginning, of the same shape: leading items, leading fields, the start of a text. None when not even
/// that fits. The budget counts bytes of JSON, escapes included, so that the limit holds to the byte.
fn beginning(value: Value, budget: &mut usize) -> Option<Value> {
    match value {
        Value::String(mut text) => {
            *budget = budget.checked_sub(2)?;
            let mut end = 0;
            for c in text.chars() {
                let Some(left) = budget.checked_sub(width(c)) else { break };
                *budget = left;
                end += c.len_utf8();
            }
            text.truncate(end);
            Some(Value::String(text))
        }
        Value::Array(items) => {
            *budget = budget.checked_sub(2)?;
            let mut kept = Vec::new();
            for item in items {
                let Some(item) = member(usize::from(!kept.is_empty()), item, budget) else { break };
                kept.push(item);
            }
            Some(Value::Array(kept))
        }
        Value::Object(fields) => {
            *budget = budget.checked_sub(2)?;
            let mut kept = Map::new();
            for (key, item) in fields {
                let name = key.chars().map(width).sum::<usize>() + 3;
                let Some(item) = member(name + usize::from(!kept.is_empty()), item, budget) else { break };
                kept.insert(key, item);
            }
            Some(Value::Object(kept))
        }
        scalar => {
            *budget = budget.checked_sub(scalar.to_string().len())?;
            Some(scalar)
        }
    }
}

/// A part of a list or object, with what its name and separator cost. Nothing is spent when it does not fit.
fn member(overhead: usize, item: Value, budget: &mut usize) -> Option<Value> {
    let mut left = budget.checked_sub(overhead)?;
    let item = beginning(item, &mut left)?;
    *budget = left;
    Some(item)
}

/// How many bytes a character takes in a JSON string.
fn width(c: char) -> usize {
    match c {
        '"' | '\\' | '\n' | '\r' | '\t' | '\u{8}' | '\u{c}' => 2,
        '\0'..'\u{20}' => 6,
        _ => c.len_utf8(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_beginning_keeps_the_shape() {
        let value =
            json!({ "rows": (0..1000).map(|n| json!({ "n": n, "text": "ä".repeat(20) })).collect::<Vec<_>>(), "z": 1 });
        assert!(!fits(&value, 500));
        let mut budget = 500;
        let cut = beginning(value.clone(), &mut budget).unwrap();
        assert!((450..=500).contains(&cut.to_string().len()), "{}", cut.to_string().len());
        let rows = cut["rows"].as_array().unwrap();
        assert!(rows.len() > 3);
        assert_eq!(rows[0], value["rows"][0]);
    }

    #[test]
    fn a_text_is_cut_between_characters() {
        let mut budget = 9;
        assert_eq!(beginning(json!("äöüäöü"), &mut budget), Some(json!("äöü")));
    }
}
