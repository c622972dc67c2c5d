//! The tree of a query. It can be read by anyone and made only by the parser, so that a [`crate::Query`] is never wrong.

use std::fmt;

use crate::{Field, Moment, Pattern, Projection};

/// What must hold for a document.
#[derive(Debug, Clone, PartialEq)]
pub enum Condition {
    /// `a && b`: two or more, none of them an `All`.
    All(Vec<Condition>),
    /// `a || b`: two or more, none of them an `Any`.
    Any(Vec<Condition>),
    /// `!!a`
    Not(Box<Condition>),
    /// `field:~`
    Present(Field),
    /// `field:null`
    Null {
        /// Where.
        field: Field,
        /// `:!`
        negated: bool,
    },
    /// `field:true`
    Truth {
        /// Where.
        field: Field,
        /// Which of the two.
        value: bool,
        /// `:!`
        negated: bool,
    },
    /// `field:value`
    Equal {
        /// Where.
        field: Field,
        /// What.
        value: Literal,
        /// Whether `A` is `a`, where the value is a text.
        case: Case,
        /// `:!`
        negated: bool,
    },
    /// `field:@@id`
    Refers {
        /// Where.
        field: Field,
        /// The id of the record referred to.
        id: RecordId,
        /// `:!`
        negated: bool,
    },
    /// `field:<value` and its kin.
    Order {
        /// Where.
        field: Field,
        /// Which way.
        order: Order,
        /// The limit.
        value: Literal,
        /// Whether `A` is `a`, where the limit is a text.
        case: Case,
    },
    /// `field:a*`
    Like {
        /// Where.
        field: Field,
        /// Text with wildcards.
        pattern: Pattern,
        /// Whether `A` is `a`.
        case: Case,
        /// `:!`
        negated: bool,
    },
    /// `field:^[a, b]`: at least one item.
    In {
        /// Where.
        field: Field,
        /// What is looked for.
        items: Vec<Item>,
        /// `:!^`
        negated: bool,
    },
    /// `field:{…}`: some element of the array at `field` satisfies the inner condition.
    Element {
        /// Where the array is.
        field: Field,
        /// What must hold for the element.
        inner: Box<Condition>,
    },
    /// `hasEdge(…)` and its kin.
    Edge {
        /// Seen from the document that is asked about.
        direction: Direction,
        /// The name of the relation.
        predicate: Term,
        /// The document at the other end.
        other: Term,
    },
    /// `expand(…)`: filters nothing, asks for related records.
    Expand {
        /// Where they are, `[*]` marks left out of the names.
        path: ExpandPath,
        /// Which of them.
        filter: Option<Box<Condition>>,
    },
    /// `fields:[+a, -b]`: filters nothing, asks for parts of a document.
    Fields(Projection),
    /// `text(…)`: some word occurs in some string of the document.
    Text(Term),
}

/// `:<`, `:>`, `:<=`, `:>=`
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Order {
    /// `:<`
    Less,
    /// `:>`
    Greater,
    /// `:<=`
    AtMost,
    /// `:>=`
    AtLeast,
}

impl Order {
    pub(crate) fn sign(self) -> &'static str {
        match self {
            Order::Less => "<",
            Order::Greater => ">",
            Order::AtMost => "<=",
            Order::AtLeast => ">=",
        }
    }

    pub(crate) fn holds(self, found: std::cmp::Ordering) -> bool {
        match self {
            Order::Less => found.is_lt(),
            Order::Greater => found.is_gt(),
            Order::AtMost => found.is_le(),
            Order::AtLeast => found.is_ge(),
        }
    }
}

/// Whether `A` is `a`. Only the letters of ASCII have a case here, as they do in the databases.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Case {
    /// `~cs`
    Sensitive,
    /// `~ci`
    Insensitive,
}

/// The end of a relation at which the document stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Direction {
    /// `hasEdge`, `hasOutgoingEdge`: it points to the other.
    Outgoing,
    /// `hasIncomingEdge`: the other points to it.
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

/// What a value of a document is compared with.
#[derive(Debug, Clone, PartialEq)]
pub enum Literal {
    /// Unquoted: a text, and a number if it reads as one.
    Word(Box<str>),
    /// Quoted: a text and nothing else.
    Quoted(Box<str>),
    /// 24 hexadecimal digits.
    Id(ObjectId),
    /// `#42`, `##19.99`
    Number(Number),
    /// `2024-01-31`, `2024-01-31T10:00:00Z`
    Moment(Moment),
    /// `${name}`
    Variable(Box<str>),
}

/// One of the values of a list.
#[derive(Debug, Clone, PartialEq)]
pub enum Item {
    /// What may also stand after `:`.
    Literal(Literal),
    /// `true`, `false`
    Truth(bool),
    /// `@@id`
    Reference(RecordId),
}

/// An argument that is a text in the end.
#[derive(Debug, Clone, PartialEq)]
pub enum Term {
    /// Unquoted, ids included.
    Word(Box<str>),
    /// Quoted, and what followed `@@`.
    Quoted(Box<str>),
    /// `${name}`
    Variable(Box<str>),
}

/// A number as it was written.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Number {
    /// `#42`
    Whole(i64),
    /// `##19.99`, always finite.
    Decimal(f64),
}

impl Number {
    /// Numbers are compared as doubles.
    pub fn as_f64(self) -> f64 {
        match self {
            Number::Whole(value) => value as f64,
            Number::Decimal(value) => value,
        }
    }
}

/// Without the `#` signs: the text that a string must have to equal this number.
impl fmt::Display for Number {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Number::Whole(value) => write!(f, "{value}"),
            Number::Decimal(value) if value.fract() == 0.0 => write!(f, "{value:.1}"),
            Number::Decimal(value) => write!(f, "{value}"),
        }
    }
}

/// 24 hexadecimal digits, in which case does not count.
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

/// The id of a record that something refers to: any text. Of 24 hexadecimal digits case does not count, of all else it does.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct RecordId(Box<str>);

impl RecordId {
    pub(crate) fn new(text: &str) -> Self {
        match ObjectId::parse(text) {
            Some(ObjectId(digits)) => Self(digits),
            None => Self(text.into()),
        }
    }

    /// The id; 24 hexadecimal digits in lower case.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether case counts in it.
    pub(crate) fn case(&self) -> Case {
        if ObjectId::parse(&self.0).is_some() { Case::Insensitive } else { Case::Sensitive }
    }
}

/// The path of `expand(…)`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExpandPath(pub(crate) Vec<ExpandStep>);

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ExpandStep {
    pub field: Field,
    /// `[*]` follows.
    pub each: bool,
}

impl fmt::Display for ExpandPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, step) in self.0.iter().enumerate() {
            let dot = if index == 0 { "" } else { "." };
            let each = if step.each { "[*]" } else { "" };
            write!(f, "{dot}{}{each}", step.field)?;
        }
        Ok(())
    }
}
