//! Places the nodes of a graph in layers, from left to right.
//!
//! An edge leads to a later layer, except if it closes a cycle. An edge over several layers passes through invisible points
//! in the layers between, so that it does not cross nodes. Everything is computed with integers, so the result is the same
//! on every machine.

use std::collections::VecDeque;

use super::Graph;

/// The width of a node.
pub(super) const NODE_WIDTH: i64 = 200;
/// The height of a node.
pub(super) const NODE_HEIGHT: i64 = 48;
const LAYER_GAP: i64 = 90;
const NODE_GAP: i64 = 24;
/// The space that an invisible point of an edge takes.
const POINT_HEIGHT: i64 = 12;
const MARGIN: i64 = 20;
/// The maximum number of invisible points. If a graph needs more, its long edges are straight.
const MAX_POINTS: usize = 20_000;
/// How often the order of the nodes in the layers is improved.
const ORDER_ROUNDS: usize = 6;
/// How often the heights of the nodes are moved towards their neighbors.
const PLACE_ROUNDS: usize = 8;

/// Where the parts of a graph are drawn.
pub(super) struct Layout {
    /// The left upper corner of each node.
    pub nodes: Vec<(i64, i64)>,
    /// The points of each arrow, from its start to its end.
    pub arrows: Vec<Vec<(i64, i64)>>,
    pub width: i64,
    pub height: i64,
}

/// A node or an invisible point in a layer.
#[derive(Clone, Default)]
struct Slot {
    layer: usize,
    height: i64,
    /// The center.
    y: i64,
    before: Vec<usize>,
    after: Vec<usize>,
}

pub(super) fn layout(graph: &Graph) -> Layout {
    let layers_of = layers(graph);
    let node = |at: usize| layers_of.get(at).copied().unwrap_or_default();
    let mut slots: Vec<Slot> =
        (0..graph.nodes.len()).map(|at| Slot { layer: node(at), height: NODE_HEIGHT, ..Slot::default() }).collect();
    let points_needed: usize =
        graph.arrows.iter().map(|arrow| node(arrow.from).abs_diff(node(arrow.to)).saturating_sub(1)).sum();
    let has_points = points_needed <= MAX_POINTS;
    let routes: Vec<Vec<usize>> =
        graph.arrows.iter().map(|arrow| route(&mut slots, (arrow.from, arrow.to), has_points)).collect();
    let mut layers = slots_by_layer(&slots);
    order(&mut slots, &mut layers);
    place(&mut slots, &layers);
    let shift = slots.iter().map(|slot| slot.y - slot.height / 2).min().unwrap_or_default() - MARGIN;
    for slot in &mut slots {
        slot.y -= shift;
    }
    let x = |layer: usize| i64::try_from(layer).unwrap_or_default() * (NODE_WIDTH + LAYER_GAP) + MARGIN;
    let slot = |at: usize| slots.get(at).cloned().unwrap_or_default();
    let nodes = (0..graph.nodes.len()).map(slot).map(|slot| (x(slot.layer), slot.y - slot.height / 2)).collect();
    let arrows = routes.iter().map(|route| {
        let last = route.len().saturating_sub(1);
        let points = route.iter().enumerate().map(|(at, one)| {
            let slot = slot(*one);
            match at {
                0 => (x(slot.layer) + NODE_WIDTH, slot.y),
                _ if at == last => (x(slot.layer), slot.y),
                _ => (x(slot.layer) + NODE_WIDTH / 2, slot.y),
            }
        });
        points.collect()
    });
    let width = slots.iter().map(|slot| x(slot.layer) + NODE_WIDTH).max().unwrap_or_default() + MARGIN;
    let height = slots.iter().map(|slot| slot.y + slot.height / 2).max().unwrap_or_default() + MARGIN;
    Layout { nodes, arrows: arrows.collect(), width, height }
}

/// Returns the layer of each node: one more than the layers of all nodes that lead to it. In a cycle, one node is placed
/// without regard to the nodes that lead to it and have no layer yet.
fn layers(graph: &Graph) -> Vec<usize> {
    let count = graph.nodes.len();
    let (mut incoming, mut next, mut layers) = (vec![0_usize; count], vec![Vec::new(); count], vec![0_usize; count]);
    for arrow in graph.arrows.iter().filter(|arrow| arrow.from != arrow.to) {
        if let (Some(incoming), Some(next)) = (incoming.get_mut(arrow.to), next.get_mut(arrow.from)) {
            *incoming += 1;
            next.push(arrow.to);
        }
    }
    let mut ready: VecDeque<usize> = (0..count).filter(|at| incoming.get(*at) == Some(&0)).collect();
    let mut placed = vec![false; count];
    let mut first_unplaced = 0;
    loop {
        while let Some(at) = ready.pop_front() {
            if let Some(placed) = placed.get_mut(at) {
                *placed = true;
            }
            let layer = layers.get(at).copied().unwrap_or_default();
            for to in next.get(at).into_iter().flatten().copied() {
                if placed.get(to) == Some(&true) {
                    continue;
                }
                if let (Some(incoming), Some(target)) = (incoming.get_mut(to), layers.get_mut(to)) {
                    *target = (*target).max(layer + 1);
                    *incoming = incoming.saturating_sub(1);
                    if *incoming == 0 {
                        ready.push_back(to);
                    }
                }
            }
        }
        while placed.get(first_unplaced) == Some(&true) {
            first_unplaced += 1;
        }
        if first_unplaced >= count {
            return layers;
        }
        if let Some(incoming) = incoming.get_mut(first_unplaced) {
            *incoming = 0;
        }
        ready.push_back(first_unplaced);
    }
}

/// Connects two nodes, with invisible points in the layers between. Returns the slots on the way.
fn route(slots: &mut Vec<Slot>, (from, to): (usize, usize), has_points: bool) -> Vec<usize> {
    let [first, last] = [from, to].map(|at| slots.get(at).map(|slot| slot.layer).unwrap_or_default());
    let between = first.min(last) + 1..first.max(last);
    let mut layers: Vec<usize> = if has_points { between.collect() } else { Vec::new() };
    if last < first {
        layers.reverse();
    }
    let mut route = vec![from];
    for layer in layers {
        route.push(slots.len());
        slots.push(Slot { layer, height: POINT_HEIGHT, ..Slot::default() });
    }
    route.push(to);
    for pair in route.windows(2) {
        if let [left, right] = *pair {
            let (left, right) = if last < first { (right, left) } else { (left, right) };
            if let Some(slot) = slots.get_mut(left) {
                slot.after.push(right);
            }
            if let Some(slot) = slots.get_mut(right) {
                slot.before.push(left);
            }
        }
    }
    route
}

fn slots_by_layer(slots: &[Slot]) -> Vec<Vec<usize>> {
    let mut layers = vec![Vec::new(); slots.iter().map(|slot| slot.layer + 1).max().unwrap_or_default()];
    for (at, slot) in slots.iter().enumerate() {
        if let Some(layer) = layers.get_mut(slot.layer) {
            layer.push(at);
        }
    }
    layers
}

/// Orders the slots of each layer by the average position of their neighbors, alternately from both sides.
fn order(slots: &mut [Slot], layers: &mut [Vec<usize>]) {
    let mut positions = vec![0_i64; slots.len()];
    let number = |layer: &[usize], positions: &mut Vec<i64>| {
        for (position, at) in (0..).zip(layer) {
            if let Some(slot) = positions.get_mut(*at) {
                *slot = position;
            }
        }
    };
    for layer in layers.iter() {
        number(layer, &mut positions);
    }
    for round in 0..ORDER_ROUNDS {
        let is_forward = round % 2 == 0;
        let indices: Vec<usize> =
            if is_forward { (0..layers.len()).collect() } else { (0..layers.len()).rev().collect() };
        for index in indices {
            let Some(layer) = layers.get_mut(index) else { continue };
            layer.sort_by_cached_key(|at| {
                let slot = slots.get(*at);
                let neighbors = slot.map(|slot| if is_forward { &slot.before } else { &slot.after });
                let own = positions.get(*at).copied().unwrap_or_default();
                let others = neighbors.into_iter().flatten().filter_map(|other| positions.get(*other).copied());
                (average(others, 1000).unwrap_or(own * 1000), own, *at)
            });
            number(layer, &mut positions);
        }
    }
}

/// The average of some numbers, multiplied by `scale`.
fn average(numbers: impl Iterator<Item = i64>, scale: i64) -> Option<i64> {
    let (sum, count) = numbers.fold((0_i64, 0_i64), |(sum, count), one| (sum + one, count + 1));
    (sum * scale).checked_div(count)
}

/// Sets the height of each slot: near its neighbors, without overlap, and in the order of its layer.
fn place(slots: &mut [Slot], layers: &[Vec<usize>]) {
    for layer in layers {
        let mut y = 0;
        for at in layer {
            if let Some(slot) = slots.get_mut(*at) {
                slot.y = y + slot.height / 2;
                y += slot.height + NODE_GAP;
            }
        }
    }
    for round in 0..PLACE_ROUNDS {
        let indices: Vec<usize> =
            if round % 2 == 0 { (0..layers.len()).collect() } else { (0..layers.len()).rev().collect() };
        for layer in indices.into_iter().filter_map(|index| layers.get(index)) {
            place_layer(slots, layer, round % 2 == 0);
        }
    }
}

fn place_layer(slots: &mut [Slot], layer: &[usize], is_forward: bool) {
    let wanted: Vec<i64> = layer
        .iter()
        .map(|at| {
            let Some(slot) = slots.get(*at) else { return 0 };
            let neighbors = if is_forward { &slot.before } else { &slot.after };
            let heights = neighbors.iter().filter_map(|other| slots.get(*other).map(|other| other.y));
            average(heights, 1).unwrap_or(slot.y)
        })
        .collect();
    // Slots that would overlap move down; then all of them move back by the average distance.
    let (mut placed, mut lowest) = (Vec::with_capacity(layer.len()), i64::MIN);
    for (at, wanted) in layer.iter().zip(&wanted) {
        let height = slots.get(*at).map(|slot| slot.height).unwrap_or_default();
        let y = (*wanted).max(lowest.saturating_add(height / 2));
        lowest = y + height / 2 + NODE_GAP;
        placed.push(y);
    }
    let moved = average(placed.iter().zip(&wanted).map(|(placed, wanted)| placed - wanted), 1).unwrap_or_default();
    for (at, y) in layer.iter().zip(placed) {
        if let Some(slot) = slots.get_mut(*at) {
            slot.y = y - moved;
        }
    }
}
