//! What a query asks for, in words.

use super::test::{Predicate, Test};
use super::{Condition, Link, Query};
use crate::model::Value;
use crate::print::print_value;

pub(super) fn sentences(query: &Query) -> Vec<String> {
    let name = |variable: usize| match query.variables.get(variable) {
        Some(Some(name)) => format!("`{name}`"),
        _ => format!("thing {}", variable + 1),
    };
    let wanted = of_condition(&query.wanted, &name);
    let unwanted = query.unwanted.iter().map(|condition| {
        let parts = of_condition(condition, &name);
        format!("it is not so that {}", parts.join(" and "))
    });
    wanted.into_iter().chain(unwanted).collect()
}

fn of_condition(condition: &Condition, name: &impl Fn(usize) -> String) -> Vec<String> {
    let tests = condition.tests.iter().map(|(variable, test)| format!("{} {}", name(*variable), of_test(test)));
    let links = condition.links.iter().map(|link| match link {
        Link::Contains { whole, part } => format!("{} is an element of {}", name(*part), name(*whole)),
        Link::Related { relation, from, to, either_way } => {
            let direction = if *either_way { "between" } else { "from" };
            let and = if *either_way { "and" } else { "to" };
            format!("{} is a relation {direction} {} {and} {}", name(*relation), name(*from), name(*to))
        }
        Link::Reaches { from, to, through: None } => format!("{} reaches {}", name(*from), name(*to)),
        Link::Reaches { from, to, through: Some(test) } => {
            format!("{} reaches {} through relations, each of which {}", name(*from), name(*to), of_test(test))
        }
    });
    tests.chain(links).collect()
}

fn of_test(test: &Test) -> String {
    let identity = test.identity.iter().map(|identity| format!("is `{identity}`"));
    let labels = test.labels.iter().map(|label| format!("has the label `{label}`"));
    let properties = test.properties.iter().map(|(key, predicate)| of_predicate(key, predicate));
    let parts: Vec<String> = identity.chain(labels).chain(properties).collect();
    if parts.is_empty() { "is anything".to_owned() } else { parts.join(" and ") }
}

fn of_predicate(key: &str, predicate: &Predicate) -> String {
    match predicate {
        Predicate::Equals(value) => format!("has `{key}` {}", print_value(value)),
        Predicate::Absent => format!("has no `{key}`"),
        Predicate::Present => format!("has a `{key}`"),
        Predicate::Within(range) => {
            format!("has `{key}` within {}", print_value(&Value::Scalar(crate::model::Scalar::Range(range.clone()))))
        }
        Predicate::OneOf(values) => format!("has `{key}` out of {}", print_value(&Value::Array(values.clone()))),
        Predicate::Not(text) => format!("has no `{key}` \"{text}\""),
        Predicate::Contains(text) => format!("has `{key}` with \"{text}\" in it"),
        Predicate::Starts(text) => format!("has `{key}` starting with \"{text}\""),
        Predicate::Ends(text) => format!("has `{key}` ending with \"{text}\""),
    }
}
