//! Parses definitions from JSON. Fields that the server manages are ignored, and unknown fields are errors.

use serde_json::Value;
use toolwright_tools::{DefinitionIssue, Issues};
use toolwright_types::MANAGED_FIELDS;

use super::Definition;

/// Parses a new definition. If `refName` is missing, `name` is used.
pub(super) fn definition<T: Definition>(mut body: Value) -> Result<T, Issues> {
    if let Value::Object(fields) = &mut body
        && fields.get("refName").is_none_or(Value::is_null)
    {
        fields.shift_remove("refName");
        let name = fields.get("name").filter(|name| !name.is_null()).cloned();
        fields.extend(name.map(|name| ("refName".into(), name)));
    }
    read(body)
}

/// Parses the replacement of `current`. `refName` may be omitted. It must not change, because other definitions refer
/// to it.
pub(super) fn replacement<T: Definition>(mut body: Value, current: &T) -> Result<T, Issues> {
    if let Value::Object(fields) = &mut body
        && fields.get("refName").is_none_or(Value::is_null)
    {
        fields.insert("refName".into(), Value::from(current.ref_name().as_str()));
    }
    let mut new: T = read(body)?;
    new.discard_echoed_defaults(current);
    if new.ref_name().key() == current.ref_name().key() {
        return Ok(new);
    }
    Err(issue(
        "/refName",
        format!("must remain `{}`, got `{}`; create a new {} instead", current.ref_name(), new.ref_name(), T::NOUN),
    ))
}

/// Applies a JSON merge patch (RFC 7396): objects are merged, `null` removes a field, other values replace it.
pub fn merge_patch(target: &mut Value, patch: Value) {
    match (target, patch) {
        (Value::Object(target), Value::Object(patch)) => {
            for (key, value) in patch {
                if value.is_null() {
                    target.shift_remove(&key);
                } else {
                    merge_patch(target.entry(key).or_insert(Value::Null), value);
                }
            }
        }
        (target, patch) => *target = without_nulls(patch),
    }
}

/// Removes null fields from an object that a patch creates, because null in a patch means that the field is removed.
fn without_nulls(value: Value) -> Value {
    match value {
        Value::Object(fields) => {
            fields.into_iter().filter(|(_, value)| !value.is_null()).map(|(k, v)| (k, without_nulls(v))).collect()
        }
        other => other,
    }
}

fn read<T: Definition>(mut body: Value) -> Result<T, Issues> {
    match &mut body {
        Value::Object(fields) => {
            fields.retain(|key, _| !MANAGED_FIELDS.contains(&key.as_str()));
            T::expand_fields(fields)?;
        }
        _ => return Err(issue("", format!("a {} must be a JSON object", T::NOUN))),
    }
    reject_arrays_for_objects(&body)?;
    serde_path_to_error::deserialize(body)
        .map_err(|error| issue(&json_pointer(error.path()), error.inner().to_string()))
}

/// Rejects an array where an object is required. Without this check, serde would read the items of the array as the
/// fields of the object.
fn reject_arrays_for_objects(body: &Value) -> Result<(), Issues> {
    const OBJECTS: [&str; 3] = ["invocation", "auth", "rateLimit"];
    const OBJECTS_OF_OBJECTS: [&str; 3] = ["inputSchema", "outputSchema", "errorHandling"];
    let inner = OBJECTS_OF_OBJECTS.iter().filter_map(|name| Some((name, body.get(name)?.as_object()?)));
    let nested =
        inner.flat_map(|(name, fields)| fields.iter().map(move |(key, value)| (format!("/{name}/{key}"), value)));
    let direct = OBJECTS.iter().filter_map(|name| Some((format!("/{name}"), body.get(name)?)));
    let examples = body.get("examples").and_then(Value::as_array).into_iter().flatten();
    let examples = examples.enumerate().map(|(at, value)| (format!("/examples/{at}"), value));
    match direct.chain(nested).chain(examples).find(|(_, value)| value.is_array()) {
        Some((path, _)) => Err(issue(&path, "must be an object, not an array".to_owned())),
        None => Ok(()),
    }
}

fn issue(path: &str, message: String) -> Issues {
    Issues(vec![DefinitionIssue { path: path.to_owned(), message }])
}

/// Returns the location of a deserialization error as a JSON pointer.
pub fn json_pointer(path: &serde_path_to_error::Path) -> String {
    use serde_path_to_error::Segment;
    let segments = path.iter().filter_map(|segment| match segment {
        Segment::Map { key } => Some(key.replace('~', "~0").replace('/', "~1")),
        Segment::Seq { index } => Some(index.to_string()),
        Segment::Enum { .. } | Segment::Unknown => None,
    });
    segments.fold(String::new(), |path, segment| format!("{path}/{segment}"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn merge_patch_follows_rfc_7396() {
        for (target, patch, expected) in [
            (json!({ "a": "b" }), json!({ "a": "c" }), json!({ "a": "c" })),
            (json!({ "a": "b", "b": "c" }), json!({ "a": null }), json!({ "b": "c" })),
            (json!({ "a": ["b"] }), json!({ "a": "c" }), json!({ "a": "c" })),
            (json!({ "a": { "b": "c" } }), json!({ "a": { "b": "d", "c": null } }), json!({ "a": { "b": "d" } })),
            (json!({}), json!({ "a": { "bb": { "ccc": null } } }), json!({ "a": { "bb": {} } })),
            (json!({ "e": null }), json!({ "a": 1 }), json!({ "e": null, "a": 1 })),
        ] {
            let mut merged = target.clone();
            merge_patch(&mut merged, patch.clone());
            assert_eq!(merged, expected, "{target} + {patch}");
        }
    }
}
