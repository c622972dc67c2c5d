//! The search against the definition of an answer: every way to give each variable a thing is tried.

use std::collections::BTreeSet;

use proptest::prelude::*;

use super::graph::{Graph, Item};
use super::test::Test;
use super::{Condition, Link, Query};

/// Nodes, relations and brackets over few names, so that they meet.
fn texts() -> impl Strategy<Value = String> {
    let node = "\\(:[AB]\\)|\\([a-d]\\)|\\([a-d]:[AB]\\)";
    let relation = "\\([a-d]\\)-(\\[:[RS]\\]-)?>\\([a-d]\\)"
        .prop_map(|text| if text.contains('[') { text } else { text.replace("->", "-->") });
    let bracket = "\\[[a-d]:[AB] \\| [a-d], \\([a-d]\\), \\(:A\\)\\]";
    let part = prop_oneof![1 => node, 2 => relation, 1 => bracket];
    prop::collection::vec(part, 1..7).prop_map(|parts| parts.join("\n"))
}

fn queries() -> impl Strategy<Value = String> {
    let link = "\\([xyz]?(:[AB])?\\)(-->|<--|--|-\\[:R\\]->|==>|<==|=\\[:S\\]=>)\\([xyz]?(:[AB])?\\)";
    let part = prop_oneof![4 => link, 1 => "\\[[xyz] \\| \\([xyz]?(:[AB])?\\)\\]", 1 => "\\([xyz](:[AB])?\\)", 1 => "\\(`[a-d]`\\)"];
    let unwanted = prop::option::of(link.prop_map(|link| format!("@@not {link}")));
    (prop::collection::vec(part, 1..3), unwanted)
        .prop_map(|(parts, unwanted)| format!("{}\n{}", parts.join("\n"), unwanted.unwrap_or_default()))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn the_search_finds_what_the_definition_says(text in texts(), query in queries()) {
        let pattern = crate::parse(&text).unwrap();
        let graph = Graph::of([&pattern]);
        let query = Query::parse(&query).unwrap();
        prop_assume!(graph.len().pow(u32::try_from(query.variables.len()).unwrap()) < 300_000);

        let names: Vec<&str> = query.variables().collect();
        let found = query.run(&graph).unwrap();
        let found: BTreeSet<Vec<Item>> =
            found.iter().map(|found| names.iter().map(|name| found.item(name).unwrap()).collect()).collect();
        prop_assert_eq!(found, by_definition(&query, &graph));
    }
}

fn by_definition(query: &Query, graph: &Graph) -> BTreeSet<Vec<Item>> {
    let mut answers = BTreeSet::new();
    let mut bound = vec![None; query.variables.len()];
    each(&query.wanted, graph, &mut bound, &mut |bound| {
        let is_unwanted = query.unwanted.iter().any(|condition| {
            let mut found = false;
            each(condition, graph, &mut bound.to_vec(), &mut |_| found = true);
            found
        });
        if !is_unwanted {
            let named = query.wanted.variables.iter().filter(|variable| query.variables[**variable].is_some());
            answers.insert(named.map(|variable| bound[*variable].unwrap()).collect());
        }
    });
    answers
}

/// Calls `found` for each way to bind the open variables of a condition so that it holds.
fn each(condition: &Condition, graph: &Graph, bound: &mut Vec<Option<Item>>, found: &mut dyn FnMut(&[Option<Item>])) {
    match condition.variables.iter().find(|variable| bound[**variable].is_none()) {
        Some(variable) => {
            for item in graph.all() {
                bound[*variable] = Some(item);
                each(condition, graph, bound, found);
            }
            bound[*variable] = None;
        }
        None if holds(condition, graph, bound) => found(bound),
        None => {}
    }
}

fn holds(condition: &Condition, graph: &Graph, bound: &[Option<Item>]) -> bool {
    let item = |variable: usize| bound[variable].unwrap();
    let passes = |test: &Test, item: Item| test.accepts(graph.thing(item).unwrap().pattern());
    condition.tests.iter().all(|(variable, test)| passes(test, item(*variable)))
        && condition.links.iter().all(|link| match link {
            Link::Contains { whole, part } => graph.elements(item(*whole)).contains(&item(*part)),
            Link::Related { relation, from, to, either_way } => {
                let (relation, from, to) = (item(*relation), item(*from), item(*to));
                let leads = |from, to| graph.outgoing(from).contains(&(relation, to));
                leads(from, to) || (*either_way && leads(to, from))
            }
            Link::Reaches { from, to, through } => reaches(graph, item(*from), item(*to), through.as_ref()),
        })
}

/// Grows the set of what can be reached until it grows no more.
fn reaches(graph: &Graph, from: Item, to: Item, through: Option<&Test>) -> bool {
    let step = |item: Item| {
        let parts = graph.elements(item).iter().copied().filter(|_| through.is_none());
        let is_way = |relation: Item| through.is_none_or(|test| test.accepts(graph.thing(relation).unwrap().pattern()));
        let ways = graph.outgoing(item).iter().filter(|(relation, _)| is_way(*relation)).map(|(_, end)| *end);
        parts.chain(ways).collect::<Vec<Item>>()
    };
    let mut reached: BTreeSet<Item> = step(from).into_iter().collect();
    loop {
        let more: BTreeSet<Item> = reached.iter().flat_map(|item| step(*item)).chain(reached.iter().copied()).collect();
        if more.len() == reached.len() {
            return reached.contains(&to);
        }
        reached = more;
    }
}
