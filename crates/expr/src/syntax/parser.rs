//! A recursive descent parser. It is recursive only for brackets, whose nesting is limited.

use serde_json::Value;

use super::tokens::{ParseResult, Parser};
use super::{MAX_DEPTH, MAX_SOURCE, Node, NodeKind, Operator, PathSegment, SyntaxError, Token, calls};

/// Parses one whole expression.
pub(crate) fn parse(source: &str) -> Result<Node, SyntaxError> {
    if source.len() > MAX_SOURCE {
        let message = format!("an expression must be at most {MAX_SOURCE} bytes, got {}", source.len());
        return Err(SyntaxError::new(MAX_SOURCE, message));
    }
    if source.matches("matches").count() > MAX_PATTERNS {
        let message = format!("an expression must have at most {MAX_PATTERNS} calls to `matches`");
        return Err(SyntaxError::new(0, message));
    }
    let mut parser = Parser::new(source)?;
    if parser.token == Token::End {
        return Err(SyntaxError::new(0, "the expression is empty; write a path such as `param.name`"));
    }
    let tree = parser.expression()?;
    match parser.token {
        Token::End => Ok(tree),
        _ => Err(parser.expected("an operator or the end")),
    }
}

/// How often the text `matches` may occur in one expression. Each call to `matches` can have its own pattern, and a
/// compiled pattern may need a megabyte.
const MAX_PATTERNS: usize = 32;

/// The reserved words of CEL.
const RESERVED: &[&str] = &[
    "as",
    "break",
    "const",
    "continue",
    "else",
    "for",
    "function",
    "if",
    "import",
    "let",
    "loop",
    "namespace",
    "package",
    "return",
    "var",
    "void",
    "while",
];

/// Whether a text can be a name in an expression without backticks.
pub(crate) fn is_name(text: &str) -> bool {
    let mut chars = text.chars();
    chars.next().is_some_and(|c| c == '_' || c.is_ascii_alphabetic())
        && chars.all(|c| c == '_' || c.is_ascii_alphanumeric())
        && !["true", "false", "null", "in"].contains(&text)
        && !RESERVED.contains(&text)
}

/// The operators by precedence, lowest first.
const PRECEDENCE_LEVELS: &[&[Operator]] = &[
    &[
        Operator::Less,
        Operator::LessOrEqual,
        Operator::Greater,
        Operator::GreaterOrEqual,
        Operator::Equal,
        Operator::NotEqual,
        Operator::In,
    ],
    &[Operator::Add, Operator::Subtract],
    &[Operator::Multiply, Operator::Divide, Operator::Remainder],
];

impl Parser<'_> {
    fn expression(&mut self) -> ParseResult {
        let offset = self.offset;
        let mut branches = Vec::new();
        loop {
            let part = self.or()?;
            if self.eat("?")? {
                let value = self.or()?;
                self.expect(":", "between the two values of `? :`")?;
                branches.push((part, value));
            } else if branches.is_empty() {
                return Ok(part);
            } else {
                let otherwise = Box::new(part);
                return node(offset, NodeKind::Conditional { branches, otherwise });
            }
        }
    }

    fn or(&mut self) -> ParseResult {
        let offset = self.offset;
        let first = self.and()?;
        let mut parts = vec![first];
        while self.eat("||")? {
            parts.push(self.and()?);
        }
        one_or(parts, |parts| node(offset, NodeKind::Or(parts)))
    }

    fn and(&mut self) -> ParseResult {
        let offset = self.offset;
        let mut parts = vec![self.chain(PRECEDENCE_LEVELS)?];
        while self.eat("&&")? {
            parts.push(self.chain(PRECEDENCE_LEVELS)?);
        }
        one_or(parts, |parts| node(offset, NodeKind::And(parts)))
    }

    fn chain(&mut self, levels: &[&[Operator]]) -> ParseResult {
        let Some((operators, tighter)) = levels.split_first() else {
            return self.unary();
        };
        let offset = self.offset;
        let first = self.chain(tighter)?;
        let mut rest = Vec::new();
        while let Some(operator) = self.eat_operator(operators)? {
            rest.push((operator, self.chain(tighter)?));
        }
        if rest.is_empty() {
            return Ok(first);
        }
        let first = Box::new(first);
        node(offset, NodeKind::BinaryChain { first, rest })
    }

    fn unary(&mut self) -> ParseResult {
        let offset = self.offset;
        let not_count = self.eat_repeated("!")?;
        if not_count > 0 {
            // After `!`, a minus sign is allowed only as part of a number. So `!-1` is an expression and `!-a` is a
            // syntax error.
            let minus = self.offset;
            let operand = match self.eat("-")? {
                true => self.negative(minus)?.ok_or_else(|| self.expected("a number after `-`"))?,
                false => self.member()?,
            };
            return node(offset, NodeKind::Not { odd: not_count % 2 == 1, operand: Box::new(operand) });
        }
        let minus_count = self.eat_repeated("-")?;
        if minus_count == 0 {
            return self.member();
        }
        if minus_count == 1
            && let Some(number) = self.negative(offset)?
        {
            return Ok(number);
        }
        let operand = Box::new(self.member()?);
        node(offset, NodeKind::Negate { odd: minus_count % 2 == 1, operand })
    }

    /// Parses the number after a minus sign at `offset`, if a number follows. The sign is parsed as part of the
    /// literal, because the absolute value of `i64::MIN` does not fit in an `i64`.
    fn negative(&mut self, offset: usize) -> ParseResult<Option<Node>> {
        let literal = match self.token {
            Token::Int { magnitude, unsigned: false } => {
                let value = 0i64.checked_sub_unsigned(magnitude);
                Node::literal(offset, value.ok_or_else(|| too_large(offset))?)
            }
            Token::Double(value) => Node::literal(offset, -value),
            _ => return Ok(None),
        };
        self.advance()?;
        self.postfix(literal).map(Some)
    }

    fn member(&mut self) -> ParseResult {
        let primary = self.primary()?;
        self.postfix(primary)
    }

    /// Parses the fields, indexes and method calls after a value.
    fn postfix(&mut self, mut value: Node) -> ParseResult {
        let mut segments = Vec::new();
        loop {
            if self.eat("[")? {
                segments.push(PathSegment::Index(self.nested(Self::expression)?));
                self.expect("]", "after the index")?;
            } else if self.eat(".")? {
                let offset = self.offset;
                let name = self.field()?;
                if self.eat("(")? {
                    let target = path(value, std::mem::take(&mut segments))?;
                    let args = self.arguments()?;
                    value = calls::method(offset, &name, target, args)?;
                } else {
                    segments.push(PathSegment::Field(name));
                }
            } else if self.token == Token::Punct("{") {
                let message = "messages cannot be constructed; write a map such as `{\"key\": value}`";
                return Err(SyntaxError::new(self.offset, message));
            } else {
                return path(value, segments);
            }
        }
    }

    fn field(&mut self) -> ParseResult<Box<str>> {
        match self.token {
            Token::Ident(name) if !matches!(name, "in" | "true" | "false" | "null") => {
                self.advance()?;
                Ok(name.into())
            }
            Token::QuotedIdent(name) => {
                self.advance()?;
                Ok(name.into())
            }
            _ => Err(self.expected("a field name after `.` (other keys as in `value[\"key\"]`)")),
        }
    }

    fn primary(&mut self) -> ParseResult {
        let (offset, token) = (self.offset, self.token.clone());
        match token {
            Token::Ident(name) => {
                self.advance()?;
                self.named(offset, name)
            }
            Token::QuotedIdent(name) => {
                self.advance()?;
                node(offset, NodeKind::Ident(name.into()))
            }
            Token::Int { magnitude, unsigned } => {
                self.advance()?;
                let fits = unsigned || i64::try_from(magnitude).is_ok();
                fits.then(|| Node::literal(offset, magnitude)).ok_or_else(|| too_large(offset))
            }
            Token::Double(value) => {
                self.advance()?;
                Ok(Node::literal(offset, value))
            }
            Token::Text(text) => {
                self.advance()?;
                Ok(Node::literal(offset, text))
            }
            Token::Punct("(") => self.parenthesized(),
            Token::Punct("[") => self.list(),
            Token::Punct("{") => self.map(),
            Token::Punct(_) | Token::End => Err(self.expected("a value")),
        }
    }

    fn named(&mut self, offset: usize, name: &str) -> ParseResult {
        match name {
            "true" => return Ok(Node::literal(offset, true)),
            "false" => return Ok(Node::literal(offset, false)),
            "null" => return Ok(Node::literal(offset, Value::Null)),
            "in" => {
                return Err(SyntaxError::new(offset, "`in` must stand between a value and a list or map"));
            }
            _ if RESERVED.contains(&name) => return Err(SyntaxError::new(offset, reserved(name))),
            _ => {}
        }
        if self.eat("(")? {
            let args = self.arguments()?;
            return calls::global(offset, name, args);
        }
        node(offset, NodeKind::Ident(name.into()))
    }

    fn parenthesized(&mut self) -> ParseResult {
        let offset = self.offset;
        self.advance()?;
        let inner = self.nested(Self::expression)?;
        self.expect_closing(")", offset)?;
        Ok(inner)
    }

    fn list(&mut self) -> ParseResult {
        let offset = self.offset;
        self.advance()?;
        let items = self.nested(|parser| parser.items("]", Self::expression))?;
        self.expect_closing("]", offset)?;
        node(offset, NodeKind::List(items))
    }

    fn map(&mut self) -> ParseResult {
        let offset = self.offset;
        self.advance()?;
        let entries = self.nested(|parser| parser.items("}", Self::entry))?;
        self.expect_closing("}", offset)?;
        node(offset, NodeKind::Map(entries))
    }

    fn entry(&mut self) -> ParseResult<(Node, Node)> {
        let key = self.expression()?;
        self.expect(":", "between key and value")?;
        Ok((key, self.expression()?))
    }

    /// Parses the arguments of a call, including the closing bracket.
    fn arguments(&mut self) -> ParseResult<Vec<Node>> {
        let offset = self.offset;
        if self.eat(")")? {
            return Ok(Vec::new());
        }
        let args = self.nested(|parser| {
            let mut args = vec![parser.expression()?];
            while parser.eat(",")? {
                args.push(parser.expression()?);
            }
            Ok(args)
        })?;
        self.expect_closing(")", offset)?;
        Ok(args)
    }

    /// Parses comma-separated items. Like CEL, it accepts a trailing comma and a single comma without items.
    fn items<T>(&mut self, end: &str, item: impl Fn(&mut Self) -> ParseResult<T>) -> ParseResult<Vec<T>> {
        let mut items = Vec::new();
        if self.eat(",")? {
            return Ok(items);
        }
        while !matches!(self.token, Token::Punct(punct) if punct == end) {
            items.push(item(self)?);
            if !self.eat(",")? {
                break;
            }
        }
        Ok(items)
    }
}

pub(super) fn node(offset: usize, kind: NodeKind) -> ParseResult {
    let node = Node::new(offset, kind);
    if node.depth > MAX_DEPTH {
        let message = format!("the expression must be at most {MAX_DEPTH} levels deep; split it");
        return Err(SyntaxError::new(offset, message));
    }
    Ok(node)
}

/// Joins several parts into one node. A single part is returned unchanged.
fn one_or(mut parts: Vec<Node>, many: impl FnOnce(Vec<Node>) -> ParseResult) -> ParseResult {
    match parts.pop() {
        Some(only) if parts.is_empty() => Ok(only),
        last => {
            parts.extend(last);
            many(parts)
        }
    }
}

pub(super) fn path(root: Node, segments: Vec<PathSegment>) -> ParseResult {
    if segments.is_empty() {
        return Ok(root);
    }
    let root = Box::new(root);
    node(root.offset, NodeKind::Path { root, segments })
}

fn reserved(name: &str) -> String {
    format!("`{name}` is a reserved word; write `input.{name}`")
}

fn too_large(offset: usize) -> SyntaxError {
    SyntaxError::new(
        offset,
        "the integer does not fit in 64 bits; write it with a decimal point, or with the suffix `u`",
    )
}
