//! JSONPath (RFC 9535), by `serde_json_path`, behind limits that keep a short selector from asking
//! for endless work.

use serde_json::Value;

use crate::{ParseError, Position};

/// Longest selector, in bytes.
const MAX_SOURCE: usize = 4 * 1024;

/// Deepest brackets.
const MAX_NESTING: usize = 32;

/// Deepest filters within filters: parsing them takes exponential time.
const MAX_FILTERS: usize = 6;

/// Nodes that a query may have to look at, as estimated before it runs.
const MAX_WORK: u64 = 10_000_000;

/// What compiling a pattern costs, in nodes.
const PATTERN_WORK: u64 = 100_000;

/// The most that a query may select.
const MAX_RESULT: usize = 16 << 20;

/// A selector, parsed once.
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
    shape: Shape,
}

/// A query that costs too much.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum QueryError {
    /// It would look at too many nodes.
    #[error(
        "selector `{selector}` would look at about {estimate} nodes of this document, more than {MAX_WORK}; use fewer `..`, `*`, `$` in filters and patterns taken from the document"
    )]
    Work {
        /// The selector.
        selector: String,
        /// How many, about.
        estimate: u64,
    },
    /// What it selects is too much to return.
    #[error("selector `{0}` selects more than {MAX_RESULT} bytes of this document; select less")]
    Result(String),
}

impl JsonPath {
    /// Parses a selector.
    pub fn parse(source: &str) -> Result<Self, ParseError> {
        let shape = Shape::of(source).map_err(|(message, at)| ParseError::new(message, Position::of(source, at)))?;
        let path = serde_json_path::JsonPath::parse(source).map_err(|error| {
            let message = format!("`{source}` is not a JSONPath: {}", error.message());
            ParseError::new(message, Position::of(source, error.position()))
        })?;
        Ok(Self { source: source.into(), path, shape })
    }

    /// The text this was parsed from.
    pub fn source(&self) -> &str {
        &self.source
    }

    /// Whether it can match at most one node, by its form.
    pub fn is_singular(&self) -> bool {
        is_singular(&self.source)
    }

    /// The nodes it matches, in the order of RFC 9535.
    pub fn query<'v>(&self, document: &'v Value) -> Result<Vec<&'v Value>, QueryError> {
        let estimate = self.shape.work(document);
        if estimate > MAX_WORK {
            return Err(QueryError::Work { selector: self.source.to_string(), estimate });
        }
        let nodes = self.path.query(document).all();
        // A node may be selected many times over, and each time it is copied by whoever asked.
        let mut room = MAX_RESULT;
        if nodes.iter().all(|node| takes_room(node, &mut room)) {
            Ok(nodes)
        } else {
            Err(QueryError::Result(self.source.to_string()))
        }
    }
}

/// Takes about the size of a value from `room`; false when there is none left.
fn takes_room(value: &Value, room: &mut usize) -> bool {
    let own = match value {
        Value::String(text) => text.len(),
        Value::Object(fields) => fields.keys().map(|key| key.len() + 4).sum(),
        _ => 0,
    };
    match room.checked_sub(own + 8) {
        Some(left) => *room = left,
        None => return false,
    }
    match value {
        Value::Array(items) => items.iter().all(|item| takes_room(item, room)),
        Value::Object(fields) => fields.values().all(|field| takes_room(field, room)),
        _ => true,
    }
}

/// What of a selector decides how much work it is.
#[derive(Debug, Clone, Copy)]
struct Shape {
    /// `..`, each of which may visit a node once for each of its ancestors.
    descents: u32,
    /// Product of the numbers of selectors in brackets: `[*,*]` visits each item twice.
    repeats: u64,
    /// `$` inside filters, each of which may visit the whole document for each node.
    roots: u32,
    /// Whether a pattern is taken from the document, to be compiled for each node.
    made_patterns: bool,
}

impl Shape {
    /// Measures a selector; refuses one that is too long or too deep for the library's parser.
    fn of(source: &str) -> Result<Self, (String, usize)> {
        if source.len() > MAX_SOURCE {
            let message = format!("a selector has at most {MAX_SOURCE} bytes, this one {}", source.len());
            return Err((message, MAX_SOURCE));
        }
        if let Some(at) = wrong_escape(source) {
            return Err(("after `\\` comes one of b f n r t / \\ ' \" or u with four hexadecimal digits".into(), at));
        }
        let mut scan = Scan::default();
        let mut before = ' ';
        for (at, character) in source.char_indices() {
            scan.step(before, character);
            before = character;
            if scan.open.len() > MAX_NESTING || scan.filters() > MAX_FILTERS {
                let message =
                    format!("brackets are nested more than {MAX_NESTING} deep, or filters more than {MAX_FILTERS}");
                return Err((message, at));
            }
        }
        Ok(Self {
            descents: scan.descents,
            repeats: scan.repeats,
            roots: scan.dollars.saturating_sub(1),
            made_patterns: has_made_pattern(source),
        })
    }

    /// An upper estimate of the nodes that a query of `document` visits.
    fn work(self, document: &Value) -> u64 {
        if self.descents < 2 && self.repeats == 1 && self.roots == 0 && !self.made_patterns {
            return 0;
        }
        let (nodes, depth) = measure(document);
        let ancestors = depth.saturating_pow(self.descents.saturating_sub(1));
        let again = nodes.saturating_pow(self.roots);
        let each = if self.made_patterns { PATTERN_WORK } else { 1 };
        nodes.saturating_mul(ancestors).saturating_mul(again).saturating_mul(self.repeats).saturating_mul(each)
    }
}

/// Where a backslash is followed by what no string may have; the library's parser panics on some of it. A backslash
/// outside of a string is wrong anyway.
fn wrong_escape(source: &str) -> Option<usize> {
    let mut rest = source.char_indices();
    while let Some((at, character)) = rest.next() {
        if character != '\\' {
            continue;
        }
        let fine = match rest.next() {
            Some((_, 'u')) => rest.by_ref().take(4).filter(|(_, digit)| digit.is_ascii_hexdigit()).count() == 4,
            Some((_, escaped)) => "bfnrt/\\'\"".contains(escaped),
            None => false,
        };
        if !fine {
            return Some(at);
        }
    }
    None
}

/// Whether `match` or `search` is given anything but a literal as its pattern. Strings are not told apart from code
/// here: a false alarm only makes the estimate higher.
fn has_made_pattern(source: &str) -> bool {
    ["match(", "search("].iter().flat_map(|name| source.split(name).skip(1)).any(|arguments| {
        let pattern = arguments.split_once(',').map_or("", |(_, rest)| rest.trim_start());
        !pattern.starts_with(['\'', '"'])
    })
}

/// A walk over the characters of a selector.
#[derive(Debug)]
struct Scan {
    /// Brackets that are open, and for `[` how many selectors it holds so far; filters are marked.
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

impl Default for Scan {
    fn default() -> Self {
        Self { open: Vec::new(), quote: None, escaped: false, descents: 0, repeats: 1, dollars: 0 }
    }
}

impl Scan {
    fn filters(&self) -> usize {
        self.open.iter().filter(|bracket| bracket.filter).count()
    }

    fn step(&mut self, before: char, character: char) {
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

/// The number of nodes of a document and its depth.
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

/// `$`, then only names and single indexes.
///
/// INVARIANT: `source` is a valid selector, so that only its form needs to be told apart.
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

/// What follows `'name']` or `0]`.
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
