//! The syntax tree of a query. Only the parser creates a [`crate::Query`], so its tree is always valid.

use std::fmt;

use crate::{Case, DateTimeLiteral, Field, Projection, WildcardPattern};

/// A condition on a document.
#[derive(Debug, Clone, PartialEq)]
pub enum Condition {
    /// `a && b`: two or more conditions, none of which is an `And`.
    And(Vec<Condition>),
    /// `a || b`: two or more conditions, none of which is an `Or`.
    Or(Vec<Condition>),
    /// `!!a`
    Not(Box<Condition>),
    /// `field:~`
    Present(Field),
    /// `field:null`
    Null {
        /// The field.
        field: Field,
        /// Whether the operator is `:!`.
        negated: bool,
    },
    /// `field:true`
    Bool {
        /// The field.
        field: Field,
        /// The boolean.
        value: bool,
        /// Whether the operator is `:!`.
        negated: bool,
    },
    /// `field:value`
    Equal {
        /// The field.
        field: Field,
        /// The value to compare with.
        value: Literal,
        /// The case sensitivity of a text value.
        case: Case,
        /// Whether the operator is `:!`.
        negated: bool,
    },
    /// `field:@@id`
    Reference {
        /// The field.
        field: Field,
        /// The id of the referenced record.
        id: RecordId,
        /// Whether the operator is `:!`.
        negated: bool,
    },
    /// `field:<value`, `field:<=value`, `field:>value` or `field:>=value`.
    Compare {
        /// The field.
        field: Field,
        /// The operator.
        op: CompareOp,
        /// The bound.
        value: Literal,
        /// The case sensitivity of a text bound.
        case: Case,
    },
    /// `field:a*`
    Like {
        /// The field.
        field: Field,
        /// The wildcard pattern.
        pattern: WildcardPattern,
        /// The case sensitivity.
        case: Case,
        /// Whether the operator is `:!`.
        negated: bool,
    },
    /// `field:^[a, b]`: the field equals a value of the list. The list is not empty.
    In {
        /// The field.
        field: Field,
        /// The values of the list.
        items: Vec<Item>,
        /// Whether the operator is `:!^`.
        negated: bool,
    },
    /// `field:{…}`: an element of the array at `field` satisfies the inner condition.
    Element {
        /// The field of the array.
        field: Field,
        /// The condition on the element.
        inner: Box<Condition>,
    },
    /// `hasEdge(…)`, `hasOutgoingEdge(…)` or `hasIncomingEdge(…)`.
    Edge {
        /// Whether the matching document is the source or the target of the relation.
        direction: Direction,
        /// The name of the relation.
        relation: Term,
        /// The document at the other end.
        other: Term,
    },
    /// `expand(…)`: includes related records. Does not filter.
    Expand {
        /// The path of the related records.
        path: ExpandPath,
        /// A filter for the related records.
        filter: Option<Box<Condition>>,
    },
    /// `fields:[+a, -b]`: selects fields of the documents. Does not filter.
    Fields(Projection),
    /// `text(…)`: at least one of the words occurs in a string of the document.
    Text(Term),
}

/// An order comparison: `:<`, `:>`, `:<=` or `:>=`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum CompareOp {
    /// `:<`
    Less,
    /// `:>`
    Greater,
    /// `:<=`
    LessOrEqual,
    /// `:>=`
    GreaterOrEqual,
}

impl CompareOp {
    pub(crate) fn symbol(self) -> &'static str {
        match self {
            CompareOp::Less => "<",
            CompareOp::Greater => ">",
            CompareOp::LessOrEqual => "<=",
            CompareOp::GreaterOrEqual => ">=",
        }
    }

    pub(crate) fn holds(self, found: std::cmp::Ordering) -> bool {
        match self {
            CompareOp::Less => found.is_lt(),
            CompareOp::Greater => found.is_gt(),
            CompareOp::LessOrEqual => found.is_le(),
            CompareOp::GreaterOrEqual => found.is_ge(),
        }
    }
}

/// Whether the matching document is the source or the target of a relation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Direction {
    /// `hasEdge`, `hasOutgoingEdge`: the matching document references the other document.
    Outgoing,
    /// `hasIncomingEdge`: the other document references the matching document.
    Incoming,
}

impl Direction {
    pub(crate) fn function(self) -> &'static str {
        match self {
            Direction::Outgoing => "hasEdge",
            Direction::Incoming => "hasIncomingEdge",
        }
    }
}

/// A literal value in a comparison.
#[derive(Debug, Clone, PartialEq)]
pub enum Literal {
    /// An unquoted text. If it is the text of a number, it also matches that number.
    Word(Box<str>),
    /// A quoted text.
    Quoted(Box<str>),
    /// An id of 24 hexadecimal digits.
    Id(ObjectId),
    /// `#42`, `##19.99`
    Number(NumberLiteral),
    /// `2024-01-31`, `2024-01-31T10:00:00Z`
    DateTime(DateTimeLiteral),
    /// `${name}`
    Variable(Box<str>),
}

/// A value of a list.
#[derive(Debug, Clone, PartialEq)]
pub enum Item {
    /// A literal value.
    Literal(Literal),
    /// `true`, `false`
    Bool(bool),
    /// `@@id`
    Reference(RecordId),
}

/// A text argument of a function.
#[derive(Debug, Clone, PartialEq)]
pub enum Term {
    /// Unquoted text, including ids.
    Word(Box<str>),
    /// Quoted text, or an id after `@@`.
    Quoted(Box<str>),
    /// `${name}`
    Variable(Box<str>),
}

/// A number literal.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum NumberLiteral {
    /// `#42`
    Integer(i64),
    /// `##19.99`, always finite.
    Decimal(f64),
}

impl NumberLiteral {
    /// The number as a double. Numbers are compared as doubles.
    pub fn as_f64(self) -> f64 {
        match self {
            NumberLiteral::Integer(value) => value as f64,
            NumberLiteral::Decimal(value) => value,
        }
    }
}

/// Formats the number without `#`. In a query, the number also matches a string with this text.
impl fmt::Display for NumberLiteral {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NumberLiteral::Integer(value) => write!(f, "{value}"),
            NumberLiteral::Decimal(value) if value.fract() == 0.0 => write!(f, "{value:.1}"),
            NumberLiteral::Decimal(value) => write!(f, "{value}"),
        }
    }
}

/// An id of 24 hexadecimal digits, compared case-insensitively.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ObjectId(Box<str>);

impl ObjectId {
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let hex = text.len() == 24 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
        hex.then(|| Self(text.to_ascii_lowercase().into()))
    }

    /// The digits, in lower case.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// The id of a referenced record. An id of 24 hexadecimal digits is compared case-insensitively, any other id
/// case-sensitively.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct RecordId(Box<str>);

impl RecordId {
    pub(crate) fn new(text: &str) -> Self {
        match ObjectId::parse(text) {
            Some(ObjectId(digits)) => Self(digits),
            None => Self(text.into()),
        }
    }

    /// The id. An id of 24 hexadecimal digits is in lower case.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The case sensitivity of the id.
    pub(crate) fn case(&self) -> Case {
        if ObjectId::parse(&self.0).is_some() { Case::Insensitive } else { Case::Sensitive }
    }
}

/// The path of `expand(…)`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExpandPath(pub(crate) Vec<ExpandSegment>);

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ExpandSegment {
    pub field: Field,
    /// Whether `[*]` follows the name.
    pub each: bool,
}

impl fmt::Display for ExpandPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, segment) in self.0.iter().enumerate() {
            let dot = if index == 0 { "" } else { "." };
            let each = if segment.each { "[*]" } else { "" };
            write!(f, "{dot}{}{each}", segment.field)?;
        }
        Ok(())
    }
}
