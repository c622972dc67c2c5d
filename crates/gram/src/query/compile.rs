//! Compiles query text.

use std::collections::HashMap;

use super::filter::{PatternFilter, Predicate, canonical_label};
use super::{Condition, Link, Query};
use crate::diagnostic::{DiagnosticCode, Diagnostics, SpannedError};
use crate::model::{self, Range, Scalar, Value};
use crate::position::Span;
use crate::syntax::{ArrowStyle, Child, Node, NodeKind, Token, TokenKind, Tree};

/// The maximum number of variables. It limits the recursion of the search, which is one level deep per variable.
const MAX_VARIABLES: usize = 32;

type CompileResult<T> = Result<T, SpannedError>;

pub(super) fn query(source: &str) -> Result<Query, Diagnostics> {
    let tree = Tree::parse(source).into_result()?;
    compile(&tree).map_err(|error| Diagnostics::single(source, error))
}

fn compile(tree: &Tree) -> CompileResult<Query> {
    let mut compiler = Compiler::default();
    let (mut required, mut excluded) = (Condition::default(), Vec::new());
    for child in tree.root().nodes() {
        match child.kind() {
            NodeKind::Record => return Err(invalid_query(child, "query must not begin with a record")),
            NodeKind::AnnotatedPattern => {
                let mut condition = Condition::default();
                compiler.pattern(negated(child)?, &mut condition)?;
                excluded.push(condition);
            }
            _ => drop(compiler.pattern(child, &mut required)?),
        }
    }
    if required.variables.is_empty() {
        return Err(invalid_query(tree.root(), "query must contain at least one pattern, as in `(a:Agent)`"));
    }
    Ok(Query { variables: compiler.variables, required, excluded })
}

/// Returns the pattern that is annotated with `@@not`.
fn negated(annotated: Node) -> CompileResult<Node> {
    let mut parts = annotated.nodes();
    let mut name = parts.next().into_iter().flat_map(|child| child.tokens()).skip(1);
    let is_not = name.next().is_some_and(|name| name.text == "not") && name.next().is_none();
    match parts.next() {
        Some(pattern) if is_not && matches!(pattern.kind(), NodeKind::Bracket | NodeKind::Path) => Ok(pattern),
        _ => Err(invalid_query(annotated, "annotation in a query must be `@@not` before a pattern")),
    }
}

/// Creates an error at the position of `node`.
pub(crate) fn invalid_query(node: Node, message: &str) -> SpannedError {
    SpannedError::new(DiagnosticCode::InvalidQuery, node.span(), message)
}

#[derive(Default)]
struct Compiler {
    variables: Vec<Option<String>>,
    by_name: HashMap<String, usize>,
}

impl Compiler {
    /// Adds a pattern to the condition `into`. Returns the index of the pattern's variable.
    fn pattern(&mut self, node: Node, into: &mut Condition) -> CompileResult<usize> {
        match node.kind() {
            NodeKind::Path => self.path(node, into),
            NodeKind::Bracket => self.bracket(node, into),
            NodeKind::Reference => self.subject(Some(node), into),
            _ => self.subject(node.child(NodeKind::Subject), into),
        }
    }

    fn bracket(&mut self, node: Node, into: &mut Condition) -> CompileResult<usize> {
        let parent = self.subject(node.child(NodeKind::Subject), into)?;
        for element in node.nodes().filter(|child| child.kind() != NodeKind::Subject) {
            let child = self.pattern(element, into)?;
            into.links.push(Link::Contains { parent, child });
        }
        Ok(parent)
    }

    /// Adds a path. Returns the index of the variable of the path's first node.
    fn path(&mut self, node: Node, into: &mut Condition) -> CompileResult<usize> {
        let mut parts = node.nodes();
        let first = self.pattern(parts.next().unwrap_or(node), into)?;
        let mut left = first;
        while let (Some(arrow), Some(right)) = (parts.next(), parts.next()) {
            let right = self.pattern(right, into)?;
            let link = self.arrow(arrow, left, right, into)?;
            into.links.push(link);
            left = right;
        }
        Ok(first)
    }

    fn arrow(&mut self, arrow: Node, left: usize, right: usize, into: &mut Condition) -> CompileResult<Link> {
        let strokes: Vec<Token> = arrow.tokens().collect();
        let (Some(first), Some(last)) = (strokes.first(), strokes.last()) else {
            return Err(invalid_query(arrow, "expected an arrow"));
        };
        let to_left = matches!(first.kind, TokenKind::HeadLeft(_));
        let to_right = matches!(last.kind, TokenKind::HeadRight(_));
        let (from, to) = if to_left && !to_right { (right, left) } else { (left, right) };
        let style = match last.kind {
            TokenKind::Line(style) | TokenKind::HeadRight(style) => style,
            _ => ArrowStyle::Squiggle,
        };
        match style {
            ArrowStyle::Single => {
                let relation = self.subject(arrow.child(NodeKind::Subject), into)?;
                Ok(Link::Related { relation, from, to, undirected: to_left == to_right })
            }
            ArrowStyle::Double if to_left == to_right => {
                Err(invalid_query(arrow, "arrow must have exactly one head: `==>` or `<==`"))
            }
            ArrowStyle::Double => {
                let through = arrow.child(NodeKind::Subject).map(filter).transpose()?;
                match through {
                    Some((Some(name), _)) => {
                        let message = format!("`{name}` must not be a variable: the path may have many relations");
                        Err(invalid_query(arrow, &message))
                    }
                    through => Ok(Link::Reaches { from, to, through: through.map(|(_, filter)| filter) }),
                }
            }
            ArrowStyle::Squiggle => Err(invalid_query(arrow, "arrow must be `-->` (related) or `==>` (reaches)")),
        }
    }

    /// Adds a subject to the condition. Returns the index of the subject's variable.
    fn subject(&mut self, subject: Option<Node>, into: &mut Condition) -> CompileResult<usize> {
        let (name, filter) = subject.map(filter).transpose()?.unwrap_or_default();
        let variable = self.variable(name);
        if variable >= MAX_VARIABLES {
            let message = format!("query must not have more than {MAX_VARIABLES} variables");
            let span = subject.map_or(Span::new(0, 0), |subject| subject.span());
            return Err(SpannedError::new(DiagnosticCode::InvalidQuery, span, message));
        }
        if !into.variables.contains(&variable) {
            into.variables.push(variable);
        }
        if !filter.is_empty() {
            into.filters.push((variable, filter));
        }
        Ok(variable)
    }

    fn variable(&mut self, name: Option<String>) -> usize {
        let next = self.variables.len();
        let variable = match &name {
            Some(name) => *self.by_name.entry(name.clone()).or_insert(next),
            None => next,
        };
        if variable == next {
            self.variables.push(name);
        }
        variable
    }
}

/// Splits a subject into the name of its variable, if it has one, and a filter.
fn filter(subject: Node) -> CompileResult<(Option<String>, PatternFilter)> {
    let (mut variable, mut filter) = (None, PatternFilter::default());
    let mut is_label = false;
    for child in subject.children() {
        match child {
            Child::Token(token) => match token.kind {
                TokenKind::Colon | TokenKind::DoubleColon => is_label = true,
                _ if is_label => filter.labels.push(canonical_label(&token.value()).to_owned()),
                TokenKind::Symbol => variable = Some(token.text.to_owned()),
                _ => filter.identity = Some(token.value().into_owned()),
            },
            Child::Node(record) => filter.properties = record.nodes().map(property).collect::<CompileResult<_>>()?,
        }
    }
    Ok((variable, filter))
}

fn property(property: Node) -> CompileResult<(String, Predicate)> {
    let mut tokens = property.tokens();
    let (key, colon) = (tokens.next(), tokens.next());
    let key = key.map(|key| key.value().into_owned()).unwrap_or_default();
    let value = property.nodes().next().ok_or_else(|| invalid_query(property, "expected a value"))?;
    let predicate = match colon.map(|colon| colon.kind) {
        Some(TokenKind::DoubleColon) => predicate(model::value(value)?, value.span())?,
        _ => Predicate::Equals(model::value(value)?),
    };
    Ok((key, predicate))
}

fn predicate(value: Value, span: Span) -> CompileResult<Predicate> {
    let unknown = || {
        let error = SpannedError::new(DiagnosticCode::InvalidQuery, span, "unknown predicate");
        error
            .hint("write absent, present, a range, an array, or not, contains, starts or ends before text in backticks")
    };
    match value {
        Value::Array(values) => Ok(Predicate::OneOf(values)),
        Value::Scalar(Scalar::Range(range)) => Ok(Predicate::Within(ordered(range))),
        Value::Scalar(Scalar::Symbol(symbol)) => match symbol.as_str() {
            "absent" => Ok(Predicate::Absent),
            "present" => Ok(Predicate::Present),
            _ => Err(unknown()),
        },
        Value::Scalar(Scalar::Tagged { tag, content }) => match tag.as_str() {
            "not" => Ok(Predicate::Not(content)),
            "contains" => Ok(Predicate::Contains(content)),
            "starts" => Ok(Predicate::Starts(content)),
            "ends" => Ok(Predicate::Ends(content)),
            _ => Err(unknown()),
        },
        _ => Err(unknown()),
    }
}

/// Returns the range with its bounds in ascending order.
fn ordered(range: Range) -> Range {
    match range {
        Range::Between(lower, upper) if lower.as_f64() > upper.as_f64() => Range::Between(upper, lower),
        range => range,
    }
}
