//! Resolves references. A reference is a bare name in the element list of a pattern; it stands for a pattern that is
//! defined elsewhere.

use std::collections::BTreeMap;

use super::Pattern;

/// An index from identities to the patterns that define them.
#[derive(Debug, Clone, Default)]
pub struct DefinitionIndex<'p>(BTreeMap<&'p str, &'p Pattern>);

impl<'p> DefinitionIndex<'p> {
    /// Creates an index of all definitions in `texts`, at any nesting depth.
    ///
    /// An identity is defined by the first pattern that has this identity and is not a reference. A pattern with
    /// elements takes precedence: `(t:Tool {…})` defines `t` only if no pattern `[t … | …]` exists.
    pub fn from_patterns(texts: impl IntoIterator<Item = &'p Pattern>) -> Self {
        let mut definitions = Self::default();
        for text in texts {
            definitions.collect(text);
        }
        definitions
    }

    /// Returns an index with the definitions of this index and of `text`. If both define an identity, the definition in
    /// `text` is used.
    pub fn with<'q>(&self, text: &'q Pattern) -> DefinitionIndex<'q>
    where
        'p: 'q,
    {
        let mut definitions = DefinitionIndex::from_patterns([text]);
        for (identity, pattern) in &self.0 {
            definitions.0.entry(identity).or_insert(pattern);
        }
        definitions
    }

    /// Returns the pattern that defines `identity`.
    pub fn get(&self, identity: &str) -> Option<&'p Pattern> {
        self.0.get(identity).copied()
    }

    /// Returns the definition of `element` if it is a reference with a known definition, otherwise `element` itself.
    pub fn resolve<'q>(&self, element: &'q Pattern) -> &'q Pattern
    where
        'p: 'q,
    {
        let definition = element.is_reference().then(|| self.get(element.identity())).flatten();
        definition.unwrap_or(element)
    }

    /// Returns `pattern` with each reference in its element list replaced by the definition, so that the pattern can be
    /// understood without other documents.
    ///
    /// To limit the size of the result, references inside the inserted definitions are not replaced. Of several equal
    /// references, only the first is replaced.
    pub fn inline(&self, pattern: &Pattern) -> Pattern {
        let mut seen = std::collections::BTreeSet::new();
        let elements = pattern.elements.iter().map(|element| {
            if seen.insert(element.identity()) { self.resolve(element).clone() } else { element.clone() }
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
