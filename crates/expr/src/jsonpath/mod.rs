//! JSONPath (RFC 9535) selectors. A regular expression that is written as a literal is compiled when the selector is
//! parsed. Each visited node is charged to the step limit of the current operation (`toolwright_budget`), so a short
//! selector cannot take very long.

mod parse;
mod query;

use regex::Regex;
use serde_json::Value;
use toolwright_budget::{MAX_STEPS, Stopped, within};

use crate::{ParseError, Position};

/// The maximum length of a selector, in bytes.
const MAX_SOURCE: usize = 4 * 1024;

/// The maximum size of all selected nodes, in bytes.
const MAX_RESULT: usize = 16 << 20;

/// A parsed selector.
///
/// ```
/// use serde_json::json;
/// use toolwright_expr::JsonPath;
///
/// let path = JsonPath::parse("$.items[?@.price < 10].name")?;
/// let document = json!({"items": [{"name": "a", "price": 5}, {"name": "b", "price": 20}]});
/// assert_eq!(path.query(&document).unwrap(), [&json!("a")]);
/// # Ok::<(), toolwright_expr::ParseError>(())
/// ```
#[derive(Debug, Clone)]
pub struct JsonPath {
    source: Box<str>,
    segments: Vec<Segment>,
}

/// The error for a query that exceeds a limit.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum JsonPathError {
    /// The query exceeds the step limit.
    #[error("selector `{selector}` cannot be evaluated: {reason}")]
    Stopped {
        /// The selector.
        selector: String,
        /// Why the query was stopped.
        reason: Stopped,
    },
    /// The query selects too much data.
    #[error("selector `{0}` must select at most {MAX_RESULT} bytes of this document; select less")]
    ResultTooLarge(String),
}

impl JsonPath {
    /// Parses a selector.
    pub fn parse(source: &str) -> Result<Self, ParseError> {
        let error = |message, offset| ParseError::new(message, Position::from_offset(source, offset));
        if source.len() > MAX_SOURCE {
            let message = format!("a selector must be at most {MAX_SOURCE} bytes, got {}", source.len());
            return Err(error(message, MAX_SOURCE));
        }
        let segments = parse::segments(source)
            .map_err(|invalid| error(format!("`{source}` is not a JSONPath: {}", invalid.message), invalid.offset))?;
        Ok(Self { source: source.into(), segments })
    }

    /// The source text.
    pub fn source(&self) -> &str {
        &self.source
    }

    /// Whether the syntax of the selector limits it to at most one node.
    pub fn is_singular(&self) -> bool {
        is_singular(&self.segments)
    }

    /// Returns the matching nodes in the order of RFC 9535.
    pub fn query<'v>(&self, document: &'v Value) -> Result<Vec<&'v Value>, JsonPathError> {
        let nodes = within(MAX_STEPS, || query::select(&self.segments, document))
            .map_err(|reason| JsonPathError::Stopped { selector: self.source.to_string(), reason })?;
        // A selector may return the same node many times, and callers copy each returned node. So the size of all
        // returned nodes is limited.
        let mut remaining = MAX_RESULT;
        if nodes.iter().all(|node| subtract_size(node, &mut remaining)) {
            Ok(nodes)
        } else {
            Err(JsonPathError::ResultTooLarge(self.source.to_string()))
        }
    }
}

/// Subtracts the approximate size of a value in bytes from `remaining`. Returns false if the value is larger than
/// `remaining`.
fn subtract_size(value: &Value, remaining: &mut usize) -> bool {
    let own = match value {
        Value::String(text) => text.len(),
        Value::Object(fields) => fields.keys().map(|key| key.len() + 4).sum(),
        _ => 0,
    };
    match remaining.checked_sub(own + 8) {
        Some(rest) => *remaining = rest,
        None => return false,
    }
    match value {
        Value::Array(items) => items.iter().all(|item| subtract_size(item, remaining)),
        Value::Object(fields) => fields.values().all(|field| subtract_size(field, remaining)),
        _ => true,
    }
}

/// A segment of a query: `.a`, `[0, 'a']`, or `..a` for all descendants.
#[derive(Debug, Clone)]
struct Segment {
    descends: bool,
    selectors: Vec<Selector>,
}

#[derive(Debug, Clone)]
enum Selector {
    Name(String),
    Wildcard,
    Index(i64),
    Slice { start: Option<i64>, end: Option<i64>, step: i64 },
    Filter(Condition),
}

/// A query in a filter: `$…` or `@…`.
#[derive(Debug, Clone)]
struct Query {
    from_root: bool,
    segments: Vec<Segment>,
}

impl Query {
    fn is_singular(&self) -> bool {
        is_singular(&self.segments)
    }
}

fn is_singular(segments: &[Segment]) -> bool {
    segments.iter().all(|segment| {
        !segment.descends && matches!(segment.selectors.as_slice(), [Selector::Name(_) | Selector::Index(_)])
    })
}

/// The expression of a filter.
#[derive(Debug, Clone)]
enum Condition {
    Any(Vec<Condition>),
    All(Vec<Condition>),
    Not(Box<Condition>),
    Exists(Query),
    Compare(Operand, Comparison, Operand),
    Matches(Box<PatternTest>),
}

#[derive(Debug, Clone, Copy)]
enum Comparison {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

/// An expression whose result is one JSON value or no value.
#[derive(Debug, Clone)]
enum Operand {
    Literal(Value),
    /// The node of a singular query.
    Node(Query),
    Length(Box<Operand>),
    Count(Query),
    /// The function `value`: the node if the query selects exactly one node, otherwise no value.
    OnlyNode(Query),
}

/// `match` or `search`.
#[derive(Debug, Clone)]
struct PatternTest {
    text: Operand,
    pattern: Pattern,
    /// Whether the whole text must match.
    whole: bool,
}

#[derive(Debug, Clone)]
enum Pattern {
    /// A literal pattern. `None` if it is invalid: an invalid pattern matches nothing.
    Compiled(Option<CompiledPattern>),
    /// A pattern from the document.
    Computed(Operand),
}

#[derive(Debug, Clone)]
struct CompiledPattern {
    regex: Regex,
    /// The number of steps that matching charges for each byte of text.
    steps_per_byte: u64,
}

impl CompiledPattern {
    /// The maximum size of a small compiled pattern, in bytes. A small pattern costs one step for each byte of text, a
    /// larger one [`STEPS_PER_BYTE`](Self::STEPS_PER_BYTE).
    const SMALL: usize = 16 << 10;
    /// The maximum size of a compiled pattern, in bytes.
    const MAX: usize = 256 << 10;
    const STEPS_PER_BYTE: u64 = 32;

    /// Compiles a pattern. An invalid pattern is `None`, because RFC 9535 lets it match nothing. A pattern that is too
    /// large is an error.
    fn new(pattern: &str, whole: bool) -> Result<Option<Self>, String> {
        // With the flag `R`, the dot matches neither `\r` nor `\n`, as RFC 9485 requires.
        let text = if whole { format!("(?R)^(?:{pattern})$") } else { format!("(?R)(?:{pattern})") };
        let build =
            |size| regex::RegexBuilder::new(&text).size_limit(size).dfa_size_limit(Self::MAX).nest_limit(50).build();
        for (size, steps_per_byte) in [(Self::SMALL, 1), (Self::MAX, Self::STEPS_PER_BYTE)] {
            match build(size) {
                Ok(regex) => return Ok(Some(Self { regex, steps_per_byte })),
                Err(regex::Error::CompiledTooBig(_)) => {}
                Err(_) => return Ok(None),
            }
        }
        Err(format!("a pattern must have at most {} bytes when compiled; use fewer repetitions", Self::MAX))
    }
}
