//! The kinds of tokens and syntax nodes.

/// The kind of a token. It does not depend on the context of the token.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum TokenKind {
    /// Spaces, tabs, line breaks, and a byte order mark at the start of the text.
    Whitespace,
    /// `// …` up to the end of the line.
    LineComment,
    /// `/** … */`
    DocComment,
    /// A name such as `a`, `Gram.Walk` or `user@home`; also `true` and `false`.
    Symbol,
    /// `0`, `-7`, `42`
    Integer,
    /// `1.5`
    Decimal,
    /// `0x1F`
    Hexadecimal,
    /// `017`
    Octal,
    /// `10kg`
    Measurement,
    /// `'…'`
    SingleQuoted,
    /// `"…"`
    DoubleQuoted,
    /// `` `…` ``
    Backticked,
    /// Three backticks, an optional tag, a line break, content, three backticks.
    Fenced,
    /// `(`
    OpenNode,
    /// `)`
    CloseNode,
    /// `[`
    OpenBracket,
    /// `]`
    CloseBracket,
    /// `{`
    OpenRecord,
    /// `}`
    CloseRecord,
    /// `|`
    Pipe,
    /// `,`
    Comma,
    /// `:`
    Colon,
    /// `::`
    DoubleColon,
    /// `@`
    At,
    /// `@@`
    DoubleAt,
    /// `..`
    Range,
    /// `...`
    OpenRange,
    /// `-`, `=` or `~`: the start or end of an arrow, if this side has no head.
    Line(ArrowStyle),
    /// `->`, `=>` or `~>`: the end of an arrow, if this side has a head.
    HeadRight(ArrowStyle),
    /// `<-`, `<=` or `<~`: the start of an arrow, if this side has a head.
    HeadLeft(ArrowStyle),
    /// An invalid token. The lexer has reported an error for it, so the parser reports none.
    Malformed,
    /// The end of the text.
    End,
}

/// The style of an arrow's strokes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ArrowStyle {
    /// `-->`
    Single,
    /// `==>`
    Double,
    /// `~~>`
    Squiggle,
}

impl ArrowStyle {
    pub(crate) fn stroke(self) -> &'static str {
        match self {
            Self::Single => "-",
            Self::Double => "=",
            Self::Squiggle => "~",
        }
    }
}

impl TokenKind {
    /// Returns whether the token is whitespace or a comment.
    pub fn is_trivia(self) -> bool {
        matches!(self, Self::Whitespace | Self::LineComment | Self::DocComment)
    }

    /// Returns whether the token is a comment.
    pub fn is_comment(self) -> bool {
        matches!(self, Self::LineComment | Self::DocComment)
    }

    pub(crate) fn is_number(self) -> bool {
        matches!(self, Self::Integer | Self::Decimal | Self::Hexadecimal | Self::Octal | Self::Measurement)
    }

    /// Returns whether the token can be an identifier. Malformed tokens are accepted, because an error was already
    /// reported for them.
    pub(crate) fn is_identifier(self) -> bool {
        matches!(self, Self::Symbol | Self::Backticked | Self::Integer | Self::Malformed)
    }

    pub(crate) fn is_label(self) -> bool {
        matches!(self, Self::Symbol | Self::Backticked | Self::Malformed)
    }

    pub(crate) fn is_key(self) -> bool {
        matches!(self, Self::Symbol | Self::Backticked | Self::DoubleQuoted | Self::Malformed)
    }
}

/// The kind of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum NodeKind {
    /// The whole document.
    Document,
    /// One or more annotations and the annotated pattern.
    AnnotatedPattern,
    /// `@@id:Label`
    IdentifiedAnnotation,
    /// `@key(value)`
    Annotation,
    /// `[subject | elements]`
    Bracket,
    /// A reference: a bare identifier as an element of a bracket.
    Reference,
    /// Nodes connected by arrows, or a single node.
    Path,
    /// `(subject)`
    Node,
    /// An arrow, optionally with a subject.
    Arrow,
    /// An identifier, labels and a record, at least one of them.
    Subject,
    /// The `{…}` of a subject or at the start of a document.
    Record,
    /// The `key: value` of a record or map.
    Property,
    /// A value that is neither an array nor a map.
    Scalar,
    /// `[…]` as a value.
    Array,
    /// `{…}` as a value.
    Map,
}
