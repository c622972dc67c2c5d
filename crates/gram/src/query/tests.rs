//! Compares the results of the search with a brute-force search that tries every item for every variable.

use std::collections::BTreeSet;

use proptest::prelude::*;

use super::filter::PatternFilter;
use super::graph::{Graph, ItemId};
use super::{Condition, Link, Query};

/// Generates nodes, relations and brackets. They use only a few names, so that many of them are occurrences of the same
/// item.
fn texts() -> impl Strategy<Value = String> {
    let node = "\\(:[AB]\\)|\\([a-d]\\)|\\([a-d]:[AB]\\)";
    let relation = "\\([a-d]\\)-(\\[:[RS]\\]-)?>\\([a-d]\\)"
        .prop_map(|text| if text.contains('[') { text } else { text.replace("->", "-->") });
    let bracket = "\\[[a-d]:[AB] \\| [a-d], \\([a-d]\\), \\(:A\\)\\]";
    let child = prop_oneof![1 => node, 2 => relation, 1 => bracket];
    prop::collection::vec(child, 1..7).prop_map(|parts| parts.join("\n"))
}

fn queries() -> impl Strategy<Value = String> {
    let link = "\\([xyz]?(:[AB])?\\)(-->|<--|--|-\\[:R\\]->|==>|<==|=\\[:S\\]=>)\\([xyz]?(:[AB])?\\)";
    let child = prop_oneof![4 => link, 1 => "\\[[xyz] \\| \\([xyz]?(:[AB])?\\)\\]", 1 => "\\([xyz](:[AB])?\\)", 1 => "\\(`[a-d]`\\)"];
    let excluded = prop::option::of(link.prop_map(|link| format!("@@not {link}")));
    (prop::collection::vec(child, 1..3), excluded)
        .prop_map(|(parts, excluded)| format!("{}\n{}", parts.join("\n"), excluded.unwrap_or_default()))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn search_finds_the_same_matches_as_brute_force(text in texts(), query in queries()) {
        let pattern = crate::parse(&text).unwrap();
        let graph = Graph::from_patterns([&pattern]);
        let query = Query::parse(&query).unwrap();
        prop_assume!(graph.len().pow(u32::try_from(query.variables.len()).unwrap()) < 300_000);

        let names: Vec<&str> = query.variables().collect();
        let found = query.run(&graph).unwrap();
        let found: BTreeSet<Vec<ItemId>> =
            found.iter().map(|found| names.iter().map(|name| found.item_id(name).unwrap()).collect()).collect();
        prop_assert_eq!(found, brute_force(&query, &graph));
    }
}

fn brute_force(query: &Query, graph: &Graph) -> BTreeSet<Vec<ItemId>> {
    let mut matches = BTreeSet::new();
    let mut bound = vec![None; query.variables.len()];
    for_each_binding(&query.required, graph, &mut bound, &mut |bound| {
        let is_unwanted = query.excluded.iter().any(|condition| {
            let mut found = false;
            for_each_binding(condition, graph, &mut bound.to_vec(), &mut |_| found = true);
            found
        });
        if !is_unwanted {
            let named = query.required.variables.iter().filter(|variable| query.variables[**variable].is_some());
            matches.insert(named.map(|variable| bound[*variable].unwrap()).collect());
        }
    });
    matches
}

/// Calls `found` for each assignment of items to the unbound variables that satisfies the condition.
fn for_each_binding(
    condition: &Condition,
    graph: &Graph,
    bound: &mut Vec<Option<ItemId>>,
    found: &mut dyn FnMut(&[Option<ItemId>]),
) {
    match condition.variables.iter().find(|variable| bound[**variable].is_none()) {
        Some(variable) => {
            for id in graph.all() {
                bound[*variable] = Some(id);
                for_each_binding(condition, graph, bound, found);
            }
            bound[*variable] = None;
        }
        None if holds(condition, graph, bound) => found(bound),
        None => {}
    }
}

fn holds(condition: &Condition, graph: &Graph, bound: &[Option<ItemId>]) -> bool {
    let id = |variable: usize| bound[variable].unwrap();
    let passes = |filter: &PatternFilter, id: ItemId| filter.matches(graph.item(id).unwrap().pattern());
    condition.filters.iter().all(|(variable, filter)| passes(filter, id(*variable)))
        && condition.links.iter().all(|link| match link {
            Link::Contains { parent, child } => graph.elements(id(*parent)).contains(&id(*child)),
            Link::Related { relation, from, to, undirected } => {
                let (relation, from, to) = (id(*relation), id(*from), id(*to));
                let leads = |from, to| graph.outgoing(from).contains(&(relation, to));
                leads(from, to) || (*undirected && leads(to, from))
            }
            Link::Reaches { from, to, through } => reaches(graph, id(*from), id(*to), through.as_ref()),
        })
}

/// Returns whether `to` can be reached from `from`. Starts with the neighbours of `from` and adds the neighbours of all
/// reached items, until no new items are found.
fn reaches(graph: &Graph, from: ItemId, to: ItemId, through: Option<&PatternFilter>) -> bool {
    let neighbours = |id: ItemId| {
        let parts = graph.elements(id).iter().copied().filter(|_| through.is_none());
        let is_edge =
            |relation: ItemId| through.is_none_or(|filter| filter.matches(graph.item(relation).unwrap().pattern()));
        let edges = graph.outgoing(id).iter().filter(|(relation, _)| is_edge(*relation)).map(|(_, end)| *end);
        parts.chain(edges).collect::<Vec<ItemId>>()
    };
    let mut reached: BTreeSet<ItemId> = neighbours(from).into_iter().collect();
    loop {
        let more: BTreeSet<ItemId> =
            reached.iter().flat_map(|id| neighbours(*id)).chain(reached.iter().copied()).collect();
        if more.len() == reached.len() {
            return reached.contains(&to);
        }
        reached = more;
    }
}
