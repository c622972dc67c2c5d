//! Derives valid, unique tool names from operations.

use std::collections::{HashMap, HashSet};

use sha2::{Digest, Sha256};
use toolwright_types::RefName;

/// The maximum length of a name, in bytes.
const MAX_NAME_BYTES: usize = 128;

/// Assigns each operation a unique name.
pub(crate) struct ToolNames {
    prefix: Option<String>,
    /// The keys of the assigned names. Names that differ only in case have the same key.
    taken: HashSet<String>,
    /// The last numeric suffix of each name, so that the thousandth operation with the same name does not try a
    /// thousand suffixes.
    suffixes: HashMap<String, usize>,
}

/// The name of a tool.
pub(crate) struct AssignedName {
    pub name: RefName,
    /// The preferred name of the operation, if an earlier operation already has this name.
    pub conflict: Option<String>,
}

impl ToolNames {
    pub(crate) fn new(prefix: Option<String>) -> Self {
        Self { prefix, taken: HashSet::new(), suffixes: HashMap::new() }
    }

    /// Assigns a name to an operation. The name is derived from the id of the operation, or from its method and path if
    /// the operation has no usable id. Returns `None` if the derived name is not valid.
    pub(crate) fn assign(&mut self, id: Option<&str>, method: &str, path: &str) -> Option<AssignedName> {
        let own =
            id.map(sanitize).filter(|own| !own.is_empty()).unwrap_or_else(|| sanitize(&format!("{method} {path}")));
        let preferred = build_name(self.prefix.as_deref(), &own, "")?;
        if self.taken.insert(preferred.key()) {
            return Some(AssignedName { name: preferred, conflict: None });
        }
        let suffix = self.suffixes.entry(preferred.key()).or_insert(1);
        let mut next = *suffix;
        let name = loop {
            next += 1;
            let candidate = build_name(self.prefix.as_deref(), &own, &format!("_{next}"))?;
            if self.taken.insert(candidate.key()) {
                break candidate;
            }
        };
        *suffix = next;
        Some(AssignedName { name, conflict: Some(preferred.to_string()) })
    }
}

/// Joins prefix, name and suffix within the maximum length. A truncated name ends with a hash of the whole name, so
/// that it remains unique.
fn build_name(prefix: Option<&str>, own: &str, suffix: &str) -> Option<RefName> {
    let prefix_bytes = prefix.map_or(0, |prefix| prefix.len() + 1);
    let room = MAX_NAME_BYTES.checked_sub(prefix_bytes + suffix.len())?;
    let own = if own.len() <= room {
        own.to_owned()
    } else {
        let digest = Sha256::digest(own.as_bytes());
        let hash: String = digest.iter().take(4).map(|byte| format!("{byte:02x}")).collect();
        let start = own.get(..room.checked_sub(hash.len() + 1)?)?.trim_end_matches(['.', '_', '-']);
        format!("{start}_{hash}")
    };
    let name = match prefix {
        Some(prefix) => format!("{prefix}/{own}{suffix}"),
        None => format!("{own}{suffix}"),
    };
    // Names that are also REST routes, such as `query`, are reserved. Such a name gets the suffix `_tool`.
    name.parse().or_else(|_| format!("{name}_tool").parse()).ok()
}

/// Replaces characters that are not allowed in names: `/` becomes `.`, and a sequence of other characters becomes one
/// `_`.
fn sanitize(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            c if c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.') => out.push(c),
            // Removes the braces around a path parameter.
            '{' | '}' => {}
            _ if out.is_empty() || out.ends_with(['.', '_', '-']) => {}
            '/' => out.push('.'),
            _ => out.push('_'),
        }
    }
    out.trim_start_matches(['.', '_', '-']).trim_end_matches(['.', '_', '-']).to_owned()
}

/// Converts a title to a lower-case name with `-` between the words.
pub(crate) fn slug(title: &str) -> String {
    let mut out = String::new();
    for c in title.chars() {
        match c {
            c if c.is_ascii_alphanumeric() => out.push(c.to_ascii_lowercase()),
            _ if !out.is_empty() && !out.ends_with('-') => out.push('-'),
            _ => {}
        }
    }
    out.truncate(60);
    out.trim_end_matches('-').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn assign(names: &mut ToolNames, id: Option<&str>, method: &str, path: &str) -> String {
        names.assign(id, method, path).unwrap().name.to_string()
    }

    #[test]
    fn invalid_characters_of_operation_ids_are_replaced() {
        for (id, name) in [
            ("list_pets", "shop/list_pets"),
            ("listPets", "shop/listPets"),
            ("repos/get-content", "shop/repos.get-content"),
            ("Pets: list all!", "shop/Pets_list_all"),
            ("__x__", "shop/x"),
            ("größe", "shop/gr_e"),
            ("query", "shop/query"),
        ] {
            assert_eq!(assign(&mut ToolNames::new(Some("shop".into())), Some(id), "get", "/"), name);
        }
        assert_eq!(assign(&mut ToolNames::new(None), Some("query"), "get", "/"), "query_tool");
    }

    #[test]
    fn operation_without_id_is_named_after_method_and_path() {
        for (id, path, name) in [
            (None, "/pets/{petId}/toys", "get_pets.petId.toys"),
            (Some("…"), "/", "get"),
            (None, "/{a}/{b}", "get_a.b"),
        ] {
            assert_eq!(assign(&mut ToolNames::new(None), id, "get", path), name);
        }
    }

    #[test]
    fn conflicting_names_get_a_numeric_suffix() {
        let mut names = ToolNames::new(Some("shop".into()));
        assert_eq!(assign(&mut names, Some("get"), "get", "/a"), "shop/get");
        let second = names.assign(Some("GET"), "get", "/b").unwrap();
        assert_eq!((second.name.as_str(), second.conflict.as_deref()), ("shop/GET_2", Some("shop/GET")));
        assert_eq!(assign(&mut names, Some("get_2"), "get", "/c"), "shop/get_2_2");
        assert_eq!(assign(&mut names, Some("Get"), "get", "/d"), "shop/Get_3");
    }

    #[test]
    fn names_that_differ_only_beyond_the_maximum_length_remain_distinct() {
        let mut names = ToolNames::new(Some("shop".into()));
        let long = "x".repeat(300);
        let first = assign(&mut names, Some(&format!("{long}1")), "get", "/");
        let second = assign(&mut names, Some(&format!("{long}2")), "get", "/");
        assert!(first.len() == 128 && second.len() == 128 && first != second, "{first} {second}");
    }
}
