//! The reference parser, and every way in which we answer differently on purpose.

use toolwright_gram::Code;
use toolwright_gram::syntax::{TokenKind, Tree};
use tree_sitter::Parser;

/// `tree-sitter-gram` 0.6.1.
pub struct Reference(Parser);

impl Reference {
    pub fn new() -> Self {
        let mut parser = Parser::new();
        parser.set_language(&tree_sitter_gram::LANGUAGE.into()).unwrap();
        Self(parser)
    }

    pub fn accepts(&mut self, source: &str) -> bool {
        !self.0.parse(source, None).unwrap().root_node().has_error()
    }

    /// Both parsers give the same answer, or a known difference explains why not.
    pub fn compare(&mut self, source: &str) -> Verdict {
        let tree = Tree::parse(source);
        if tree.mistakes().is_empty() == self.accepts(source) {
            return Verdict::Same;
        }
        match DIFFERENCES.iter().find(|difference| (difference.applies)(&tree)) {
            Some(known) => Verdict::Known(known.name),
            None if tree.mistakes().is_empty() => Verdict::Unknown(format!("only we accept {source:?}")),
            None => Verdict::Unknown(format!("only we refuse {source:?}: {}", tree.mistakes()[0])),
        }
    }
}

#[derive(Debug, PartialEq, Eq)]
pub enum Verdict {
    Same,
    Known(&'static str),
    Unknown(String),
}

/// One way in which we differ from the reference.
pub struct Difference {
    pub name: &'static str,
    /// Why we differ.
    pub reason: &'static str,
    /// A text in which the difference shows.
    pub example: &'static str,
    applies: fn(&Tree) -> bool,
}

pub const DIFFERENCES: &[Difference] = &[
    Difference {
        name: "string that begins like a comment",
        reason: "the reference reads `//` or `/**` at the beginning of quotes as a comment and loses the end of the string; \
                 here it is text, because `\"//host/path\"` is a reasonable value",
        example: "{a: \"//x\"}",
        applies: |tree| tree.tokens().any(|token| begins_like_a_comment(token.kind, token.text)),
    },
    Difference {
        name: "line break before a closing quote",
        reason: "the reference takes blanks, line breaks and comments before a closing quote for layout and drops them; here a \
                 quoted string ends on its line, so that no text disappears",
        example: "{a: \"x\n\"}",
        applies: |tree| has(tree, Code::Unclosed) && breaks_after_a_string(tree),
    },
    Difference {
        name: "boolean as the tag of a fence",
        reason: "the reference takes `true` as a tag in a fence but not before backticks; a tagged string must be writable both \
                 ways, because content with three backticks cannot be fenced",
        example: "{a: ```true\nx```}",
        applies: |tree| has(tree, Code::InvalidFence),
    },
    Difference {
        name: "null character",
        reason: "the reference takes U+0000 for the end of the text; here it may stand in strings and comments, because JSON \
                 strings have it too",
        example: "{a: \"\0\"}",
        applies: |tree| tree.source().contains('\0'),
    },
    Difference {
        name: "deep brackets",
        reason: "the reference has no limit; here brackets nest at most `MAX_NESTING` deep, so that whatever reads a pattern may \
                 recurse",
        example: "[|[|[|[|[|[|[|[|[|[|[|[|[|[|[|[|[|[|[|[|[|[|[|[|[|[|[|[|[|[|[|[|[|[|[|[|[|[|[|[|[|[|[|[|[|[|[|[|[|a\
                  ]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]",
        applies: |tree| has(tree, Code::TooDeep),
    },
];

fn has(tree: &Tree, code: Code) -> bool {
    tree.mistakes().iter().any(|mistake| mistake.code == code)
}

/// A string without an end, and a line break where it should have ended.
fn breaks_after_a_string(tree: &Tree) -> bool {
    let tokens: Vec<_> = tree.tokens().collect();
    tokens.windows(2).any(|pair| {
        let is_string = pair[0].kind == TokenKind::Malformed && pair[0].text.starts_with(['"', '\'', '`']);
        is_string && pair[1].text.starts_with('\n')
    })
}

fn begins_like_a_comment(kind: TokenKind, text: &str) -> bool {
    let content = match kind {
        TokenKind::Malformed | TokenKind::Fenced => text.trim_start_matches(['"', '\'', '`']),
        TokenKind::SingleQuoted | TokenKind::DoubleQuoted | TokenKind::Backticked => &text[1..],
        _ => return false,
    };
    let content = match kind {
        TokenKind::Fenced => content.split_once('\n').map_or(content, |(_, content)| content),
        _ => content,
    };
    let content = content.trim_start();
    content.starts_with("//") || content.starts_with("/**")
}
