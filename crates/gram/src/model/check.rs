//! Mistakes that the grammar cannot see: names defined twice, never or by themselves, and keys that occur twice.

use std::collections::{HashMap, HashSet};

use super::Definitions;
use crate::diagnostic::{Code, Mistake};
use crate::position::{Lines, Span};
use crate::syntax::{Node, NodeKind, TokenKind, Tree};

/// What is wrong with the names of a text. A name may be used before it is defined, or be defined in `others`.
///
/// A bracket or an annotation defines its identity, once. An arrow does so too, but may occur again between the same nodes.
/// A node defines its identity unless something else does: nodes may be repeated.
pub(crate) fn names(tree: &Tree, others: &Definitions) -> Vec<Mistake> {
    let mut scan = Scan::new(tree.source());
    scan.walk(tree.root(), None);
    scan.report_undefined(others);
    scan.report_cycles();
    scan.mistakes
}

struct Scan<'t> {
    lines: Lines<'t>,
    defined: HashMap<String, Definition>,
    references: Vec<(String, Span)>,
    contained: HashMap<String, Vec<(String, Span)>>,
    mistakes: Vec<Mistake>,
}

struct Definition {
    span: Span,
    kind: Kind,
}

#[derive(PartialEq)]
enum Kind {
    Pattern,
    Node,
    /// A relation, with the identities of its ends.
    Relation(String, String),
}

impl<'t> Scan<'t> {
    fn new(source: &'t str) -> Self {
        let (defined, references, contained) = (HashMap::new(), Vec::new(), HashMap::new());
        Self { lines: Lines::of(source), defined, references, contained, mistakes: Vec::new() }
    }

    /// Visits `node`, which lies in the pattern `container`. Recursion follows the tree, whose depth is bounded.
    fn walk(&mut self, node: Node, container: Option<&str>) {
        let mut inside = None;
        match node.kind() {
            NodeKind::Bracket | NodeKind::Annotated => {
                let named = node.nodes().find(|part| matches!(part.kind(), NodeKind::Subject | NodeKind::Identified));
                if let Some((name, span)) = named.and_then(identity) {
                    self.contain(container, &name, span);
                    self.define(&name, span, Kind::Pattern);
                    inside = Some(name);
                }
            }
            NodeKind::Reference => {
                if let Some((name, span)) = identity(node) {
                    self.contain(container, &name, span);
                    self.references.push((name, span));
                }
            }
            NodeKind::Path => self.relations(node),
            NodeKind::Node => self.node(node, container),
            NodeKind::Record | NodeKind::Map => self.keys(node),
            _ => {}
        }
        let inside = inside.as_deref().or(container);
        for part in node.nodes() {
            self.walk(part, inside);
        }
    }

    fn node(&mut self, node: Node, container: Option<&str>) {
        let Some(subject) = node.child(NodeKind::Subject) else { return };
        let Some((name, span)) = identity(subject) else { return };
        // A node with labels or properties is a thing of its own; a bare one may mean the pattern it stands in.
        if subject.span() == span {
            self.contain(container, &name, span);
        }
        self.defined.entry(name).or_insert(Definition { span, kind: Kind::Node });
    }

    fn relations(&mut self, path: Node) {
        let parts: Vec<Node> = path.nodes().collect();
        let mut rest = parts.as_slice();
        while let [left, arrow, right, ..] = rest {
            if let Some((name, span)) = arrow.child(NodeKind::Subject).and_then(identity) {
                self.define(&name, span, Kind::Relation(end_of(*left), end_of(*right)));
            }
            rest = rest.get(2..).unwrap_or_default();
        }
    }

    fn define(&mut self, name: &str, span: Span, kind: Kind) {
        let first = match self.defined.get(name) {
            Some(first) if first.kind == Kind::Node => None,
            Some(first) if first.kind == kind && kind != Kind::Pattern => return,
            first => first,
        };
        match first {
            None => drop(self.defined.insert(name.to_owned(), Definition { span, kind })),
            Some(first) => {
                let hint = format!("the first definition is at {}", self.lines.position(first.span.start));
                let mistake = Mistake::new(Code::DuplicateDefinition, span, format!("`{name}` is defined twice"));
                self.mistakes.push(mistake.hint(hint));
            }
        }
    }

    fn contain(&mut self, container: Option<&str>, name: &str, span: Span) {
        if let Some(container) = container {
            self.contained.entry(container.to_owned()).or_default().push((name.to_owned(), span));
        }
    }

    fn keys(&mut self, record: Node) {
        let mut seen = HashSet::new();
        for key in record.nodes().filter_map(|property| property.tokens().next()) {
            if !seen.insert(key.value()) {
                let message = format!("key `{}` occurs twice", key.value());
                self.mistakes
                    .push(Mistake::new(Code::DuplicateKey, key.span, message).hint("only the last one would count"));
            }
        }
    }

    fn report_undefined(&mut self, others: &Definitions) {
        for (name, span) in &self.references {
            if !self.defined.contains_key(name) && others.get(name).is_none() {
                let message = format!("`{name}` is not defined");
                let mistake = Mistake::new(Code::UndefinedReference, *span, message);
                self.mistakes.push(mistake.hint(format!("define it as `[{name} …]` or `({name})`")));
            }
        }
    }

    /// Reports each name that closes a circle. Iterative, because a chain of references may be as long as the text.
    fn report_cycles(&mut self) {
        let mut names: Vec<&String> = self.contained.keys().collect();
        names.sort();
        let mut state: HashMap<&str, Visit> = HashMap::new();
        for name in names {
            if state.contains_key(name.as_str()) {
                continue;
            }
            state.insert(name, Visit::Open);
            let mut stack = vec![(name.as_str(), 0)];
            while let Some((name, next)) = stack.pop() {
                let Some((below, span)) = self.contained.get(name).and_then(|below| below.get(next)) else {
                    state.insert(name, Visit::Done);
                    continue;
                };
                stack.push((name, next + 1));
                match state.get(below.as_str()) {
                    None => {
                        state.insert(below, Visit::Open);
                        stack.push((below, 0));
                    }
                    Some(Visit::Open) => {
                        let mistake = Mistake::new(Code::SelfReference, *span, format!("`{below}` contains itself"));
                        self.mistakes.push(mistake);
                    }
                    Some(Visit::Done) => {}
                }
            }
        }
    }
}

enum Visit {
    Open,
    Done,
}

/// The identifier of a subject, an identified annotation or a reference.
fn identity(node: Node) -> Option<(String, Span)> {
    let first = node.tokens().find(|token| token.kind != TokenKind::DoubleAt)?;
    let name = first.kind.is_identifier().then(|| first.value().into_owned())?;
    (!name.is_empty()).then_some((name, first.span))
}

fn end_of(node: Node) -> String {
    node.child(NodeKind::Subject).and_then(identity).map(|(name, _)| name).unwrap_or_default()
}
