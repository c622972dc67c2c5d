//! The canonical text of a pattern: reading it again gives the same pattern.
//!
//! The same model has one text. Relations between nodes are printed as arrows, paths as chains of them, everything else in
//! brackets; inside of a tool arrows have two strokes and labels two colons, as is the custom for type signatures. The
//! layout is that of [`crate::format`].

mod shape;
mod values;

use crate::layout;
use crate::model::{Definitions, Pattern, Subject, Value};
use crate::syntax::Tree;
use crate::view;
use shape::{Hop, Shape};

pub(crate) use shape::nesting;

/// The canonical text of a pattern, ready to be written to a file.
///
/// It is gram as long as brackets nest at most [`crate::MAX_NESTING`] deep, which holds for whatever was read from text or
/// JSON.
pub fn print(pattern: &Pattern) -> String {
    let mut printer = Printer { out: String::new(), defined: Definitions::of([pattern]), in_tool: false };
    printer.text(pattern);
    layout::lay_out(&Tree::parse(&printer.out))
}

/// The canonical text of a pattern in one line, as it stands in messages. Strings that need several lines keep them.
pub fn print_line(pattern: &Pattern) -> String {
    inline(pattern, false)
}

/// A value as it is written in a record.
pub(crate) fn print_value(value: &Value) -> String {
    let mut out = String::from("{k:");
    values::value(&mut out, value);
    out.push('}');
    let record = layout::one_line(&Tree::parse(&out));
    record.strip_prefix("{k: ").and_then(|rest| rest.strip_suffix('}')).unwrap_or_default().to_owned()
}

/// A label or key as it is written.
pub(crate) fn print_name(name: &str) -> String {
    let mut out = String::new();
    values::name(&mut out, name);
    out
}

/// A subject as it stands in a node, without the parentheses.
pub(crate) fn print_subject(subject: &Subject) -> String {
    let node = print_line(&Pattern { subject: subject.clone(), elements: Vec::new() });
    node.strip_prefix('(').and_then(|rest| rest.strip_suffix(')')).unwrap_or_default().to_owned()
}

/// A type signature in one line, as it is written inside of a tool.
pub(crate) fn print_signature(pattern: &Pattern) -> String {
    inline(pattern, true)
}

fn inline(pattern: &Pattern, in_tool: bool) -> String {
    let mut printer = Printer { out: String::new(), defined: Definitions::of([pattern]), in_tool };
    printer.text(pattern);
    layout::one_line(&Tree::parse(&printer.out))
}

/// Writes tokens without any layout between them, other than the line breaks that separate the patterns of a text.
struct Printer<'p> {
    out: String,
    defined: Definitions<'p>,
    in_tool: bool,
}

impl Printer<'_> {
    fn text(&mut self, pattern: &Pattern) {
        if !pattern.is_root() {
            return self.pattern(pattern);
        }
        // Without a record, a single pattern would be the whole text instead of a member of it.
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
        self.in_tool |= view::is_tool(pattern);
        for (index, element) in pattern.elements.iter().enumerate() {
            self.out.push(if index == 0 { '|' } else { ',' });
            let is_shared = self.defined.get(element.identity()).is_some() || view::is_agent(pattern);
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
