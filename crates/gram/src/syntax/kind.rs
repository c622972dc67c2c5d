//! The kinds of tokens and nodes.

/// What a token is, independent of where it stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum TokenKind {
    /// Blanks, tabs, line breaks, and a byte order mark at the start of the text.
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
    /// Three backticks, perhaps a tag, a line break, content, three backticks.
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
    /// The beginning or end of an arrow without a head: `-`, `=` or `~`.
    Line(Family),
    /// The end of an arrow with a head: `->`, `=>` or `~>`.
    HeadRight(Family),
    /// The beginning of an arrow with a head: `<-`, `<=` or `<~`.
    HeadLeft(Family),
    /// Something that is no token. It was reported when it was found, and nothing else is said about it.
    Malformed,
    /// The end of the text.
    End,
}

/// The strokes an arrow is made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Family {
    /// `-->`
    Single,
    /// `==>`
    Double,
    /// `~~>`
    Squiggle,
}

impl Family {
    pub(crate) fn stroke(self) -> &'static str {
        match self {
            Self::Single => "-",
            Self::Double => "=",
            Self::Squiggle => "~",
        }
    }
}

impl TokenKind {
    /// Layout: what may stand between any two tokens.
    pub fn is_trivia(self) -> bool {
        matches!(self, Self::Whitespace | Self::LineComment | Self::DocComment)
    }

    /// A comment of either kind.
    pub fn is_comment(self) -> bool {
        matches!(self, Self::LineComment | Self::DocComment)
    }

    pub(crate) fn is_number(self) -> bool {
        matches!(self, Self::Integer | Self::Decimal | Self::Hexadecimal | Self::Octal | Self::Measurement)
    }

    /// What can name a pattern. Something malformed passes for a name, because it was reported already.
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

/// What a node of the tree stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum NodeKind {
    /// The whole text.
    Document,
    /// One or more annotations and the pattern they belong to.
    Annotated,
    /// `@@id:Label`
    Identified,
    /// `@key(value)`
    Annotation,
    /// `[subject | elements]`
    Bracket,
    /// An identifier among the elements of a bracket.
    Reference,
    /// Nodes with arrows between them, or a single node.
    Path,
    /// `(subject)`
    Node,
    /// An arrow, perhaps with a subject in it.
    Arrow,
    /// Identifier, labels, record: one of them at least.
    Subject,
    /// `{…}` of a subject or at the start of the text.
    Record,
    /// `key: value` of a record or map.
    Property,
    /// A value that is not an array or a map.
    Scalar,
    /// `[…]` as a value.
    Array,
    /// `{…}` as a value.
    Map,
}
