//! Converts a syntax tree to a pattern.
//!
//! | text | pattern |
//! |---|---|
//! | `(a)` | a pattern without elements |
//! | `[a \| …]` | a pattern with these elements; a reference is a pattern with only an identity |
//! | `(a)-[r]->(b)` | `[r \| a, b]`; `(a)<-[r]-(b)` is `[r \| b, a]`; an arrow with no head or two heads keeps the order of the text |
//! | a path with several arrows | `[:Gram.Walk \| …]` with its relations |
//! | `@@id:L @k(v) p` | `[id:L {k: v} \| p]` |
//! | several patterns, no pattern, or a leading record | `[:Gram.Root {…} \| …]` |

use super::pattern::{ROOT, WALK};
use super::scalars::scalar;
use super::value::{Array, Map, MapValue, Scalar, Value};
use super::{Pattern, Properties, Subject};
use crate::diagnostic::{DiagnosticCode, Diagnostics, SpannedError, locate};
use crate::position::Span;
use crate::syntax::{Child, Node, NodeKind, TokenKind, Tree};

/// Parses a document into a pattern.
pub(crate) fn parse(source: &str) -> Result<Pattern, Diagnostics> {
    lower(&Tree::parse(source).into_result()?)
}

/// Converts a valid tree to a pattern.
pub(crate) fn lower(tree: &Tree) -> Result<Pattern, Diagnostics> {
    run(tree, Lowering::default())
}

/// Converts the tree of a signature to a pattern. If the property `fields` is an array of maps, the maps become
/// elements.
pub(crate) fn lower_signature(tree: &Tree) -> Result<Pattern, Diagnostics> {
    run(tree, Lowering { fields_may_be_maps: true, ..Lowering::default() })
}

/// Returns the span of an element of the document `tree`. `path` contains one index per level; each index selects an
/// element of the pattern that the previous index selected.
pub(crate) fn locate_element(tree: &Tree, path: &[usize]) -> Span {
    let mut path = path.iter().copied();
    let members: Vec<Node> = patterns(tree.root()).collect();
    let has_header = tree.root().child(NodeKind::Record).is_some();
    let mut node = match members.as_slice() {
        [only] if !has_header => *only,
        _ => match path.next().and_then(|index| members.get(index)) {
            Some(member) => *member,
            None => return tree.root().span(),
        },
    };
    while let Some(index) = path.next() {
        let below = match node.kind() {
            NodeKind::Path => return locate_in_path(node, index, path.next()),
            NodeKind::Bracket => node.nodes().filter(|child| child.kind() != NodeKind::Subject).nth(index),
            _ => patterns(node).nth(index),
        };
        match below {
            Some(below) => node = below,
            None => break,
        }
    }
    node.span()
}

fn locate_in_path(path: Node, index: usize, end: Option<usize>) -> Span {
    let parts: Vec<Node> = path.nodes().collect();
    let edge = if parts.len() > 3 { index } else { 0 };
    let end = if parts.len() > 3 { end } else { Some(index) };
    match (parts.get(2 * edge..), end) {
        (Some([left, arrow, right, ..]), Some(end)) => {
            let node = if (end == 0) != points_left(*arrow) { left } else { right };
            node.span()
        }
        (Some([left, _, right, ..]), None) => Span::new(left.span().start, right.span().end),
        _ => path.span(),
    }
}

fn run(tree: &Tree, mut lowering: Lowering) -> Result<Pattern, Diagnostics> {
    let pattern = lowering.document(tree.root());
    Diagnostics::ensure_empty(locate(tree.source(), lowering.errors))?;
    Ok(pattern)
}

/// Returns the child nodes that are patterns.
pub(super) fn patterns<'t>(node: Node<'t>) -> impl Iterator<Item = Node<'t>> {
    let is_pattern =
        |node: &Node| matches!(node.kind(), NodeKind::AnnotatedPattern | NodeKind::Bracket | NodeKind::Path);
    node.nodes().filter(is_pattern)
}

#[derive(Default)]
struct Lowering {
    errors: Vec<SpannedError>,
    fields_may_be_maps: bool,
}

impl Lowering {
    fn document(&mut self, root: Node) -> Pattern {
        let header = root.child(NodeKind::Record);
        let mut members: Vec<Pattern> = patterns(root).map(|node| self.pattern(node)).collect();
        match (header, members.pop()) {
            (None, Some(only)) if members.is_empty() => only,
            (header, last) => {
                members.extend(last);
                let mut root = Pattern { elements: members, ..Pattern::default().label(ROOT) };
                if let Some(header) = header {
                    root.subject.properties = self.record(header, &mut Vec::new());
                }
                root
            }
        }
    }

    fn pattern(&mut self, node: Node) -> Pattern {
        match node.kind() {
            NodeKind::AnnotatedPattern => self.annotated(node),
            NodeKind::Bracket => self.bracket(node),
            NodeKind::Path => self.path(node),
            _ => self.node(node),
        }
    }

    fn annotated(&mut self, node: Node) -> Pattern {
        let mut wrapper = Pattern::default();
        for part in node.nodes() {
            match part.kind() {
                NodeKind::IdentifiedAnnotation => wrapper.subject = self.subject(part, &mut Vec::new()),
                NodeKind::Annotation => {
                    let key = part.tokens().find(|token| token.kind == TokenKind::Symbol);
                    if let (Some(key), Some(value)) = (key, part.nodes().next()) {
                        self.insert(&mut wrapper.subject.properties, key.text, value);
                    }
                }
                _ => wrapper.elements.push(self.pattern(part)),
            }
        }
        wrapper
    }

    fn bracket(&mut self, node: Node) -> Pattern {
        let mut pattern = Pattern::default();
        for part in node.nodes() {
            match part.kind() {
                NodeKind::Subject => pattern.subject = self.subject(part, &mut pattern.elements),
                _ => pattern.elements.push(self.pattern(part)),
            }
        }
        pattern
    }

    fn path(&mut self, node: Node) -> Pattern {
        let parts: Vec<Node> = node.nodes().collect();
        let mut edges = Vec::with_capacity(parts.len() / 2);
        let mut rest = parts.as_slice();
        while let [left, arrow, right, ..] = rest {
            edges.push(self.edge(*left, *arrow, *right));
            rest = rest.get(2..).unwrap_or_default();
        }
        match (edges.pop(), parts.first()) {
            (Some(only), _) if edges.is_empty() => only,
            (Some(last), _) => {
                edges.push(last);
                Pattern { elements: edges, ..Pattern::default().label(WALK) }
            }
            (None, Some(only)) => self.node(*only),
            (None, None) => Pattern::default(),
        }
    }

    fn edge(&mut self, left: Node, arrow: Node, right: Node) -> Pattern {
        let subject = arrow.child(NodeKind::Subject).map(|subject| self.subject(subject, &mut Vec::new()));
        let (left, right) = (self.node(left), self.node(right));
        let elements = if points_left(arrow) { vec![right, left] } else { vec![left, right] };
        Pattern { subject: subject.unwrap_or_default(), elements }
    }

    /// Converts a node or a reference. A reference has only one token, its identity.
    fn node(&mut self, node: Node) -> Pattern {
        let mut pattern = Pattern::default();
        if node.kind() == NodeKind::Reference {
            pattern.subject = self.subject(node, &mut Vec::new());
        } else if let Some(subject) = node.child(NodeKind::Subject) {
            pattern.subject = self.subject(subject, &mut pattern.elements);
        }
        pattern
    }

    fn subject(&mut self, node: Node, fields: &mut Vec<Pattern>) -> Subject {
        let mut subject = Subject::default();
        let mut is_label = false;
        for child in node.children() {
            match child {
                Child::Token(token) => match token.kind {
                    TokenKind::Colon | TokenKind::DoubleColon => is_label = true,
                    TokenKind::DoubleAt => {}
                    _ if is_label => drop(subject.labels.insert(token.value().into_owned())),
                    _ => subject.identity = token.value().into_owned(),
                },
                Child::Node(record) => subject.properties = self.record(record, fields),
            }
        }
        subject
    }

    fn record(&mut self, node: Node, fields: &mut Vec<Pattern>) -> Properties {
        let mut properties = Properties::new();
        for property in node.nodes() {
            let (Some(key), Some(value)) = (property.tokens().next(), property.nodes().next()) else { continue };
            if self.fields_may_be_maps && key.value() == "fields" && holds_maps(value) {
                fields.extend(value.nodes().map(|field| self.field(field)));
            } else {
                self.insert(&mut properties, &key.value(), value);
            }
        }
        properties
    }

    /// Converts `{name: "x", type: "Text", …}` to the node `(x:Text {…})`.
    fn field(&mut self, map: Node) -> Pattern {
        let mut field = Pattern::default();
        let mut properties = self.record(map, &mut field.elements);
        let mut word =
            |key: &str| properties.remove(key).and_then(|value| value.as_string_or_symbol().map(str::to_owned));
        match (word("name"), word("type")) {
            (Some(name), Some(label)) => {
                field.subject.identity = name;
                field.subject.labels.insert(label);
            }
            _ => {
                let error = SpannedError::new(
                    DiagnosticCode::InvalidSignature,
                    map.span(),
                    "field must have a `name` and a `type`",
                );
                self.errors.push(error.hint("write `{name: \"x\", type: \"Text\"}`"));
            }
        }
        field.subject.properties = properties;
        field
    }

    /// Adds a property. If a key occurs several times, the last value is used. `check_names` reports duplicate keys.
    fn insert(&mut self, properties: &mut Properties, key: &str, value: Node) {
        match self::value(value) {
            Ok(value) => drop(properties.insert(key.to_owned(), value)),
            Err(error) => self.errors.push(error),
        }
    }
}

/// Converts a scalar, array or map node to a value.
pub(crate) fn value(node: Node) -> Result<Value, SpannedError> {
    match node.kind() {
        NodeKind::Array => array(node).map(Value::Array),
        NodeKind::Map => map(node).map(Value::Map),
        _ => scalar(node).map(Value::Scalar),
    }
}

fn map(node: Node) -> Result<Map, SpannedError> {
    let mut map = Map::new();
    for property in node.nodes() {
        let (Some(key), Some(value)) = (property.tokens().next(), property.nodes().next()) else { continue };
        let entry = match value.kind() {
            NodeKind::Array => MapValue::Array(array(value)?),
            _ => MapValue::Scalar(plain_scalar(value)?),
        };
        map.insert(key.value().into_owned(), entry);
    }
    Ok(map)
}

fn array(node: Node) -> Result<Array, SpannedError> {
    let items: Result<Vec<Scalar>, SpannedError> = node.nodes().map(plain_scalar).collect();
    Array::new(items?).ok_or_else(|| unexpected_collection(node))
}

/// Converts a scalar node. In a type signature, the parser accepts a map in place of a scalar, because the items of the
/// property `fields` may be maps. Another function converts those items, so a map is an error here.
fn plain_scalar(node: Node) -> Result<Scalar, SpannedError> {
    if node.kind() == NodeKind::Scalar { scalar(node) } else { Err(unexpected_collection(node)) }
}

fn unexpected_collection(node: Node) -> SpannedError {
    let error = SpannedError::new(DiagnosticCode::UnexpectedToken, node.span(), "expected a scalar");
    error.hint("maps are allowed only as items of `fields`")
}

fn holds_maps(node: Node) -> bool {
    node.kind() == NodeKind::Array && node.nodes().all(|item| item.kind() == NodeKind::Map)
}

pub(super) fn points_left(arrow: Node) -> bool {
    let mut tokens = arrow.tokens();
    let first = tokens.next().map(|token| token.kind);
    let last = tokens.last().map(|token| token.kind);
    matches!((first, last), (Some(TokenKind::HeadLeft(_)), Some(TokenKind::Line(_))))
}
