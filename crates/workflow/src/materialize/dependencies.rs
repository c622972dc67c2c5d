//! The dependencies between the steps, without those that follow from others.

use std::collections::BTreeSet;

/// Returns the direct dependencies of each step. `needs` has the positions of the earlier steps that each step needs. A
/// step on which another needed step depends is left out.
pub(super) fn reduced(needs: &[BTreeSet<usize>]) -> Vec<Vec<usize>> {
    let mut ancestors: Vec<BTreeSet<usize>> = Vec::with_capacity(needs.len());
    let mut direct = Vec::with_capacity(needs.len());
    for (at, needed) in needs.iter().enumerate() {
        let (mut own, mut kept) = (BTreeSet::new(), Vec::new());
        for before in needed.iter().rev().copied().filter(|before| *before < at) {
            if own.insert(before) {
                kept.push(before);
                own.extend(ancestors.get(before).into_iter().flatten().copied());
            }
        }
        kept.reverse();
        ancestors.push(own);
        direct.push(kept);
    }
    direct
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dependency_that_follows_from_another_is_left_out() {
        let needs = [vec![], vec![0], vec![0, 1], vec![0, 2], vec![0]].map(BTreeSet::from_iter);
        assert_eq!(reduced(&needs), [vec![], vec![0], vec![1], vec![2], vec![0]]);
    }
}
