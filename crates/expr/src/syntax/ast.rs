//! The tree of an expression.

use regex::Regex;
use serde_json::Value;

use super::Function;

/// A part of an expression and where it begins.
#[derive(Debug, Clone)]
pub(crate) struct Node {
    /// Byte offset in the source.
    pub at: usize,
    /// Levels of nodes, this one included.
    pub depth: u16,
    pub kind: Kind,
}

/// What a part is. Chains are flat lists, so that a long one is not a deep one.
#[derive(Debug, Clone)]
pub(crate) enum Kind {
    Literal(Value),
    Name(Box<str>),
    /// `root.field[index]…`
    Path {
        root: Box<Node>,
        steps: Vec<Step>,
    },
    List(Vec<Node>),
    Map(Vec<(Node, Node)>),
    /// `!` written one or more times.
    Not {
        odd: bool,
        of: Box<Node>,
    },
    /// `-` written one or more times.
    Negate {
        odd: bool,
        of: Box<Node>,
    },
    And(Vec<Node>),
    Or(Vec<Node>),
    /// Operators of one precedence, from left to right.
    Chain {
        first: Box<Node>,
        rest: Vec<(Operator, Node)>,
    },
    /// `condition ? value : condition ? value : otherwise`
    Choice {
        arms: Vec<(Node, Node)>,
        otherwise: Box<Node>,
    },
    /// `has(of.field)`
    Has {
        of: Box<Node>,
        field: Box<str>,
    },
    Loop(Box<Loop>),
    Call {
        function: Function,
        args: Vec<Node>,
    },
    /// `text.matches("literal pattern")`, compiled when the expression was parsed.
    Matches {
        text: Box<Node>,
        pattern: Box<Regex>,
    },
}

/// One step of a path.
#[derive(Debug, Clone)]
pub(crate) enum Step {
    Field(Box<str>),
    Index(Node),
}

/// `over.all(variable, body)` and its relatives.
#[derive(Debug, Clone)]
pub(crate) struct Loop {
    pub kind: Macro,
    pub over: Node,
    pub variable: Box<str>,
    /// The condition of the three-argument `map`.
    pub condition: Option<Node>,
    pub body: Node,
}

/// The loops of CEL.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Macro {
    All,
    Exists,
    ExistsOne,
    Filter,
    Map,
}

/// Operators between two values, other than `&&` and `||`.
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
    /// The loop as it is written.
    pub fn name(self) -> &'static str {
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
    /// The operator as it is written.
    pub fn symbol(self) -> &'static str {
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
    pub fn new(at: usize, kind: Kind) -> Self {
        let depth = kind.deepest_part().saturating_add(1);
        Self { at, depth, kind }
    }

    pub fn literal(at: usize, value: impl Into<Value>) -> Self {
        Self::new(at, Kind::Literal(value.into()))
    }
}

impl Kind {
    fn deepest_part(&self) -> u16 {
        match self {
            Kind::Literal(_) | Kind::Name(_) => 0,
            Kind::Path { root, steps } => root.depth.max(deepest(steps.iter().filter_map(index))),
            Kind::List(items) | Kind::And(items) | Kind::Or(items) => deepest(items),
            Kind::Call { args, .. } => deepest(args),
            Kind::Map(entries) => deepest(entries.iter().flat_map(|(key, value)| [key, value])),
            Kind::Not { of, .. } | Kind::Negate { of, .. } | Kind::Has { of, .. } => of.depth,
            Kind::Matches { text, .. } => text.depth,
            Kind::Chain { first, rest } => first.depth.max(deepest(rest.iter().map(|(_, node)| node))),
            Kind::Choice { arms, otherwise } => {
                let arms = arms.iter().flat_map(|(condition, value)| [condition, value]);
                otherwise.depth.max(deepest(arms))
            }
            Kind::Loop(parts) => {
                let nodes = [Some(&parts.over), parts.condition.as_ref(), Some(&parts.body)];
                deepest(nodes.into_iter().flatten())
            }
        }
    }
}

fn deepest<'a>(nodes: impl IntoIterator<Item = &'a Node>) -> u16 {
    nodes.into_iter().map(|node| node.depth).max().unwrap_or(0)
}

fn index(step: &Step) -> Option<&Node> {
    match step {
        Step::Field(_) => None,
        Step::Index(node) => Some(node),
    }
}
