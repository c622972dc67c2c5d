//! The syntax tree of an expression.

use regex::Regex;
use serde_json::Value;

use super::Function;

/// A node of the syntax tree.
#[derive(Debug, Clone)]
pub(crate) struct Node {
    /// The byte offset in the source.
    pub offset: usize,
    /// The depth of the subtree, including this node.
    pub depth: u16,
    pub kind: NodeKind,
}

/// The kind of a node. A chain of operators is one node with a list of operands, so that a long chain does not make a
/// deep tree.
#[derive(Debug, Clone)]
pub(crate) enum NodeKind {
    Literal(Value),
    Ident(Box<str>),
    /// `root.field[index]…`
    Path {
        root: Box<Node>,
        segments: Vec<PathSegment>,
    },
    List(Vec<Node>),
    Map(Vec<(Node, Node)>),
    /// One or more `!`.
    Not {
        odd: bool,
        operand: Box<Node>,
    },
    /// One or more `-`.
    Negate {
        odd: bool,
        operand: Box<Node>,
    },
    And(Vec<Node>),
    Or(Vec<Node>),
    /// A chain of binary operators with the same precedence, evaluated from left to right.
    BinaryChain {
        first: Box<Node>,
        rest: Vec<(Operator, Node)>,
    },
    /// `condition ? value : condition ? value : otherwise`
    Conditional {
        branches: Vec<(Node, Node)>,
        otherwise: Box<Node>,
    },
    /// `has(operand.field)`
    Has {
        operand: Box<Node>,
        field: Box<str>,
    },
    Comprehension(Box<Comprehension>),
    Call {
        function: Function,
        args: Vec<Node>,
    },
    /// `text.matches("literal pattern")`. The parser compiles the pattern.
    Matches {
        text: Box<Node>,
        pattern: Box<Regex>,
    },
}

#[derive(Debug, Clone)]
pub(crate) enum PathSegment {
    Field(Box<str>),
    Index(Node),
}

/// A macro call over a list or map, such as `iterable.all(variable, body)`.
#[derive(Debug, Clone)]
pub(crate) struct Comprehension {
    pub kind: Macro,
    pub iterable: Node,
    pub variable: Box<str>,
    /// The condition of the three-argument `map`.
    pub condition: Option<Node>,
    pub body: Node,
}

/// The comprehension macros of CEL.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Macro {
    All,
    Exists,
    ExistsOne,
    Filter,
    Map,
}

/// Binary operators other than `&&` and `||`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Operator {
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
    Equal,
    NotEqual,
    In,
    Add,
    Subtract,
    Multiply,
    Divide,
    Remainder,
}

impl Macro {
    /// The name of the macro in the source.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Macro::All => "all",
            Macro::Exists => "exists",
            Macro::ExistsOne => "exists_one",
            Macro::Filter => "filter",
            Macro::Map => "map",
        }
    }
}

impl Operator {
    /// The operator in the source.
    pub(crate) fn symbol(self) -> &'static str {
        match self {
            Operator::Less => "<",
            Operator::LessOrEqual => "<=",
            Operator::Greater => ">",
            Operator::GreaterOrEqual => ">=",
            Operator::Equal => "==",
            Operator::NotEqual => "!=",
            Operator::In => "in",
            Operator::Add => "+",
            Operator::Subtract => "-",
            Operator::Multiply => "*",
            Operator::Divide => "/",
            Operator::Remainder => "%",
        }
    }
}

impl Node {
    pub(crate) fn new(offset: usize, kind: NodeKind) -> Self {
        let depth = kind.deepest_child().saturating_add(1);
        Self { offset, depth, kind }
    }

    pub(crate) fn literal(offset: usize, value: impl Into<Value>) -> Self {
        Self::new(offset, NodeKind::Literal(value.into()))
    }
}

impl NodeKind {
    fn deepest_child(&self) -> u16 {
        match self {
            NodeKind::Literal(_) | NodeKind::Ident(_) => 0,
            NodeKind::Path { root, segments } => root.depth.max(max_depth(segments.iter().filter_map(index))),
            NodeKind::List(items) | NodeKind::And(items) | NodeKind::Or(items) => max_depth(items),
            NodeKind::Call { args, .. } => max_depth(args),
            NodeKind::Map(entries) => max_depth(entries.iter().flat_map(|(key, value)| [key, value])),
            NodeKind::Not { operand, .. } | NodeKind::Negate { operand, .. } | NodeKind::Has { operand, .. } => {
                operand.depth
            }
            NodeKind::Matches { text, .. } => text.depth,
            NodeKind::BinaryChain { first, rest } => first.depth.max(max_depth(rest.iter().map(|(_, node)| node))),
            NodeKind::Conditional { branches, otherwise } => {
                let branches = branches.iter().flat_map(|(condition, value)| [condition, value]);
                otherwise.depth.max(max_depth(branches))
            }
            NodeKind::Comprehension(comprehension) => {
                let nodes =
                    [Some(&comprehension.iterable), comprehension.condition.as_ref(), Some(&comprehension.body)];
                max_depth(nodes.into_iter().flatten())
            }
        }
    }
}

fn max_depth<'a>(nodes: impl IntoIterator<Item = &'a Node>) -> u16 {
    nodes.into_iter().map(|node| node.depth).max().unwrap_or(0)
}

fn index(segment: &PathSegment) -> Option<&Node> {
    match segment {
        PathSegment::Field(_) => None,
        PathSegment::Index(node) => Some(node),
    }
}
