//! In which order to look for the things of a query.

use std::collections::HashMap;

use super::{Condition, Item, Link};

/// How to find the things of a condition when some of them are known already.
pub(super) struct Plan {
    /// What to check before anything is looked for: links and tests between things that are known.
    pub first: Checks,
    pub steps: Vec<Step>,
}

/// One thing to look for.
pub(super) struct Step {
    pub variable: usize,
    pub source: Source,
    /// The other links that can be checked once it is found.
    pub links: Vec<usize>,
}

/// Where the things of a step come from.
pub(super) enum Source {
    /// The link, by its place in the condition, that leads to them.
    Link(usize),
    /// These, which pass its tests. They are found once, however often the step is taken.
    Candidates(Vec<Item>),
}

/// Links and tests, by their place in the condition.
#[derive(Default)]
pub(super) struct Checks {
    pub links: Vec<usize>,
    pub tests: Vec<usize>,
}

impl Plan {
    /// Things that a link leads to come first; otherwise the one of which there are the fewest.
    pub fn of(condition: &Condition, known: &[usize], candidates: impl Fn(usize) -> Vec<Item>) -> Self {
        let mut known: Vec<usize> = known.to_vec();
        let mut open: Vec<usize> = condition.variables.iter().copied().filter(|one| !known.contains(one)).collect();
        let first = Checks {
            links: condition.completed(&known, None),
            tests: (0..)
                .zip(&condition.tests)
                .filter(|(_, (one, _))| known.contains(one))
                .map(|(test, _)| test)
                .collect(),
        };
        let mut found: HashMap<usize, Vec<Item>> = HashMap::new();
        let mut steps = Vec::with_capacity(open.len());
        while !open.is_empty() {
            let linked = open.iter().position(|one| condition.link_to(*one, &known).is_some());
            let next = linked.unwrap_or_else(|| {
                let counted = open.iter().map(|one| found.entry(*one).or_insert_with(|| candidates(*one)).len());
                counted.enumerate().min_by_key(|(_, count)| *count).map_or(0, |(index, _)| index)
            });
            let variable = open.remove(next);
            let through = condition.link_to(variable, &known);
            known.push(variable);
            let completed = condition.completed(&known, Some(variable));
            let links = completed.into_iter().filter(|link| Some(*link) != through).collect();
            let source = match through {
                Some(link) => Source::Link(link),
                None => Source::Candidates(found.remove(&variable).unwrap_or_default()),
            };
            steps.push(Step { variable, source, links });
        }
        Self { first, steps }
    }
}

impl Condition {
    /// A link that leads from something known to `variable`.
    fn link_to(&self, variable: usize, known: &[usize]) -> Option<usize> {
        self.links.iter().position(|link| {
            let (from, to) = link.ends();
            let is_end = link.involves(variable);
            is_end && [from, to].iter().any(|end| *end != variable && known.contains(end))
        })
    }

    /// The links between known things, of those that involve `newest`.
    fn completed(&self, known: &[usize], newest: Option<usize>) -> Vec<usize> {
        let is_complete = |link: &Link| {
            let (from, to) = link.ends();
            let ends_are_known =
                [Some(from), Some(to), link.relation()].iter().flatten().all(|end| known.contains(end));
            ends_are_known && newest.is_none_or(|newest| link.involves(newest))
        };
        (0..).zip(&self.links).filter(|(_, link)| is_complete(link)).map(|(index, _)| index).collect()
    }
}

impl Link {
    /// The variables that it leads from and to.
    pub(super) fn ends(&self) -> (usize, usize) {
        match self {
            Self::Contains { whole, part } => (*whole, *part),
            Self::Related { from, to, .. } | Self::Reaches { from, to, .. } => (*from, *to),
        }
    }

    fn relation(&self) -> Option<usize> {
        match self {
            Self::Related { relation, .. } => Some(*relation),
            _ => None,
        }
    }

    fn involves(&self, variable: usize) -> bool {
        let (from, to) = self.ends();
        from == variable || to == variable || self.relation() == Some(variable)
    }
}
