//! What an editor colours.

use serde::Serialize;

use crate::position::Span;
use crate::syntax::{Child, Node, NodeKind, Token, TokenKind, Tree};

/// What a piece of text is, for an editor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Class {
    /// A comment.
    Comment,
    /// Brackets, commas, colons and the bar.
    Punctuation,
    /// Part of an arrow.
    Arrow,
    /// The identifier of a pattern.
    Identifier,
    /// A label.
    Label,
    /// The key of a property.
    Key,
    /// `@`, `@@` and the key of an annotation.
    Annotation,
    /// A string, of whatever form.
    String,
    /// The tag of a string.
    Tag,
    /// A number, with its unit.
    Number,
    /// `true` or `false`.
    Boolean,
    /// A symbol as a value.
    Symbol,
    /// The dots of a range.
    Range,
    /// Something that is no token.
    Error,
}

impl Class {
    /// All classes with the scope names that editors use, for a theme.
    pub const SCOPES: &[(Class, &str)] = &[
        (Class::Comment, "comment"),
        (Class::Punctuation, "punctuation"),
        (Class::Arrow, "keyword.operator"),
        (Class::Identifier, "variable"),
        (Class::Label, "entity.name.type"),
        (Class::Key, "variable.other.property"),
        (Class::Annotation, "entity.name.tag"),
        (Class::String, "string"),
        (Class::Tag, "storage.type"),
        (Class::Number, "constant.numeric"),
        (Class::Boolean, "constant.language"),
        (Class::Symbol, "constant.other"),
        (Class::Range, "keyword.operator.range"),
        (Class::Error, "invalid"),
    ];
}

/// The pieces of a text that have a class, in order. Blanks have none. The text may be unfinished or wrong.
///
/// ```
/// use toolwright_gram::{Class, tokens};
///
/// let text = "(a:Agent)";
/// let classes: Vec<(&str, Class)> = tokens(text).into_iter().map(|(span, class)| (span.of(text), class)).collect();
/// assert_eq!(classes[1], ("a", Class::Identifier));
/// assert_eq!(classes[3], ("Agent", Class::Label));
/// ```
pub fn tokens(source: &str) -> Vec<(Span, Class)> {
    let tree = Tree::parse(source);
    let mut classes: Vec<(Span, Class)> = Vec::new();
    let comments = tree.tokens().filter(|token| token.kind.is_comment());
    classes.extend(comments.map(|token| (token.span, Class::Comment)));
    collect(tree.root(), &mut classes);
    classes.sort_by_key(|(span, _)| *span);
    classes
}

/// Recursion follows the tree, whose depth is bounded.
fn collect(node: Node, classes: &mut Vec<(Span, Class)>) {
    let mut before: Option<Token> = None;
    let mut children = node.children().peekable();
    while let Some(child) = children.next() {
        match child {
            Child::Node(node) => collect(node, classes),
            Child::Token(token) => {
                let is_tag = matches!(children.peek(), Some(Child::Token(next)) if next.kind == TokenKind::Backticked);
                classes.push((token.span, class(node.kind(), before, token, is_tag)));
                before = Some(token);
            }
        }
    }
}

fn class(parent: NodeKind, before: Option<Token>, token: Token, is_tag: bool) -> Class {
    match token.kind {
        TokenKind::Malformed => Class::Error,
        TokenKind::Line(_) | TokenKind::HeadLeft(_) | TokenKind::HeadRight(_) => Class::Arrow,
        TokenKind::At | TokenKind::DoubleAt => Class::Annotation,
        TokenKind::Range | TokenKind::OpenRange => Class::Range,
        TokenKind::Fenced | TokenKind::SingleQuoted => Class::String,
        TokenKind::Symbol | TokenKind::Backticked | TokenKind::DoubleQuoted => name(parent, before, token, is_tag),
        TokenKind::Integer if parent != NodeKind::Scalar => Class::Identifier,
        kind if kind.is_number() => Class::Number,
        _ => Class::Punctuation,
    }
}

fn name(parent: NodeKind, before: Option<Token>, token: Token, is_tag: bool) -> Class {
    match parent {
        NodeKind::Property => Class::Key,
        NodeKind::Annotation => Class::Annotation,
        NodeKind::Subject | NodeKind::Identified => match before.map(|before| before.kind) {
            Some(TokenKind::Colon | TokenKind::DoubleColon) => Class::Label,
            _ => Class::Identifier,
        },
        NodeKind::Reference => Class::Identifier,
        _ if token.kind != TokenKind::Symbol => Class::String,
        _ if is_tag => Class::Tag,
        _ if matches!(token.text, "true" | "false") => Class::Boolean,
        _ => Class::Symbol,
    }
}
