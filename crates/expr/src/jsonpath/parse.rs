//! Parses a selector by the grammar of RFC 9535, without backtracking.

use serde_json::Value;

use super::{Comparison, CompiledPattern, Condition, Operand, Pattern, PatternTest, Query, Segment, Selector};

/// The maximum nesting of brackets.
const MAX_NESTING: usize = 32;

/// The largest index. Every JSON implementation represents integers up to this value exactly.
const MAX_INDEX: i64 = (1 << 53) - 1;

const COMPARISONS: [(&str, Comparison); 6] = [
    ("==", Comparison::Equal),
    ("!=", Comparison::NotEqual),
    ("<=", Comparison::LessOrEqual),
    (">=", Comparison::GreaterOrEqual),
    ("<", Comparison::Less),
    (">", Comparison::Greater),
];

/// Parses a whole selector.
pub(super) fn segments(source: &str) -> Result<Vec<Segment>, Invalid> {
    let mut parser = Parser { source, offset: 0, depth: 0 };
    if !parser.take("$") {
        return Err(parser.invalid("a selector must begin with `$`"));
    }
    let segments = parser.segments()?;
    if parser.offset < source.len() {
        return Err(parser.invalid("`.`, `..`, `[` or the end is expected"));
    }
    Ok(segments)
}

/// Why a selector is invalid.
#[derive(Debug)]
pub(super) struct Invalid {
    pub message: String,
    pub offset: usize,
}

/// A part of a filter expression. The parser does not know yet how the part is used.
enum Term {
    Literal(Value),
    Query(Query),
    Value(Operand),
    Test(PatternTest),
}

struct Parser<'s> {
    source: &'s str,
    offset: usize,
    depth: usize,
}

impl<'s> Parser<'s> {
    fn segments(&mut self) -> Result<Vec<Segment>, Invalid> {
        let mut segments = Vec::new();
        loop {
            let end = self.offset;
            self.skip_blanks();
            match self.segment()? {
                Some(segment) => segments.push(segment),
                None => {
                    // Blanks after the last segment are not part of the query.
                    self.offset = end;
                    return Ok(segments);
                }
            }
        }
    }

    fn segment(&mut self) -> Result<Option<Segment>, Invalid> {
        let descends = self.take("..");
        if self.peek() == Some('[') {
            return Ok(Some(Segment { descends, selectors: self.nested(Self::bracketed)? }));
        }
        if !descends && !self.take(".") {
            return Ok(None);
        }
        if self.take("*") {
            return Ok(Some(Segment { descends, selectors: vec![Selector::Wildcard] }));
        }
        let is_first = |c: char| c.is_ascii_alphabetic() || c == '_' || !c.is_ascii();
        if !self.peek().is_some_and(is_first) {
            return Err(self.invalid("a name or `*` is expected"));
        }
        let name = self.take_while(|c| is_first(c) || c.is_ascii_digit());
        Ok(Some(Segment { descends, selectors: vec![Selector::Name(name.to_owned())] }))
    }

    fn bracketed(&mut self) -> Result<Vec<Selector>, Invalid> {
        self.expect("[")?;
        let mut selectors = Vec::new();
        loop {
            self.skip_blanks();
            selectors.push(self.selector()?);
            self.skip_blanks();
            if !self.take(",") {
                self.expect("]")?;
                return Ok(selectors);
            }
        }
    }

    fn selector(&mut self) -> Result<Selector, Invalid> {
        match self.peek() {
            Some('\'' | '"') => Ok(Selector::Name(self.string()?)),
            Some('*') => {
                self.take("*");
                Ok(Selector::Wildcard)
            }
            Some('?') => {
                self.take("?");
                self.skip_blanks();
                Ok(Selector::Filter(self.any()?))
            }
            _ => self.index_or_slice(),
        }
    }

    fn index_or_slice(&mut self) -> Result<Selector, Invalid> {
        let start = self.optional_index()?;
        let after_start = self.offset;
        self.skip_blanks();
        if !self.take(":") {
            self.offset = after_start;
            let expected = "an index, a slice, a quoted name, `*` or a filter is expected";
            return start.map(Selector::Index).ok_or_else(|| self.invalid(expected));
        }
        self.skip_blanks();
        let end = self.optional_index()?;
        let after_end = self.offset;
        self.skip_blanks();
        let mut step = None;
        if self.take(":") {
            let after_colon = self.offset;
            self.skip_blanks();
            step = self.optional_index()?;
            if step.is_none() {
                self.offset = after_colon;
            }
        } else {
            self.offset = after_end;
        }
        Ok(Selector::Slice { start, end, step: step.unwrap_or(1) })
    }

    fn optional_index(&mut self) -> Result<Option<i64>, Invalid> {
        let start = self.offset;
        let negative = self.take("-");
        if self.take("0") && !negative {
            return Ok(Some(0));
        }
        let digits = self.take_while(|c| c.is_ascii_digit());
        if digits.is_empty() && !negative && self.offset == start {
            return Ok(None);
        }
        let index = digits.parse::<i64>().ok().filter(|index| (1..=MAX_INDEX).contains(index));
        match index.filter(|_| !self.source.get(start..).is_some_and(|text| text.starts_with("-0"))) {
            Some(index) => Ok(Some(if negative { -index } else { index })),
            None => Err(invalid_at(start, format!("an index must be between -{MAX_INDEX} and {MAX_INDEX}"))),
        }
    }

    fn any(&mut self) -> Result<Condition, Invalid> {
        let parts = self.separated("||", Self::all)?;
        Ok(single_or(parts, Condition::Any))
    }

    fn all(&mut self) -> Result<Condition, Invalid> {
        let parts = self.separated("&&", Self::basic)?;
        Ok(single_or(parts, Condition::All))
    }

    fn separated(
        &mut self,
        separator: &str,
        part: fn(&mut Self) -> Result<Condition, Invalid>,
    ) -> Result<Vec<Condition>, Invalid> {
        let mut parts = vec![part(self)?];
        loop {
            let end = self.offset;
            self.skip_blanks();
            if !self.take(separator) {
                self.offset = end;
                return Ok(parts);
            }
            self.skip_blanks();
            parts.push(part(self)?);
        }
    }

    fn basic(&mut self) -> Result<Condition, Invalid> {
        if self.peek() == Some('!') {
            self.take("!");
            self.skip_blanks();
            let negated = match self.peek() {
                Some('(') => self.nested(Self::parenthesized)?,
                _ => self.test()?,
            };
            return Ok(Condition::Not(Box::new(negated)));
        }
        if self.peek() == Some('(') {
            return self.nested(Self::parenthesized);
        }
        let start = self.offset;
        let left = self.term()?;
        let end = self.offset;
        self.skip_blanks();
        let Some((text, comparison)) = COMPARISONS.into_iter().find(|(text, _)| self.rest().starts_with(text)) else {
            self.offset = end;
            return as_test(left, start);
        };
        self.take(text);
        self.skip_blanks();
        let right_start = self.offset;
        let right = self.term()?;
        Ok(Condition::Compare(as_operand(left, start)?, comparison, as_operand(right, right_start)?))
    }

    fn parenthesized(&mut self) -> Result<Condition, Invalid> {
        self.expect("(")?;
        self.skip_blanks();
        let condition = self.any()?;
        self.skip_blanks();
        self.expect(")")?;
        Ok(condition)
    }

    fn test(&mut self) -> Result<Condition, Invalid> {
        let start = self.offset;
        as_test(self.term()?, start)
    }

    fn term(&mut self) -> Result<Term, Invalid> {
        match self.peek() {
            Some('\'' | '"') => Ok(Term::Literal(Value::String(self.string()?))),
            Some('-' | '0'..='9') => Ok(Term::Literal(self.number()?)),
            Some('$' | '@') => {
                let from_root = self.take("$") || !self.take("@");
                Ok(Term::Query(Query { from_root, segments: self.segments()? }))
            }
            Some('a'..='z') => self.word(),
            _ => Err(self.invalid("a query, a literal or a function is expected")),
        }
    }

    fn word(&mut self) -> Result<Term, Invalid> {
        let start = self.offset;
        let name = self.take_while(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_');
        match name {
            "true" | "false" => return Ok(Term::Literal(Value::Bool(name == "true"))),
            "null" => return Ok(Term::Literal(Value::Null)),
            _ => {}
        }
        if self.peek() != Some('(') {
            return Err(invalid_at(start, format!("`{name}` is neither a literal nor a function call")));
        }
        let arguments = self.nested(Self::arguments)?;
        function(name, arguments).map_err(|message| invalid_at(start, message))
    }

    fn arguments(&mut self) -> Result<Vec<Term>, Invalid> {
        self.expect("(")?;
        self.skip_blanks();
        let mut arguments = Vec::new();
        if self.take(")") {
            return Ok(arguments);
        }
        loop {
            arguments.push(self.term()?);
            self.skip_blanks();
            if !self.take(",") {
                self.expect(")")?;
                return Ok(arguments);
            }
            self.skip_blanks();
        }
    }

    fn number(&mut self) -> Result<Value, Invalid> {
        let start = self.offset;
        self.take("-");
        let whole = self.take_while(|c| c.is_ascii_digit());
        let mut valid = whole == "0" || !whole.is_empty() && !whole.starts_with('0');
        if self.take(".") {
            valid &= !self.take_while(|c| c.is_ascii_digit()).is_empty();
        }
        if self.take("e") || self.take("E") {
            let _ = self.take("+") || self.take("-");
            valid &= !self.take_while(|c| c.is_ascii_digit()).is_empty();
        }
        let text = self.source.get(start..self.offset).unwrap_or_default();
        let number = serde_json::from_str(text).ok().filter(|_| valid);
        number.ok_or_else(|| invalid_at(start, format!("`{text}` is not a number")))
    }

    fn string(&mut self) -> Result<String, Invalid> {
        let quote = self.next_char().unwrap_or_default();
        let mut text = String::new();
        loop {
            let start = self.offset;
            match self.next_char() {
                Some(end) if end == quote => return Ok(text),
                Some('\\') => text.push(self.escape(quote, start)?),
                Some(character) if character >= ' ' => text.push(character),
                Some(_) => return Err(invalid_at(start, "control characters in strings must be escaped")),
                None => return Err(invalid_at(start, format!("a string must end with {quote}"))),
            }
        }
    }

    fn escape(&mut self, quote: char, start: usize) -> Result<char, Invalid> {
        let message = "`\\` must be followed by one of b f n r t / \\, the quote, or u with four hexadecimal digits";
        let invalid = || invalid_at(start, message);
        match self.next_char().ok_or_else(invalid)? {
            'b' => Ok('\u{8}'),
            'f' => Ok('\u{c}'),
            'n' => Ok('\n'),
            'r' => Ok('\r'),
            't' => Ok('\t'),
            'u' => {
                let first = self.four_digits().ok_or_else(invalid)?;
                if !(0xd800..0xdc00).contains(&first) {
                    return char::from_u32(first).ok_or_else(invalid);
                }
                let second = if self.take("\\u") { self.four_digits() } else { None };
                let low =
                    second.and_then(|low| low.checked_sub(0xdc00)).filter(|low| *low < 0x400).ok_or_else(invalid)?;
                char::from_u32(0x10000 + ((first - 0xd800) << 10) + low).ok_or_else(invalid)
            }
            escaped if escaped == quote || matches!(escaped, '/' | '\\') => Ok(escaped),
            _ => Err(invalid()),
        }
    }

    fn four_digits(&mut self) -> Option<u32> {
        let digits = self.rest().get(..4).filter(|digits| digits.bytes().all(|byte| byte.is_ascii_hexdigit()))?;
        self.offset += 4;
        u32::from_str_radix(digits, 16).ok()
    }

    /// Parses something in brackets, unless brackets are nested too deep.
    fn nested<T>(&mut self, parse: fn(&mut Self) -> Result<T, Invalid>) -> Result<T, Invalid> {
        if self.depth == MAX_NESTING {
            return Err(self.invalid(format!("brackets must be nested at most {MAX_NESTING} levels deep")));
        }
        self.depth += 1;
        let parsed = parse(self);
        self.depth -= 1;
        parsed
    }

    fn rest(&self) -> &'s str {
        self.source.get(self.offset..).unwrap_or_default()
    }

    fn peek(&self) -> Option<char> {
        self.rest().chars().next()
    }

    fn next_char(&mut self) -> Option<char> {
        let next = self.peek()?;
        self.offset += next.len_utf8();
        Some(next)
    }

    fn take(&mut self, text: &str) -> bool {
        let found = self.rest().starts_with(text);
        self.offset += if found { text.len() } else { 0 };
        found
    }

    fn take_while(&mut self, accepts: impl Fn(char) -> bool) -> &'s str {
        let rest = self.rest();
        let end = rest.find(|c| !accepts(c)).unwrap_or(rest.len());
        self.offset += end;
        rest.get(..end).unwrap_or_default()
    }

    fn skip_blanks(&mut self) {
        self.take_while(|c| matches!(c, ' ' | '\t' | '\n' | '\r'));
    }

    fn expect(&mut self, text: &str) -> Result<(), Invalid> {
        if self.take(text) { Ok(()) } else { Err(self.invalid(format!("`{text}` is expected"))) }
    }

    fn invalid(&self, message: impl Into<String>) -> Invalid {
        invalid_at(self.offset, message)
    }
}

fn invalid_at(offset: usize, message: impl Into<String>) -> Invalid {
    Invalid { message: message.into(), offset }
}

fn single_or(mut parts: Vec<Condition>, combine: fn(Vec<Condition>) -> Condition) -> Condition {
    match (parts.len(), parts.pop()) {
        (1, Some(only)) => only,
        (_, last) => {
            parts.extend(last);
            combine(parts)
        }
    }
}

fn as_test(term: Term, start: usize) -> Result<Condition, Invalid> {
    match term {
        Term::Query(query) => Ok(Condition::Exists(query)),
        Term::Test(test) => Ok(Condition::Matches(Box::new(test))),
        Term::Literal(_) | Term::Value(_) => Err(invalid_at(start, "a value must be compared with another")),
    }
}

fn as_operand(term: Term, start: usize) -> Result<Operand, Invalid> {
    operand(term).map_err(|message| invalid_at(start, message))
}

fn operand(term: Term) -> Result<Operand, String> {
    match term {
        Term::Literal(value) => Ok(Operand::Literal(value)),
        Term::Value(operand) => Ok(operand),
        Term::Query(query) if query.is_singular() => Ok(Operand::Node(query)),
        Term::Query(_) => Err("a query that is used as a value must select at most one node".into()),
        Term::Test(_) => Err("`match` and `search` cannot be used as a value".into()),
    }
}

/// Returns the term for a call of the function `name`.
fn function(name: &str, arguments: Vec<Term>) -> Result<Term, String> {
    let count = arguments.len();
    let mut arguments = arguments.into_iter();
    let expected = match name {
        "length" | "count" | "value" => 1,
        "match" | "search" => 2,
        _ => return Err(format!("there is no function `{name}`; use length, count, match, search or value")),
    };
    let (Some(first), true) = (arguments.next(), count == expected) else {
        return Err(format!("`{name}` takes {expected} arguments, got {count}"));
    };
    let query = |term| match term {
        Term::Query(query) => Ok(query),
        _ => Err(format!("the argument of `{name}` must be a query")),
    };
    match (name, arguments.next()) {
        ("length", _) => Ok(Term::Value(Operand::Length(Box::new(operand(first)?)))),
        ("count", _) => Ok(Term::Value(Operand::Count(query(first)?))),
        ("value", _) => Ok(Term::Value(Operand::OnlyNode(query(first)?))),
        (_, second) => {
            let whole = name == "match";
            let pattern = match operand(second.unwrap_or(Term::Literal(Value::Null)))? {
                Operand::Literal(Value::String(pattern)) => Pattern::Compiled(CompiledPattern::new(&pattern, whole)?),
                Operand::Literal(_) => Pattern::Compiled(None),
                computed => Pattern::Computed(computed),
            };
            Ok(Term::Test(PatternTest { text: operand(first)?, pattern, whole }))
        }
    }
}
