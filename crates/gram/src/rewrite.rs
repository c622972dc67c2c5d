//! Changes to everything that a query finds.

use std::collections::{BTreeMap, BTreeSet};

use crate::diagnostic::{Diagnostics, Mistake};
use crate::model::{self, Pattern, Properties};
use crate::query::{Graph, Query, TooMuch, refused};
use crate::syntax::{Child, Node, NodeKind, TokenKind, Tree};

/// A query and what to change in the things it finds.
///
/// Changes are written as nodes. The identifier is a variable of the query; labels and properties are added to what was
/// found for it. Two colons and `absent` take a property away, `@@not` before a node takes its labels away:
///
/// ```
/// use toolwright_gram::{Query, Rewrite, parse, print};
///
/// let query = Query::parse(r#"(tool:Tool {effect: "writes", approval:: absent})"#).unwrap();
/// let rewrite = Rewrite::parse(query, r#"(tool {approval: "required", note:: absent}) @@not (tool:Draft)"#).unwrap();
/// let text = parse(r#"(store:Tool:Draft {effect: "writes", note: "new"})"#).unwrap();
///
/// let rewritten = rewrite.apply(&text).unwrap();
/// assert_eq!(rewritten.changed, 1);
/// assert_eq!(print(&rewritten.pattern), "(store:Tool {approval: \"required\", effect: \"writes\"})\n");
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct Rewrite {
    query: Query,
    changes: BTreeMap<String, Change>,
}

/// A rewritten text.
#[derive(Debug, Clone, PartialEq)]
pub struct Rewritten {
    /// The text after the change.
    pub pattern: Pattern,
    /// How many things are no longer what they were.
    pub changed: usize,
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

    /// `text` with the changes made to everything that the query finds in it, where that is defined.
    pub fn apply(&self, text: &Pattern) -> Result<Rewritten, TooMuch> {
        let graph = Graph::of([text]);
        let mut changes: BTreeMap<u32, Vec<&Change>> = BTreeMap::new();
        for found in self.query.run(&graph)? {
            for (variable, change) in &self.changes {
                let thing = found.item(variable).and_then(|item| graph.thing(item));
                let Some(thing) = thing else { continue };
                let changes = changes.entry(thing.occurrence).or_default();
                if !changes.iter().any(|known| std::ptr::eq(*known, change)) {
                    changes.push(change);
                }
            }
        }
        let mut pattern = text.clone();
        let (mut occurrence, mut changed) = (0, 0);
        apply(&mut pattern, &changes, &mut occurrence, &mut changed);
        Ok(Rewritten { pattern, changed })
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

    fn apply(&self, pattern: &mut Pattern) {
        let subject = &mut pattern.subject;
        subject.labels.retain(|label| !self.remove_labels.contains(label));
        subject.labels.extend(self.add_labels.iter().cloned());
        subject.properties.retain(|key, _| !self.remove.contains(key));
        subject.properties.extend(self.set.iter().map(|(key, value)| (key.clone(), value.clone())));
    }
}

/// Visits occurrences in the order in which the graph counted them.
fn apply(pattern: &mut Pattern, changes: &BTreeMap<u32, Vec<&Change>>, occurrence: &mut u32, changed: &mut usize) {
    if let Some(changes) = changes.get(occurrence) {
        let before = pattern.subject.clone();
        for change in changes {
            change.apply(pattern);
        }
        *changed += usize::from(before != pattern.subject);
    }
    *occurrence += 1;
    for element in &mut pattern.elements {
        apply(element, changes, occurrence, changed);
    }
}

fn is_not(annotated: Node) -> bool {
    let name = annotated.child(NodeKind::Identified).map(|name| name.text().trim_start_matches("@@").trim());
    name == Some("not") && annotated.child(NodeKind::Annotation).is_none()
}
