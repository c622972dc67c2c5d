//! From tokens to a tree. Recursion follows brackets only, and those are counted.

use serde_json::Value;

use super::cursor::{Parsed, Parser};
use super::{Kind, MAX_DEPTH, MAX_SOURCE, Node, Operator, Step, SyntaxError, Token, calls};

/// Parses one whole expression.
pub(crate) fn parse(source: &str) -> Result<Node, SyntaxError> {
    if source.len() > MAX_SOURCE {
        let message = format!("an expression has at most {MAX_SOURCE} bytes, this one {}", source.len());
        return Err(SyntaxError::new(MAX_SOURCE, message));
    }
    if source.matches("matches").count() > MAX_PATTERNS {
        let message = format!("an expression has at most {MAX_PATTERNS} calls of `matches`");
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

/// Most patterns in one expression: each may take a megabyte when compiled.
const MAX_PATTERNS: usize = 32;

/// Words that CEL keeps for itself.
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

/// Operators by precedence, the loosest first.
const LEVELS: &[&[Operator]] = &[
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
    fn expression(&mut self) -> Parsed {
        let at = self.at;
        let mut arms = Vec::new();
        loop {
            let part = self.or()?;
            if self.eat("?")? {
                let value = self.or()?;
                self.expect(":", "between the two values of `? :`")?;
                arms.push((part, value));
            } else if arms.is_empty() {
                return Ok(part);
            } else {
                let otherwise = Box::new(part);
                return node(at, Kind::Choice { arms, otherwise });
            }
        }
    }

    fn or(&mut self) -> Parsed {
        let at = self.at;
        let first = self.and()?;
        let mut parts = vec![first];
        while self.eat("||")? {
            parts.push(self.and()?);
        }
        one_or(parts, |parts| node(at, Kind::Or(parts)))
    }

    fn and(&mut self) -> Parsed {
        let at = self.at;
        let mut parts = vec![self.chain(LEVELS)?];
        while self.eat("&&")? {
            parts.push(self.chain(LEVELS)?);
        }
        one_or(parts, |parts| node(at, Kind::And(parts)))
    }

    fn chain(&mut self, levels: &[&[Operator]]) -> Parsed {
        let Some((operators, tighter)) = levels.split_first() else {
            return self.unary();
        };
        let at = self.at;
        let first = self.chain(tighter)?;
        let mut rest = Vec::new();
        while let Some(operator) = self.eat_operator(operators)? {
            rest.push((operator, self.chain(tighter)?));
        }
        if rest.is_empty() {
            return Ok(first);
        }
        let first = Box::new(first);
        node(at, Kind::Chain { first, rest })
    }

    fn unary(&mut self) -> Parsed {
        let at = self.at;
        let nots = self.count("!")?;
        if nots > 0 {
            // The sign of a number is a part of it, so that `!-1` is an expression and `!-a` is none.
            let sign = self.at;
            let of = match self.eat("-")? {
                true => self.negative(sign)?.ok_or_else(|| self.expected("a number after `-`"))?,
                false => self.member()?,
            };
            return node(at, Kind::Not { odd: nots % 2 == 1, of: Box::new(of) });
        }
        let minuses = self.count("-")?;
        if minuses == 0 {
            return self.member();
        }
        if minuses == 1
            && let Some(number) = self.negative(at)?
        {
            return Ok(number);
        }
        let of = Box::new(self.member()?);
        node(at, Kind::Negate { odd: minuses % 2 == 1, of })
    }

    /// The number whose sign was at `at`, if one follows. It is a literal: the smallest integer has no positive counterpart.
    fn negative(&mut self, at: usize) -> Parsed<Option<Node>> {
        let literal = match self.token {
            Token::Int { magnitude, unsigned: false } => {
                let value = 0i64.checked_sub_unsigned(magnitude);
                Node::literal(at, value.ok_or_else(|| too_large(at))?)
            }
            Token::Double(value) => Node::literal(at, -value),
            _ => return Ok(None),
        };
        self.advance()?;
        self.postfix(literal).map(Some)
    }

    fn member(&mut self) -> Parsed {
        let primary = self.primary()?;
        self.postfix(primary)
    }

    /// What follows a value: fields, indexes, calls.
    fn postfix(&mut self, mut value: Node) -> Parsed {
        let mut steps = Vec::new();
        loop {
            if self.eat("[")? {
                steps.push(Step::Index(self.nested(Self::expression)?));
                self.expect("]", "after the index")?;
            } else if self.eat(".")? {
                let at = self.at;
                let name = self.field()?;
                if self.eat("(")? {
                    let target = path(value, std::mem::take(&mut steps))?;
                    let args = self.arguments()?;
                    value = calls::method(at, &name, target, args)?;
                } else {
                    steps.push(Step::Field(name));
                }
            } else if self.token == Token::Sign("{") {
                let message = "messages cannot be constructed; write a map such as `{\"key\": value}`";
                return Err(SyntaxError::new(self.at, message));
            } else {
                return path(value, steps);
            }
        }
    }

    fn field(&mut self) -> Parsed<Box<str>> {
        match self.token {
            Token::Name(name) if !matches!(name, "in" | "true" | "false" | "null") => {
                self.advance()?;
                Ok(name.into())
            }
            Token::Quoted(name) => {
                self.advance()?;
                Ok(name.into())
            }
            _ => Err(self.expected("a field name after `.` (other keys as in `value[\"key\"]`)")),
        }
    }

    fn primary(&mut self) -> Parsed {
        let (at, token) = (self.at, self.token.clone());
        match token {
            Token::Name(name) => {
                self.advance()?;
                self.named(at, name)
            }
            Token::Quoted(name) => {
                self.advance()?;
                node(at, Kind::Name(name.into()))
            }
            Token::Int { magnitude, unsigned } => {
                self.advance()?;
                let fits = unsigned || i64::try_from(magnitude).is_ok();
                fits.then(|| Node::literal(at, magnitude)).ok_or_else(|| too_large(at))
            }
            Token::Double(value) => {
                self.advance()?;
                Ok(Node::literal(at, value))
            }
            Token::Text(text) => {
                self.advance()?;
                Ok(Node::literal(at, text))
            }
            Token::Sign("(") => self.brackets(),
            Token::Sign("[") => self.list(),
            Token::Sign("{") => self.map(),
            Token::Sign(_) | Token::End => Err(self.expected("a value")),
        }
    }

    fn named(&mut self, at: usize, name: &str) -> Parsed {
        match name {
            "true" => return Ok(Node::literal(at, true)),
            "false" => return Ok(Node::literal(at, false)),
            "null" => return Ok(Node::literal(at, Value::Null)),
            "in" => {
                return Err(SyntaxError::new(at, "`in` stands between a value and a list or map"));
            }
            _ if RESERVED.contains(&name) => return Err(SyntaxError::new(at, reserved(name))),
            _ => {}
        }
        if self.eat("(")? {
            let args = self.arguments()?;
            return calls::global(at, name, args);
        }
        node(at, Kind::Name(name.into()))
    }

    fn brackets(&mut self) -> Parsed {
        let at = self.at;
        self.advance()?;
        let inner = self.nested(Self::expression)?;
        self.close(")", at)?;
        Ok(inner)
    }

    fn list(&mut self) -> Parsed {
        let at = self.at;
        self.advance()?;
        let items = self.nested(|parser| parser.items("]", Self::expression))?;
        self.close("]", at)?;
        node(at, Kind::List(items))
    }

    fn map(&mut self) -> Parsed {
        let at = self.at;
        self.advance()?;
        let entries = self.nested(|parser| parser.items("}", Self::entry))?;
        self.close("}", at)?;
        node(at, Kind::Map(entries))
    }

    fn entry(&mut self) -> Parsed<(Node, Node)> {
        let key = self.expression()?;
        self.expect(":", "between key and value")?;
        Ok((key, self.expression()?))
    }

    /// The arguments of a call, up to and including the closing bracket.
    fn arguments(&mut self) -> Parsed<Vec<Node>> {
        let at = self.at;
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
        self.close(")", at)?;
        Ok(args)
    }

    /// Items with commas between them, and perhaps one after the last, or only that one.
    fn items<T>(&mut self, end: &str, item: impl Fn(&mut Self) -> Parsed<T>) -> Parsed<Vec<T>> {
        let mut items = Vec::new();
        if self.eat(",")? {
            return Ok(items);
        }
        while !matches!(self.token, Token::Sign(sign) if sign == end) {
            items.push(item(self)?);
            if !self.eat(",")? {
                break;
            }
        }
        Ok(items)
    }
}

pub(super) fn node(at: usize, kind: Kind) -> Parsed {
    let node = Node::new(at, kind);
    if node.depth > MAX_DEPTH {
        let message = format!("the expression is more than {MAX_DEPTH} levels deep; split it");
        return Err(SyntaxError::new(at, message));
    }
    Ok(node)
}

fn one_or(mut parts: Vec<Node>, many: impl FnOnce(Vec<Node>) -> Parsed) -> Parsed {
    match parts.pop() {
        Some(only) if parts.is_empty() => Ok(only),
        last => {
            parts.extend(last);
            many(parts)
        }
    }
}

pub(super) fn path(root: Node, steps: Vec<Step>) -> Parsed {
    if steps.is_empty() {
        return Ok(root);
    }
    let root = Box::new(root);
    node(root.at, Kind::Path { root, steps })
}

fn reserved(name: &str) -> String {
    format!("`{name}` is a reserved word; write `input.{name}`")
}

fn too_large(at: usize) -> SyntaxError {
    SyntaxError::new(at, "the integer does not fit in 64 bits; write it with a decimal point, or with the suffix `u`")
}
