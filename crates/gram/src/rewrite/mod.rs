//! Changes to everything that a query finds, made in the text itself.

mod edit;
mod record;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use crate::diagnostic::{Diagnostics, Mistake};
use crate::model::{self, Pattern, Properties, Site, Subject};
use crate::query::{Graph, Query, TooMuch, refused};
use crate::syntax::{Child, Node, NodeKind, TokenKind, Tree};
use edit::Editor;

/// A query and what to change in the things it finds.
///
/// Changes are written as nodes. The identifier is a variable of the query; labels and properties are added to what was
/// found for it. Two colons and `absent` take a property away, `@@not` before a node takes its labels away. Everything
/// else in the text stays as it is written, comments and layout included:
///
/// ```
/// use toolwright_gram::{Query, Rewrite};
///
/// let query = Query::parse(r#"(tool:Tool {effect: "writes", approval:: absent})"#).unwrap();
/// let rewrite = Rewrite::parse(query, r#"(tool {approval: "required", note:: absent}) @@not (tool:Draft)"#).unwrap();
/// let text = "// Ours.\n(store:Tool:Draft {note: 'new', effect:\t'writes'})\n";
///
/// let rewritten = rewrite.apply(&[text], &[]).unwrap();
/// assert_eq!(rewritten[0].text, "// Ours.\n(store:Tool {effect:\t'writes', approval: \"required\"})\n");
/// assert_eq!(rewritten[0].changed, 1);
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct Rewrite {
    query: Query,
    changes: BTreeMap<String, Change>,
}

/// A rewritten text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rewritten {
    /// The text after the change.
    pub text: String,
    /// How many things are no longer what they were.
    pub changed: usize,
}

/// Why nothing was rewritten.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RewriteError {
    /// One of the texts is not gram.
    #[error("text {number} is not gram: {mistakes}")]
    Text {
        /// Which of them, counted from 1.
        number: usize,
        /// What is wrong with it.
        mistakes: Diagnostics,
    },
    /// The query asks too much.
    #[error(transparent)]
    TooMuch(#[from] TooMuch),
    /// There is no place for the change in the text.
    #[error("a path of several arrows has no place for labels and properties; change its nodes or relations")]
    Path,
}

#[derive(Debug, Clone, PartialEq, Default)]
struct Change {
    add_labels: BTreeSet<String>,
    remove_labels: BTreeSet<String>,
    set: Properties,
    remove: BTreeSet<String>,
}

impl Rewrite {
    /// Reads the changes to what `query` finds.
    pub fn parse(query: Query, changes: &str) -> Result<Self, Diagnostics> {
        let tree = Tree::parse(changes).valid()?;
        let mut rewrite = Self { query, changes: BTreeMap::new() };
        for part in tree.root().nodes() {
            rewrite.read(part).map_err(|mistake| Diagnostics::of_one(changes, mistake))?;
        }
        Ok(rewrite)
    }

    /// The texts with the changes made to everything that the query finds in them, where that is defined. A name means
    /// the same in each of them and in `beside`, which is looked at too and not changed.
    pub fn apply(&self, texts: &[&str], beside: &[Pattern]) -> Result<Vec<Rewritten>, RewriteError> {
        let mut trees = Vec::with_capacity(texts.len());
        for (index, text) in texts.iter().enumerate() {
            let read = Tree::parse(text).valid().and_then(|tree| Ok((model::lower(&tree)?, tree)));
            trees.push(read.map_err(|mistakes| RewriteError::Text { number: index + 1, mistakes })?);
        }
        let graph = Graph::of(trees.iter().map(|(pattern, _)| pattern).chain(beside));
        let found = self.found(&graph)?;
        let mut rewritten = Vec::with_capacity(trees.len());
        let mut first = 0;
        for (_, tree) in &trees {
            let sites = model::sites(tree);
            let end = first + u32::try_from(sites.len()).unwrap_or(u32::MAX);
            rewritten.push(rewrite(tree, &sites, found.range(first..end).map(|(at, change)| (at - first, change)))?);
            first = end;
        }
        Ok(rewritten)
    }

    /// The things to be changed, by the occurrence that defines them: what each is and the changes to it.
    fn found<'a>(&'a self, graph: &'a Graph) -> Result<BTreeMap<u32, Found<'a>>, TooMuch> {
        let mut found: BTreeMap<u32, Found> = BTreeMap::new();
        for answer in self.query.run(graph)? {
            for (variable, change) in &self.changes {
                let Some(thing) = answer.item(variable).and_then(|item| graph.thing(item)) else { continue };
                let subject = &thing.pattern().subject;
                let known = found.entry(thing.occurrence).or_insert(Found { subject, changes: Vec::new() });
                if !known.changes.iter().any(|known| std::ptr::eq(*known, change)) {
                    known.changes.push(change);
                }
            }
        }
        Ok(found)
    }

    fn read(&mut self, part: Node) -> Result<(), Mistake> {
        let usage = "a change is a node such as `(tool {key: value})`, perhaps after `@@not`";
        let (removes_labels, path) = match part.kind() {
            NodeKind::Annotated => (is_not(part), part.child(NodeKind::Path)),
            NodeKind::Path => (false, Some(part)),
            _ => return Err(refused(part, usage)),
        };
        let nodes: Vec<Node> = path.into_iter().flat_map(|path| path.nodes()).collect();
        let [node] = nodes.as_slice() else { return Err(refused(part, usage)) };
        let Some(subject) = node.child(NodeKind::Subject) else { return Err(refused(*node, usage)) };
        if part.kind() == NodeKind::Annotated && (!removes_labels || subject.child(NodeKind::Record).is_some()) {
            return Err(refused(part, "`@@not` takes labels away, as in `@@not (tool:Draft)`"));
        }
        self.read_subject(subject, removes_labels)
    }

    fn read_subject(&mut self, subject: Node, removes_labels: bool) -> Result<(), Mistake> {
        let variable = subject.tokens().next().filter(|token| token.kind == TokenKind::Symbol).map(|token| token.text);
        let variable = variable.filter(|name| self.query.variables().any(|known| known == *name));
        let Some(variable) = variable else {
            return Err(refused(subject, "a change begins with a variable of the query"));
        };
        let change = self.changes.entry(variable.to_owned()).or_default();
        for child in subject.children().skip(1) {
            match child {
                Child::Token(token) if matches!(token.kind, TokenKind::Colon | TokenKind::DoubleColon) => {}
                Child::Token(label) => {
                    let labels = if removes_labels { &mut change.remove_labels } else { &mut change.add_labels };
                    labels.insert(label.value().into_owned());
                }
                Child::Node(record) => {
                    for property in record.nodes() {
                        change.read_property(property)?;
                    }
                }
            }
        }
        Ok(())
    }
}

impl Change {
    fn read_property(&mut self, property: Node) -> Result<(), Mistake> {
        let mut tokens = property.tokens();
        let (key, colon) = (tokens.next(), tokens.next());
        let key = key.map(|key| key.value().into_owned()).unwrap_or_default();
        let Some(value) = property.nodes().next() else { return Ok(()) };
        match colon.map(|colon| colon.kind) {
            Some(TokenKind::DoubleColon) if value.text() == "absent" => drop(self.remove.insert(key)),
            Some(TokenKind::DoubleColon) => return Err(refused(value, "after two colons only `absent` can follow")),
            _ => drop(self.set.insert(key, model::value(value)?)),
        }
        Ok(())
    }

    fn apply(&self, subject: &mut Subject) {
        subject.labels.retain(|label| !self.remove_labels.contains(label));
        subject.labels.extend(self.add_labels.iter().cloned());
        subject.properties.retain(|key, _| !self.remove.contains(key));
        subject.properties.extend(self.set.iter().map(|(key, value)| (key.clone(), value.clone())));
    }
}

/// A thing to be changed.
struct Found<'a> {
    subject: &'a Subject,
    changes: Vec<&'a Change>,
}

/// Changes one text. Occurrences are counted from its first.
fn rewrite<'a>(
    tree: &Tree,
    sites: &[Site],
    found: impl Iterator<Item = (u32, &'a Found<'a>)>,
) -> Result<Rewritten, RewriteError> {
    // A node between two arrows is written once and belongs to two relations: its changes are made together.
    let mut places: BTreeMap<usize, (Site, &Subject, Subject)> = BTreeMap::new();
    for (occurrence, found) in found {
        let Some(site) = sites.get(occurrence as usize) else { continue };
        let start = match site {
            Site::Room(node) | Site::Reference(node) | Site::Annotated(node) => node.token_range().start,
            Site::None => return Err(RewriteError::Path),
        };
        let (_, _, after) = places.entry(start).or_insert_with(|| (*site, found.subject, found.subject.clone()));
        found.changes.iter().for_each(|change| change.apply(after));
    }
    let mut editor = Editor::new(tree);
    let mut changed = 0;
    for (site, before, after) in places.values().filter(|(_, before, after)| *before != after) {
        editor.subject(*site, before, after);
        changed += 1;
    }
    Ok(Rewritten { text: editor.finish(), changed })
}

fn is_not(annotated: Node) -> bool {
    let name = annotated.child(NodeKind::Identified).map(|name| name.text().trim_start_matches("@@").trim());
    name == Some("not") && annotated.child(NodeKind::Annotation).is_none()
}
