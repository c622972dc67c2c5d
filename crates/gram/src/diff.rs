//! Computes the differences between the patterns of two documents. Layout and the order of top-level patterns are
//! ignored.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::fmt;

use serde::Serialize;

use crate::model::{Pattern, Value};
use crate::print::{print_line, print_value};

/// One difference between two documents.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PatternDifference {
    /// The path from the document to the changed pattern, with one segment per level. A segment is the identity of the
    /// pattern at that level. If the pattern has no identity, the segment is its position among its siblings, counted
    /// from 1.
    pub path: Vec<String>,
    /// What changed in the pattern.
    #[serde(flatten)]
    pub change: PatternChange,
}

/// The change of one pattern.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "change", rename_all = "kebab-case")]
pub enum PatternChange {
    /// A pattern was added.
    Added {
        /// The added pattern.
        pattern: Pattern,
    },
    /// A pattern was removed.
    Removed {
        /// The removed pattern.
        pattern: Pattern,
    },
    /// A label was added.
    LabelAdded {
        /// The label.
        label: String,
    },
    /// A label was removed.
    LabelRemoved {
        /// The label.
        label: String,
    },
    /// A property was added, removed or changed.
    Property {
        /// The key of the property.
        key: String,
        /// The old value. `None` if the property was added.
        #[serde(skip_serializing_if = "Option::is_none")]
        before: Option<Value>,
        /// The new value. `None` if the property was removed.
        #[serde(skip_serializing_if = "Option::is_none")]
        after: Option<Value>,
    },
    /// The order of the elements changed.
    Reordered,
}

/// Returns the differences from `before` to `after`. The order of top-level patterns is ignored; the order of the
/// elements of a pattern is significant.
pub fn diff(before: &Pattern, after: &Pattern) -> Vec<PatternDifference> {
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

impl fmt::Display for PatternDifference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.path.is_empty() {
            write!(f, "{}: ", self.path.join(" | "))?;
        }
        match &self.change {
            PatternChange::Added { pattern } => write!(f, "added {}", print_line(pattern)),
            PatternChange::Removed { pattern } => write!(f, "removed {}", print_line(pattern)),
            PatternChange::LabelAdded { label } => write!(f, "added label `{label}`"),
            PatternChange::LabelRemoved { label } => write!(f, "removed label `{label}`"),
            PatternChange::Property { key, before, after } => match (before, after) {
                (Some(before), Some(after)) => {
                    write!(f, "`{key}` was {}, is {}", print_value(before), print_value(after))
                }
                (Some(before), None) => write!(f, "removed `{key}`, which was {}", print_value(before)),
                (None, after) => write!(f, "added `{key}` {}", after.as_ref().map(print_value).unwrap_or_default()),
            },
            PatternChange::Reordered => f.write_str("elements were reordered"),
        }
    }
}

struct Differences {
    path: Vec<String>,
    found: Vec<PatternDifference>,
}

impl Differences {
    fn push(&mut self, change: PatternChange) {
        self.found.push(PatternDifference { path: self.path.clone(), change });
    }

    fn subject(&mut self, before: &Pattern, after: &Pattern) {
        let (old, new) = (&before.subject.labels, &after.subject.labels);
        for label in old.difference(new) {
            self.push(PatternChange::LabelRemoved { label: label.clone() });
        }
        for label in new.difference(old) {
            self.push(PatternChange::LabelAdded { label: label.clone() });
        }
        self.properties(&before.subject.properties, &after.subject.properties);
    }

    fn properties(&mut self, before: &BTreeMap<String, Value>, after: &BTreeMap<String, Value>) {
        let added = after.keys().filter(|key| !before.contains_key(*key));
        for key in before.keys().chain(added) {
            let (before, after) = (before.get(key).cloned(), after.get(key).cloned());
            if before != after {
                self.push(PatternChange::Property { key: key.clone(), before, after });
            }
        }
    }

    /// Compares two lists of patterns and records the differences. Returns the pairs of patterns that correspond to
    /// each other, as an index into `before` and an index into `after`.
    fn elements(&mut self, before: &[Pattern], after: &[Pattern]) -> Vec<(usize, usize)> {
        let pairs = pair(before, after);
        for (old, new) in &pairs {
            let (Some(old_pattern), Some(new_pattern)) = (before.get(*old), after.get(*new)) else { continue };
            if old_pattern != new_pattern {
                self.path.push(path_segment(new_pattern, *new));
                self.pattern(old_pattern, new_pattern);
                self.path.pop();
            }
        }
        let (old, new): (BTreeSet<usize>, BTreeSet<usize>) = pairs.iter().copied().unzip();
        for (_, pattern) in before.iter().enumerate().filter(|(index, _)| !old.contains(index)) {
            self.push(PatternChange::Removed { pattern: pattern.clone() });
        }
        for (_, pattern) in after.iter().enumerate().filter(|(index, _)| !new.contains(index)) {
            self.push(PatternChange::Added { pattern: pattern.clone() });
        }
        pairs
    }

    fn pattern(&mut self, before: &Pattern, after: &Pattern) {
        self.subject(before, after);
        let pairs = self.elements(&before.elements, &after.elements);
        if !pairs.is_sorted_by(|one, next| one.0 < next.0 && one.1 < next.1) {
            self.push(PatternChange::Reordered);
        }
    }
}

fn path_segment(pattern: &Pattern, index: usize) -> String {
    match pattern.identity() {
        "" => (index + 1).to_string(),
        identity => identity.to_owned(),
    }
}

/// Pairs the patterns of two lists, in the order of `before`. Patterns with the same identity are paired in order of
/// occurrence. Patterns without an identity are paired if they are equal.
fn pair<'p>(before: &'p [Pattern], after: &'p [Pattern]) -> Vec<(usize, usize)> {
    let mut unpaired = UnpairedPatterns::new(after);
    let mut pairs: Vec<(usize, Option<usize>)> =
        before.iter().enumerate().map(|(old, pattern)| (old, unpaired.take(&key(pattern)))).collect();
    // The remaining patterns without an identity have no equal counterpart, so they have probably changed. They are
    // paired in order.
    let mut rest = (0..).zip(after).filter(|(new, pattern)| pattern.identity().is_empty() && !unpaired.is_taken(*new));
    for (old, new) in &mut pairs {
        let is_anonymous = before.get(*old).is_some_and(|pattern| pattern.identity().is_empty());
        if new.is_none() && is_anonymous {
            *new = rest.next().map(|(new, _)| new);
        }
    }
    pairs.into_iter().filter_map(|(old, new)| Some((old, new?))).collect()
}

/// The key by which patterns are paired: the identity, or the canonical text of a pattern without an identity.
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

/// The patterns of a list that are not paired yet.
struct UnpairedPatterns<'p> {
    by_key: HashMap<Key<'p>, VecDeque<usize>>,
    taken: Vec<bool>,
}

impl<'p> UnpairedPatterns<'p> {
    fn new(patterns: &'p [Pattern]) -> Self {
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
