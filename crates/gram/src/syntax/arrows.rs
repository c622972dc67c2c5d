//! Arrows: three families, four kinds, with or without a subject.

use super::kind::Family;
use super::parser::Parser;
use super::{NodeKind as N, TokenKind as K};

impl Parser<'_> {
    /// Takes an arrow, if one begins here.
    pub(super) fn arrow(&mut self) -> bool {
        let family = match self.kind() {
            K::Line(family) | K::HeadLeft(family) => family,
            K::HeadRight(family) => {
                self.short_arrow(family);
                return true;
            }
            _ => return false,
        };
        let arrow = self.open(N::Arrow);
        self.take();
        if self.kind() == K::OpenBracket {
            self.take();
            self.subject();
            self.expect_bracket("`]`");
        }
        match self.kind() {
            K::Line(end) | K::HeadRight(end) if end == family => self.take(),
            _ => {
                let stroke = family.stroke();
                let hint = format!("it began with `{stroke}`; write `{stroke}{stroke}>` or `{stroke}[…]{stroke}>`");
                self.unexpected("the end of the arrow", &hint);
            }
        }
        self.close(arrow);
        true
    }

    /// `->` alone: one stroke is missing.
    fn short_arrow(&mut self, family: Family) {
        let stroke = family.stroke();
        self.unexpected("an arrow", &format!("arrows have two strokes: `{stroke}{stroke}>`"));
        let arrow = self.open(N::Arrow);
        self.take();
        self.close(arrow);
    }
}
