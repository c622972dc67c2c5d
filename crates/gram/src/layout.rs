//! Where blanks and line breaks go. Tokens and comments stay as they are; everything between them is decided here, from
//! the tokens alone, so that formatting twice changes nothing.

use crate::diagnostic::Diagnostics;
use crate::syntax::{Child, Node, NodeKind, Token, TokenKind, Tree};

/// Formats a text. Comments, quotes, arrows and the order of everything are kept; only layout changes.
pub fn format(source: &str) -> Result<String, Diagnostics> {
    Ok(lay_out(&Tree::parse(source).valid()?))
}

/// The text of a tree in the standard layout.
pub(crate) fn lay_out(tree: &Tree) -> String {
    let mut writer = Writer { tree, out: String::with_capacity(tree.source().len() * 5 / 4), next: 0, indent: 0 };
    for child in tree.root().children() {
        writer.child(child, Gap::Member);
    }
    writer.finish()
}

/// The text of a tree with a single blank where the standard layout may break a line.
pub(crate) fn one_line(tree: &Tree) -> String {
    let mut flat = Flat { tree, out: String::new(), next: 0, limit: usize::MAX };
    flat.node(tree.root());
    flat.out
}

/// Lines are broken when they would be longer than this.
const WIDTH: usize = 100;

/// What stands before a token.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Gap {
    None,
    Space,
    Line,
    /// A line break between the patterns of a text. One blank line is kept there.
    Member,
}

struct Writer<'t> {
    tree: &'t Tree<'t>,
    out: String,
    /// The first token that was not written yet. Comments from here on are still to come.
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

    /// Writes a node in one line if it fits, else in several.
    fn node(&mut self, node: Node<'t>, gap: Gap) {
        let range = node.token_range();
        if range.is_empty() {
            return;
        }
        self.gap(range.start, gap);
        self.next = range.start;
        let limit = WIDTH.saturating_sub(self.column());
        let mut flat = Flat { tree: self.tree, out: String::new(), next: range.start, limit };
        if flat.node(node) {
            self.out.push_str(&flat.out);
            self.next = range.end;
        } else {
            self.broken(node);
        }
    }

    /// Writes a node in several lines. The gap before its first token has been written.
    fn broken(&mut self, node: Node<'t>) {
        match node.kind() {
            NodeKind::Bracket => self.listed(node, TokenKind::CloseBracket),
            NodeKind::Array => self.listed(node, TokenKind::CloseBracket),
            NodeKind::Record | NodeKind::Map => self.listed(node, TokenKind::CloseRecord),
            NodeKind::Path => self.path(node),
            NodeKind::Annotated => self.each(node, |_, _| Gap::Line),
            kind => self.each(node, |before, child| flat_gap(kind, Some(before), child)),
        }
    }

    fn each(&mut self, node: Node<'t>, gap: impl Fn(Child<'t>, Child<'t>) -> Gap) {
        let mut before = None;
        for child in node.children() {
            self.child(child, before.map_or(Gap::None, |before| gap(before, child)));
            before = Some(child);
        }
    }

    /// One item in each line, between brackets. The subject of a bracket stays in the first line.
    fn listed(&mut self, node: Node<'t>, close: TokenKind) {
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
                (Some(before), Child::Token(token)) => self.token(token, flat_gap(node.kind(), Some(before), child)),
                (Some(_), child) => self.child(child, Gap::Line),
            }
            before = Some(child);
        }
    }

    /// A closing bracket stands on its own line if there are items before it. Comments before it belong to them.
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

    /// The first node, then each arrow and its node in a line.
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

    /// Writes the comments before token `index` and what separates it from them.
    fn gap(&mut self, index: usize, gap: Gap) {
        let line = if gap == Gap::Member { Gap::Member } else { Gap::Line };
        match self.comments(index, line) {
            None => self.separate(gap),
            Some(Gap::Space) if gap == Gap::None => self.separate(Gap::Space),
            Some(Gap::Space) => self.separate(gap),
            Some(_) => self.separate(line),
        }
    }

    /// Writes the comments before token `index`: those that had a line of their own get one again. Says what must follow
    /// them, if there were any.
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

    /// Line breaks directly before a token.
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

/// Writes a node in one line, and gives up when that is impossible or too long.
struct Flat<'t> {
    tree: &'t Tree<'t>,
    out: String,
    next: usize,
    limit: usize,
}

impl<'t> Flat<'t> {
    fn node(&mut self, node: Node<'t>) -> bool {
        let mut before = None;
        for child in node.children() {
            if flat_gap(node.kind(), before, child) != Gap::None {
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

/// What stands before `child` when its parent is in one line.
fn flat_gap(parent: NodeKind, before: Option<Child>, child: Child) -> Gap {
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
        NodeKind::Document | NodeKind::Annotated => true,
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
