//! Formats documents. Only whitespace changes. Formatting a formatted document does not change it.

use crate::diagnostic::Diagnostics;
use crate::syntax::{Child, Node, NodeKind, Token, TokenKind, Tree};

/// Formats a document. Only whitespace changes. Comments, quotes, arrows and the order of tokens are preserved.
pub fn format(source: &str) -> Result<String, Diagnostics> {
    Ok(format_tree(&Tree::parse(source).into_result()?))
}

/// Formats a tree in the standard layout.
pub(crate) fn format_tree(tree: &Tree) -> String {
    let mut writer = Writer { tree, out: String::with_capacity(tree.source().len() * 5 / 4), next: 0, indent: 0 };
    for child in tree.root().children() {
        writer.child(child, Gap::Member);
    }
    writer.finish()
}

/// Formats a tree on one line. Writes a space where the standard layout may break the line.
pub(crate) fn format_single_line(tree: &Tree) -> String {
    let mut single_line = SingleLineWriter { tree, out: String::new(), next: 0, limit: usize::MAX };
    single_line.node(tree.root());
    single_line.out
}

/// The maximum length of a line.
const WIDTH: usize = 100;

/// The whitespace before a token.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Gap {
    None,
    Space,
    Line,
    /// A line break between top-level patterns. If the source has blank lines there, one of them is preserved.
    Member,
}

struct Writer<'t> {
    tree: &'t Tree<'t>,
    out: String,
    /// The index of the first token that is not written yet. Comments before this index are already written.
    next: usize,
    indent: usize,
}

impl<'t> Writer<'t> {
    fn child(&mut self, child: Child<'t>, gap: Gap) {
        match child {
            Child::Token(token) => self.token(token, gap),
            Child::Node(node) => self.node(node, gap),
        }
    }

    /// Writes a node on one line if it fits, otherwise on several lines.
    fn node(&mut self, node: Node<'t>, gap: Gap) {
        let range = node.token_range();
        if range.is_empty() {
            return;
        }
        self.gap(range.start, gap);
        self.next = range.start;
        let limit = WIDTH.saturating_sub(self.column());
        let mut single_line = SingleLineWriter { tree: self.tree, out: String::new(), next: range.start, limit };
        if single_line.node(node) {
            self.out.push_str(&single_line.out);
            self.next = range.end;
        } else {
            self.write_multi_line(node);
        }
    }

    /// Writes a node on several lines. The caller has already written the whitespace before the first token of the
    /// node.
    fn write_multi_line(&mut self, node: Node<'t>) {
        match node.kind() {
            NodeKind::Bracket => self.write_list(node, TokenKind::CloseBracket),
            NodeKind::Array => self.write_list(node, TokenKind::CloseBracket),
            NodeKind::Record | NodeKind::Map => self.write_list(node, TokenKind::CloseRecord),
            NodeKind::Path => self.path(node),
            NodeKind::AnnotatedPattern => self.write_children(node, |_, _| Gap::Line),
            kind => self.write_children(node, |before, child| single_line_gap(kind, Some(before), child)),
        }
    }

    fn write_children(&mut self, node: Node<'t>, gap: impl Fn(Child<'t>, Child<'t>) -> Gap) {
        let mut before = None;
        for child in node.children() {
            self.child(child, before.map_or(Gap::None, |before| gap(before, child)));
            before = Some(child);
        }
    }

    /// Writes each item between the brackets on a separate line. The subject of a bracket stays on the first line.
    fn write_list(&mut self, node: Node<'t>, close: TokenKind) {
        let mut before = None;
        for child in node.children() {
            match (before, child) {
                (None, child) => {
                    self.child(child, Gap::None);
                    self.indent += 2;
                }
                (Some(_), Child::Node(subject)) if subject.kind() == NodeKind::Subject => {
                    self.indent -= 2;
                    self.node(subject, Gap::None);
                    self.indent += 2;
                }
                (Some(before), Child::Token(token)) if token.kind == close => self.close(before, token),
                (Some(before), Child::Token(token)) => {
                    self.token(token, single_line_gap(node.kind(), Some(before), child))
                }
                (Some(_), child) => self.child(child, Gap::Line),
            }
            before = Some(child);
        }
    }

    /// Writes a closing bracket. If items precede the bracket, it gets its own line. Comments before the bracket are
    /// indented like the items.
    fn close(&mut self, before: Child, token: Token<'t>) {
        let only_subject = match before {
            Child::Node(node) => node.kind() == NodeKind::Subject,
            Child::Token(_) => true,
        };
        let commented = self.comments(token.index, Gap::Line);
        self.indent -= 2;
        match commented {
            None if only_subject => {}
            Some(Gap::Space) => self.separate(Gap::Space),
            _ => self.separate(Gap::Line),
        }
        self.write(token);
    }

    /// Writes the first node, then each arrow and its node on a new line.
    fn path(&mut self, node: Node<'t>) {
        let mut outer = true;
        for part in node.nodes() {
            let is_arrow = part.kind() == NodeKind::Arrow;
            if is_arrow && outer {
                self.indent += 2;
                outer = false;
            }
            self.node(part, if is_arrow { Gap::Line } else { Gap::None });
        }
        if !outer {
            self.indent -= 2;
        }
    }

    fn token(&mut self, token: Token<'t>, gap: Gap) {
        self.gap(token.index, gap);
        self.write(token);
    }

    fn write(&mut self, token: Token) {
        self.out.push_str(token.text);
        self.next = token.index + 1;
    }

    /// Writes the comments before token `index` and the gap before the token.
    fn gap(&mut self, index: usize, gap: Gap) {
        let line = if gap == Gap::Member { Gap::Member } else { Gap::Line };
        match self.comments(index, line) {
            None => self.separate(gap),
            Some(Gap::Space) if gap == Gap::None => self.separate(Gap::Space),
            Some(Gap::Space) => self.separate(gap),
            Some(_) => self.separate(line),
        }
    }

    /// Writes the comments before token `index`. A comment that was alone on a line stays alone on a line. Returns the
    /// whitespace that must follow the comments, or `None` if there are no comments.
    fn comments(&mut self, index: usize, line: Gap) -> Option<Gap> {
        let mut follows = None;
        while self.next < index {
            let Some(comment) = self.tree.token(self.next).filter(|token| token.kind.is_comment()) else {
                self.next += 1;
                continue;
            };
            let own_line = self.out.is_empty() || self.breaks_before(comment.index) > 0;
            self.separate(if own_line { line } else { Gap::Space });
            self.out.push_str(comment.text.trim_end());
            self.next += 1;
            let breaks = own_line || comment.kind == TokenKind::LineComment;
            follows = if breaks || follows == Some(Gap::Line) { Some(Gap::Line) } else { Some(Gap::Space) };
        }
        follows
    }

    fn separate(&mut self, gap: Gap) {
        match gap {
            Gap::None => {}
            Gap::Space => self.out.push(' '),
            Gap::Line | Gap::Member if self.out.is_empty() => {}
            Gap::Line | Gap::Member => {
                let is_blank = gap == Gap::Member && self.breaks_before(self.next) > 1;
                self.out.push_str(if is_blank { "\n\n" } else { "\n" });
                self.out.extend(std::iter::repeat_n(' ', self.indent));
            }
        }
    }

    /// Counts the line breaks directly before a token.
    fn breaks_before(&self, index: usize) -> usize {
        let layout = index.checked_sub(1).and_then(|index| self.tree.token(index));
        let layout = layout.filter(|token| token.kind == TokenKind::Whitespace);
        layout.map_or(0, |token| token.text.bytes().filter(|byte| *byte == b'\n').count())
    }

    fn column(&self) -> usize {
        let line = self.out.rsplit('\n').next().unwrap_or_default();
        line.chars().count()
    }

    fn finish(mut self) -> String {
        self.comments(self.tree.tokens().count(), Gap::Member);
        if !self.out.is_empty() {
            self.out.push('\n');
        }
        self.out
    }
}

/// Writes a node on one line. Stops if the node has comments or line breaks, or if the line becomes too long.
struct SingleLineWriter<'t> {
    tree: &'t Tree<'t>,
    out: String,
    next: usize,
    limit: usize,
}

impl<'t> SingleLineWriter<'t> {
    fn node(&mut self, node: Node<'t>) -> bool {
        let mut before = None;
        for child in node.children() {
            if single_line_gap(node.kind(), before, child) != Gap::None {
                self.out.push(' ');
            }
            let fits = match child {
                Child::Node(node) => self.node(node),
                Child::Token(token) => self.token(token),
            };
            if !fits {
                return false;
            }
            before = Some(child);
        }
        true
    }

    fn token(&mut self, token: Token) -> bool {
        let commented =
            (self.next..token.index).any(|index| self.tree.token(index).is_some_and(|token| token.kind.is_comment()));
        self.next = token.index + 1;
        self.out.push_str(token.text);
        self.limit == usize::MAX || !(commented || token.text.contains('\n') || self.out.len() > self.limit)
    }
}

/// Returns the whitespace before `child` when its parent is written on one line. `before` is the previous child.
fn single_line_gap(parent: NodeKind, before: Option<Child>, child: Child) -> Gap {
    let Some(before) = before else { return Gap::None };
    let before_kind = match before {
        Child::Token(token) => Some(token.kind),
        Child::Node(_) => None,
    };
    let kind = match child {
        Child::Token(token) => Some(token.kind),
        Child::Node(_) => None,
    };
    let spaced = match parent {
        NodeKind::Document | NodeKind::AnnotatedPattern => true,
        NodeKind::Bracket => match (before_kind, kind) {
            (Some(TokenKind::OpenBracket), _) | (_, Some(TokenKind::Comma | TokenKind::CloseBracket)) => false,
            (Some(TokenKind::Pipe | TokenKind::Comma), _) | (_, Some(TokenKind::Pipe)) => true,
            _ => false,
        },
        NodeKind::Record | NodeKind::Map | NodeKind::Array => before_kind == Some(TokenKind::Comma),
        NodeKind::Property => matches!(before_kind, Some(TokenKind::Colon | TokenKind::DoubleColon)),
        NodeKind::Subject => kind.is_none(),
        _ => false,
    };
    if spaced { Gap::Space } else { Gap::None }
}
