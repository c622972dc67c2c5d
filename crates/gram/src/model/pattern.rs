//! Defines patterns and their subjects.

use std::collections::{BTreeMap, BTreeSet};

use super::Value;

/// The label of a document that does not consist of exactly one pattern.
pub(crate) const ROOT: &str = "Gram.Root";

/// The label of a path with several arrows.
pub(crate) const WALK: &str = "Gram.Walk";

/// The properties of a subject, sorted by key.
pub type Properties = BTreeMap<String, Value>;

/// A pattern: a subject and a list of elements, which are patterns as well.
///
/// A pattern without elements is a node. A pattern with two elements may be a relation from the first element to the
/// second.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Pattern {
    /// The subject.
    pub subject: Subject,
    /// The elements.
    pub elements: Vec<Pattern>,
}

/// The description of a pattern: an identity, labels and properties. Each of them may be absent.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Subject {
    /// The identifier, or an empty string.
    pub identity: String,
    /// The labels.
    pub labels: BTreeSet<String>,
    /// The properties.
    pub properties: Properties,
}

impl Pattern {
    /// Creates a pattern that has only an identity. A reference to another pattern has the same form.
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

    /// Returns the identifier, or an empty string.
    pub fn identity(&self) -> &str {
        &self.subject.identity
    }

    /// Returns whether the pattern has the label.
    pub fn has_label(&self, label: &str) -> bool {
        self.subject.labels.contains(label)
    }

    /// Returns the value of a property.
    pub fn get(&self, key: &str) -> Option<&Value> {
        self.subject.properties.get(key)
    }

    /// Returns whether the pattern has only an identity, so that it can be a reference.
    pub fn is_reference(&self) -> bool {
        let Subject { identity, labels, properties } = &self.subject;
        !identity.is_empty() && labels.is_empty() && properties.is_empty() && self.elements.is_empty()
    }

    /// Returns the top-level patterns of a document: the elements of the root pattern, or the only pattern of a
    /// document without a root pattern.
    pub fn members(&self) -> &[Pattern] {
        if self.is_root() { &self.elements } else { std::slice::from_ref(self) }
    }

    /// Returns whether the pattern is a root pattern, which represents a document that does not consist of exactly one
    /// pattern.
    pub fn is_root(&self) -> bool {
        self.is_anonymous_with_label(ROOT)
    }

    /// Returns whether the pattern is a walk, which contains the relations of a path with several arrows.
    pub(crate) fn is_walk(&self) -> bool {
        self.is_anonymous_with_label(WALK)
    }

    /// Creates a document from its top-level patterns. If there is only one pattern, returns this pattern, otherwise a
    /// root pattern that contains all of them.
    pub fn from_members(mut patterns: Vec<Pattern>) -> Self {
        match patterns.pop() {
            Some(only) if patterns.is_empty() => only,
            last => {
                patterns.extend(last);
                Self { elements: patterns, ..Self::default().label(ROOT) }
            }
        }
    }

    fn is_anonymous_with_label(&self, label: &str) -> bool {
        self.subject.identity.is_empty() && self.subject.labels.len() == 1 && self.has_label(label)
    }
}

impl Subject {
    /// Returns whether the subject has no identity, no labels and no properties.
    pub fn is_empty(&self) -> bool {
        self.identity.is_empty() && self.labels.is_empty() && self.properties.is_empty()
    }
}
