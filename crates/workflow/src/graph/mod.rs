//! Draws a workflow as a graph in the formats Mermaid, DOT and SVG. The same definition gives the same text.

mod dot;
mod layout;
mod mermaid;
mod svg;

use std::collections::HashMap;
use std::fmt;
use std::str::FromStr;

use toolwright_types::{WorkflowDefinition, WorkflowStep};

use crate::edges::{EdgeKind, edges};

/// The maximum number of steps of an SVG image. Larger graphs are not readable.
pub const MAX_SVG_STEPS: usize = 2_000;

/// The workflow has too many steps for an SVG image.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("an SVG image must have at most {MAX_SVG_STEPS} steps, got {0}; use `mermaid` or `dot`")]
pub struct TooManySteps(usize);

/// The text is not the name of a format.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("must be `mermaid`, `dot` or `svg`, got `{0}`")]
pub struct UnknownFormat(String);

/// A format of a drawn graph.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum GraphFormat {
    /// A Mermaid flowchart.
    #[default]
    Mermaid,
    /// The DOT language of Graphviz.
    Dot,
    /// An SVG image.
    Svg,
}

impl GraphFormat {
    /// All formats.
    pub const ALL: [Self; 3] = [Self::Mermaid, Self::Dot, Self::Svg];

    /// The name of the format.
    pub fn as_str(self) -> &'static str {
        match self {
            GraphFormat::Mermaid => "mermaid",
            GraphFormat::Dot => "dot",
            GraphFormat::Svg => "svg",
        }
    }

    /// The media type of the format.
    pub fn media_type(self) -> &'static str {
        match self {
            GraphFormat::Mermaid => "text/plain; charset=utf-8",
            GraphFormat::Dot => "text/vnd.graphviz; charset=utf-8",
            GraphFormat::Svg => "image/svg+xml",
        }
    }
}

impl fmt::Display for GraphFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for GraphFormat {
    type Err = UnknownFormat;

    fn from_str(text: &str) -> Result<Self, UnknownFormat> {
        Self::ALL.into_iter().find(|format| format.as_str() == text).ok_or_else(|| UnknownFormat(text.to_owned()))
    }
}

/// Draws a workflow.
pub fn render(workflow: &WorkflowDefinition, format: GraphFormat) -> Result<String, TooManySteps> {
    let graph = Graph::new(workflow);
    match format {
        GraphFormat::Mermaid => Ok(mermaid::render(&graph)),
        GraphFormat::Dot => Ok(dot::render(&graph)),
        GraphFormat::Svg if graph.nodes.len() > MAX_SVG_STEPS => Err(TooManySteps(graph.nodes.len())),
        GraphFormat::Svg => Ok(svg::render(&graph)),
    }
}

/// The graph of a workflow.
struct Graph {
    /// The name of the workflow.
    name: String,
    nodes: Vec<Node>,
    arrows: Vec<Arrow>,
}

/// A node: a step, or a step that is named but does not exist.
struct Node {
    name: String,
    /// What the step calls, and how often. Empty for a missing step.
    detail: String,
    kind: NodeKind,
}

/// The kinds of nodes, which have different shapes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum NodeKind {
    /// A call of a tool, also through a step registration.
    Tool,
    Agent,
    Workflow,
    Branch,
    /// A join or a transformation.
    Transform,
    Wait,
    /// An approval or a form.
    Person,
    Missing,
}

impl NodeKind {
    fn of(handler: &str) -> Self {
        match handler {
            "quantum.ai.invokeAgent" => NodeKind::Agent,
            "quantum.workflows.execute" => NodeKind::Workflow,
            "quantum.flow.branch" => NodeKind::Branch,
            "quantum.flow.join" | "quantum.flow.transform" => NodeKind::Transform,
            "quantum.flow.sleep" | "quantum.flow.waitForSignal" => NodeKind::Wait,
            "quantum.flow.approval" | "quantum.flow.form" => NodeKind::Person,
            _ => NodeKind::Tool,
        }
    }
}

/// An edge between two nodes, by their positions.
struct Arrow {
    from: usize,
    to: usize,
    label: String,
    is_error: bool,
}

impl Graph {
    fn new(workflow: &WorkflowDefinition) -> Self {
        let mut nodes: Vec<Node> = Vec::with_capacity(workflow.steps.len());
        let mut positions: HashMap<String, usize> = HashMap::new();
        for step in &workflow.steps {
            positions.entry(step.name.clone()).or_insert(nodes.len());
            nodes.push(Node { name: step.name.clone(), detail: detail(step), kind: NodeKind::of(&step.handler_ref) });
        }
        let mut arrows = Vec::new();
        for edge in edges(workflow) {
            let [from, to] = [&edge.from, &edge.to].map(|name| {
                *positions.entry(name.clone()).or_insert_with(|| {
                    nodes.push(Node { name: name.clone(), detail: String::new(), kind: NodeKind::Missing });
                    nodes.len() - 1
                })
            });
            let is_error = matches!(edge.kind, EdgeKind::Error { .. });
            arrows.push(Arrow { from, to, label: edge.kind.label(), is_error });
        }
        Self { name: workflow.ref_name.to_string(), nodes, arrows }
    }
}

fn detail(step: &WorkflowStep) -> String {
    let mut detail = step.handler_ref.clone();
    if step.for_each.is_some() {
        detail.push_str(" (for each)");
    }
    if step.condition.is_some() || step.condition_ref.is_some() {
        detail.push_str(" (if)");
    }
    detail
}

/// Replaces control characters, which none of the formats can contain.
fn printable(text: &str) -> String {
    let is_invalid = |c: char| {
        c.is_control()
            || matches!(c, '\u{fffe}' | '\u{ffff}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
    };
    text.chars().map(|c| if is_invalid(c) { '\u{fffd}' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn workflow(steps: Value) -> WorkflowDefinition {
        serde_json::from_value(json!({ "refName": "orders/fulfil", "steps": steps })).unwrap()
    }

    fn example() -> WorkflowDefinition {
        workflow(json!([
            { "name": "load", "handlerRef": "crm/find@^1", "onError": { "fallback": "report" } },
            { "name": "route", "handlerRef": "quantum.flow.branch", "dependsOn": ["load"] },
            { "name": "ask", "handlerRef": "quantum.ai.invokeAgent", "dependsOn": ["route.large"], "condition": "${input.ok}" },
            { "name": "end", "handlerRef": "quantum.flow.join", "dependsOn": ["ask", "route.small"] },
            { "name": "report", "handlerRef": "notify", "forEach": "${input.people}" },
        ]))
    }

    #[test]
    fn mermaid_has_each_step_with_its_shape_and_each_edge_with_its_label() {
        let text = render(&example(), GraphFormat::Mermaid).unwrap();
        assert_eq!(
            text,
            "flowchart LR\n  s0[\"load<br/>crm/find@^1\"]\n  s1{\"route<br/>quantum.flow.branch\"}\n  s2([\"ask<br/>quantum.ai.invokeAgent #40;if#41;\"])\n  s3[\"end<br/>quantum.flow.join\"]\n  s4[\"report<br/>notify #40;for each#41;\"]\n  s0 -.->|\"error\"| s4\n  s0 --> s1\n  s1 -->|\"large\"| s2\n  s2 --> s3\n  s1 -->|\"small\"| s3\n"
        );
    }

    #[test]
    fn dot_has_each_step_and_each_edge() {
        let text = render(&example(), GraphFormat::Dot).unwrap();
        for expected in [
            "digraph \"orders/fulfil\" {\n",
            "  s1 [label=\"route\\nquantum.flow.branch\", shape=diamond];\n",
            "  s0 -> s4 [label=\"error\", style=dashed];\n",
            "  s2 -> s3;\n",
        ] {
            assert!(text.contains(expected), "{expected} is missing in\n{text}");
        }
        assert!(text.ends_with("}\n"));
    }

    #[test]
    fn svg_places_each_step_after_the_steps_that_lead_to_it() {
        let text = render(&example(), GraphFormat::Svg).unwrap();
        let x_of = |name: &str| -> i64 {
            let group =
                text.split("<g class=\"node").find(|group| group.contains(&format!("<title>{name}\n"))).unwrap();
            group.split("<rect x=\"").nth(1).and_then(|rest| rest.split('"').next()).unwrap().parse().unwrap()
        };
        assert!(x_of("load") < x_of("route") && x_of("route") < x_of("ask") && x_of("ask") < x_of("end"));
        assert!(x_of("load") < x_of("report"));
        assert_eq!(text.matches("<path class=\"edge").count(), 5);
        assert!(text.contains("prefers-color-scheme: dark"));
        assert_eq!(render(&example(), GraphFormat::Svg).unwrap(), text);
    }

    #[test]
    fn texts_cannot_leave_their_place() {
        let name = "a\"]; b --> c<script>alert(1)</script>&\\`#quot;\n%% \u{202e}]]>";
        let hostile = workflow(json!([{ "name": name, "handlerRef": name, "onError": { "fallback": name } },
            { "name": "b", "handlerRef": "x", "dependsOn": [format!("{}.{}", "b", name)] }]));
        let mermaid = render(&hostile, GraphFormat::Mermaid).unwrap();
        assert!(!mermaid.contains("<script") && !mermaid.contains("\"]; b"), "{mermaid}");
        let svg = render(&hostile, GraphFormat::Svg).unwrap();
        assert!(!svg.contains("<script") && !svg.contains("]]>") && svg.contains("&lt;script&gt;"), "{svg}");
        let dot = render(&hostile, GraphFormat::Dot).unwrap();
        // Each quotation mark of a text is escaped, so the number of lines is not changed by the text.
        assert!(dot.lines().count() == 8 && dot.contains(r#"a\"]; b"#), "{dot}");
        for text in [mermaid, svg, dot] {
            assert!(!text.contains('\u{202e}'), "{text}");
        }
    }

    #[test]
    fn invalid_graphs_are_drawn_too() {
        let cyclic = workflow(json!([
            { "name": "a", "handlerRef": "x", "dependsOn": ["b", "missing", "a"] },
            { "name": "b", "handlerRef": "x", "dependsOn": ["a"] },
            { "name": "a", "handlerRef": "y" },
        ]));
        for format in GraphFormat::ALL {
            let text = render(&cyclic, format).unwrap();
            assert!(text.contains("missing"), "{format}: {text}");
        }
        for format in GraphFormat::ALL {
            assert!(!render(&workflow(json!([])), format).unwrap().is_empty());
        }
    }

    #[test]
    fn large_graph_is_drawn_as_text_and_refused_as_an_image() {
        let chain = |count: usize| {
            let step = |at: usize| {
                json!({ "name": format!("s{at}"), "handlerRef": "x",
                "dependsOn": (at > 0).then(|| vec![format!("s{}", at - 1), "s0".to_owned()]) })
            };
            workflow((0..count).map(step).collect())
        };
        let large = chain(10_000);
        assert!(render(&large, GraphFormat::Mermaid).is_ok() && render(&large, GraphFormat::Dot).is_ok());
        assert_eq!(render(&large, GraphFormat::Svg), Err(TooManySteps(10_000)));
        assert_eq!(
            render(&chain(MAX_SVG_STEPS), GraphFormat::Svg).unwrap().matches("<g class=\"node").count(),
            MAX_SVG_STEPS
        );
    }

    #[test]
    fn name_of_a_format_is_parsed() {
        for format in GraphFormat::ALL {
            assert_eq!(format.to_string().parse(), Ok(format));
        }
        assert_eq!("png".parse::<GraphFormat>(), Err(UnknownFormat("png".to_owned())));
    }
}
