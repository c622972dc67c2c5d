//! Definitions that mean themselves without looking at anything smaller: `{"$ref": "#/$defs/A"}` as `A`, or `A` as a part of
//! `B` and `B` of `A`. Whoever holds a value against them goes round for ever, so they are opened: anything fits.

use std::collections::{HashMap, HashSet};

use serde_json::{Map, Value, json};

/// Opens every loop; true when there was one.
pub(super) fn open(definitions: &mut Map<String, Value>) -> bool {
    let mut looping = HashSet::new();
    {
        let edges: HashMap<&str, Vec<&str>> = definitions
            .iter()
            .map(|(name, schema)| {
                let mut targets = Vec::new();
                in_place(schema, &mut targets);
                (name.as_str(), targets)
            })
            .collect();
        let mut done = HashSet::new();
        for name in definitions.keys() {
            visit(name, &edges, &mut done, &mut looping);
        }
    }
    for name in &looping {
        definitions.insert(name.clone(), json!({}));
    }
    !looping.is_empty()
}

/// Follows the edges without recursion: a chain may be as long as there are definitions.
fn visit<'n>(
    start: &'n str,
    edges: &HashMap<&'n str, Vec<&'n str>>,
    done: &mut HashSet<&'n str>,
    looping: &mut HashSet<String>,
) {
    let mut path: Vec<(&str, usize)> = vec![(start, 0)];
    let mut on_path = HashSet::from([start]);
    while let Some((name, next)) = path.last_mut() {
        let target = edges.get(name).and_then(|targets| targets.get(*next)).copied();
        *next += 1;
        match target {
            _ if done.contains(name) => {
                on_path.remove(*name);
                path.pop();
            }
            Some(target) if on_path.contains(target) => drop(looping.insert(target.to_owned())),
            Some(target) if !done.contains(target) => {
                on_path.insert(target);
                path.push((target, 0));
            }
            Some(_) => {}
            None => {
                done.insert(*name);
                on_path.remove(*name);
                path.pop();
            }
        }
    }
}

/// The definitions that a value is held against without a step into it.
fn in_place<'s>(schema: &'s Value, found: &mut Vec<&'s str>) {
    let Value::Object(fields) = schema else { return };
    if let Some(name) = fields.get("$ref").and_then(Value::as_str).and_then(|text| text.strip_prefix("#/$defs/")) {
        found.push(name);
    }
    for keyword in ["allOf", "anyOf", "oneOf"] {
        fields.get(keyword).and_then(Value::as_array).into_iter().flatten().for_each(|part| in_place(part, found));
    }
    for keyword in ["not", "if", "then", "else"] {
        fields.get(keyword).into_iter().for_each(|part| in_place(part, found));
    }
    if let Some(Value::Object(schemas)) = fields.get("dependentSchemas") {
        schemas.values().for_each(|part| in_place(part, found));
    }
}
