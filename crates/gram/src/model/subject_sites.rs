//! Locates the subject (identity, labels and properties) of each pattern in the source text. The subjects are listed in
//! the order in which [`crate::Graph`] counts occurrences.

use super::lower::{patterns, points_left};
use crate::syntax::{Node, NodeKind, Tree};

/// The syntax node in which the subject of a pattern is written.
#[derive(Debug, Clone, Copy)]
pub(crate) enum SubjectSite<'t> {
    /// A node `(…)`, a bracket `[…]` or an arrow `-[…]->`. The subject is written between its delimiters.
    Delimited(Node<'t>),
    /// A bare name in the element list of a bracket, such as `b` in `[a | b]`. The name is the whole subject.
    Reference(Node<'t>),
    /// A pattern with annotations, such as `@k(1) (a)`. It is a pattern that wraps `(a)`, and the annotations are the
    /// subject of the wrapping pattern.
    AnnotatedPattern(Node<'t>),
    /// A document with several patterns, or a path with several arrows. The notation cannot express a subject for them.
    Unwritable,
}

/// Returns the subject sites of all patterns of a valid document. A node between two arrows is an element of two
/// relations, so its site is listed twice.
pub(crate) fn subject_sites<'t>(tree: &'t Tree) -> Vec<SubjectSite<'t>> {
    let mut sites = Vec::new();
    let members: Vec<Node> = patterns(tree.root()).collect();
    if members.len() != 1 || tree.root().child(NodeKind::Record).is_some() {
        sites.push(SubjectSite::Unwritable);
    }
    for member in members {
        visit(member, &mut sites);
    }
    sites
}

// Recursion cannot overflow the stack, because the depth of the tree is limited.
fn visit<'t>(node: Node<'t>, sites: &mut Vec<SubjectSite<'t>>) {
    match node.kind() {
        NodeKind::Reference => sites.push(SubjectSite::Reference(node)),
        NodeKind::Path => path(node, sites),
        NodeKind::AnnotatedPattern => {
            sites.push(SubjectSite::AnnotatedPattern(node));
            patterns(node).for_each(|inner| visit(inner, sites));
        }
        _ => {
            sites.push(SubjectSite::Delimited(node));
            node.nodes().filter(|part| part.kind() != NodeKind::Subject).for_each(|element| visit(element, sites));
        }
    }
}

fn path<'t>(node: Node<'t>, sites: &mut Vec<SubjectSite<'t>>) {
    let parts: Vec<Node> = node.nodes().collect();
    match parts.len() {
        0 | 1 => sites.extend(parts.first().copied().map(SubjectSite::Delimited)),
        2 | 3 => {}
        _ => sites.push(SubjectSite::Unwritable),
    }
    let mut rest = parts.as_slice();
    while let [left, arrow, right, ..] = rest {
        let (from, to) = if points_left(*arrow) { (right, left) } else { (left, right) };
        sites.extend([arrow, from, to].map(|part| SubjectSite::Delimited(*part)));
        rest = rest.get(2..).unwrap_or_default();
    }
}
