//! Breaks cycles of definitions that apply to the same value. Examples: the definition `A` is `{"$ref": "#/$defs/A"}`,
//! or `A` is an `allOf` part of `B` and `B` is an `allOf` part of `A`. A validator would never finish with such
//! definitions. So one definition of each cycle is replaced with `{}`, which accepts any value.

use std::collections::{HashMap, HashSet};

use serde_json::{Map, Value, json};

/// Breaks every cycle. Returns whether there was a cycle.
pub(super) fn break_cycles(definitions: &mut Map<String, Value>) -> bool {
    let mut cyclic = HashSet::new();
    {
        let edges: HashMap<&str, Vec<&str>> = definitions
            .iter()
            .map(|(name, schema)| {
                let mut targets = Vec::new();
                collect_in_place_references(schema, &mut targets);
                (name.as_str(), targets)
            })
            .collect();
        let mut done = HashSet::new();
        for name in definitions.keys() {
            visit(name, &edges, &mut done, &mut cyclic);
        }
    }
    for name in &cyclic {
        definitions.insert(name.clone(), json!({}));
    }
    !cyclic.is_empty()
}

/// Searches for cycles depth-first. It does not recurse, because a chain may be as long as the list of definitions.
fn visit<'n>(
    start: &'n str,
    edges: &HashMap<&'n str, Vec<&'n str>>,
    done: &mut HashSet<&'n str>,
    cyclic: &mut HashSet<String>,
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
            Some(target) if on_path.contains(target) => drop(cyclic.insert(target.to_owned())),
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

/// Collects the definitions that apply to the same value as `schema`. Definitions that apply only to its properties or
/// items are not collected.
fn collect_in_place_references<'s>(schema: &'s Value, found: &mut Vec<&'s str>) {
    let Value::Object(fields) = schema else { return };
    if let Some(name) = fields.get("$ref").and_then(Value::as_str).and_then(|text| text.strip_prefix("#/$defs/")) {
        found.push(name);
    }
    for keyword in ["allOf", "anyOf", "oneOf"] {
        fields
            .get(keyword)
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
            .for_each(|part| collect_in_place_references(part, found));
    }
    for keyword in ["not", "if", "then", "else"] {
        fields.get(keyword).into_iter().for_each(|part| collect_in_place_references(part, found));
    }
    if let Some(Value::Object(schemas)) = fields.get("dependentSchemas") {
        schemas.values().for_each(|part| collect_in_place_references(part, found));
    }
}
