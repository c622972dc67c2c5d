//! Limits the size of an output: an output over the limit is stored as a blob, and only its start remains in the
//! envelope.

use bytes::Bytes;
use serde_json::{Map, Value};
use toolwright_types::{Attachment, AttachmentKind, ToolError};

use super::attempts::BackendReply;
use super::{Ports, secrets};
use crate::ports::Payload;
use crate::{CallContext, CompiledTool};

/// An output of bounded size.
#[derive(Debug)]
pub(super) struct BoundedOutput {
    pub output: Value,
    pub truncated: bool,
    pub attachments: Vec<Attachment>,
}

pub(super) async fn bound_output(
    ports: &Ports,
    cx: &CallContext,
    tool: &CompiledTool,
    reply: BackendReply,
) -> Result<BoundedOutput, ToolError> {
    let BackendReply { output, mut attachments, payloads, truncated, .. } = reply;
    for payload in payloads {
        attachments.push(put(ports, cx, payload).await?);
    }
    let limit = usize::try_from(tool.definition.output_limit()).unwrap_or(usize::MAX);
    if fits(&output, limit) {
        return Ok(BoundedOutput { output, truncated, attachments });
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
    Ok(BoundedOutput { output: truncate(output, &mut budget).unwrap_or_default(), truncated: true, attachments })
}

async fn put(ports: &Ports, cx: &CallContext, payload: Payload) -> Result<Attachment, ToolError> {
    ports.blobs.put(&cx.realm, payload).await.map_err(|error| secrets::port_error(&error))
}

/// Whether the value's JSON has at most `limit` bytes. Stops serializing at the limit.
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

/// Returns the start of the value, as a value of the same type: the first items of a list, the first fields of an
/// object, the start of a string. Returns `None` if even an empty value does not fit. The budget counts bytes of JSON,
/// including escapes, so the limit is exact.
fn truncate(value: Value, budget: &mut usize) -> Option<Value> {
    match value {
        Value::String(mut text) => {
            *budget = budget.checked_sub(2)?;
            let mut end = 0;
            for c in text.chars() {
                let Some(remaining) = budget.checked_sub(json_len(c)) else { break };
                *budget = remaining;
                end += c.len_utf8();
            }
            text.truncate(end);
            Some(Value::String(text))
        }
        Value::Array(items) => {
            *budget = budget.checked_sub(2)?;
            let mut truncated_items = Vec::new();
            for item in items {
                let Some(item) = truncate_member(usize::from(!truncated_items.is_empty()), item, budget) else { break };
                truncated_items.push(item);
            }
            Some(Value::Array(truncated_items))
        }
        Value::Object(fields) => {
            *budget = budget.checked_sub(2)?;
            let mut truncated_items = Map::new();
            for (key, item) in fields {
                let name = key.chars().map(json_len).sum::<usize>() + 3;
                let Some(item) = truncate_member(name + usize::from(!truncated_items.is_empty()), item, budget) else {
                    break;
                };
                truncated_items.insert(key, item);
            }
            Some(Value::Object(truncated_items))
        }
        scalar => {
            *budget = budget.checked_sub(scalar.to_string().len())?;
            Some(scalar)
        }
    }
}

/// Truncates a member of a list or object. `overhead` is the number of bytes of its name and separator. The budget is
/// unchanged if the member does not fit.
fn truncate_member(overhead: usize, item: Value, budget: &mut usize) -> Option<Value> {
    let mut remaining = budget.checked_sub(overhead)?;
    let item = truncate(item, &mut remaining)?;
    *budget = remaining;
    Some(item)
}

/// Returns the number of bytes of a character in a JSON string.
fn json_len(c: char) -> usize {
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
    fn truncated_object_keeps_the_first_items_of_its_list() {
        let value =
            json!({ "rows": (0..1000).map(|n| json!({ "n": n, "text": "ä".repeat(20) })).collect::<Vec<_>>(), "z": 1 });
        assert!(!fits(&value, 500));
        let mut budget = 500;
        let cut = truncate(value.clone(), &mut budget).unwrap();
        assert!((450..=500).contains(&cut.to_string().len()), "{}", cut.to_string().len());
        let rows = cut["rows"].as_array().unwrap();
        assert!(rows.len() > 3);
        assert_eq!(rows[0], value["rows"][0]);
    }

    #[test]
    fn text_is_truncated_at_a_character_boundary() {
        let mut budget = 9;
        assert_eq!(truncate(json!("äöüäöü"), &mut budget), Some(json!("äöü")));
    }
}
