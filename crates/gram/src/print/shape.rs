//! Chooses whether a pattern is printed as a node, a path or a bracket.

use crate::labels::is_container;
use crate::model::{Pattern, Subject};

/// The notation of a pattern.
pub(super) enum Shape<'p> {
    /// `(a)`
    Node,
    /// `(a)-->(b)-->(c)`
    Path { start: &'p Pattern, hops: Vec<Hop<'p>> },
    /// `[a | …]`
    Bracket,
}

/// One arrow of a path and its target node.
pub(super) struct Hop<'p> {
    pub relation: &'p Subject,
    pub backwards: bool,
    pub to: &'p Pattern,
}

impl<'p> Shape<'p> {
    pub(super) fn of(pattern: &'p Pattern) -> Self {
        if pattern.elements.is_empty() {
            return Self::Node;
        }
        if let Some((from, to)) = ends(pattern) {
            let hops = vec![Hop { relation: &pattern.subject, backwards: false, to }];
            return Self::Path { start: from, hops };
        }
        walk(pattern).unwrap_or(Self::Bracket)
    }
}

/// Returns the nesting depth of brackets in the text of a pattern.
pub(crate) fn nesting(pattern: &Pattern) -> usize {
    let below = |pattern: &Pattern| pattern.elements.iter().map(nesting).max().unwrap_or_default();
    match Shape::of(pattern) {
        Shape::Node | Shape::Path { .. } => 0,
        Shape::Bracket if pattern.is_root() => below(pattern),
        Shape::Bracket => 1 + below(pattern),
    }
}

/// Returns the two nodes of a relation. Agents and tools are never relations.
fn ends(pattern: &Pattern) -> Option<(&Pattern, &Pattern)> {
    match pattern.elements.as_slice() {
        [from, to] if from.elements.is_empty() && to.elements.is_empty() && !is_container(pattern) => Some((from, to)),
        _ => None,
    }
}

/// Returns the path of a walk, or `None` if the relations of the walk are not connected. The path may start at either
/// node of the first relation. The start node determines the directions of all arrows.
fn walk(pattern: &Pattern) -> Option<Shape<'_>> {
    let [first, second, ..] = pattern.elements.as_slice() else { return None };
    if !pattern.is_walk() || !pattern.subject.properties.is_empty() {
        return None;
    }
    ends(second)?;
    let (from, to) = ends(first)?;
    chain(from, &pattern.elements).or_else(|| chain(to, &pattern.elements))
}

fn chain<'p>(start: &'p Pattern, edges: &'p [Pattern]) -> Option<Shape<'p>> {
    let mut here = start;
    let mut hops = Vec::with_capacity(edges.len());
    for edge in edges {
        let (from, to) = ends(edge)?;
        let backwards = from != here;
        if backwards && to != here {
            return None;
        }
        here = if backwards { from } else { to };
        hops.push(Hop { relation: &edge.subject, backwards, to: here });
    }
    Some(Shape::Path { start, hops })
}
