//! Chooses the order in which the search binds the variables of a query.

use std::collections::HashMap;

use super::{Condition, ItemId, Link};

/// The order in which the search binds the unbound variables of a condition.
pub(super) struct SearchOrder {
    /// The links and filters whose variables are all bound before the search starts. They are checked before the first
    /// lookup.
    pub initial_checks: Checks,
    pub lookups: Vec<Lookup>,
}

/// One step of the search: binds one variable.
pub(super) struct Lookup {
    pub variable: usize,
    pub source: CandidateSource,
    /// The links that are checked after the variable is bound. The link in `source` is not among them, because every
    /// candidate satisfies it.
    pub links: Vec<usize>,
}

/// Where a lookup gets the items that it tries.
pub(super) enum CandidateSource {
    /// The items that a link connects with the item of a bound variable. The number is the index of this link in the
    /// condition.
    Link(usize),
    /// The items that match the filters of the variable.
    Candidates(Vec<ItemId>),
}

/// The links and filters to check, as indexes into the lists of the condition.
#[derive(Default)]
pub(super) struct Checks {
    pub links: Vec<usize>,
    pub filters: Vec<usize>,
}

impl SearchOrder {
    /// Chooses the order. If a link connects an unbound variable with a bound variable, the unbound variable comes
    /// next. Otherwise the unbound variable with the fewest candidates comes next.
    pub(super) fn new(condition: &Condition, known: &[usize], candidates: impl Fn(usize) -> Vec<ItemId>) -> Self {
        let mut known: Vec<usize> = known.to_vec();
        let mut open: Vec<usize> =
            condition.variables.iter().copied().filter(|variable| !known.contains(variable)).collect();
        let initial_checks = Checks {
            links: condition.completed(&known, None),
            filters: (0..)
                .zip(&condition.filters)
                .filter(|(_, (variable, _))| known.contains(variable))
                .map(|(filter, _)| filter)
                .collect(),
        };
        let mut found: HashMap<usize, Vec<ItemId>> = HashMap::new();
        let mut lookups = Vec::with_capacity(open.len());
        while !open.is_empty() {
            let linked = open.iter().position(|variable| condition.link_to(*variable, &known).is_some());
            let next = linked.unwrap_or_else(|| {
                let counted =
                    open.iter().map(|variable| found.entry(*variable).or_insert_with(|| candidates(*variable)).len());
                counted.enumerate().min_by_key(|(_, count)| *count).map_or(0, |(index, _)| index)
            });
            let variable = open.remove(next);
            let through = condition.link_to(variable, &known);
            known.push(variable);
            let completed = condition.completed(&known, Some(variable));
            let links = completed.into_iter().filter(|link| Some(*link) != through).collect();
            let source = match through {
                Some(link) => CandidateSource::Link(link),
                None => CandidateSource::Candidates(found.remove(&variable).unwrap_or_default()),
            };
            lookups.push(Lookup { variable, source, links });
        }
        Self { initial_checks, lookups }
    }
}

impl Condition {
    /// Returns the index of a link that connects `variable` with a variable in `known`.
    fn link_to(&self, variable: usize, known: &[usize]) -> Option<usize> {
        self.links.iter().position(|link| {
            let (from, to) = link.ends();
            let is_end = link.involves(variable);
            is_end && [from, to].iter().any(|end| *end != variable && known.contains(end))
        })
    }

    /// Returns the indexes of the links whose variables are all in `known`. If `newest` is set, returns only links of
    /// the variable `newest`.
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
    /// Returns the variables at the two ends of the link.
    pub(super) fn ends(&self) -> (usize, usize) {
        match self {
            Self::Contains { parent, child } => (*parent, *child),
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
