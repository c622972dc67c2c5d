//! Rewrites source text: applies changes to all items that a query finds.

mod editor;
mod record_editor;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use crate::diagnostic::{Diagnostics, SpannedError};
use crate::model::{self, Pattern, Properties, Subject, SubjectSite};
use crate::query::{Graph, Query, QueryLimitExceeded, invalid_query};
use crate::syntax::{Child, Node, NodeKind, TokenKind, Tree};
use editor::Editor;

/// A query and the changes to the items that it finds.
///
/// Changes are written as nodes. The identifier of the node is a variable of the query. The labels and properties of
/// the node are added to the item. `key:: absent` removes a property. `@@not` before a node removes the node's labels
/// from the item. All other text is preserved, including comments and layout:
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
    changes: BTreeMap<String, SubjectChange>,
}

/// A rewritten text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RewrittenText {
    /// The new text.
    pub text: String,
    /// The number of changed items.
    pub changed: usize,
}

/// The reason why nothing was rewritten.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RewriteError {
    /// One of the documents is invalid.
    #[error("document {number} is not valid gram: {errors}")]
    InvalidText {
        /// The number of the document, counted from 1.
        number: usize,
        /// The errors.
        errors: Diagnostics,
    },
    /// The query exceeds the search limit.
    #[error(transparent)]
    LimitExceeded(#[from] QueryLimitExceeded),
    /// The item to change is a path with several arrows. The notation cannot express labels or properties of a whole
    /// path.
    #[error("path with several arrows cannot have labels or properties; change its nodes or relations")]
    UnwritablePath,
}

#[derive(Debug, Clone, PartialEq, Default)]
struct SubjectChange {
    add_labels: BTreeSet<String>,
    remove_labels: BTreeSet<String>,
    set: Properties,
    remove: BTreeSet<String>,
}

impl Rewrite {
    /// Parses the changes to the items that `query` finds.
    pub fn parse(query: Query, changes: &str) -> Result<Self, Diagnostics> {
        let tree = Tree::parse(changes).into_result()?;
        let mut rewrite = Self { query, changes: BTreeMap::new() };
        for part in tree.root().nodes() {
            rewrite.read(part).map_err(|error| Diagnostics::single(changes, error))?;
        }
        Ok(rewrite)
    }

    /// Applies the changes to the documents. Each item is changed at the occurrence that defines it. A name refers to
    /// the same item in all documents and in `context`. The patterns in `context` are searched but not changed.
    pub fn apply(&self, texts: &[&str], context: &[Pattern]) -> Result<Vec<RewrittenText>, RewriteError> {
        let mut trees = Vec::with_capacity(texts.len());
        for (index, text) in texts.iter().enumerate() {
            let read = Tree::parse(text).into_result().and_then(|tree| Ok((model::lower(&tree)?, tree)));
            trees.push(read.map_err(|errors| RewriteError::InvalidText { number: index + 1, errors })?);
        }
        let graph = Graph::from_patterns(trees.iter().map(|(pattern, _)| pattern).chain(context));
        let found = self.matched_subjects(&graph)?;
        let mut rewritten = Vec::with_capacity(trees.len());
        let mut first = 0;
        for (_, tree) in &trees {
            let sites = model::subject_sites(tree);
            let end = first + u32::try_from(sites.len()).unwrap_or(u32::MAX);
            rewritten.push(rewrite(tree, &sites, found.range(first..end).map(|(at, change)| (at - first, change)))?);
            first = end;
        }
        Ok(rewritten)
    }

    /// Returns the items to change, with their changes. The key is the index of the occurrence that defines the item.
    fn matched_subjects<'a>(
        &'a self,
        graph: &'a Graph,
    ) -> Result<BTreeMap<u32, MatchedSubject<'a>>, QueryLimitExceeded> {
        let mut found: BTreeMap<u32, MatchedSubject> = BTreeMap::new();
        for matched in self.query.run(graph)? {
            for (variable, change) in &self.changes {
                let Some(item) = matched.item_id(variable).and_then(|id| graph.item(id)) else { continue };
                let subject = &item.pattern().subject;
                let known = found.entry(item.occurrence).or_insert(MatchedSubject { subject, changes: Vec::new() });
                if !known.changes.iter().any(|known| std::ptr::eq(*known, change)) {
                    known.changes.push(change);
                }
            }
        }
        Ok(found)
    }

    fn read(&mut self, part: Node) -> Result<(), SpannedError> {
        let usage = "change must be a node such as `(tool {key: value})`, optionally after `@@not`";
        let (removes_labels, path) = match part.kind() {
            NodeKind::AnnotatedPattern => (is_negation(part), part.child(NodeKind::Path)),
            NodeKind::Path => (false, Some(part)),
            _ => return Err(invalid_query(part, usage)),
        };
        let nodes: Vec<Node> = path.into_iter().flat_map(|path| path.nodes()).collect();
        let [node] = nodes.as_slice() else { return Err(invalid_query(part, usage)) };
        let Some(subject) = node.child(NodeKind::Subject) else { return Err(invalid_query(*node, usage)) };
        if part.kind() == NodeKind::AnnotatedPattern && (!removes_labels || subject.child(NodeKind::Record).is_some()) {
            return Err(invalid_query(
                part,
                "`@@not` must precede a node with labels only, as in `@@not (tool:Draft)`",
            ));
        }
        self.read_subject(subject, removes_labels)
    }

    fn read_subject(&mut self, subject: Node, removes_labels: bool) -> Result<(), SpannedError> {
        let variable = subject.tokens().next().filter(|token| token.kind == TokenKind::Symbol).map(|token| token.text);
        let variable = variable.filter(|name| self.query.variables().any(|known| known == *name));
        let Some(variable) = variable else {
            return Err(invalid_query(subject, "change must begin with a variable of the query"));
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

impl SubjectChange {
    fn read_property(&mut self, property: Node) -> Result<(), SpannedError> {
        let mut tokens = property.tokens();
        let (key, colon) = (tokens.next(), tokens.next());
        let key = key.map(|key| key.value().into_owned()).unwrap_or_default();
        let Some(value) = property.nodes().next() else { return Ok(()) };
        match colon.map(|colon| colon.kind) {
            Some(TokenKind::DoubleColon) if value.text() == "absent" => drop(self.remove.insert(key)),
            Some(TokenKind::DoubleColon) => {
                return Err(invalid_query(value, "only `absent` may follow two colons"));
            }
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

/// The subject of an item to change, with its changes.
struct MatchedSubject<'a> {
    subject: &'a Subject,
    changes: Vec<&'a SubjectChange>,
}

/// Applies the changes to one document. `found` has the index of each occurrence to change, counted from the start of
/// this document.
fn rewrite<'a>(
    tree: &Tree,
    sites: &[SubjectSite],
    found: impl Iterator<Item = (u32, &'a MatchedSubject<'a>)>,
) -> Result<RewrittenText, RewriteError> {
    // A node between two arrows is written once, but is two occurrences in the pattern. The changes of both occurrences
    // are combined.
    let mut edits: BTreeMap<usize, (SubjectSite, &Subject, Subject)> = BTreeMap::new();
    for (occurrence, found) in found {
        let Some(site) = sites.get(occurrence as usize) else { continue };
        let start = match site {
            SubjectSite::Delimited(node) | SubjectSite::Reference(node) | SubjectSite::AnnotatedPattern(node) => {
                node.token_range().start
            }
            SubjectSite::Unwritable => return Err(RewriteError::UnwritablePath),
        };
        let (_, _, after) = edits.entry(start).or_insert_with(|| (*site, found.subject, found.subject.clone()));
        found.changes.iter().for_each(|change| change.apply(after));
    }
    let mut editor = Editor::new(tree);
    let mut changed = 0;
    for (site, before, after) in edits.values().filter(|(_, before, after)| *before != after) {
        editor.subject(*site, before, after);
        changed += 1;
    }
    Ok(RewrittenText { text: editor.finish(), changed })
}

fn is_negation(annotated: Node) -> bool {
    let name = annotated.child(NodeKind::IdentifiedAnnotation).map(|name| name.text().trim_start_matches("@@").trim());
    name == Some("not") && annotated.child(NodeKind::Annotation).is_none()
}
