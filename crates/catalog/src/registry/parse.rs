//! Parses definitions from JSON. Fields that the server manages are ignored, and unknown fields are errors.

use serde_json::Value;
use toolwright_tools::{DefinitionIssue, Issues};
use toolwright_types::{DocumentKind, MANAGED_FIELDS};

use super::Definition;

/// The maximum number of mistakes that are reported.
const MAX_ISSUES: usize = 50;

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
    reject_arrays_for_objects(T::KIND, &body)?;
    deserialize_all(body)
}

/// Deserializes a definition. To report all mistakes, removes each value with a mistake and deserializes the definition
/// again.
fn deserialize_all<T: Definition>(mut body: Value) -> Result<T, Issues> {
    let mut issues: Vec<DefinitionIssue> = Vec::new();
    loop {
        let error = match serde_path_to_error::deserialize::<_, T>(&body) {
            Ok(definition) if issues.is_empty() => return Ok(definition),
            Ok(_) => break,
            Err(error) => error,
        };
        let (mut path, message) = (json_pointer(error.path()), error.inner().to_string());
        let named = |rule: &str| Some(message.strip_prefix(rule)?.split('`').next().unwrap_or_default());
        // A field that was removed because of a mistake must not be reported as missing.
        if let Some(name) = named("missing field `")
            && issues.iter().any(|known| known.path == format!("{path}/{name}"))
        {
            break;
        }
        let target = match named("unknown field `") {
            Some(name) if !path.ends_with(&format!("/{name}")) => format!("{path}/{name}"),
            _ => path.clone(),
        };
        let removed = remove(&mut body, &target);
        if removed {
            path = target;
        }
        issues.push(DefinitionIssue { path, message });
        if !removed || issues.len() == MAX_ISSUES {
            break;
        }
    }
    Err(Issues(issues))
}

/// Removes the value at a JSON pointer. An element of a list is not removed, because the positions of the other
/// elements would change.
fn remove(body: &mut Value, pointer: &str) -> bool {
    let Some((parent, name)) = pointer.rsplit_once('/') else { return false };
    let name = name.replace("~1", "/").replace("~0", "~");
    let parent = body.pointer_mut(parent).and_then(Value::as_object_mut);
    parent.is_some_and(|fields| fields.shift_remove(&name).is_some())
}

/// Rejects an array where an object is required. Without this check, serde would read the items of the array as the
/// fields of the object.
fn reject_arrays_for_objects(kind: DocumentKind, body: &Value) -> Result<(), Issues> {
    const OBJECTS: [&str; 5] = ["invocation", "auth", "rateLimit", "composite", "limits"];
    const OBJECTS_OF_OBJECTS: [&str; 3] = ["inputSchema", "outputSchema", "errorHandling"];
    // The schemas of a workflow are JSON schemas, which contain arrays.
    let inner = OBJECTS_OF_OBJECTS
        .iter()
        .filter(|_| kind != DocumentKind::Workflow)
        .filter_map(|name| Some((name, body.get(name)?.as_object()?)));
    let nested =
        inner.flat_map(|(name, fields)| fields.iter().map(move |(key, value)| (format!("/{name}/{key}"), value)));
    let direct = OBJECTS.iter().filter_map(|name| Some((format!("/{name}"), body.get(name)?)));
    let items = |list: &'static str| {
        let items = body.get(list).and_then(Value::as_array).into_iter().flatten();
        items.enumerate().map(move |(at, value)| (format!("/{list}/{at}"), value))
    };
    let steps = items("steps");
    let retries = steps.clone().filter_map(|(path, step)| Some((format!("{path}/retry"), step.get("retry")?)));
    let listed = items("examples").chain(steps).chain(retries);
    match direct.chain(nested).chain(listed).find(|(_, value)| value.is_array()) {
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
    use toolwright_types::ToolDefinition;

    use super::*;

    #[test]
    fn all_mistakes_of_a_definition_are_reported() {
        let body = json!({ "refName": "no name", "toolType": "NONSENSE", "timeoutMs": "soon", "color": "red",
            "invocation": { "path": 1, "colour": 2 } });
        let Issues(issues) = definition::<ToolDefinition>(body).unwrap_err();
        let mut paths: Vec<&str> = issues.iter().map(|issue| issue.path.as_str()).collect();
        paths.sort_unstable();
        assert_eq!(
            paths,
            ["/color", "/invocation/colour", "/invocation/path", "/refName", "/timeoutMs", "/toolType"],
            "{issues:#?}"
        );
    }

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
