//! The parts of a document that a query depends on, for access checks before the query is evaluated.

use crate::Condition;

/// The parts of a document that determine whether it matches.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Dependencies {
    /// The field paths without duplicates, in the order of the query. A path inside `field:{…}` begins with `field`.
    pub fields: Vec<String>,
    /// Whether `text(…)` searches the whole document.
    pub full_text: bool,
    /// Whether the query depends on relations.
    pub relations: bool,
}

pub(crate) fn from_condition(root: &Condition) -> Dependencies {
    let mut dependencies = Dependencies::default();
    collect(root, "", &mut dependencies);
    dependencies
}

fn collect(condition: &Condition, within: &str, dependencies: &mut Dependencies) {
    match condition {
        Condition::And(parts) | Condition::Or(parts) => {
            parts.iter().for_each(|part| collect(part, within, dependencies))
        }
        Condition::Not(inner) => collect(inner, within, dependencies),
        Condition::Element { field, inner } => {
            let field = format!("{within}{field}");
            collect(inner, &format!("{field}."), dependencies);
            dependencies.add(field);
        }
        Condition::Present(field)
        | Condition::Null { field, .. }
        | Condition::Bool { field, .. }
        | Condition::Equal { field, .. }
        | Condition::Reference { field, .. }
        | Condition::Compare { field, .. }
        | Condition::Like { field, .. }
        | Condition::In { field, .. } => dependencies.add(format!("{within}{field}")),
        Condition::Text(_) => dependencies.full_text = true,
        Condition::Edge { .. } => dependencies.relations = true,
        // These conditions do not filter documents, so matching does not depend on their fields.
        Condition::Expand { .. } | Condition::Fields(_) => {}
    }
}

impl Dependencies {
    /// Whether the query matches every document, because it has no filtering condition.
    pub fn is_empty(&self) -> bool {
        self.fields.is_empty() && !self.full_text && !self.relations
    }

    fn add(&mut self, field: String) {
        if !self.fields.contains(&field) {
            self.fields.push(field);
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::Query;

    #[test]
    fn dependencies_contain_the_filtered_fields_and_flags_for_relations_and_full_text() {
        let query = Query::parse(
            "a:1 && (b.c:~ || !!d:x*) && lines:{sku:^[a] && inner:{x:null}} && a:2 && expand(e, f:1) && text(w)",
        );
        let dependencies = query.unwrap().dependencies();
        assert_eq!(dependencies.fields, ["a", "b.c", "d", "lines.sku", "lines.inner.x", "lines.inner", "lines"]);
        assert!(dependencies.full_text);
        assert!(!Query::parse("a:1").unwrap().dependencies().full_text);
        assert!(Query::parse("hasEdge(a, b)").unwrap().dependencies().relations);
        assert!(Query::parse("expand(a) || fields:[+a]").unwrap().dependencies().is_empty());
    }
}
