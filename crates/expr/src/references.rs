//! Finds the names that an expression refers to, without evaluating it.

use crate::syntax::{Node, NodeKind, PathSegment};

/// A path that an expression reads, such as `steps.1.items`. It ends before the first index or method call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reference<'e> {
    /// The first name of the path.
    pub root: &'e str,
    /// The fields after the first name.
    pub fields: Vec<&'e str>,
}

/// Returns the paths that a node reads, except those that start with the variable of a macro such as `list.map(x, …)`.
pub(crate) fn of_node(tree: &Node) -> Vec<Reference<'_>> {
    let mut collector = Collector { variables: Vec::new(), found: Vec::new() };
    collector.visit(tree);
    collector.found
}

struct Collector<'e> {
    /// The variables of the macros around the current node.
    variables: Vec<&'e str>,
    found: Vec<Reference<'e>>,
}

impl<'e> Collector<'e> {
    fn visit(&mut self, node: &'e Node) {
        match &node.kind {
            NodeKind::Literal(_) => {}
            NodeKind::Ident(name) => self.add(name, &[]),
            NodeKind::Path { root, segments } => {
                match &root.kind {
                    NodeKind::Ident(name) => self.add(name, segments),
                    _ => self.visit(root),
                }
                self.visit_all(segments.iter().filter_map(|segment| match segment {
                    PathSegment::Field(_) => None,
                    PathSegment::Index(node) => Some(node),
                }));
            }
            NodeKind::List(items) | NodeKind::And(items) | NodeKind::Or(items) => self.visit_all(items),
            NodeKind::Call { args, .. } => self.visit_all(args),
            NodeKind::Map(entries) => self.visit_all(entries.iter().flat_map(|(key, value)| [key, value])),
            NodeKind::Not { operand, .. } | NodeKind::Negate { operand, .. } | NodeKind::Has { operand, .. } => {
                self.visit(operand);
            }
            NodeKind::Matches { text, .. } => self.visit(text),
            NodeKind::BinaryChain { first, rest } => {
                self.visit(first);
                self.visit_all(rest.iter().map(|(_, node)| node));
            }
            NodeKind::Conditional { branches, otherwise } => {
                self.visit_all(branches.iter().flat_map(|(condition, value)| [condition, value]));
                self.visit(otherwise);
            }
            NodeKind::Comprehension(comprehension) => {
                self.visit(&comprehension.iterable);
                self.variables.push(&comprehension.variable);
                self.visit_all(comprehension.condition.iter().chain([&comprehension.body]));
                self.variables.pop();
            }
        }
    }

    fn visit_all(&mut self, nodes: impl IntoIterator<Item = &'e Node>) {
        nodes.into_iter().for_each(|node| self.visit(node));
    }

    fn add(&mut self, root: &'e str, segments: &'e [PathSegment]) {
        if self.variables.contains(&root) {
            return;
        }
        let fields = segments.iter().map_while(|segment| match segment {
            PathSegment::Field(name) => Some(&**name),
            PathSegment::Index(_) => None,
        });
        self.found.push(Reference { root, fields: fields.collect() });
    }
}

#[cfg(test)]
mod tests {
    use crate::Expression;

    #[test]
    fn references_contain_all_paths_except_those_of_macro_variables() {
        for (source, expected) in [
            ("steps.1.items", "steps.1.items"),
            ("steps.1.items[0].id", "steps.1.items"),
            ("a.b + c[d.e] * 2", "a.b c d.e"),
            ("steps.1.items.map(x, x.id + y)", "steps.1.items y"),
            ("has(a.b) ? [c] : {'k': d}", "a c d"),
            ("size(name) > 0 && !text.matches('x')", "name text"),
            ("1 + 2", ""),
        ] {
            let expression = Expression::parse(source).unwrap();
            let found: Vec<String> = expression
                .references()
                .iter()
                .map(|reference| [&[reference.root], reference.fields.as_slice()].concat().join("."))
                .collect();
            assert_eq!(found.join(" "), expected, "{source}");
        }
    }
}
