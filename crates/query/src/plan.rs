//! What a query asks for beside its filter.

use crate::{Condition, Projection, Query};

/// How a query is answered, and with what beside the documents.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    /// Whether related records are wanted.
    pub mode: Mode,
    /// The `expand(…)` of the query, in order.
    pub expand: Vec<Expansion>,
    /// The `fields:[…]` of the query; several add up.
    pub fields: Option<Projection>,
}

/// Whether a filter is all there is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// Documents as they are.
    Filter,
    /// Documents with related records put in.
    Aggregation,
}

/// One `expand(…)`.
#[derive(Debug, Clone, PartialEq)]
pub struct Expansion {
    /// As in `orders[*].lines`. Inside `field:{…}` it begins with that field.
    pub path: String,
    /// Which of the related records; all if there is none.
    pub filter: Option<Query>,
}

pub(crate) fn of(root: &Condition) -> Plan {
    let mut plan = Plan { mode: Mode::Filter, expand: Vec::new(), fields: None };
    collect(root, "", &mut plan);
    if !plan.expand.is_empty() {
        plan.mode = Mode::Aggregation;
    }
    plan
}

fn collect(condition: &Condition, within: &str, plan: &mut Plan) {
    match condition {
        Condition::All(parts) | Condition::Any(parts) => parts.iter().for_each(|part| collect(part, within, plan)),
        Condition::Not(inner) => collect(inner, within, plan),
        Condition::Element { field, inner } => collect(inner, &format!("{within}{field}[*]."), plan),
        Condition::Expand { path, filter } => {
            let filter = filter.as_ref().map(|filter| Query::of(filter.as_ref().clone()));
            plan.expand.push(Expansion { path: format!("{within}{path}"), filter });
        }
        Condition::Fields(fields) => plan.fields.get_or_insert_default().extend(within, fields),
        _ => {}
    }
}
