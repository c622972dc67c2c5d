//! Parses arrows. An arrow has one of three stroke styles, no head or a head at one or both ends, and optionally a
//! subject.

use super::kind::ArrowStyle;
use super::parser::Parser;
use super::{NodeKind as N, TokenKind as K};

impl Parser<'_> {
    /// Parses an arrow. Returns `false` if the current token does not start an arrow.
    pub(super) fn arrow(&mut self) -> bool {
        let style = match self.kind() {
            K::Line(style) | K::HeadLeft(style) => style,
            K::HeadRight(style) => {
                self.short_arrow(style);
                return true;
            }
            _ => return false,
        };
        let arrow = self.open(N::Arrow);
        self.bump();
        if self.kind() == K::OpenBracket {
            self.bump();
            self.subject();
            self.expect_bracket("`]`");
        }
        match self.kind() {
            K::Line(end) | K::HeadRight(end) if end == style => self.bump(),
            _ => {
                let stroke = style.stroke();
                let hint =
                    format!("the arrow starts with `{stroke}`; write `{stroke}{stroke}>` or `{stroke}[…]{stroke}>`");
                self.unexpected("the end of the arrow", &hint);
            }
        }
        self.close(arrow);
        true
    }

    /// Reports an error for an arrow with one stroke, such as `->`, and then parses it as an arrow.
    fn short_arrow(&mut self, style: ArrowStyle) {
        let stroke = style.stroke();
        self.unexpected("an arrow", &format!("arrows have two strokes: `{stroke}{stroke}>`"));
        let arrow = self.open(N::Arrow);
        self.bump();
        self.close(arrow);
    }
}
