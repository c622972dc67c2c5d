//! The schema of the inputs. Schemas under `components` are moved into the schema.

use serde_json::{Map, Value};

/// The pointer of the schemas under `components`.
const COMPONENTS: &str = "#/components/inputs/";
/// The maximum depth of a schema.
const MAX_DEPTH: usize = 100;

/// Returns the schema with all referenced schemas below `$defs`. An error has the JSON pointer in the schema.
pub(super) fn inline(schema: &Value, components: &Map<String, Value>) -> Result<Value, (String, String)> {
    // A schema that is only a reference is replaced by its target, so that its properties are visible.
    let mut root = schema;
    for _ in 0..MAX_DEPTH {
        let target = root.as_object().filter(|fields| fields.len() == 1).and_then(|fields| fields.get("$ref"));
        let Some(name) = target.and_then(Value::as_str).and_then(|target| target.strip_prefix(COMPONENTS)) else {
            break;
        };
        root = components.get(name).ok_or_else(|| unknown("", name))?;
    }
    let mut used = Vec::new();
    let mut inlined = rewrite(root, "", 0, &mut used)?;
    let mut definitions = Map::new();
    let mut at = 0;
    while let Some(name) = used.get(at).cloned() {
        let component = components.get(&name).ok_or_else(|| unknown("", &name))?;
        definitions.insert(name, rewrite(component, "", 0, &mut used)?);
        at += 1;
    }
    if definitions.is_empty() {
        return Ok(inlined);
    }
    let own = inlined
        .as_object_mut()
        .and_then(|fields| fields.entry("$defs").or_insert_with(|| Map::new().into()).as_object_mut());
    let Some(own) = own else { return Err((String::new(), "must be a schema with fields".to_owned())) };
    for (name, definition) in definitions {
        if own.insert(name.clone(), definition).is_some() {
            return Err((
                "/$defs".to_owned(),
                format!("`{name}` is also the name of a schema under `components`; rename one"),
            ));
        }
    }
    Ok(inlined)
}

fn unknown(path: &str, name: &str) -> (String, String) {
    (path.to_owned(), format!("`{COMPONENTS}{name}` does not exist"))
}

fn rewrite(schema: &Value, path: &str, depth: usize, used: &mut Vec<String>) -> Result<Value, (String, String)> {
    if depth > MAX_DEPTH {
        return Err((path.to_owned(), format!("a schema must not be nested more than {MAX_DEPTH} times")));
    }
    match schema {
        Value::Array(items) => {
            let items = items.iter().enumerate();
            let items = items.map(|(at, item)| rewrite(item, &format!("{path}/{at}"), depth + 1, used));
            Ok(Value::Array(items.collect::<Result<_, _>>()?))
        }
        Value::Object(fields) => {
            let mut rewritten = Map::new();
            for (key, value) in fields {
                let path = super::super::problem::join(path, key);
                let value = match (key.as_str(), value) {
                    ("$ref", Value::String(target)) => Value::String(reference(target, &path, used)?),
                    _ => rewrite(value, &path, depth + 1, used)?,
                };
                rewritten.insert(key.clone(), value);
            }
            Ok(Value::Object(rewritten))
        }
        other => Ok(other.clone()),
    }
}

fn reference(target: &str, path: &str, used: &mut Vec<String>) -> Result<String, (String, String)> {
    if let Some(name) = target.strip_prefix(COMPONENTS).filter(|name| !name.contains('/')) {
        if !used.iter().any(|known| known == name) {
            used.push(name.to_owned());
        }
        return Ok(format!("#/$defs/{name}"));
    }
    match target.starts_with("#/components") || !target.starts_with('#') {
        true => Err((path.to_owned(), format!("`{target}` cannot be resolved; only `{COMPONENTS}NAME` can"))),
        false => Ok(target.to_owned()),
    }
}
