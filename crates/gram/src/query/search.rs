//! Finds the matches of a query with a backtracking search.

use std::sync::Arc;

use super::filter::PatternFilter;
use super::graph::{Edge, Graph, ItemId};
use super::search_order::{CandidateSource, SearchOrder};
use super::{Condition, Link, Match, Query, QueryLimitExceeded};

/// The maximum cost of a query in search steps. A query with this cost takes about one second.
const MAX_COST: u64 = 20_000_000;

/// The cost of one match in search steps. Matches are kept in memory, and this cost limits the number of matches to
/// 100,000.
const COST_PER_MATCH: usize = 200;

pub(super) fn find_matches<'g>(query: &Query, graph: &'g Graph) -> Result<Vec<Match<'g>>, QueryLimitExceeded> {
    let mut search = Search::new(graph, query.variables.len());
    let order_of = |condition, known: &[usize]| {
        SearchOrder::new(condition, known, |variable| search.candidates(condition, variable))
    };
    let order = order_of(&query.required, &[]);
    let excluded: Vec<(&Condition, SearchOrder)> =
        query.excluded.iter().map(|condition| (condition, order_of(condition, &query.required.variables))).collect();
    let is_named = |variable: &&usize| query.variables.get(**variable).is_some_and(Option::is_some);
    let named: Vec<usize> = query.required.variables.iter().filter(is_named).copied().collect();

    let mut solutions: Vec<Box<[ItemId]>> = Vec::new();
    search.solve(&query.required, &order, 0, &mut |search| {
        for (condition, order) in &excluded {
            if search.is_found(condition, order)? {
                return Ok(true);
            }
        }
        search.charge(COST_PER_MATCH)?;
        solutions.push(named.iter().filter_map(|variable| search.bound(*variable)).collect());
        Ok(true)
    })?;
    solutions.sort_unstable();
    solutions.dedup();
    Ok(to_matches(query, graph, &named, &solutions))
}

fn to_matches<'g>(query: &Query, graph: &'g Graph, named: &[usize], solutions: &[Box<[ItemId]>]) -> Vec<Match<'g>> {
    let names = named.iter().filter_map(|variable| query.variables.get(*variable)?.clone());
    let mut names: Vec<(String, usize)> = names.zip(0..).collect();
    names.sort();
    let columns: Vec<usize> = names.iter().map(|(_, column)| *column).collect();
    let names: Arc<[String]> = names.into_iter().map(|(name, _)| name).collect();
    let item = |id: ItemId| graph.item(id).map(|item| (id, item.pattern()));
    let found = |solution: &[ItemId]| columns.iter().filter_map(|column| item(*solution.get(*column)?)).collect();
    solutions.iter().map(|solution| Match { names: Arc::clone(&names), found: found(solution) }).collect()
}

/// A callback for each solution. The search ends if the callback returns `false`.
type OnSolution<'f, 'g, 'p> = dyn FnMut(&mut Search<'g, 'p>) -> Result<bool, QueryLimitExceeded> + 'f;

struct Search<'g, 'p> {
    graph: &'g Graph<'p>,
    /// The item that is bound to each variable; `None` for an unbound variable.
    bound: Vec<Option<ItemId>>,
    /// For each item, the number of the traversal that visited it last. An item is visited at most once per traversal.
    seen: Vec<u32>,
    traversal: u32,
    cost: u64,
}

impl<'g, 'p> Search<'g, 'p> {
    fn new(graph: &'g Graph<'p>, variables: usize) -> Self {
        Self { graph, bound: vec![None; variables], seen: vec![0; graph.len()], traversal: 0, cost: 0 }
    }

    fn is_found(&mut self, condition: &Condition, order: &SearchOrder) -> Result<bool, QueryLimitExceeded> {
        for filter in &order.initial_checks.filters {
            let Some((variable, filter)) = condition.filters.get(*filter) else { continue };
            if !self.bound(*variable).is_some_and(|id| self.passes(&[filter], id)) {
                return Ok(false);
            }
        }
        if !self.links_hold(condition, &order.initial_checks.links)? {
            return Ok(false);
        }
        let mut found = false;
        self.solve(condition, order, 0, &mut |_| {
            found = true;
            Ok(false)
        })?;
        Ok(found)
    }

    /// Tries all items for the variable of the lookup at index `next`, and for the variables of all later lookups.
    /// Returns `false` if the callback ended the search.
    fn solve(
        &mut self,
        condition: &Condition,
        order: &SearchOrder,
        next: usize,
        found: &mut OnSolution<'_, 'g, 'p>,
    ) -> Result<bool, QueryLimitExceeded> {
        let Some(lookup) = order.lookups.get(next) else { return found(self) };
        let reached;
        let ids = match &lookup.source {
            CandidateSource::Candidates(ids) => ids,
            CandidateSource::Link(link) => {
                reached = self.linked_candidates(condition, *link, lookup.variable)?;
                &reached
            }
        };
        let mut keep_searching = true;
        for id in ids {
            self.charge(1)?;
            self.bind(lookup.variable, Some(*id));
            if self.links_hold(condition, &lookup.links)? {
                keep_searching = self.solve(condition, order, next + 1, found)?;
            }
            if !keep_searching {
                break;
            }
        }
        self.bind(lookup.variable, None);
        Ok(keep_searching)
    }

    /// Returns the items that the link at index `link` allows for the variable and that match the filters of the
    /// variable.
    fn linked_candidates(
        &mut self,
        condition: &Condition,
        link: usize,
        variable: usize,
    ) -> Result<Vec<ItemId>, QueryLimitExceeded> {
        let Some(link) = condition.links.get(link) else { return Ok(Vec::new()) };
        let filters: Vec<&PatternFilter> = condition.filters_of(variable).collect();
        let mut ids = self.linked(link, variable)?;
        ids.retain(|id| self.passes(&filters, *id));
        Ok(ids)
    }

    /// Returns all items that match the filters of a variable.
    fn candidates(&self, condition: &Condition, variable: usize) -> Vec<ItemId> {
        let filters: Vec<&PatternFilter> = condition.filters_of(variable).collect();
        let passes = |id: &ItemId| self.passes(&filters, *id);
        if let Some(name) = filters.iter().find_map(|filter| filter.identity.as_deref()) {
            return self.graph.with_name(name).into_iter().filter(passes).collect();
        }
        let labels = filters.iter().flat_map(|filter| &filter.labels);
        match labels.map(|label| self.graph.with_label(label)).min_by_key(|ids| ids.len()) {
            Some(labelled) => labelled.iter().copied().filter(passes).collect(),
            None => self.graph.all().filter(passes).collect(),
        }
    }

    fn passes(&self, filters: &[&PatternFilter], id: ItemId) -> bool {
        self.graph.item(id).is_some_and(|item| filters.iter().all(|filter| filter.matches(item.pattern())))
    }

    /// Returns whether the bound items satisfy the links at these indexes. All variables of the links must be bound.
    fn links_hold(&mut self, condition: &Condition, links: &[usize]) -> Result<bool, QueryLimitExceeded> {
        for link in links.iter().filter_map(|link| condition.links.get(*link)) {
            let target = match link {
                Link::Related { relation, .. } => *relation,
                _ => link.ends().1,
            };
            let Some(id) = self.bound(target) else { return Ok(false) };
            if !self.linked(link, target)?.contains(&id) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Returns the items that `variable` can be bound to, given the items that the other variables of the link are
    /// bound to.
    fn linked(&mut self, link: &Link, variable: usize) -> Result<Vec<ItemId>, QueryLimitExceeded> {
        let ids = match link {
            Link::Contains { parent, child } if variable == *child => {
                self.bound(*parent).map(|parent| self.graph.elements(parent).to_vec()).unwrap_or_default()
            }
            Link::Contains { child, .. } => {
                self.bound(*child).map(|child| self.graph.parents(child).to_vec()).unwrap_or_default()
            }
            Link::Related { relation, from, to, undirected } => {
                self.related(*relation, (*from, *to), *undirected, variable)?
            }
            Link::Reaches { from, to, through } => {
                let (start, backwards) = if variable == *to { (*from, false) } else { (*to, true) };
                match self.bound(start) {
                    Some(start) => self.reachable(start, backwards, through.as_ref())?,
                    None => Vec::new(),
                }
            }
        };
        self.charge(ids.len())?;
        Ok(ids)
    }

    /// Returns the items that `variable` can be bound to. `variable` is the relation itself or one of its two ends. If
    /// both ends are bound, the search starts at the end with fewer relations.
    fn related(
        &mut self,
        relation: usize,
        (from, to): (usize, usize),
        undirected: bool,
        variable: usize,
    ) -> Result<Vec<ItemId>, QueryLimitExceeded> {
        let graph = self.graph;
        let known = [(from, to, false), (to, from, true)].into_iter().filter(|(here, ..)| *here != variable);
        let edges = known.filter_map(|(here, there, backwards)| {
            let id = self.bound(here)?;
            let (forth, back) = (graph.outgoing(id), graph.incoming(id));
            let (forth, back) = if backwards { (back, forth) } else { (forth, back) };
            Some((there, forth, if undirected { back } else { &[] }))
        });
        let fewest = edges.min_by_key(|(_, forth, back)| forth.len() + back.len());
        let Some((there, forth, back)) = fewest else { return Ok(Vec::new()) };
        self.charge(forth.len() + back.len())?;
        let fits = |(name, end): &&Edge| {
            self.is_consistent(relation, *name, variable) && self.is_consistent(there, *end, variable)
        };
        let found = forth.iter().chain(back).filter(fits);
        Ok(found.map(|(name, end)| if variable == relation { *name } else { *end }).collect())
    }

    /// Returns whether the variable `other` can have the value `id`. This is the case if `other` is bound to `id`, is
    /// unbound, or is `target`, the variable whose items are being searched.
    fn is_consistent(&self, other: usize, id: ItemId, target: usize) -> bool {
        other == target || self.bound(other).is_none_or(|bound| bound == id)
    }

    /// Returns the items that can be reached from `start` over one or more edges. If `backwards` is set, returns the
    /// items from which `start` can be reached.
    fn reachable(
        &mut self,
        start: ItemId,
        backwards: bool,
        through: Option<&PatternFilter>,
    ) -> Result<Vec<ItemId>, QueryLimitExceeded> {
        self.traversal += 1;
        let mut reached = Vec::new();
        let (mut here, mut next) = (Some(start), 0);
        while let Some(id) = here {
            for id in self.neighbours(id, backwards, through) {
                self.charge(1)?;
                if let Some(seen) = self.seen.get_mut(id as usize).filter(|seen| **seen != self.traversal) {
                    *seen = self.traversal;
                    reached.push(id);
                }
            }
            here = reached.get(next).copied();
            next += 1;
        }
        Ok(reached)
    }

    /// Returns the items adjacent to `id`: its elements and the targets of its outgoing relations. With `backwards`,
    /// returns the items that contain `id` and the sources of its incoming relations. With `through`, follows only
    /// relations that match this filter, and no elements.
    fn neighbours<'s>(
        &self,
        id: ItemId,
        backwards: bool,
        through: Option<&'s PatternFilter>,
    ) -> impl Iterator<Item = ItemId> + use<'s, 'g, 'p> {
        let graph = self.graph;
        let (parts, edges) = match backwards {
            true => (graph.parents(id), graph.incoming(id)),
            false => (graph.elements(id), graph.outgoing(id)),
        };
        let is_edge = move |relation: ItemId| {
            through.is_none_or(|filter| graph.item(relation).is_some_and(|item| filter.matches(item.pattern())))
        };
        let parts = parts.iter().copied().filter(move |_| through.is_none());
        parts.chain(edges.iter().filter(move |(relation, _)| is_edge(*relation)).map(|(_, end)| *end))
    }

    fn bound(&self, variable: usize) -> Option<ItemId> {
        self.bound.get(variable).copied().flatten()
    }

    fn bind(&mut self, variable: usize, id: Option<ItemId>) {
        if let Some(bound) = self.bound.get_mut(variable) {
            *bound = id;
        }
    }

    fn charge(&mut self, cost: usize) -> Result<(), QueryLimitExceeded> {
        self.cost += cost as u64;
        if self.cost > MAX_COST { Err(QueryLimitExceeded { limit: MAX_COST }) } else { Ok(()) }
    }
}

impl Condition {
    fn filters_of(&self, variable: usize) -> impl Iterator<Item = &PatternFilter> {
        self.filters.iter().filter(move |(of, _)| *of == variable).map(|(_, filter)| filter)
    }
}
