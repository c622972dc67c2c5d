//! A workflow in the DOT language of Graphviz.

use std::fmt::Write;

use super::{Graph, Node, NodeKind, printable};

pub(super) fn render(graph: &Graph) -> String {
    let mut text = format!("digraph \"{}\" {{\n", escape(&graph.name));
    text.push_str("  rankdir=LR;\n  node [fontname=\"sans-serif\", shape=box, style=rounded];\n");
    for (at, node) in graph.nodes.iter().enumerate() {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "  s{at} [label=\"{}\"{}];", label(node), attributes(node.kind));
    }
    for arrow in &graph.arrows {
        let mut attributes = Vec::new();
        if !arrow.label.is_empty() {
            attributes.push(format!("label=\"{}\"", escape(&arrow.label)));
        }
        if arrow.is_error {
            attributes.push("style=dashed".to_owned());
        }
        let attributes = match attributes.is_empty() {
            true => String::new(),
            false => format!(" [{}]", attributes.join(", ")),
        };
        let _ = writeln!(text, "  s{} -> s{}{attributes};", arrow.from, arrow.to);
    }
    text.push_str("}\n");
    text
}

fn attributes(kind: NodeKind) -> &'static str {
    match kind {
        NodeKind::Tool | NodeKind::Transform => "",
        NodeKind::Agent => ", shape=oval",
        NodeKind::Workflow => ", peripheries=2",
        NodeKind::Branch => ", shape=diamond",
        NodeKind::Wait => ", shape=octagon",
        NodeKind::Person => ", shape=parallelogram",
        NodeKind::Missing => ", style=dotted",
    }
}

fn label(node: &Node) -> String {
    match node.kind {
        NodeKind::Missing => format!("{}\\nmissing", escape(&node.name)),
        _ => format!("{}\\n{}", escape(&node.name), escape(&node.detail)),
    }
}

fn escape(text: &str) -> String {
    printable(text).replace('\\', "\\\\").replace('"', "\\\"")
}
