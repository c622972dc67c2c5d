//! Checks the names in a document. Reports duplicate definitions, undefined references, patterns that contain
//! themselves, and duplicate keys.

use std::collections::{HashMap, HashSet};

use super::DefinitionIndex;
use crate::diagnostic::{DiagnosticCode, SpannedError};
use crate::position::{LineIndex, Span};
use crate::syntax::{Node, NodeKind, TokenKind, Tree};

/// Returns the name errors of a document. A reference may precede its definition. It may also refer to a definition in
/// `others`.
///
/// The identity of a bracket or an annotation must be defined only once. The identity of an arrow may be repeated
/// between the same nodes. The identity of a node may be repeated. A node defines its identity only if no bracket,
/// annotation or arrow defines the same identity.
pub(crate) fn check_names(tree: &Tree, others: &DefinitionIndex) -> Vec<SpannedError> {
    let mut checker = NameChecker::new(tree.source());
    checker.walk(tree.root(), None);
    checker.report_undefined(others);
    checker.report_cycles();
    checker.errors
}

struct NameChecker<'t> {
    lines: LineIndex<'t>,
    defined: HashMap<String, Definition>,
    references: Vec<(String, Span)>,
    contained: HashMap<String, Vec<(String, Span)>>,
    errors: Vec<SpannedError>,
}

struct Definition {
    span: Span,
    kind: Kind,
}

#[derive(PartialEq)]
enum Kind {
    Pattern,
    Node,
    /// An arrow, with the identities of its left node and its right node.
    Relation(String, String),
}

impl<'t> NameChecker<'t> {
    fn new(source: &'t str) -> Self {
        let (defined, references, contained) = (HashMap::new(), Vec::new(), HashMap::new());
        Self { lines: LineIndex::new(source), defined, references, contained, errors: Vec::new() }
    }

    /// Visits `node`, which is inside the pattern `container`. Recursion cannot overflow the stack, because the depth
    /// of the tree is limited.
    fn walk(&mut self, node: Node, container: Option<&str>) {
        let mut inside = None;
        match node.kind() {
            NodeKind::Bracket | NodeKind::AnnotatedPattern => {
                let named =
                    node.nodes().find(|part| matches!(part.kind(), NodeKind::Subject | NodeKind::IdentifiedAnnotation));
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
        // A node with labels or properties is not a reference, even if a pattern has the same name. A node that
        // consists only of a name may refer to a pattern that contains this node. Such a pattern contains itself, which
        // is an error.
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
                self.define(&name, span, Kind::Relation(node_identity(*left), node_identity(*right)));
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
                let error = SpannedError::new(
                    DiagnosticCode::DuplicateDefinition,
                    span,
                    format!("`{name}` is defined more than once"),
                );
                self.errors.push(error.hint(hint));
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
                let message = format!("key `{}` is duplicated", key.value());
                self.errors.push(
                    SpannedError::new(DiagnosticCode::DuplicateKey, key.span, message)
                        .hint("only the last value is used"),
                );
            }
        }
    }

    fn report_undefined(&mut self, others: &DefinitionIndex) {
        for (name, span) in &self.references {
            if !self.defined.contains_key(name) && others.get(name).is_none() {
                let message = format!("`{name}` is not defined");
                let error = SpannedError::new(DiagnosticCode::UndefinedReference, *span, message);
                self.errors.push(error.hint(format!("define it as `[{name} …]` or `({name})`")));
            }
        }
    }

    /// Reports each reference that closes a cycle. The search uses a loop instead of recursion, because a chain of
    /// references may be as long as the text.
    fn report_cycles(&mut self) {
        let mut check_names: Vec<&String> = self.contained.keys().collect();
        check_names.sort();
        let mut state: HashMap<&str, VisitState> = HashMap::new();
        for name in check_names {
            if state.contains_key(name.as_str()) {
                continue;
            }
            state.insert(name, VisitState::Open);
            let mut stack = vec![(name.as_str(), 0)];
            while let Some((name, next)) = stack.pop() {
                let Some((below, span)) = self.contained.get(name).and_then(|below| below.get(next)) else {
                    state.insert(name, VisitState::Done);
                    continue;
                };
                stack.push((name, next + 1));
                match state.get(below.as_str()) {
                    None => {
                        state.insert(below, VisitState::Open);
                        stack.push((below, 0));
                    }
                    Some(VisitState::Open) => {
                        let error = SpannedError::new(
                            DiagnosticCode::SelfReference,
                            *span,
                            format!("`{below}` contains itself"),
                        );
                        self.errors.push(error);
                    }
                    Some(VisitState::Done) => {}
                }
            }
        }
    }
}

enum VisitState {
    Open,
    Done,
}

/// Returns the identifier of a subject, of an annotation such as `@@id`, or of a reference.
fn identity(node: Node) -> Option<(String, Span)> {
    let first = node.tokens().find(|token| token.kind != TokenKind::DoubleAt)?;
    let name = first.kind.is_identifier().then(|| first.value().into_owned())?;
    (!name.is_empty()).then_some((name, first.span))
}

fn node_identity(node: Node) -> String {
    node.child(NodeKind::Subject).and_then(identity).map(|(name, _)| name).unwrap_or_default()
}
