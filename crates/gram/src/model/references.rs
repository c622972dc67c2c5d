//! Shared patterns: a name among the elements stands for the pattern that is defined elsewhere.

use std::collections::BTreeMap;

use super::Pattern;

/// What the identities of some texts stand for.
#[derive(Debug, Clone, Default)]
pub struct Definitions<'p>(BTreeMap<&'p str, &'p Pattern>);

impl<'p> Definitions<'p> {
    /// The first pattern of each identity that is more than a reference, anywhere in `texts`.
    ///
    /// A node counts too: `(t:Tool {…})` defines `t`, unless there is a pattern of that identity with elements.
    pub fn of(texts: impl IntoIterator<Item = &'p Pattern>) -> Self {
        let mut definitions = Self::default();
        for text in texts {
            definitions.collect(text);
        }
        definitions
    }

    /// These definitions and those of one more text, which count more.
    pub fn with<'q>(&self, text: &'q Pattern) -> Definitions<'q>
    where
        'p: 'q,
    {
        let mut definitions = Definitions::of([text]);
        for (identity, pattern) in &self.0 {
            definitions.0.entry(identity).or_insert(pattern);
        }
        definitions
    }

    /// The pattern that `identity` stands for.
    pub fn get(&self, identity: &str) -> Option<&'p Pattern> {
        self.0.get(identity).copied()
    }

    /// `element` itself, or what it refers to, if that is known.
    pub fn follow<'q>(&self, element: &'q Pattern) -> &'q Pattern
    where
        'p: 'q,
    {
        let definition = element.is_reference().then(|| self.get(element.identity())).flatten();
        definition.unwrap_or(element)
    }

    /// `pattern` with the definitions of its elements in the place of references, for a reader that knows no other text.
    ///
    /// One level only: what the definitions refer to stays a reference, so that the result is never much larger than the
    /// texts. An element that is named twice is replaced once.
    pub fn inline(&self, pattern: &Pattern) -> Pattern {
        let mut seen = std::collections::BTreeSet::new();
        let elements = pattern.elements.iter().map(|element| {
            if seen.insert(element.identity()) { self.follow(element).clone() } else { element.clone() }
        });
        Pattern { subject: pattern.subject.clone(), elements: elements.collect() }
    }

    fn collect(&mut self, pattern: &'p Pattern) {
        if !pattern.identity().is_empty() && !pattern.is_reference() {
            let known = self.0.entry(pattern.identity()).or_insert(pattern);
            if known.elements.is_empty() && !pattern.elements.is_empty() {
                *known = pattern;
            }
        }
        for element in &pattern.elements {
            self.collect(element);
        }
    }
}
