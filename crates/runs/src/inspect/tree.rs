//! A run with its child runs.

use std::collections::HashMap;

use toolwright_authz::Action;
use toolwright_catalog::{Session, Unavailable};
use toolwright_types::{RunId, round_usd};

use crate::command::CommandError;
use crate::{Run, Runs};

/// The maximum number of runs in a tree.
const MAX_RUNS: usize = 500;

/// The maximum number of levels below the root of a tree. Runs never delegate to deeper levels.
const MAX_LEVELS: usize = 16;

/// A run with its child runs.
pub struct RunTree {
    /// The run.
    pub root: RunNode,
    /// Whether child runs are missing, because the tree exceeds the maximum number of runs or levels.
    pub truncated: bool,
}

/// A run of a tree.
pub struct RunNode {
    /// The run. Its tokens and cost include those of each child run that ended before the run did.
    pub run: Run,
    /// The tokens of the run and of all runs below it.
    pub total_tokens: u64,
    /// The cost of the run and of all runs below it, in US dollars.
    pub total_cost_usd: f64,
    /// The child runs of this run, in the order of their start.
    pub children: Vec<RunNode>,
}

impl Runs {
    /// Returns a run with its child runs, with one query per level.
    pub async fn tree(&self, session: &Session, run: RunId) -> Result<RunTree, CommandError> {
        let root = self.permitted(session, run, Action::Read).await?;
        let owners = self.visible_owners(session);
        let (mut levels, mut count, mut truncated) = (vec![vec![root]], 1, false);
        while let Some(parents) = levels.last().filter(|parents| !parents.is_empty()) {
            let parents: Vec<RunId> = parents.iter().map(|run| run.id).collect();
            let left = MAX_RUNS.saturating_sub(count);
            let runs = self.0.store.runs(&session.realm);
            let mut children = runs.children(owners, &parents, left + 1).await.map_err(Unavailable::from)?;
            if children.len() > left || levels.len() > MAX_LEVELS {
                truncated = true;
                children.truncate(if levels.len() > MAX_LEVELS { 0 } else { left });
            }
            count += children.len();
            levels.push(children);
        }
        let root = build(levels).ok_or_else(|| CommandError::UnknownRun(run.to_string()))?;
        Ok(RunTree { root, truncated })
    }
}

/// Builds the tree from the runs of each level. Starts with the last level. The first level has one run, the root.
fn build(levels: Vec<Vec<Run>>) -> Option<RunNode> {
    let mut nodes: Vec<RunNode> = Vec::new();
    for level in levels.into_iter().rev() {
        let mut children: HashMap<RunId, Vec<RunNode>> = HashMap::new();
        for node in nodes {
            if let Some(parent) = node.run.parent {
                children.entry(parent).or_default().push(node);
            }
        }
        let node = |run: Run| {
            let children = children.remove(&run.id).unwrap_or_default();
            RunNode::new(run, children)
        };
        nodes = level.into_iter().map(node).collect();
    }
    nodes.pop()
}

impl RunNode {
    fn new(run: Run, children: Vec<RunNode>) -> Self {
        let (mut total_tokens, mut total_cost_usd) = (run.state.tokens, run.state.cost_usd);
        for child in &children {
            let state = &child.run.state;
            let (counted_tokens, counted_cost) =
                if counts_in_parent(&run, &child.run) { (state.tokens, state.cost_usd) } else { (0, 0.0) };
            total_tokens = total_tokens.saturating_add(child.total_tokens.saturating_sub(counted_tokens));
            total_cost_usd += (child.total_cost_usd - counted_cost).max(0.0);
        }
        Self { run, total_tokens, total_cost_usd: round_usd(total_cost_usd), children }
    }
}

/// Whether the tokens and the cost of a parent run already include those of a child run. This is the case if the child
/// run ended first, because the parent run then received its result.
fn counts_in_parent(parent: &Run, child: &Run) -> bool {
    match (parent.state.ended_at, child.state.ended_at) {
        (_, None) => false,
        (None, Some(_)) => true,
        (Some(parent), Some(child)) => child <= parent,
    }
}
