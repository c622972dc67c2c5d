//! From text to a query.

use std::collections::HashMap;

use super::test::{Predicate, Test, canonical_label};
use super::{Condition, Link, Query};
use crate::diagnostic::{Code, Diagnostics, Mistake};
use crate::model::{self, Range, Scalar, Value};
use crate::position::Span;
use crate::syntax::{Child, Family, Node, NodeKind, Token, TokenKind, Tree};

/// Most things that a query may ask for at once: the search goes one level deeper for each.
const MAX_VARIABLES: usize = 32;

type Compiled<T> = Result<T, Mistake>;

pub(super) fn query(source: &str) -> Result<Query, Diagnostics> {
    let tree = Tree::parse(source).valid()?;
    compile(&tree).map_err(|mistake| Diagnostics::of_one(source, mistake))
}

fn compile(tree: &Tree) -> Compiled<Query> {
    let mut compiler = Compiler::default();
    let (mut wanted, mut unwanted) = (Condition::default(), Vec::new());
    for part in tree.root().nodes() {
        match part.kind() {
            NodeKind::Record => return Err(refused(part, "a query has no record of its own")),
            NodeKind::Annotated => {
                let mut condition = Condition::default();
                compiler.pattern(negated(part)?, &mut condition)?;
                unwanted.push(condition);
            }
            _ => drop(compiler.pattern(part, &mut wanted)?),
        }
    }
    if wanted.variables.is_empty() {
        return Err(refused(tree.root(), "a query asks for at least one thing, as in `(a:Agent)`"));
    }
    Ok(Query { variables: compiler.variables, wanted, unwanted })
}

/// The pattern after `@@not`.
fn negated(annotated: Node) -> Compiled<Node> {
    let mut parts = annotated.nodes();
    let mut name = parts.next().into_iter().flat_map(|part| part.tokens()).skip(1);
    let is_not = name.next().is_some_and(|name| name.text == "not") && name.next().is_none();
    match parts.next() {
        Some(pattern) if is_not && matches!(pattern.kind(), NodeKind::Bracket | NodeKind::Path) => Ok(pattern),
        _ => Err(refused(annotated, "the only annotation in a query is `@@not`")),
    }
}

/// A mistake in a query at `node`.
pub(crate) fn refused(node: Node, message: &str) -> Mistake {
    Mistake::new(Code::InvalidQuery, node.span(), message)
}

#[derive(Default)]
struct Compiler {
    variables: Vec<Option<String>>,
    by_name: HashMap<String, usize>,
}

impl Compiler {
    /// Adds what a pattern asks for. The result is the variable of the pattern itself.
    fn pattern(&mut self, node: Node, into: &mut Condition) -> Compiled<usize> {
        match node.kind() {
            NodeKind::Path => self.path(node, into),
            NodeKind::Bracket => self.bracket(node, into),
            NodeKind::Reference => self.subject(Some(node), into),
            _ => self.subject(node.child(NodeKind::Subject), into),
        }
    }

    fn bracket(&mut self, node: Node, into: &mut Condition) -> Compiled<usize> {
        let whole = self.subject(node.child(NodeKind::Subject), into)?;
        for element in node.nodes().filter(|part| part.kind() != NodeKind::Subject) {
            let part = self.pattern(element, into)?;
            into.links.push(Link::Contains { whole, part });
        }
        Ok(whole)
    }

    /// Adds a path. As the element of a bracket it stands for its first node.
    fn path(&mut self, node: Node, into: &mut Condition) -> Compiled<usize> {
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

    fn arrow(&mut self, arrow: Node, left: usize, right: usize, into: &mut Condition) -> Compiled<Link> {
        let strokes: Vec<Token> = arrow.tokens().collect();
        let (Some(first), Some(last)) = (strokes.first(), strokes.last()) else {
            return Err(refused(arrow, "expected an arrow"));
        };
        let to_left = matches!(first.kind, TokenKind::HeadLeft(_));
        let to_right = matches!(last.kind, TokenKind::HeadRight(_));
        let (from, to) = if to_left && !to_right { (right, left) } else { (left, right) };
        let family = match last.kind {
            TokenKind::Line(family) | TokenKind::HeadRight(family) => family,
            _ => Family::Squiggle,
        };
        match family {
            Family::Single => {
                let relation = self.subject(arrow.child(NodeKind::Subject), into)?;
                Ok(Link::Related { relation, from, to, either_way: to_left == to_right })
            }
            Family::Double if to_left == to_right => {
                Err(refused(arrow, "`==>` and `<==` have one head: reaching has a direction"))
            }
            Family::Double => {
                let through = arrow.child(NodeKind::Subject).map(test).transpose()?;
                match through {
                    Some((Some(name), _)) => {
                        let message = format!("`{name}` cannot be a variable: there may be many relations on the way");
                        Err(refused(arrow, &message))
                    }
                    through => Ok(Link::Reaches { from, to, through: through.map(|(_, test)| test) }),
                }
            }
            Family::Squiggle => Err(refused(arrow, "queries know `-->` (related) and `==>` (reaches)")),
        }
    }

    /// The variable of a subject, with what is asked of it.
    fn subject(&mut self, subject: Option<Node>, into: &mut Condition) -> Compiled<usize> {
        let (name, test) = subject.map(test).transpose()?.unwrap_or_default();
        let variable = self.variable(name);
        if variable >= MAX_VARIABLES {
            let message = format!("a query asks for at most {MAX_VARIABLES} things at once");
            let span = subject.map_or(Span::new(0, 0), |subject| subject.span());
            return Err(Mistake::new(Code::InvalidQuery, span, message));
        }
        if !into.variables.contains(&variable) {
            into.variables.push(variable);
        }
        if !test.is_empty() {
            into.tests.push((variable, test));
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

/// What a subject asks for: a variable, if its identifier is one, and a test.
fn test(subject: Node) -> Compiled<(Option<String>, Test)> {
    let (mut variable, mut test) = (None, Test::default());
    let mut is_label = false;
    for child in subject.children() {
        match child {
            Child::Token(token) => match token.kind {
                TokenKind::Colon | TokenKind::DoubleColon => is_label = true,
                _ if is_label => test.labels.push(canonical_label(&token.value()).to_owned()),
                TokenKind::Symbol => variable = Some(token.text.to_owned()),
                _ => test.identity = Some(token.value().into_owned()),
            },
            Child::Node(record) => test.properties = record.nodes().map(property).collect::<Compiled<_>>()?,
        }
    }
    Ok((variable, test))
}

fn property(property: Node) -> Compiled<(String, Predicate)> {
    let mut tokens = property.tokens();
    let (key, colon) = (tokens.next(), tokens.next());
    let key = key.map(|key| key.value().into_owned()).unwrap_or_default();
    let value = property.nodes().next().ok_or_else(|| refused(property, "expected a value"))?;
    let predicate = match colon.map(|colon| colon.kind) {
        Some(TokenKind::DoubleColon) => predicate(model::value(value)?, value.span())?,
        _ => Predicate::Equals(model::value(value)?),
    };
    Ok((key, predicate))
}

fn predicate(value: Value, span: Span) -> Compiled<Predicate> {
    let unknown = || {
        let mistake = Mistake::new(Code::InvalidQuery, span, "unknown test");
        mistake
            .hint("known are absent, present, ranges, arrays, and not, contains, starts, ends before text in backticks")
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

/// A range with the smaller end first.
fn ordered(range: Range) -> Range {
    match range {
        Range::Between(lower, upper) if lower.as_f64() > upper.as_f64() => Range::Between(upper, lower),
        range => range,
    }
}
