//! Records, maps, arrays and scalars.

use super::parser::Parser;
use super::{MAX_NESTING, NodeKind as N, TokenKind as K};

impl Parser<'_> {
    /// `{…}` of a subject or of the text.
    pub(super) fn record(&mut self) {
        self.braces(N::Record);
    }

    /// Any value.
    pub(super) fn value(&mut self) {
        match self.kind() {
            K::OpenBracket => self.array(),
            K::OpenRecord => self.braces(N::Map),
            _ => self.scalar("a value"),
        }
    }

    /// A value inside of a map: maps do not nest.
    fn map_value(&mut self) {
        match self.kind() {
            K::OpenBracket => self.array(),
            K::OpenRecord if self.nested_values => self.nested(|parser| parser.braces(N::Map)),
            K::OpenRecord => {
                self.unexpected("a value without `{`", "maps do not nest; use an element for what lies deeper");
                self.nested(|parser| parser.braces(N::Map));
            }
            _ => self.scalar("a value"),
        }
    }

    fn item(&mut self) {
        match self.kind() {
            K::OpenRecord if self.nested_values => self.nested(|parser| parser.braces(N::Map)),
            K::OpenBracket | K::OpenRecord => {
                self.unexpected("a plain value", "arrays hold numbers, strings, symbols, booleans and ranges only");
                self.nested(Self::value);
            }
            K::CloseBracket => self.unexpected("a value", "arrays hold at least one value and end without a comma"),
            _ => self.scalar("a value"),
        }
    }

    fn nested(&mut self, inner: impl FnOnce(&mut Self)) {
        self.depth += 1;
        if self.depth > MAX_NESTING {
            self.give_up();
        } else {
            inner(self);
        }
        self.depth -= 1;
    }

    fn braces(&mut self, kind: N) {
        let braces = self.open(kind);
        self.take();
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
                self.take();
            }
        }
        self.expect(K::CloseRecord, "`,` or `}`");
        self.close(braces);
    }

    fn property(&mut self, kind: N) {
        if !self.kind().is_key() {
            let hint = match self.kind() {
                K::CloseRecord => "leave out the comma before `}`",
                _ => "keys are names, or stand in backticks or double quotes",
            };
            self.unexpected("a key", hint);
            return;
        }
        let property = self.open(N::Property);
        self.take();
        match self.kind() {
            K::Colon => self.take(),
            K::DoubleColon if kind == N::Record => self.take(),
            K::DoubleColon => {
                self.unexpected("`:`", "keys of a map have one colon");
                self.take();
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
        self.take();
        loop {
            self.item();
            if self.kind() != K::Comma {
                break;
            }
            self.take();
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
                self.take();
                self.number("a number after `...`");
            }
            kind if kind.is_number() => {
                self.take();
                self.range_end();
            }
            K::Symbol => {
                let is_boolean = matches!(self.text(), "true" | "false");
                self.take();
                if !is_boolean && self.kind() == K::Backticked {
                    self.take();
                }
            }
            K::SingleQuoted | K::DoubleQuoted | K::Backticked | K::Fenced | K::Malformed => self.take(),
            K::Range => self.unexpected(expected, "a range without a lower end is written `...10`"),
            _ => self.unexpected(expected, "values are numbers, strings, symbols, booleans, ranges, arrays and maps"),
        }
        self.close(scalar);
    }

    fn range_end(&mut self) {
        match self.kind() {
            K::OpenRange => self.take(),
            K::Range => {
                self.take();
                self.number("a number after `..`");
            }
            _ => {}
        }
    }

    fn number(&mut self, expected: &str) {
        if self.kind().is_number() || self.kind() == K::Malformed {
            self.take();
        } else {
            self.unexpected(expected, "a range without an upper end is written `10...`");
        }
    }
}
