//! Patterns and subjects.

use std::collections::{BTreeMap, BTreeSet};

use super::Value;

/// The label of a text that is more than one pattern.
pub(crate) const ROOT: &str = "Gram.Root";

/// The label of a path with more than one arrow.
pub(crate) const WALK: &str = "Gram.Walk";

/// The properties of a subject, in the order of their keys.
pub type Properties = BTreeMap<String, Value>;

/// A subject and the patterns it is made of.
///
/// Without elements it is a node, with two of them it may be a relation from the first to the second.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Pattern {
    /// What the pattern is.
    pub subject: Subject,
    /// What it is made of.
    pub elements: Vec<Pattern>,
}

/// Who or what: an identity, labels and properties, each of which may be missing.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Subject {
    /// The identifier; empty when there is none.
    pub identity: String,
    /// The labels, each once.
    pub labels: BTreeSet<String>,
    /// The properties.
    pub properties: Properties,
}

impl Pattern {
    /// A pattern of that identity and nothing else, which is also how a reference to it looks.
    pub fn named(identity: impl Into<String>) -> Self {
        Self { subject: Subject { identity: identity.into(), ..Subject::default() }, elements: Vec::new() }
    }

    /// Adds a label.
    pub fn label(mut self, label: impl Into<String>) -> Self {
        self.subject.labels.insert(label.into());
        self
    }

    /// Sets a property.
    pub fn property(mut self, key: impl Into<String>, value: impl Into<Value>) -> Self {
        self.subject.properties.insert(key.into(), value.into());
        self
    }

    /// Adds an element.
    pub fn element(mut self, element: Pattern) -> Self {
        self.elements.push(element);
        self
    }

    /// The identifier; empty when there is none.
    pub fn identity(&self) -> &str {
        &self.subject.identity
    }

    /// Whether it has that label.
    pub fn has_label(&self, label: &str) -> bool {
        self.subject.labels.contains(label)
    }

    /// A property.
    pub fn get(&self, key: &str) -> Option<&Value> {
        self.subject.properties.get(key)
    }

    /// Whether it is an identity and nothing else.
    pub fn is_reference(&self) -> bool {
        let Subject { identity, labels, properties } = &self.subject;
        !identity.is_empty() && labels.is_empty() && properties.is_empty() && self.elements.is_empty()
    }

    /// The patterns of a text: the elements of its root, or the one pattern that it is.
    pub fn members(&self) -> &[Pattern] {
        if self.is_root() { &self.elements } else { std::slice::from_ref(self) }
    }

    /// Whether it stands for a text of several patterns, or of none.
    pub fn is_root(&self) -> bool {
        self.is_anonymous_of(ROOT)
    }

    /// The edges of a path with more than one arrow.
    pub(crate) fn is_walk(&self) -> bool {
        self.is_anonymous_of(WALK)
    }

    /// A text of these patterns: the only one of them, or a root around them.
    pub fn root_of(mut patterns: Vec<Pattern>) -> Self {
        match patterns.pop() {
            Some(only) if patterns.is_empty() => only,
            last => {
                patterns.extend(last);
                Self { elements: patterns, ..Self::default().label(ROOT) }
            }
        }
    }

    fn is_anonymous_of(&self, label: &str) -> bool {
        self.subject.identity.is_empty() && self.subject.labels.len() == 1 && self.has_label(label)
    }
}

impl Subject {
    /// Whether there is neither an identity nor a label nor a property.
    pub fn is_empty(&self) -> bool {
        self.identity.is_empty() && self.labels.is_empty() && self.properties.is_empty()
    }
}
