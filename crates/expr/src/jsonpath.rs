//! JSONPath (RFC 9535) selectors, implemented by `serde_json_path`. Limits prevent a short selector from taking very
//! long.

use serde_json::Value;

use crate::{ParseError, Position};

/// The maximum length of a selector, in bytes.
const MAX_SOURCE: usize = 4 * 1024;

/// The maximum nesting of brackets.
const MAX_NESTING: usize = 32;

/// The maximum nesting of filters. Parsing nested filters takes exponential time.
const MAX_FILTERS: usize = 6;

/// The maximum estimated number of nodes that a query visits.
const MAX_WORK: u64 = 10_000_000;

/// The estimated cost of compiling a pattern, in nodes.
const PATTERN_WORK: u64 = 100_000;

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
    path: serde_json_path::JsonPath,
    complexity: Complexity,
}

/// The error for a query that exceeds a limit.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum JsonPathError {
    /// The query would visit too many nodes.
    #[error(
        "selector `{selector}` must visit at most {MAX_WORK} nodes, but would visit about {estimate} nodes of this document; use fewer `..`, `*`, `$` in filters and patterns taken from the document"
    )]
    TooManyNodes {
        /// The selector.
        selector: String,
        /// The estimated number of nodes.
        estimate: u64,
    },
    /// The query selects too much data.
    #[error("selector `{0}` must select at most {MAX_RESULT} bytes of this document; select less")]
    ResultTooLarge(String),
}

impl JsonPath {
    /// Parses a selector.
    pub fn parse(source: &str) -> Result<Self, ParseError> {
        let complexity = Complexity::analyze(source)
            .map_err(|(message, offset)| ParseError::new(message, Position::from_offset(source, offset)))?;
        let path = serde_json_path::JsonPath::parse(source).map_err(|error| {
            let message = format!("`{source}` is not a JSONPath: {}", error.message());
            ParseError::new(message, Position::from_offset(source, error.position()))
        })?;
        Ok(Self { source: source.into(), path, complexity })
    }

    /// The source text.
    pub fn source(&self) -> &str {
        &self.source
    }

    /// Whether the syntax of the selector limits it to at most one node.
    pub fn is_singular(&self) -> bool {
        is_singular(&self.source)
    }

    /// Returns the matching nodes in the order of RFC 9535.
    pub fn query<'v>(&self, document: &'v Value) -> Result<Vec<&'v Value>, JsonPathError> {
        let estimate = self.complexity.work(document);
        if estimate > MAX_WORK {
            return Err(JsonPathError::TooManyNodes { selector: self.source.to_string(), estimate });
        }
        let nodes = self.path.query(document).all();
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

/// The properties of a selector that determine the cost of a query.
#[derive(Debug, Clone, Copy)]
struct Complexity {
    /// The number of `..`. Each `..` may visit a node once for each of its ancestors.
    descents: u32,
    /// How often a node may be visited because of lists of selectors: `[*,*]` visits each item twice. It is the product
    /// of the lengths of all lists.
    repeats: u64,
    /// The number of `$` inside filters. Each `$` may visit the whole document again for every node.
    roots: u32,
    /// Whether a pattern comes from the document and is compiled for each node.
    dynamic_patterns: bool,
}

impl Complexity {
    /// Analyzes a selector. Rejects a selector that is too long or too deeply nested for the library's parser.
    fn analyze(source: &str) -> Result<Self, (String, usize)> {
        if source.len() > MAX_SOURCE {
            let message = format!("a selector must be at most {MAX_SOURCE} bytes, got {}", source.len());
            return Err((message, MAX_SOURCE));
        }
        if let Some(offset) = invalid_escape(source) {
            let message = "`\\` must be followed by one of b f n r t / \\ ' \" or u with four hexadecimal digits";
            return Err((message.into(), offset));
        }
        let mut scanner = Scanner::default();
        let mut before = ' ';
        for (offset, character) in source.char_indices() {
            scanner.scan(before, character);
            before = character;
            if scanner.open.len() > MAX_NESTING || scanner.filters() > MAX_FILTERS {
                let message = format!(
                    "brackets must be nested at most {MAX_NESTING} levels deep, and filters at most {MAX_FILTERS}"
                );
                return Err((message, offset));
            }
        }
        Ok(Self {
            descents: scanner.descents,
            repeats: scanner.repeats,
            roots: scanner.dollars.saturating_sub(1),
            dynamic_patterns: has_dynamic_pattern(source),
        })
    }

    /// Estimates an upper bound of the nodes that a query of `document` visits.
    fn work(self, document: &Value) -> u64 {
        if self.descents < 2 && self.repeats == 1 && self.roots == 0 && !self.dynamic_patterns {
            return 0;
        }
        let (nodes, depth) = measure(document);
        let ancestors = depth.saturating_pow(self.descents.saturating_sub(1));
        let again = nodes.saturating_pow(self.roots);
        let each = if self.dynamic_patterns { PATTERN_WORK } else { 1 };
        nodes.saturating_mul(ancestors).saturating_mul(again).saturating_mul(self.repeats).saturating_mul(each)
    }
}

/// Returns the offset of the first invalid escape sequence, because the library's parser panics on some of them. The
/// function does not check whether a backslash is inside a string, because a backslash outside of a string is always an
/// error.
fn invalid_escape(source: &str) -> Option<usize> {
    let mut rest = source.char_indices();
    while let Some((offset, character)) = rest.next() {
        if character != '\\' {
            continue;
        }
        let valid = match rest.next() {
            Some((_, 'u')) => rest.by_ref().take(4).filter(|(_, digit)| digit.is_ascii_hexdigit()).count() == 4,
            Some((_, escaped)) => "bfnrt/\\'\"".contains(escaped),
            None => false,
        };
        if !valid {
            return Some(offset);
        }
    }
    None
}

/// Whether `match` or `search` has a pattern that is not a literal. The text `match(` inside a string counts too, which
/// only makes the cost estimate higher.
fn has_dynamic_pattern(source: &str) -> bool {
    ["match(", "search("].iter().flat_map(|name| source.split(name).skip(1)).any(|arguments| {
        let pattern = arguments.split_once(',').map_or("", |(_, rest)| rest.trim_start());
        !pattern.starts_with(['\'', '"'])
    })
}

/// Scans the characters of a selector.
#[derive(Debug)]
struct Scanner {
    /// The open brackets, innermost last.
    open: Vec<Bracket>,
    quote: Option<char>,
    escaped: bool,
    descents: u32,
    repeats: u64,
    dollars: u32,
}

#[derive(Debug)]
struct Bracket {
    square: bool,
    filter: bool,
    selectors: u64,
}

impl Default for Scanner {
    fn default() -> Self {
        Self { open: Vec::new(), quote: None, escaped: false, descents: 0, repeats: 1, dollars: 0 }
    }
}

impl Scanner {
    fn filters(&self) -> usize {
        self.open.iter().filter(|bracket| bracket.filter).count()
    }

    fn scan(&mut self, before: char, character: char) {
        if let Some(quote) = self.quote {
            self.in_string(quote, character);
            return;
        }
        match character {
            '\'' | '"' => self.quote = Some(character),
            '[' | '(' => self.open.push(Bracket { square: character == '[', filter: false, selectors: 1 }),
            ']' | ')' => self.close(),
            '?' => self.innermost(|bracket| bracket.filter = true),
            ',' => self.innermost(|bracket| bracket.selectors += u64::from(bracket.square)),
            '$' => self.dollars += 1,
            '.' if before == '.' => self.descents += 1,
            _ => {}
        }
    }

    fn in_string(&mut self, quote: char, character: char) {
        if character == quote && !self.escaped {
            self.quote = None;
        }
        self.escaped = character == '\\' && !self.escaped;
    }

    fn close(&mut self) {
        if let Some(bracket) = self.open.pop() {
            self.repeats = self.repeats.saturating_mul(bracket.selectors);
        }
    }

    fn innermost(&mut self, change: impl FnOnce(&mut Bracket)) {
        if let Some(bracket) = self.open.last_mut() {
            change(bracket);
        }
    }
}

/// Returns the number of nodes of a document and its depth.
fn measure(document: &Value) -> (u64, u64) {
    let children: Box<dyn Iterator<Item = &Value>> = match document {
        Value::Array(items) => Box::new(items.iter()),
        Value::Object(fields) => Box::new(fields.values()),
        _ => return (1, 1),
    };
    let (nodes, depth) =
        children.map(measure).fold((0, 0), |(nodes, depth), (more, deeper)| (nodes + more, deeper.max(depth)));
    (nodes + 1, depth + 1)
}

/// Whether a selector consists of `$` followed by only names and single indexes.
///
/// INVARIANT: `source` is a valid selector, so this function does not check its syntax.
fn is_singular(source: &str) -> bool {
    let mut rest = source.strip_prefix('$').unwrap_or(source).trim_start();
    while !rest.is_empty() {
        let after = match rest.strip_prefix('.') {
            Some(name) => name
                .find(|c: char| c.is_ascii_whitespace() || c == '.' || c == '[')
                .map_or(Some((name, "")), |end| name.split_at_checked(end))
                .filter(|(name, _)| !name.is_empty() && *name != "*")
                .map(|(_, after)| after),
            None => rest.strip_prefix('[').and_then(single_selector),
        };
        match after {
            Some(after) => rest = after.trim_start(),
            None => return false,
        }
    }
    true
}

/// Returns the text after `'name']` or `0]`, or `None` if the brackets contain anything else.
fn single_selector(inside: &str) -> Option<&str> {
    let inside = inside.trim_start();
    let after = match inside.chars().next()? {
        quote @ ('\'' | '"') => {
            let mut escaped = false;
            let end = inside.char_indices().skip(1).find(|(_, character)| {
                let ends = *character == quote && !escaped;
                escaped = *character == '\\' && !escaped;
                ends
            })?;
            inside.get(end.0 + 1..)?
        }
        '-' | '0'..='9' => inside.trim_start_matches(|c: char| c == '-' || c.is_ascii_digit()),
        _ => return None,
    };
    after.trim_start().strip_prefix(']')
}
