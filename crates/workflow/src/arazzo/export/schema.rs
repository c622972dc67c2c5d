//! The schema of the inputs. Schemas below `$defs` are moved to `components`.

use serde_json::{Map, Value};

use super::super::problem::join;

const DEFINITIONS: &str = "#/$defs/";

/// Returns the schema without `$defs`, and the schemas below `$defs`. An error has the JSON pointer in the schema.
pub(super) fn split(schema: &Value) -> Result<(Value, Map<String, Value>), (String, String)> {
    let mut root = schema.clone();
    let definitions = root.as_object_mut().and_then(|fields| fields.shift_remove("$defs"));
    let definitions = match definitions {
        Some(Value::Object(definitions)) => definitions,
        _ => Map::new(),
    };
    let root = rewrite(&root, "", &definitions)?;
    let mut moved = Map::new();
    for (name, definition) in &definitions {
        let is_key =
            !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_'));
        let path = join("/$defs", name);
        if !is_key {
            return Err((path, "the name may only have letters, digits, `.`, `-` and `_`".to_owned()));
        }
        moved.insert(name.clone(), rewrite(definition, &path, &definitions)?);
    }
    Ok((root, moved))
}

fn rewrite(schema: &Value, path: &str, known: &Map<String, Value>) -> Result<Value, (String, String)> {
    match schema {
        Value::Array(items) => {
            let items = items.iter().enumerate().map(|(at, item)| rewrite(item, &format!("{path}/{at}"), known));
            Ok(Value::Array(items.collect::<Result<_, _>>()?))
        }
        Value::Object(fields) => {
            let mut rewritten = Map::new();
            for (key, value) in fields {
                let path = join(path, key);
                let value = match (key.as_str(), value) {
                    ("$ref", Value::String(target)) => {
                        let name = target.strip_prefix(DEFINITIONS).filter(|name| known.contains_key(*name));
                        let message = || format!("`{target}` cannot be written; only `{DEFINITIONS}NAME` can");
                        let name = name.ok_or_else(|| (path.clone(), message()))?;
                        Value::String(format!("#/components/inputs/{name}"))
                    }
                    _ => rewrite(value, &path, known)?,
                };
                rewritten.insert(key.clone(), value);
            }
            Ok(Value::Object(rewritten))
        }
        other => Ok(other.clone()),
    }
}
