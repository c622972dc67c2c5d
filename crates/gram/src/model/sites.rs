//! Where the patterns of a text are written, one for each occurrence, in the order in which a graph counts them.

use super::lower::{patterns, points_left};
use crate::syntax::{Node, NodeKind, Tree};

/// The place of a pattern's subject.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Site<'t> {
    /// A node, a bracket or an arrow: there is room for a subject in it.
    Room(Node<'t>),
    /// A name among the elements of a bracket.
    Reference(Node<'t>),
    /// Annotations and what they belong to.
    Annotated(Node<'t>),
    /// A text of several patterns, or a path of several arrows: such a pattern is written without a subject.
    None,
}

/// The places of all patterns of a text that keeps to the grammar. The nodes of a path with several arrows have a place in
/// each of the relations they belong to.
pub(crate) fn sites<'t>(tree: &'t Tree) -> Vec<Site<'t>> {
    let mut sites = Vec::new();
    let members: Vec<Node> = patterns(tree.root()).collect();
    if members.len() != 1 || tree.root().child(NodeKind::Record).is_some() {
        sites.push(Site::None);
    }
    for member in members {
        visit(member, &mut sites);
    }
    sites
}

/// Recursion follows the tree, whose depth is bounded.
fn visit<'t>(node: Node<'t>, sites: &mut Vec<Site<'t>>) {
    match node.kind() {
        NodeKind::Reference => sites.push(Site::Reference(node)),
        NodeKind::Path => path(node, sites),
        NodeKind::Annotated => {
            sites.push(Site::Annotated(node));
            patterns(node).for_each(|inner| visit(inner, sites));
        }
        _ => {
            sites.push(Site::Room(node));
            node.nodes().filter(|part| part.kind() != NodeKind::Subject).for_each(|element| visit(element, sites));
        }
    }
}

fn path<'t>(node: Node<'t>, sites: &mut Vec<Site<'t>>) {
    let parts: Vec<Node> = node.nodes().collect();
    match parts.len() {
        0 | 1 => sites.extend(parts.first().copied().map(Site::Room)),
        2 | 3 => {}
        _ => sites.push(Site::None),
    }
    let mut rest = parts.as_slice();
    while let [left, arrow, right, ..] = rest {
        let (from, to) = if points_left(*arrow) { (right, left) } else { (left, right) };
        sites.extend([arrow, from, to].map(|part| Site::Room(*part)));
        rest = rest.get(2..).unwrap_or_default();
    }
}
