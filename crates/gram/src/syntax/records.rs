//! Parses records, maps, arrays and scalars.

use super::parser::Parser;
use super::{MAX_NESTING, NodeKind as N, TokenKind as K};

impl Parser<'_> {
    /// Parses the `{…}` of a subject or document.
    pub(super) fn record(&mut self) {
        self.braces(N::Record);
    }

    /// Parses a value.
    pub(super) fn value(&mut self) {
        match self.kind() {
            K::OpenBracket => self.array(),
            K::OpenRecord => self.braces(N::Map),
            _ => self.scalar("a value"),
        }
    }

    /// Parses a value in a map. A map cannot contain another map.
    fn map_value(&mut self) {
        match self.kind() {
            K::OpenBracket => self.array(),
            K::OpenRecord if self.nested_values => self.nested(|parser| parser.braces(N::Map)),
            K::OpenRecord => {
                self.unexpected("a value without `{`", "maps do not nest; use elements for nested data");
                self.nested(|parser| parser.braces(N::Map));
            }
            _ => self.scalar("a value"),
        }
    }

    fn item(&mut self) {
        match self.kind() {
            K::OpenRecord if self.nested_values => self.nested(|parser| parser.braces(N::Map)),
            K::OpenBracket | K::OpenRecord => {
                self.unexpected("a scalar", "array items must be numbers, strings, symbols, booleans or ranges");
                self.nested(Self::value);
            }
            K::CloseBracket => self.unexpected("a value", "arrays must have at least one value and no trailing comma"),
            _ => self.scalar("a value"),
        }
    }

    fn nested(&mut self, inner: impl FnOnce(&mut Self)) {
        self.depth += 1;
        if self.depth > MAX_NESTING {
            self.abort_too_deep();
        } else {
            inner(self);
        }
        self.depth -= 1;
    }

    fn braces(&mut self, kind: N) {
        let braces = self.open(kind);
        self.bump();
        if self.kind() != K::CloseRecord {
            loop {
                self.property(kind);
                if !matches!(self.kind(), K::Comma | K::CloseRecord | K::End) {
                    self.unexpected("`,` or `}`", "");
                    self.skip_to(&[K::Comma]);
                }
                if self.kind() != K::Comma {
                    break;
                }
                self.bump();
            }
        }
        self.expect(K::CloseRecord, "`,` or `}`");
        self.close(braces);
    }

    fn property(&mut self, kind: N) {
        if !self.kind().is_key() {
            let hint = match self.kind() {
                K::CloseRecord => "remove the comma before `}`",
                _ => "keys are names, or text in backticks or double quotes",
            };
            self.unexpected("a key", hint);
            return;
        }
        let property = self.open(N::Property);
        self.bump();
        match self.kind() {
            K::Colon => self.bump(),
            K::DoubleColon if kind == N::Record => self.bump(),
            K::DoubleColon => {
                self.unexpected("`:`", "write one colon after a key of a map");
                self.bump();
            }
            _ => self.unexpected("`:` after the key", ""),
        }
        match kind {
            N::Map => self.map_value(),
            _ => self.value(),
        }
        self.close(property);
    }

    fn array(&mut self) {
        let array = self.open(N::Array);
        self.bump();
        loop {
            self.item();
            if self.kind() != K::Comma {
                break;
            }
            self.bump();
        }
        if self.kind() != K::CloseBracket {
            self.unexpected("`,` or `]`", "");
            self.skip_to(&[]);
        }
        self.expect(K::CloseBracket, "`]` after the array");
        self.close(array);
    }

    fn scalar(&mut self, expected: &str) {
        let scalar = self.open(N::Scalar);
        match self.kind() {
            K::OpenRange => {
                self.bump();
                self.number("a number after `...`");
            }
            kind if kind.is_number() => {
                self.bump();
                self.range_end();
            }
            K::Symbol => {
                let is_boolean = matches!(self.text(), "true" | "false");
                self.bump();
                if !is_boolean && self.kind() == K::Backticked {
                    self.bump();
                }
            }
            K::SingleQuoted | K::DoubleQuoted | K::Backticked | K::Fenced | K::Malformed => self.bump(),
            K::Range => self.unexpected(expected, "write a range without a lower bound as `...10`"),
            _ => self.unexpected(expected, "values are numbers, strings, symbols, booleans, ranges, arrays and maps"),
        }
        self.close(scalar);
    }

    fn range_end(&mut self) {
        match self.kind() {
            K::OpenRange => self.bump(),
            K::Range => {
                self.bump();
                self.number("a number after `..`");
            }
            _ => {}
        }
    }

    fn number(&mut self, expected: &str) {
        if self.kind().is_number() || self.kind() == K::Malformed {
            self.bump();
        } else {
            self.unexpected(expected, "write a range without an upper bound as `10...`");
        }
    }
}
