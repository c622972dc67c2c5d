//! The order of the steps in a graph: topological order, cycles, and the steps that end before a step starts.

use std::collections::VecDeque;

use super::GraphStep;

/// Returns the positions of the steps in an order in which each step follows the steps that it waits for. `None` if the
/// graph has a cycle.
pub(super) fn topological_order(steps: &[GraphStep]) -> Option<Vec<u32>> {
    let order = sort(steps, &mut incoming(steps));
    (order.len() == steps.len()).then_some(order)
}

/// Returns the steps of one cycle. The graph must have a cycle.
pub(super) fn find_cycle(steps: &[GraphStep]) -> Vec<u32> {
    let mut left = incoming(steps);
    sort(steps, &mut left);
    // A step that is left waits for another step that is left, so going back from step to step leads into a cycle.
    let mut before: Vec<Option<u32>> = vec![None; steps.len()];
    let is_left = |at: u32| left.get(index(at)).is_some_and(|count| *count > 0);
    for (from, step) in (0_u32..).zip(steps).filter(|(from, _)| is_left(*from)) {
        for edge in step.edges.iter().filter(|edge| is_left(edge.to)) {
            if let Some(slot) = before.get_mut(index(edge.to)) {
                *slot = Some(from);
            }
        }
    }
    let Some(mut at) = (0_u32..).zip(&before).find(|(_, source)| source.is_some()).map(|(at, _)| at) else {
        return Vec::new();
    };
    let source = |at: u32| before.get(index(at)).copied().flatten().unwrap_or(at);
    for _ in 0..steps.len() {
        at = source(at);
    }
    let mut cycle = vec![at];
    let mut next = source(at);
    while next != at && cycle.len() <= steps.len() {
        cycle.push(next);
        next = source(next);
    }
    cycle.reverse();
    cycle
}

/// The number of edges that lead to each step.
fn incoming(steps: &[GraphStep]) -> Vec<u32> {
    steps.iter().map(|step| step.dependencies).collect()
}

/// Removes steps without incoming edges until none is left. Returns the removed steps in order.
fn sort(steps: &[GraphStep], incoming: &mut [u32]) -> Vec<u32> {
    let free = (0_u32..).zip(incoming.iter()).filter(|(_, count)| **count == 0);
    let mut free: VecDeque<u32> = free.map(|(at, _)| at).collect();
    let mut order = Vec::with_capacity(steps.len());
    while let Some(at) = free.pop_front() {
        order.push(at);
        for edge in steps.get(index(at)).into_iter().flat_map(|step| &step.edges) {
            let Some(count) = incoming.get_mut(index(edge.to)) else { continue };
            *count = count.saturating_sub(1);
            if *count == 0 {
                free.push_back(edge.to);
            }
        }
    }
    order
}

/// The ancestors of each step: the steps that have ended when it starts. One bit for each pair of steps.
pub(super) struct Ancestors {
    words: usize,
    bits: Vec<u64>,
}

impl Ancestors {
    pub(super) fn new(steps: &[GraphStep], order: &[u32]) -> Self {
        let words = steps.len().div_ceil(64);
        let mut ancestors = Self { words, bits: vec![0; words.saturating_mul(steps.len())] };
        for from in order {
            for edge in steps.get(index(*from)).into_iter().flat_map(|step| &step.edges) {
                ancestors.inherit(index(edge.to), index(*from));
            }
        }
        ancestors
    }

    /// Whether `other` has ended when `step` starts.
    pub(super) fn contains(&self, step: u32, other: u32) -> bool {
        let word = self.bits.get(index(step).saturating_mul(self.words).saturating_add(index(other) / 64));
        word.is_some_and(|word| word & bit(index(other)) != 0)
    }

    fn inherit(&mut self, to: usize, from: usize) {
        let (to_start, from_start) = (to.saturating_mul(self.words), from.saturating_mul(self.words));
        for word in 0..self.words {
            let own = if word == from / 64 { bit(from) } else { 0 };
            let inherited = self.bits.get(from_start.saturating_add(word)).copied().unwrap_or_default();
            if let Some(target) = self.bits.get_mut(to_start.saturating_add(word)) {
                *target |= inherited | own;
            }
        }
    }
}

fn bit(position: usize) -> u64 {
    1 << (position % 64)
}

fn index(at: u32) -> usize {
    usize::try_from(at).unwrap_or(usize::MAX)
}
