//! Finds what a query asks for, one thing after the other.

use std::sync::Arc;

use super::graph::{Graph, Item, Way};
use super::plan::{Plan, Source};
use super::test::Test;
use super::{Condition, Link, Match, Query, TooMuch};

/// Most steps that a query may take: about a second.
const MAX_STEPS: u64 = 20_000_000;

/// What an answer costs in steps: it is kept, so that there can be 100,000 of them.
const STEPS_OF_AN_ANSWER: usize = 200;

pub(super) fn all<'g>(query: &Query, graph: &'g Graph) -> Result<Vec<Match<'g>>, TooMuch> {
    let mut search = Search::new(graph, query.variables.len());
    let plan_of =
        |condition, known: &[usize]| Plan::of(condition, known, |variable| search.candidates(condition, variable));
    let plan = plan_of(&query.wanted, &[]);
    let unwanted: Vec<(&Condition, Plan)> =
        query.unwanted.iter().map(|condition| (condition, plan_of(condition, &query.wanted.variables))).collect();
    let is_named = |variable: &&usize| query.variables.get(**variable).is_some_and(Option::is_some);
    let named: Vec<usize> = query.wanted.variables.iter().filter(is_named).copied().collect();

    let mut answers: Vec<Box<[Item]>> = Vec::new();
    search.solve(&query.wanted, &plan, 0, &mut |search| {
        for (condition, plan) in &unwanted {
            if search.is_found(condition, plan)? {
                return Ok(true);
            }
        }
        search.step(STEPS_OF_AN_ANSWER)?;
        answers.push(named.iter().filter_map(|variable| search.bound(*variable)).collect());
        Ok(true)
    })?;
    answers.sort_unstable();
    answers.dedup();
    Ok(to_matches(query, graph, &named, &answers))
}

fn to_matches<'g>(query: &Query, graph: &'g Graph, named: &[usize], answers: &[Box<[Item]>]) -> Vec<Match<'g>> {
    let names = named.iter().filter_map(|variable| query.variables.get(*variable)?.clone());
    let mut names: Vec<(String, usize)> = names.zip(0..).collect();
    names.sort();
    let places: Vec<usize> = names.iter().map(|(_, place)| *place).collect();
    let names: Arc<[String]> = names.into_iter().map(|(name, _)| name).collect();
    let thing = |item: Item| graph.thing(item).map(|thing| (item, thing.pattern()));
    let found = |answer: &[Item]| places.iter().filter_map(|place| thing(*answer.get(*place)?)).collect();
    answers.iter().map(|answer| Match { names: Arc::clone(&names), found: found(answer) }).collect()
}

/// What to do with a solution. `false` ends the search.
type Found<'f, 'g, 'p> = dyn FnMut(&mut Search<'g, 'p>) -> Result<bool, TooMuch> + 'f;

struct Search<'g, 'p> {
    graph: &'g Graph<'p>,
    /// The thing of each variable, as far as it is decided.
    bound: Vec<Option<Item>>,
    /// The walk in which a thing was last seen; things of the current walk are not visited again.
    seen: Vec<u32>,
    walk: u32,
    steps: u64,
}

impl<'g, 'p> Search<'g, 'p> {
    fn new(graph: &'g Graph<'p>, variables: usize) -> Self {
        Self { graph, bound: vec![None; variables], seen: vec![0; graph.len()], walk: 0, steps: 0 }
    }

    fn is_found(&mut self, condition: &Condition, plan: &Plan) -> Result<bool, TooMuch> {
        for test in &plan.first.tests {
            let Some((variable, test)) = condition.tests.get(*test) else { continue };
            if !self.bound(*variable).is_some_and(|item| self.passes(&[test], item)) {
                return Ok(false);
            }
        }
        if !self.hold(condition, &plan.first.links)? {
            return Ok(false);
        }
        let mut found = false;
        self.solve(condition, plan, 0, &mut |_| {
            found = true;
            Ok(false)
        })?;
        Ok(found)
    }

    /// Goes through all ways to take the steps of a plan, from step number `next` on.
    fn solve(
        &mut self,
        condition: &Condition,
        plan: &Plan,
        next: usize,
        found: &mut Found<'_, 'g, 'p>,
    ) -> Result<bool, TooMuch> {
        let Some(step) = plan.steps.get(next) else { return found(self) };
        let reached;
        let items = match &step.source {
            Source::Candidates(items) => items,
            Source::Link(link) => {
                reached = self.fitting(condition, *link, step.variable)?;
                &reached
            }
        };
        let mut go_on = true;
        for item in items {
            self.step(1)?;
            self.bind(step.variable, Some(*item));
            if self.hold(condition, &step.links)? {
                go_on = self.solve(condition, plan, next + 1, found)?;
            }
            if !go_on {
                break;
            }
        }
        self.bind(step.variable, None);
        Ok(go_on)
    }

    /// What a link leads to, as far as it passes the tests of the variable.
    fn fitting(&mut self, condition: &Condition, link: usize, variable: usize) -> Result<Vec<Item>, TooMuch> {
        let Some(link) = condition.links.get(link) else { return Ok(Vec::new()) };
        let tests: Vec<&Test> = condition.tests_of(variable).collect();
        let mut items = self.linked(link, variable)?;
        items.retain(|item| self.passes(&tests, *item));
        Ok(items)
    }

    /// All things that pass the tests of a variable.
    fn candidates(&self, condition: &Condition, variable: usize) -> Vec<Item> {
        let tests: Vec<&Test> = condition.tests_of(variable).collect();
        let passes = |item: &Item| self.passes(&tests, *item);
        if let Some(name) = tests.iter().find_map(|test| test.identity.as_deref()) {
            return self.graph.of_name(name).into_iter().filter(passes).collect();
        }
        let labels = tests.iter().flat_map(|test| &test.labels);
        match labels.map(|label| self.graph.of_label(label)).min_by_key(|items| items.len()) {
            Some(labelled) => labelled.iter().copied().filter(passes).collect(),
            None => self.graph.all().filter(passes).collect(),
        }
    }

    fn passes(&self, tests: &[&Test], item: Item) -> bool {
        self.graph.thing(item).is_some_and(|thing| tests.iter().all(|test| test.accepts(thing.pattern())))
    }

    /// Whether links between things that are known hold.
    fn hold(&mut self, condition: &Condition, links: &[usize]) -> Result<bool, TooMuch> {
        for link in links.iter().filter_map(|link| condition.links.get(*link)) {
            let target = match link {
                Link::Related { relation, .. } => *relation,
                _ => link.ends().1,
            };
            let Some(item) = self.bound(target) else { return Ok(false) };
            if !self.linked(link, target)?.contains(&item) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// The things that `variable` can be, given the other ends of a link.
    fn linked(&mut self, link: &Link, variable: usize) -> Result<Vec<Item>, TooMuch> {
        let items = match link {
            Link::Contains { whole, part } if variable == *part => {
                self.bound(*whole).map(|whole| self.graph.elements(whole).to_vec()).unwrap_or_default()
            }
            Link::Contains { part, .. } => {
                self.bound(*part).map(|part| self.graph.parents(part).to_vec()).unwrap_or_default()
            }
            Link::Related { relation, from, to, either_way } => {
                self.related(*relation, (*from, *to), *either_way, variable)?
            }
            Link::Reaches { from, to, through } => {
                let (start, backwards) = if variable == *to { (*from, false) } else { (*to, true) };
                match self.bound(start) {
                    Some(start) => self.reached(start, backwards, through.as_ref())?,
                    None => Vec::new(),
                }
            }
        };
        self.step(items.len())?;
        Ok(items)
    }

    /// The relations, or the ends of relations, that `variable` can be. Looks from the end with the fewer relations.
    fn related(
        &mut self,
        relation: usize,
        (from, to): (usize, usize),
        either_way: bool,
        variable: usize,
    ) -> Result<Vec<Item>, TooMuch> {
        let graph = self.graph;
        let known = [(from, to, false), (to, from, true)].into_iter().filter(|(here, ..)| *here != variable);
        let ways = known.filter_map(|(here, there, backwards)| {
            let item = self.bound(here)?;
            let (forth, back) = (graph.outgoing(item), graph.incoming(item));
            let (forth, back) = if backwards { (back, forth) } else { (forth, back) };
            Some((there, forth, if either_way { back } else { &[] }))
        });
        let fewest = ways.min_by_key(|(_, forth, back)| forth.len() + back.len());
        let Some((there, forth, back)) = fewest else { return Ok(Vec::new()) };
        self.step(forth.len() + back.len())?;
        let fits = |(name, end): &&Way| self.agrees(relation, *name, variable) && self.agrees(there, *end, variable);
        let found = forth.iter().chain(back).filter(fits);
        Ok(found.map(|(name, end)| if variable == relation { *name } else { *end }).collect())
    }

    /// Whether `item` can be the thing of `other`: that is what is looked for, or not decided yet, or the same.
    fn agrees(&self, other: usize, item: Item, wanted: usize) -> bool {
        other == wanted || self.bound(other).is_none_or(|bound| bound == item)
    }

    /// Everything that can be reached from `start`, or that reaches it, in one step or more.
    fn reached(&mut self, start: Item, backwards: bool, through: Option<&Test>) -> Result<Vec<Item>, TooMuch> {
        self.walk += 1;
        let mut reached = Vec::new();
        let (mut here, mut next) = (Some(start), 0);
        while let Some(item) = here {
            for item in self.neighbours(item, backwards, through) {
                self.step(1)?;
                if let Some(seen) = self.seen.get_mut(item as usize).filter(|seen| **seen != self.walk) {
                    *seen = self.walk;
                    reached.push(item);
                }
            }
            here = reached.get(next).copied();
            next += 1;
        }
        Ok(reached)
    }

    /// What lies one step away: elements and the ends of relations, or only the latter when there is a test for them.
    fn neighbours<'s>(
        &self,
        item: Item,
        backwards: bool,
        through: Option<&'s Test>,
    ) -> impl Iterator<Item = Item> + use<'s, 'g, 'p> {
        let graph = self.graph;
        let (parts, ways) = match backwards {
            true => (graph.parents(item), graph.incoming(item)),
            false => (graph.elements(item), graph.outgoing(item)),
        };
        let is_way = move |relation: Item| {
            through.is_none_or(|test| graph.thing(relation).is_some_and(|thing| test.accepts(thing.pattern())))
        };
        let parts = parts.iter().copied().filter(move |_| through.is_none());
        parts.chain(ways.iter().filter(move |(relation, _)| is_way(*relation)).map(|(_, end)| *end))
    }

    fn bound(&self, variable: usize) -> Option<Item> {
        self.bound.get(variable).copied().flatten()
    }

    fn bind(&mut self, variable: usize, item: Option<Item>) {
        if let Some(bound) = self.bound.get_mut(variable) {
            *bound = item;
        }
    }

    fn step(&mut self, steps: usize) -> Result<(), TooMuch> {
        self.steps += steps as u64;
        if self.steps > MAX_STEPS { Err(TooMuch { limit: MAX_STEPS }) } else { Ok(()) }
    }
}

impl Condition {
    fn tests_of(&self, variable: usize) -> impl Iterator<Item = &Test> {
        self.tests.iter().filter(move |(of, _)| *of == variable).map(|(_, test)| test)
    }
}
