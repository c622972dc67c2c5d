//! Assigns each token of a text a class for syntax highlighting.

use serde::Serialize;

use crate::position::Span;
use crate::syntax::{Child, Node, NodeKind, Token, TokenKind, Tree};

/// The highlighting class of a token.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum TokenClass {
    /// A comment.
    Comment,
    /// Brackets, commas, colons and `|`.
    Punctuation,
    /// A token of an arrow.
    Arrow,
    /// The identifier of a pattern.
    Identifier,
    /// A label.
    Label,
    /// The key of a property.
    Key,
    /// `@`, `@@` and the key of an annotation.
    Annotation,
    /// A string with any kind of quotes.
    String,
    /// The tag of a string.
    Tag,
    /// A number, with its unit.
    Number,
    /// `true` or `false`.
    Boolean,
    /// A symbol (a name without quotes) that is used as a value.
    Symbol,
    /// The dots of a range.
    Range,
    /// A malformed token.
    Error,
}

impl TokenClass {
    /// All classes and their TextMate scope names.
    pub const SCOPES: &[(TokenClass, &str)] = &[
        (TokenClass::Comment, "comment"),
        (TokenClass::Punctuation, "punctuation"),
        (TokenClass::Arrow, "keyword.operator"),
        (TokenClass::Identifier, "variable"),
        (TokenClass::Label, "entity.name.type"),
        (TokenClass::Key, "variable.other.property"),
        (TokenClass::Annotation, "entity.name.tag"),
        (TokenClass::String, "string"),
        (TokenClass::Tag, "storage.type"),
        (TokenClass::Number, "constant.numeric"),
        (TokenClass::Boolean, "constant.language"),
        (TokenClass::Symbol, "constant.other"),
        (TokenClass::Range, "keyword.operator.range"),
        (TokenClass::Error, "invalid"),
    ];
}

/// Returns the class of each token and comment, ordered by position. Whitespace is left out. The text may be incomplete
/// or invalid.
///
/// ```
/// use toolwright_gram::{TokenClass, highlight};
///
/// let text = "(a:Agent)";
/// let classes: Vec<(&str, TokenClass)> = highlight(text).into_iter().map(|(span, class)| (span.slice(text), class)).collect();
/// assert_eq!(classes[1], ("a", TokenClass::Identifier));
/// assert_eq!(classes[3], ("Agent", TokenClass::Label));
/// ```
pub fn highlight(source: &str) -> Vec<(Span, TokenClass)> {
    let tree = Tree::parse(source);
    let mut classes: Vec<(Span, TokenClass)> = Vec::new();
    let comments = tree.tokens().filter(|token| token.kind.is_comment());
    classes.extend(comments.map(|token| (token.span, TokenClass::Comment)));
    collect(tree.root(), &mut classes);
    classes.sort_by_key(|(span, _)| *span);
    classes
}

// The depth of the tree is limited, so recursion cannot overflow the stack.
fn collect(node: Node, classes: &mut Vec<(Span, TokenClass)>) {
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

fn class(parent: NodeKind, before: Option<Token>, token: Token, is_tag: bool) -> TokenClass {
    match token.kind {
        TokenKind::Malformed => TokenClass::Error,
        TokenKind::Line(_) | TokenKind::HeadLeft(_) | TokenKind::HeadRight(_) => TokenClass::Arrow,
        TokenKind::At | TokenKind::DoubleAt => TokenClass::Annotation,
        TokenKind::Range | TokenKind::OpenRange => TokenClass::Range,
        TokenKind::Fenced | TokenKind::SingleQuoted => TokenClass::String,
        TokenKind::Symbol | TokenKind::Backticked | TokenKind::DoubleQuoted => name(parent, before, token, is_tag),
        TokenKind::Integer if parent != NodeKind::Scalar => TokenClass::Identifier,
        kind if kind.is_number() => TokenClass::Number,
        _ => TokenClass::Punctuation,
    }
}

fn name(parent: NodeKind, before: Option<Token>, token: Token, is_tag: bool) -> TokenClass {
    match parent {
        NodeKind::Property => TokenClass::Key,
        NodeKind::Annotation => TokenClass::Annotation,
        NodeKind::Subject | NodeKind::IdentifiedAnnotation => match before.map(|before| before.kind) {
            Some(TokenKind::Colon | TokenKind::DoubleColon) => TokenClass::Label,
            _ => TokenClass::Identifier,
        },
        NodeKind::Reference => TokenClass::Identifier,
        _ if token.kind != TokenKind::Symbol => TokenClass::String,
        _ if is_tag => TokenClass::Tag,
        _ if matches!(token.text, "true" | "false") => TokenClass::Boolean,
        _ => TokenClass::Symbol,
    }
}
