//! Prints the canonical text of a pattern. Parsing the text returns the same pattern.
//!
//! Each pattern has exactly one canonical text. Nodes are printed in parentheses, relations between nodes as arrows,
//! walks as paths, and all other patterns in brackets. Inside of a tool, arrows are printed as `==>` and labels with
//! two colons, which is the convention for type signatures. The layout is that of [`crate::format`].

mod shape;
mod values;

use crate::labels::{is_agent, is_tool};
use crate::layout;
use crate::model::{DefinitionIndex, Pattern, Subject, Value};
use crate::syntax::Tree;
use shape::{Hop, Shape};

pub(crate) use shape::nesting;

/// Prints the canonical text of a pattern in the standard layout.
///
/// The text is valid gram if brackets nest at most [`crate::MAX_NESTING`] levels deep. This holds for all patterns that
/// were parsed from text or JSON.
pub fn print(pattern: &Pattern) -> String {
    let mut printer =
        Printer { out: String::new(), defined: DefinitionIndex::from_patterns([pattern]), in_tool: false };
    printer.text(pattern);
    layout::format_tree(&Tree::parse(&printer.out))
}

/// Prints the canonical text of a pattern on one line. Fenced strings keep their line breaks.
pub fn print_line(pattern: &Pattern) -> String {
    inline(pattern, false)
}

/// Prints a value in the notation of record values.
pub(crate) fn print_value(value: &Value) -> String {
    let mut out = String::from("{k:");
    values::value(&mut out, value);
    out.push('}');
    let record = layout::format_single_line(&Tree::parse(&out));
    record.strip_prefix("{k: ").and_then(|rest| rest.strip_suffix('}')).unwrap_or_default().to_owned()
}

/// Prints a label or key.
pub(crate) fn print_name(name: &str) -> String {
    let mut out = String::new();
    values::name(&mut out, name);
    out
}

/// Prints a subject as it is written inside a node, without the parentheses of the node.
pub(crate) fn print_subject(subject: &Subject) -> String {
    let node = print_line(&Pattern { subject: subject.clone(), elements: Vec::new() });
    node.strip_prefix('(').and_then(|rest| rest.strip_suffix(')')).unwrap_or_default().to_owned()
}

/// Prints a type signature on one line, in the notation of tools: `==>` for arrows and `::` before labels.
pub(crate) fn print_signature(pattern: &Pattern) -> String {
    inline(pattern, true)
}

fn inline(pattern: &Pattern, in_tool: bool) -> String {
    let mut printer = Printer { out: String::new(), defined: DefinitionIndex::from_patterns([pattern]), in_tool };
    printer.text(pattern);
    layout::format_single_line(&Tree::parse(&printer.out))
}

/// Writes tokens without whitespace, except for line breaks between top-level patterns.
struct Printer<'p> {
    out: String,
    defined: DefinitionIndex<'p>,
    in_tool: bool,
}

impl Printer<'_> {
    fn text(&mut self, pattern: &Pattern) {
        if !pattern.is_root() {
            return self.pattern(pattern);
        }
        // A root pattern with one element needs a record. Without the record, the text would be parsed as the element
        // itself and not as a root pattern.
        if !pattern.subject.properties.is_empty() || pattern.elements.len() == 1 {
            values::record(&mut self.out, &pattern.subject.properties);
            self.out.push('\n');
        }
        for member in &pattern.elements {
            self.pattern(member);
            self.out.push('\n');
        }
    }

    fn pattern(&mut self, pattern: &Pattern) {
        match Shape::of(pattern) {
            Shape::Node => self.node(pattern),
            Shape::Path { start, hops } => {
                self.node(start);
                for hop in hops {
                    self.hop(&hop);
                }
            }
            Shape::Bracket => self.bracket(pattern),
        }
    }

    fn node(&mut self, pattern: &Pattern) {
        self.out.push('(');
        self.subject(&pattern.subject);
        self.out.push(')');
    }

    fn hop(&mut self, hop: &Hop) {
        let stroke = if self.in_tool { '=' } else { '-' };
        if hop.backwards {
            self.out.push('<');
        }
        self.out.push(stroke);
        if !hop.relation.is_empty() {
            self.out.push('[');
            self.subject(hop.relation);
            self.out.push(']');
        }
        self.out.push(stroke);
        if !hop.backwards {
            self.out.push('>');
        }
        self.node(hop.to);
    }

    fn bracket(&mut self, pattern: &Pattern) {
        let outside = self.in_tool;
        self.out.push('[');
        self.subject(&pattern.subject);
        self.in_tool |= is_tool(pattern);
        for (index, element) in pattern.elements.iter().enumerate() {
            self.out.push(if index == 0 { '|' } else { ',' });
            let is_shared = self.defined.get(element.identity()).is_some() || is_agent(pattern);
            if element.is_reference() && is_shared {
                values::identifier(&mut self.out, element.identity());
            } else {
                self.pattern(element);
            }
        }
        self.in_tool = outside;
        self.out.push(']');
    }

    fn subject(&mut self, subject: &Subject) {
        if !subject.identity.is_empty() {
            values::identifier(&mut self.out, &subject.identity);
        }
        for label in &subject.labels {
            self.out.push_str(if self.in_tool { "::" } else { ":" });
            values::name(&mut self.out, label);
        }
        if !subject.properties.is_empty() {
            values::record(&mut self.out, &subject.properties);
        }
    }
}
