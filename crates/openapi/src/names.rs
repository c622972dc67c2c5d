//! Names for tools: those of the operations, made to fit.

use std::collections::{HashMap, HashSet};

use sha2::{Digest, Sha256};
use toolwright_types::RefName;

/// The longest name.
const LONGEST: usize = 128;

/// Gives each operation a name that no other has.
pub(crate) struct Names {
    prefix: Option<String>,
    /// By key: names are the same without regard to case.
    taken: HashSet<String>,
    /// How often a name was wanted, so that the thousandth of one name does not ask a thousand times.
    wanted: HashMap<String, usize>,
}

/// A name, and whether it is another than the operation asked for because that one was taken.
pub(crate) struct Named {
    pub name: RefName,
    pub instead_of: Option<String>,
}

impl Names {
    pub fn new(prefix: Option<String>) -> Self {
        Self { prefix, taken: HashSet::new(), wanted: HashMap::new() }
    }

    /// The name of an operation: its id, else its method and path.
    pub fn give(&mut self, id: Option<&str>, method: &str, path: &str) -> Option<Named> {
        let own = id.map(tidy).filter(|own| !own.is_empty()).unwrap_or_else(|| tidy(&format!("{method} {path}")));
        let wanted = fit(self.prefix.as_deref(), &own, "")?;
        if self.taken.insert(wanted.key()) {
            return Some(Named { name: wanted, instead_of: None });
        }
        let count = self.wanted.entry(wanted.key()).or_insert(1);
        let mut next = *count;
        let name = loop {
            next += 1;
            let candidate = fit(self.prefix.as_deref(), &own, &format!("_{next}"))?;
            if self.taken.insert(candidate.key()) {
                break candidate;
            }
        };
        *count = next;
        Some(Named { name, instead_of: Some(wanted.to_string()) })
    }
}

/// The prefix, the name and a suffix within the length of a name; what is cut off leaves a trace that tells it from others.
fn fit(prefix: Option<&str>, own: &str, suffix: &str) -> Option<RefName> {
    let before = prefix.map_or(0, |prefix| prefix.len() + 1);
    let room = LONGEST.checked_sub(before + suffix.len())?;
    let own = if own.len() <= room {
        own.to_owned()
    } else {
        let digest = Sha256::digest(own.as_bytes());
        let trace: String = digest.iter().take(4).map(|byte| format!("{byte:02x}")).collect();
        let beginning = own.get(..room.checked_sub(trace.len() + 1)?)?.trim_end_matches(['.', '_', '-']);
        format!("{beginning}_{trace}")
    };
    let name = match prefix {
        Some(prefix) => format!("{prefix}/{own}{suffix}"),
        None => format!("{own}{suffix}"),
    };
    // A word that is a route cannot be a name.
    name.parse().or_else(|_| format!("{name}_tool").parse()).ok()
}

/// A text in the alphabet of names: `/` becomes a dot, any other run of strangers one `_`.
fn tidy(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            c if c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.') => out.push(c),
            // Around the parameters of a path.
            '{' | '}' => {}
            _ if out.is_empty() || out.ends_with(['.', '_', '-']) => {}
            '/' => out.push('.'),
            _ => out.push('_'),
        }
    }
    out.trim_start_matches(['.', '_', '-']).trim_end_matches(['.', '_', '-']).to_owned()
}

/// A title as a name: lower case, words with `-` between them.
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

    fn named(names: &mut Names, id: Option<&str>, method: &str, path: &str) -> String {
        names.give(id, method, path).unwrap().name.to_string()
    }

    #[test]
    fn ids_are_kept_where_they_can_be_and_mended_where_not() {
        for (id, name) in [
            ("list_pets", "shop/list_pets"),
            ("listPets", "shop/listPets"),
            ("repos/get-content", "shop/repos.get-content"),
            ("Pets: list all!", "shop/Pets_list_all"),
            ("__x__", "shop/x"),
            ("größe", "shop/gr_e"),
            ("query", "shop/query"),
        ] {
            assert_eq!(named(&mut Names::new(Some("shop".into())), Some(id), "get", "/"), name);
        }
        assert_eq!(named(&mut Names::new(None), Some("query"), "get", "/"), "query_tool");
    }

    #[test]
    fn without_an_id_method_and_path_are_the_name() {
        for (id, path, name) in [
            (None, "/pets/{petId}/toys", "get_pets.petId.toys"),
            (Some("…"), "/", "get"),
            (None, "/{a}/{b}", "get_a.b"),
        ] {
            assert_eq!(named(&mut Names::new(None), id, "get", path), name);
        }
    }

    #[test]
    fn no_two_operations_share_a_name() {
        let mut names = Names::new(Some("shop".into()));
        assert_eq!(named(&mut names, Some("get"), "get", "/a"), "shop/get");
        let second = names.give(Some("GET"), "get", "/b").unwrap();
        assert_eq!((second.name.as_str(), second.instead_of.as_deref()), ("shop/GET_2", Some("shop/GET")));
        assert_eq!(named(&mut names, Some("get_2"), "get", "/c"), "shop/get_2_2");
        assert_eq!(named(&mut names, Some("Get"), "get", "/d"), "shop/Get_3");
    }

    #[test]
    fn long_names_are_cut_and_still_told_apart() {
        let mut names = Names::new(Some("shop".into()));
        let long = "x".repeat(300);
        let first = named(&mut names, Some(&format!("{long}1")), "get", "/");
        let second = named(&mut names, Some(&format!("{long}2")), "get", "/");
        assert!(first.len() == 128 && second.len() == 128 && first != second, "{first} {second}");
    }
}
