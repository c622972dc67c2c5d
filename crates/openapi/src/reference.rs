//! Resolves `$ref` within a document.

use std::borrow::Cow;

use percent_encoding::percent_decode_str;
use serde_json::Value;

use crate::error::ConversionError;

/// The maximum length of a chain of references. A longer chain is treated as a cycle.
const MAX_HOPS: usize = 32;

/// Returns the target of a reference.
pub(crate) fn resolve<'d>(root: &'d Value, reference: &str) -> Result<&'d Value, ConversionError> {
    let Some(pointer) = reference.strip_prefix('#') else {
        return Err(ConversionError(format!(
            "`$ref: {}` points outside of the document; bundle all files into one document first, for example with `npx @redocly/cli bundle`",
            excerpt(reference)
        )));
    };
    let pointer: Cow<'_, str> = percent_decode_str(pointer).decode_utf8_lossy();
    root.pointer(&pointer).ok_or_else(|| ConversionError(format!("`$ref: {}` has no target", excerpt(reference))))
}

/// Follows a chain of references. Returns `value` itself when it is not a reference.
pub(crate) fn follow<'d>(root: &'d Value, mut value: &'d Value) -> Result<&'d Value, ConversionError> {
    for _ in 0..MAX_HOPS {
        match value.get("$ref").and_then(Value::as_str) {
            Some(reference) => value = resolve(root, reference)?,
            None => return Ok(value),
        }
    }
    Err(ConversionError("the `$ref` is circular".into()))
}

/// Escapes a key for use in a JSON pointer.
pub(crate) fn escape_token(key: &str) -> String {
    key.replace('~', "~0").replace('/', "~1")
}

fn excerpt(reference: &str) -> String {
    reference.chars().take(200).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn circular_or_missing_or_external_reference_is_rejected() {
        let root = json!({ "a/b": { "c d": 1 }, "one": { "$ref": "#/two" }, "two": { "$ref": "#/three" }, "three": { "x": 1 }, "loop": { "$ref": "#/loop" } });
        assert_eq!(resolve(&root, "#/a~1b/c%20d"), Ok(&json!(1)));
        assert_eq!(resolve(&root, "#"), Ok(&root));
        assert_eq!(follow(&root, &root["one"]), Ok(&json!({ "x": 1 })));
        assert!(follow(&root, &root["loop"]).unwrap_err().0.contains("circular"));
        assert!(resolve(&root, "#/none").unwrap_err().0.contains("no target"));
        assert!(resolve(&root, "other.yaml#/a").unwrap_err().0.contains("bundle"));
    }
}
