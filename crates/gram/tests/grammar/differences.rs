//! Runs the reference parser and lists all intended differences from it.

use toolwright_gram::DiagnosticCode;
use toolwright_gram::syntax::{TokenKind, Tree};
use tree_sitter::Parser;

/// The reference parser: `tree-sitter-gram` 0.6.1.
pub(crate) struct Reference(Parser);

impl Reference {
    pub(crate) fn new() -> Self {
        let mut parser = Parser::new();
        parser.set_language(&tree_sitter_gram::LANGUAGE.into()).unwrap();
        Self(parser)
    }

    pub(crate) fn accepts(&mut self, source: &str) -> bool {
        !self.0.parse(source, None).unwrap().root_node().has_error()
    }

    /// Checks whether this crate's parser and the reference parser agree: both accept the text, or both reject it.
    pub(crate) fn compare(&mut self, source: &str) -> Agreement {
        let tree = Tree::parse(source);
        if tree.errors().is_empty() == self.accepts(source) {
            return Agreement::Same;
        }
        match DIFFERENCES.iter().find(|difference| (difference.applies)(&tree)) {
            Some(known) => Agreement::Known(known.name),
            None if tree.errors().is_empty() => Agreement::Unknown(format!("only this parser accepts {source:?}")),
            None => Agreement::Unknown(format!("only this parser rejects {source:?}: {}", tree.errors()[0])),
        }
    }
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Agreement {
    Same,
    Known(&'static str),
    Unknown(String),
}

/// An intended difference from the reference parser.
pub(crate) struct Difference {
    pub name: &'static str,
    /// The reason for the difference.
    pub reason: &'static str,
    /// A text that shows the difference.
    pub example: &'static str,
    applies: fn(&Tree) -> bool,
}

pub(crate) const DIFFERENCES: &[Difference] = &[
    Difference {
        name: "string that starts like a comment",
        reason: "the reference reads `//` or `/**` at the start of a quoted string as a comment and misses the end of the string; \
                 here it is text because `\"//host/path\"` is a reasonable value",
        example: "{a: \"//x\"}",
        applies: |tree| tree.tokens().any(|token| starts_like_a_comment(token.kind, token.text)),
    },
    Difference {
        name: "line break before a closing quote",
        reason: "the reference drops blanks, line breaks and comments before a closing quote; here a \
                 quoted string must end on its line, so that no text is lost",
        example: "{a: \"x\n\"}",
        applies: |tree| has(tree, DiagnosticCode::Unclosed) && has_line_break_after_unclosed_string(tree),
    },
    Difference {
        name: "boolean as the tag of a fence",
        reason: "the reference accepts `true` as the tag of a fence but not before backticks; a tagged string must be writable both \
                 ways because content with three backticks cannot be fenced",
        example: "{a: ```true\nx```}",
        applies: |tree| has(tree, DiagnosticCode::InvalidFence),
    },
    Difference {
        name: "null character",
        reason: "the reference treats U+0000 as the end of the text; here it is allowed in strings and comments because JSON \
                 strings allow it too",
        example: "{a: \"\0\"}",
        applies: |tree| tree.source().contains('\0'),
    },
    Difference {
        name: "deep brackets",
        reason: "the reference has no limit; here brackets nest at most `MAX_NESTING` levels deep, so that code may recurse over \
                 patterns",
        example: "[|[|[|[|[|[|[|[|[|[|[|[|[|[|[|[|[|[|[|[|[|[|[|[|[|[|[|[|[|[|[|[|[|[|[|[|[|[|[|[|[|[|[|[|[|[|[|[|[|a\
                  ]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]",
        applies: |tree| has(tree, DiagnosticCode::TooDeep),
    },
];

fn has(tree: &Tree, code: DiagnosticCode) -> bool {
    tree.errors().iter().any(|error| error.code == code)
}

/// Returns whether the text has a line break directly after an unclosed string.
fn has_line_break_after_unclosed_string(tree: &Tree) -> bool {
    let tokens: Vec<_> = tree.tokens().collect();
    tokens.windows(2).any(|pair| {
        let is_string = pair[0].kind == TokenKind::Malformed && pair[0].text.starts_with(['"', '\'', '`']);
        is_string && pair[1].text.starts_with('\n')
    })
}

fn starts_like_a_comment(kind: TokenKind, text: &str) -> bool {
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
