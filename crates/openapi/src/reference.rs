//! References within a document.

use std::borrow::Cow;

use percent_encoding::percent_decode_str;
use serde_json::Value;

/// More references one after the other lead in a circle.
const MOST_STEPS: usize = 32;

/// A reference that cannot be followed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(crate) struct Lost(pub String);

/// What a reference points at.
pub(crate) fn resolve<'d>(root: &'d Value, reference: &str) -> Result<&'d Value, Lost> {
    let Some(pointer) = reference.strip_prefix('#') else {
        return Err(Lost(format!(
            "`$ref: {}` leads out of the document; bundle everything into one document first, for example with `npx @redocly/cli bundle`",
            brief(reference)
        )));
    };
    let pointer: Cow<'_, str> = percent_decode_str(pointer).decode_utf8_lossy();
    root.pointer(&pointer).ok_or_else(|| Lost(format!("`$ref: {}` points at nothing", brief(reference))))
}

/// The object itself, or what it refers to in the end.
pub(crate) fn follow<'d>(root: &'d Value, mut value: &'d Value) -> Result<&'d Value, Lost> {
    for _ in 0..MOST_STEPS {
        match value.get("$ref").and_then(Value::as_str) {
            Some(reference) => value = resolve(root, reference)?,
            None => return Ok(value),
        }
    }
    Err(Lost("a `$ref` leads in a circle".into()))
}

/// A key as a part of a JSON pointer.
pub(crate) fn escaped(key: &str) -> String {
    key.replace('~', "~0").replace('/', "~1")
}

fn brief(reference: &str) -> String {
    reference.chars().take(200).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn references_are_followed_within_the_document_only() {
        let root = json!({ "a/b": { "c d": 1 }, "one": { "$ref": "#/two" }, "two": { "$ref": "#/three" }, "three": { "x": 1 }, "loop": { "$ref": "#/loop" } });
        assert_eq!(resolve(&root, "#/a~1b/c%20d"), Ok(&json!(1)));
        assert_eq!(resolve(&root, "#"), Ok(&root));
        assert_eq!(follow(&root, &root["one"]), Ok(&json!({ "x": 1 })));
        assert!(follow(&root, &root["loop"]).unwrap_err().0.contains("circle"));
        assert!(resolve(&root, "#/none").unwrap_err().0.contains("nothing"));
        assert!(resolve(&root, "other.yaml#/a").unwrap_err().0.contains("bundle"));
    }
}
