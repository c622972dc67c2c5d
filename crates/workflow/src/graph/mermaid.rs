//! A workflow as a Mermaid flowchart.

use std::fmt::Write;

use super::{Graph, Node, NodeKind, printable};

pub(super) fn render(graph: &Graph) -> String {
    let mut text = "flowchart LR\n".to_owned();
    for (at, node) in graph.nodes.iter().enumerate() {
        let (open, close) = shape(node.kind);
        // Writing to a string cannot fail.
        let _ = writeln!(text, "  s{at}{open}\"{}\"{close}", label(node));
    }
    for arrow in &graph.arrows {
        let line = if arrow.is_error { "-.->" } else { "-->" };
        let label = match arrow.label.as_str() {
            "" => String::new(),
            label => format!("|\"{}\"|", escape(label)),
        };
        let _ = writeln!(text, "  s{} {line}{label} s{}", arrow.from, arrow.to);
    }
    text
}

fn shape(kind: NodeKind) -> (&'static str, &'static str) {
    match kind {
        NodeKind::Tool | NodeKind::Transform => ("[", "]"),
        NodeKind::Agent => ("([", "])"),
        NodeKind::Workflow => ("[[", "]]"),
        NodeKind::Branch => ("{", "}"),
        NodeKind::Wait => ("(", ")"),
        NodeKind::Person => ("[/", "/]"),
        NodeKind::Missing => (">", "]"),
    }
}

fn label(node: &Node) -> String {
    match node.kind {
        NodeKind::Missing => format!("{}<br/>missing", escape(&node.name)),
        _ => format!("{}<br/>{}", escape(&node.name), escape(&node.detail)),
    }
}

/// Writes characters that have a meaning in labels as the codes of Mermaid.
fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in printable(text).chars() {
        match c {
            '"' | '#' | '&' | '<' | '>' | ';' | '`' | '\\' | '|' | '(' | ')' | '[' | ']' | '{' | '}' | '*' | '%' => {
                let _ = write!(escaped, "#{};", u32::from(c));
            }
            c => escaped.push(c),
        }
    }
    escaped
}
