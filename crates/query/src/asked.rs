//! What of a document a query looks at: for those who must know before it is asked.

use crate::Condition;

/// The parts of a document that decide whether it is found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Asked {
    /// Paths with dots, without repetitions, in the order of the query. Inside `field:{…}` they begin with that field.
    pub fields: Vec<String>,
    /// Whether `text(…)` looks at all of it.
    pub whole: bool,
    /// Whether relations decide.
    pub related: bool,
}

pub(crate) fn of(root: &Condition) -> Asked {
    let mut asked = Asked::default();
    collect(root, "", &mut asked);
    asked
}

fn collect(condition: &Condition, within: &str, asked: &mut Asked) {
    match condition {
        Condition::All(parts) | Condition::Any(parts) => parts.iter().for_each(|part| collect(part, within, asked)),
        Condition::Not(inner) => collect(inner, within, asked),
        Condition::Element { field, inner } => {
            let field = format!("{within}{field}");
            collect(inner, &format!("{field}."), asked);
            asked.add(field);
        }
        Condition::Present(field)
        | Condition::Null { field, .. }
        | Condition::Truth { field, .. }
        | Condition::Equal { field, .. }
        | Condition::Refers { field, .. }
        | Condition::Order { field, .. }
        | Condition::Like { field, .. }
        | Condition::In { field, .. } => asked.add(format!("{within}{field}")),
        Condition::Text(_) => asked.whole = true,
        Condition::Edge { .. } => asked.related = true,
        // These decide nothing.
        Condition::Expand { .. } | Condition::Fields(_) => {}
    }
}

impl Asked {
    /// Whether nothing decides: every document is found.
    pub fn nothing(&self) -> bool {
        self.fields.is_empty() && !self.whole && !self.related
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
    fn fields_are_named_from_the_root() {
        let query = Query::parse(
            "a:1 && (b.c:~ || !!d:x*) && lines:{sku:^[a] && inner:{x:null}} && a:2 && expand(e, f:1) && text(w)",
        );
        let asked = query.unwrap().asked();
        assert_eq!(asked.fields, ["a", "b.c", "d", "lines.sku", "lines.inner.x", "lines.inner", "lines"]);
        assert!(asked.whole);
        assert!(!Query::parse("a:1").unwrap().asked().whole);
        assert!(Query::parse("hasEdge(a, b)").unwrap().asked().related);
        assert!(Query::parse("expand(a) || fields:[+a]").unwrap().asked().nothing());
    }
}
