//! What changed from one text to another, layout and order of the top level aside.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::fmt;

use serde::Serialize;

use crate::model::{Pattern, Value};
use crate::print::{print_line, print_value};

/// One difference between two texts.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Difference {
    /// The identities that lead to the pattern; a number, counted from 1, for one without identity.
    pub path: Vec<String>,
    /// What is different there.
    #[serde(flatten)]
    pub change: Change,
}

/// What is different about a pattern.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "change", rename_all = "kebab-case")]
pub enum Change {
    /// It is new.
    Added {
        /// The pattern.
        pattern: Pattern,
    },
    /// It is gone.
    Removed {
        /// The pattern.
        pattern: Pattern,
    },
    /// It has another label.
    LabelAdded {
        /// The label.
        label: String,
    },
    /// It lacks a label.
    LabelRemoved {
        /// The label.
        label: String,
    },
    /// A property is new, gone or another.
    Property {
        /// The key.
        key: String,
        /// What it was.
        #[serde(skip_serializing_if = "Option::is_none")]
        before: Option<Value>,
        /// What it is.
        #[serde(skip_serializing_if = "Option::is_none")]
        after: Option<Value>,
    },
    /// Its elements are in another order.
    Reordered,
}

/// The differences from `before` to `after`. There are none exactly when both say the same; the order of the patterns of a
/// text says nothing, that of the elements of a pattern does.
pub fn diff(before: &Pattern, after: &Pattern) -> Vec<Difference> {
    let mut differences = Differences { path: Vec::new(), found: Vec::new() };
    match (before.is_root(), after.is_root()) {
        (true, true) => differences.subject(before, after),
        (true, false) => differences.properties(&before.subject.properties, &BTreeMap::new()),
        (false, true) => differences.properties(&BTreeMap::new(), &after.subject.properties),
        (false, false) => {}
    }
    differences.elements(before.members(), after.members());
    differences.found
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.path.is_empty() {
            write!(f, "{}: ", self.path.join(" | "))?;
        }
        match &self.change {
            Change::Added { pattern } => write!(f, "added {}", print_line(pattern)),
            Change::Removed { pattern } => write!(f, "removed {}", print_line(pattern)),
            Change::LabelAdded { label } => write!(f, "added label `{label}`"),
            Change::LabelRemoved { label } => write!(f, "removed label `{label}`"),
            Change::Property { key, before, after } => match (before, after) {
                (Some(before), Some(after)) => {
                    write!(f, "`{key}` was {}, is {}", print_value(before), print_value(after))
                }
                (Some(before), None) => write!(f, "removed `{key}`, which was {}", print_value(before)),
                (None, after) => write!(f, "added `{key}` {}", after.as_ref().map(print_value).unwrap_or_default()),
            },
            Change::Reordered => f.write_str("elements in another order"),
        }
    }
}

struct Differences {
    path: Vec<String>,
    found: Vec<Difference>,
}

impl Differences {
    fn push(&mut self, change: Change) {
        self.found.push(Difference { path: self.path.clone(), change });
    }

    fn subject(&mut self, before: &Pattern, after: &Pattern) {
        let (old, new) = (&before.subject.labels, &after.subject.labels);
        for label in old.difference(new) {
            self.push(Change::LabelRemoved { label: label.clone() });
        }
        for label in new.difference(old) {
            self.push(Change::LabelAdded { label: label.clone() });
        }
        self.properties(&before.subject.properties, &after.subject.properties);
    }

    fn properties(&mut self, before: &BTreeMap<String, Value>, after: &BTreeMap<String, Value>) {
        let added = after.keys().filter(|key| !before.contains_key(*key));
        for key in before.keys().chain(added) {
            let (before, after) = (before.get(key).cloned(), after.get(key).cloned());
            if before != after {
                self.push(Change::Property { key: key.clone(), before, after });
            }
        }
    }

    /// Compares lists of patterns. Those of one identity belong together, the first of each list to the first of the other
    /// and so on; of those without, equal ones do.
    fn elements(&mut self, before: &[Pattern], after: &[Pattern]) -> Vec<(usize, usize)> {
        let pairs = pair(before, after);
        for (old, new) in &pairs {
            let (Some(old_pattern), Some(new_pattern)) = (before.get(*old), after.get(*new)) else { continue };
            if old_pattern != new_pattern {
                self.path.push(step(new_pattern, *new));
                self.pattern(old_pattern, new_pattern);
                self.path.pop();
            }
        }
        let (old, new): (BTreeSet<usize>, BTreeSet<usize>) = pairs.iter().copied().unzip();
        for (_, pattern) in before.iter().enumerate().filter(|(index, _)| !old.contains(index)) {
            self.push(Change::Removed { pattern: pattern.clone() });
        }
        for (_, pattern) in after.iter().enumerate().filter(|(index, _)| !new.contains(index)) {
            self.push(Change::Added { pattern: pattern.clone() });
        }
        pairs
    }

    fn pattern(&mut self, before: &Pattern, after: &Pattern) {
        self.subject(before, after);
        let pairs = self.elements(&before.elements, &after.elements);
        if !pairs.is_sorted_by(|one, next| one.0 < next.0 && one.1 < next.1) {
            self.push(Change::Reordered);
        }
    }
}

fn step(pattern: &Pattern, index: usize) -> String {
    match pattern.identity() {
        "" => (index + 1).to_string(),
        identity => identity.to_owned(),
    }
}

/// Which patterns belong together, in the order of `before`.
fn pair<'p>(before: &'p [Pattern], after: &'p [Pattern]) -> Vec<(usize, usize)> {
    let mut free = Free::of(after);
    let mut pairs: Vec<(usize, Option<usize>)> =
        before.iter().enumerate().map(|(old, pattern)| (old, free.take(&key(pattern)))).collect();
    // What is left without an identity changed, most likely: first to first, second to second.
    let mut rest = (0..).zip(after).filter(|(new, pattern)| pattern.identity().is_empty() && !free.is_taken(*new));
    for (old, new) in &mut pairs {
        let is_anonymous = before.get(*old).is_some_and(|pattern| pattern.identity().is_empty());
        if new.is_none() && is_anonymous {
            *new = rest.next().map(|(new, _)| new);
        }
    }
    pairs.into_iter().filter_map(|(old, new)| Some((old, new?))).collect()
}

/// What a pattern is recognised by: its identity, or else everything about it.
#[derive(PartialEq, Eq, Hash)]
enum Key<'p> {
    Identity(&'p str),
    Text(String),
}

fn key(pattern: &Pattern) -> Key<'_> {
    match pattern.identity() {
        "" => Key::Text(print_line(pattern)),
        identity => Key::Identity(identity),
    }
}

/// The patterns of a list that have no partner yet.
struct Free<'p> {
    by_key: HashMap<Key<'p>, VecDeque<usize>>,
    taken: Vec<bool>,
}

impl<'p> Free<'p> {
    fn of(patterns: &'p [Pattern]) -> Self {
        let mut by_key: HashMap<Key, VecDeque<usize>> = HashMap::new();
        for (index, pattern) in patterns.iter().enumerate() {
            by_key.entry(key(pattern)).or_default().push_back(index);
        }
        Self { by_key, taken: vec![false; patterns.len()] }
    }

    fn take(&mut self, key: &Key<'p>) -> Option<usize> {
        let index = self.by_key.get_mut(key)?.pop_front()?;
        if let Some(taken) = self.taken.get_mut(index) {
            *taken = true;
        }
        Some(index)
    }

    fn is_taken(&self, index: usize) -> bool {
        self.taken.get(index).copied().unwrap_or_default()
    }
}
