//! Describes a query in English sentences.

use super::filter::{PatternFilter, Predicate};
use super::{Condition, Link, Query};
use crate::model::Value;
use crate::print::print_value;

pub(super) fn describe(query: &Query) -> Vec<String> {
    let name = |variable: usize| match query.variables.get(variable) {
        Some(Some(name)) => format!("`{name}`"),
        _ => format!("item {}", variable + 1),
    };
    let required = describe_condition(&query.required, &name);
    let excluded = query.excluded.iter().map(|condition| {
        let clauses = describe_condition(condition, &name);
        format!("there is no match in which {}", clauses.join(" and "))
    });
    required.into_iter().chain(excluded).collect()
}

fn describe_condition(condition: &Condition, name: &impl Fn(usize) -> String) -> Vec<String> {
    let filters =
        condition.filters.iter().map(|(variable, filter)| format!("{} {}", name(*variable), describe_filter(filter)));
    let links = condition.links.iter().map(|link| match link {
        Link::Contains { parent, child } => format!("{} is an element of {}", name(*child), name(*parent)),
        Link::Related { relation, from, to, undirected } => {
            let direction = if *undirected { "between" } else { "from" };
            let and = if *undirected { "and" } else { "to" };
            format!("{} is a relation {direction} {} {and} {}", name(*relation), name(*from), name(*to))
        }
        Link::Reaches { from, to, through: None } => format!("{} reaches {}", name(*from), name(*to)),
        Link::Reaches { from, to, through: Some(filter) } => {
            format!(
                "{} reaches {} through relations, each of which {}",
                name(*from),
                name(*to),
                describe_filter(filter)
            )
        }
    });
    filters.chain(links).collect()
}

fn describe_filter(filter: &PatternFilter) -> String {
    let identity = filter.identity.iter().map(|identity| format!("is `{identity}`"));
    let labels = filter.labels.iter().map(|label| format!("has the label `{label}`"));
    let properties = filter.properties.iter().map(|(key, predicate)| describe_predicate(key, predicate));
    let clauses: Vec<String> = identity.chain(labels).chain(properties).collect();
    if clauses.is_empty() { "matches anything".to_owned() } else { clauses.join(" and ") }
}

fn describe_predicate(key: &str, predicate: &Predicate) -> String {
    match predicate {
        Predicate::Equals(value) => format!("has `{key}` {}", print_value(value)),
        Predicate::Absent => format!("has no `{key}`"),
        Predicate::Present => format!("has a `{key}`"),
        Predicate::Within(range) => {
            format!("has `{key}` within {}", print_value(&Value::Scalar(crate::model::Scalar::Range(range.clone()))))
        }
        Predicate::OneOf(values) => {
            format!("has `{key}` equal to one of {}", print_value(&Value::Array(values.clone())))
        }
        Predicate::Not(text) => format!("has no `{key}` \"{text}\""),
        Predicate::Contains(text) => format!("has `{key}` containing \"{text}\""),
        Predicate::Starts(text) => format!("has `{key}` starting with \"{text}\""),
        Predicate::Ends(text) => format!("has `{key}` ending with \"{text}\""),
    }
}
