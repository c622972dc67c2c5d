//! A workflow as an SVG image, in the colours of the reader: light or dark.

use std::fmt::Write;

use super::layout::{Layout, NODE_HEIGHT, NODE_WIDTH, layout};
use super::{Graph, Node, NodeKind, printable};

/// The maximum number of characters of a text in a node. The complete text is in the title of the node.
const MAX_CHARS: usize = 26;

const STYLE: &str = "\
.back{fill:#fff}.node rect{fill:#f6f8fa;stroke:#57606a;stroke-width:1.2}.node text{fill:#1f2328}.node .detail{fill:#59636e;font-size:11px}\
.agent rect{fill:#ddf4ff;stroke:#0969da}.workflow rect{fill:#fbefff;stroke:#8250df}.branch rect{fill:#fff8c5;stroke:#9a6700}\
.wait rect{fill:#f6f8fa;stroke-dasharray:2 3}.person rect{fill:#dafbe1;stroke:#1a7f37}.missing rect{fill:none;stroke:#cf222e;stroke-dasharray:4 3}\
.edge{fill:none;stroke:#57606a;stroke-width:1.4}.error{stroke:#cf222e;stroke-dasharray:5 4}.head{fill:#57606a}.error-head{fill:#cf222e}\
.label{fill:#59636e;font-size:11px;paint-order:stroke;stroke:#fff;stroke-width:4px;stroke-linejoin:round}\
text{font:13px system-ui,sans-serif}\
@media (prefers-color-scheme: dark){.back{fill:#0d1117}.node rect{fill:#161b22;stroke:#8b949e}.node text{fill:#e6edf3}.node .detail{fill:#9198a1}\
.agent rect{fill:#0c2d6b;stroke:#58a6ff}.workflow rect{fill:#3c1e70;stroke:#bc8cff}.branch rect{fill:#4b2900;stroke:#d29922}\
.person rect{fill:#033a16;stroke:#3fb950}.missing rect{fill:none;stroke:#f85149}\
.edge{stroke:#8b949e}.error{stroke:#f85149}.head{fill:#8b949e}.error-head{fill:#f85149}.label{fill:#9198a1;stroke:#0d1117}}";

pub(super) fn render(graph: &Graph) -> String {
    let placed = layout(graph);
    let Layout { width, height, .. } = placed;
    // Writing to a string cannot fail.
    let mut text = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" viewBox=\"0 0 {width} {height}\" role=\"img\">\n"
    );
    let _ = writeln!(text, "<title>{}</title>\n<style>{STYLE}</style>", escape(&graph.name));
    let _ = writeln!(text, "<defs>{}{}</defs>", marker("arrow", "head"), marker("error-arrow", "error-head"));
    let _ = writeln!(text, "<rect class=\"back\" width=\"{width}\" height=\"{height}\"/>");
    for (arrow, points) in graph.arrows.iter().zip(&placed.arrows) {
        let (class, head) = if arrow.is_error { ("edge error", "error-arrow") } else { ("edge", "arrow") };
        let _ = writeln!(text, "<path class=\"{class}\" d=\"{}\" marker-end=\"url(#{head})\"/>", curve(points));
    }
    for (arrow, points) in graph.arrows.iter().zip(&placed.arrows).filter(|(arrow, _)| !arrow.label.is_empty()) {
        if let [(x1, y1), (x2, y2), ..] = points.as_slice() {
            let (x, y) = ((x1 + x2) / 2, (y1 + y2) / 2 - 3);
            let label = escape(&shortened(&arrow.label));
            let _ = writeln!(text, "<text class=\"label\" x=\"{x}\" y=\"{y}\" text-anchor=\"middle\">{label}</text>");
        }
    }
    for (node, position) in graph.nodes.iter().zip(&placed.nodes) {
        draw_node(&mut text, node, *position);
    }
    text.push_str("</svg>\n");
    text
}

fn marker(id: &str, class: &str) -> String {
    format!(
        "<marker id=\"{id}\" viewBox=\"0 0 10 10\" refX=\"9\" refY=\"5\" markerWidth=\"7\" markerHeight=\"7\" orient=\"auto\"><path class=\"{class}\" d=\"M0 0L10 5L0 10z\"/></marker>"
    )
}

/// A smooth line through points, which leaves and enters them horizontally.
fn curve(points: &[(i64, i64)]) -> String {
    let mut path = String::new();
    if let Some((x, y)) = points.first() {
        let _ = write!(path, "M{x} {y}");
    }
    for pair in points.windows(2) {
        if let [(x1, y1), (x2, y2)] = pair {
            let middle = (x1 + x2) / 2;
            let _ = write!(path, "C{middle} {y1} {middle} {y2} {x2} {y2}");
        }
    }
    path
}

fn draw_node(text: &mut String, node: &Node, (x, y): (i64, i64)) {
    let detail = match node.kind {
        NodeKind::Missing => "missing",
        _ => node.detail.as_str(),
    };
    let radius = if node.kind == NodeKind::Agent { NODE_HEIGHT / 2 } else { 6 };
    let center = x + NODE_WIDTH / 2;
    let _ = writeln!(
        text,
        "<g class=\"node {}\"><title>{}\n{}</title><rect x=\"{x}\" y=\"{y}\" width=\"{NODE_WIDTH}\" height=\"{NODE_HEIGHT}\" rx=\"{radius}\"/>",
        class(node.kind),
        escape(&node.name),
        escape(detail)
    );
    let (name, detail) = (escape(&shortened(&node.name)), escape(&shortened(detail)));
    let _ = writeln!(text, "<text x=\"{center}\" y=\"{}\" text-anchor=\"middle\">{name}</text>", y + 20);
    let _ = writeln!(
        text,
        "<text class=\"detail\" x=\"{center}\" y=\"{}\" text-anchor=\"middle\">{detail}</text></g>",
        y + 37
    );
}

fn class(kind: NodeKind) -> &'static str {
    match kind {
        NodeKind::Tool => "tool",
        NodeKind::Agent => "agent",
        NodeKind::Workflow => "workflow",
        NodeKind::Branch => "branch",
        NodeKind::Transform => "transform",
        NodeKind::Wait => "wait",
        NodeKind::Person => "person",
        NodeKind::Missing => "missing",
    }
}

fn shortened(text: &str) -> String {
    match text.chars().nth(MAX_CHARS) {
        Some(_) => text.chars().take(MAX_CHARS - 1).chain(['…']).collect(),
        None => text.to_owned(),
    }
}

fn escape(text: &str) -> String {
    let text = printable(text).replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    text.replace('"', "&quot;").replace('\'', "&#39;")
}
