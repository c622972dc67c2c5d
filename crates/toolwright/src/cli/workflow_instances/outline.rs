//! The order and the indentation in which the steps of a workflow are printed.

use std::collections::{BTreeSet, HashMap};

use toolwright_api::wire::{JournalEntryView, PageView};
use toolwright_types::WorkflowDefinition;

use crate::cli::Context;
use crate::cli::client::{RUNS, path};
use crate::cli::failure::Failure;

/// Where the first entry of a journal has the definition that the run executes.
const DEFINITION: &str = "/spec/workflow/graph/definition";

/// A step in the outline of a workflow.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct OutlinedStep {
    /// The name.
    pub name: String,
    /// What the step calls. Empty if the definition is not known.
    pub handler: String,
    /// The indentation: a step that follows a fork is one level deeper than the fork.
    pub level: usize,
}

/// The steps of a workflow, each after the steps that it depends on.
#[derive(Debug, Clone, Default)]
pub(super) struct Outline {
    /// The steps.
    pub steps: Vec<OutlinedStep>,
}

impl Outline {
    /// Reads the definition of a run from its journal, because the stored workflow may have changed since the run
    /// started. Returns `None` if the journal of a run in progress is not stored yet.
    pub(super) async fn of_run(cx: &Context, run: &str) -> Result<Option<Self>, Failure> {
        let query = [("from", "1".to_owned()), ("limit", "1".to_owned())];
        let response = cx.client.get(&format!("{}/journal", path(RUNS, run)), &query).await?;
        let page: PageView<JournalEntryView> = response.read()?;
        let definition = page.items.first().and_then(|entry| entry.body.pointer(DEFINITION));
        let definition = definition.and_then(|definition| serde_json::from_value(definition.clone()).ok());
        Ok(definition.as_ref().map(Self::new))
    }

    /// Creates the outline of steps whose definition is not known.
    pub(super) fn of_names<'a>(names: impl Iterator<Item = &'a String>) -> Self {
        let step = |name: &String| OutlinedStep { name: name.clone(), handler: String::new(), level: 0 };
        Self { steps: names.map(step).collect() }
    }

    /// Creates the outline of a workflow.
    pub(super) fn new(definition: &WorkflowDefinition) -> Self {
        let edges = Edges::new(definition);
        let mut waits_for: Vec<usize> = edges.before.iter().map(BTreeSet::len).collect();
        let mut ready: Vec<usize> = (0..waits_for.len()).rev().filter(|at| waits_for.get(*at) == Some(&0)).collect();
        let mut levels = vec![0; waits_for.len()];
        let mut steps = Vec::with_capacity(waits_for.len());
        // Steps that become ready are printed next, so that the steps of one path are together.
        while let Some(at) = ready.pop() {
            let Some(step) = definition.steps.get(at) else { continue };
            let level = edges.level(at, &levels);
            if let Some(own) = levels.get_mut(at) {
                *own = level;
            }
            steps.push(OutlinedStep { name: step.name.clone(), handler: step.handler_ref.clone(), level });
            for after in edges.after.get(at).into_iter().flatten().rev() {
                let Some(left) = waits_for.get_mut(*after) else { continue };
                *left = left.saturating_sub(1);
                if *left == 0 {
                    ready.push(*after);
                }
            }
        }
        Self { steps }
    }
}

/// The steps before and after each step, by position.
struct Edges {
    before: Vec<BTreeSet<usize>>,
    after: Vec<BTreeSet<usize>>,
}

impl Edges {
    fn new(definition: &WorkflowDefinition) -> Self {
        let count = definition.steps.len();
        let positions: HashMap<&str, usize> =
            definition.steps.iter().zip(0..).map(|(step, at)| (step.name.as_str(), at)).collect();
        let mut edges = Self { before: vec![BTreeSet::new(); count], after: vec![BTreeSet::new(); count] };
        for (step, at) in definition.steps.iter().zip(0..) {
            for dependency in &step.depends_on {
                // `route.large` is the case `large` of the branch `route`.
                let name = dependency.split('.').next().unwrap_or_default();
                edges.add(positions.get(name).copied(), Some(at));
            }
            for target in step.on_error.targets() {
                edges.add(Some(at), positions.get(target.as_str()).copied());
            }
        }
        edges
    }

    fn add(&mut self, from: Option<usize>, to: Option<usize>) {
        let (Some(from), Some(to)) = (from, to) else { return };
        if let (Some(after), Some(before)) = (self.after.get_mut(from), self.before.get_mut(to)) {
            after.insert(to);
            before.insert(from);
        }
    }

    /// The level of a step whose predecessors have a level. A chain of steps keeps its level, a fork begins a level, and
    /// a join ends it.
    fn level(&self, at: usize, levels: &[usize]) -> usize {
        let before: Vec<usize> = self.before.get(at).into_iter().flatten().copied().collect();
        let level = |at: usize| levels.get(at).copied().unwrap_or_default();
        let (Some(lowest), Some(highest)) =
            (before.iter().map(|at| level(*at)).min(), before.iter().map(|at| level(*at)).max())
        else {
            return 0;
        };
        match before.as_slice() {
            [only] if self.after.get(*only).is_some_and(|after| after.len() > 1) => lowest + 1,
            [_] => lowest,
            _ if lowest == highest => lowest.saturating_sub(1),
            _ => lowest,
        }
    }
}

/// Whether a handler waits for a time.
pub(super) fn is_sleep(handler: &str) -> bool {
    handler == "quantum.flow.sleep"
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn outline(steps: Value) -> Vec<String> {
        let definition = serde_json::from_value(json!({ "refName": "w", "steps": steps })).unwrap();
        let steps = Outline::new(&definition).steps;
        steps.iter().map(|step| format!("{}{}", "  ".repeat(step.level), step.name)).collect()
    }

    fn step(name: &str, depends_on: &[&str]) -> Value {
        json!({ "name": name, "handlerRef": "echo", "dependsOn": depends_on })
    }

    #[test]
    fn chain_of_steps_is_not_indented_and_has_the_order_of_its_dependencies() {
        assert_eq!(outline(json!([step("c", &["b"]), step("a", &[]), step("b", &["a"])])), ["a", "b", "c"]);
    }

    #[test]
    fn paths_between_a_fork_and_a_join_are_indented_and_not_mixed() {
        let steps = json!([
            step("fork", &[]),
            step("a1", &["fork"]),
            step("b1", &["fork"]),
            step("a2", &["a1"]),
            step("b2", &["b1"]),
            step("join", &["a2", "b2"]),
            step("end", &["join"]),
        ]);
        assert_eq!(outline(steps), ["fork", "  a1", "  a2", "  b1", "  b2", "join", "end"]);
    }

    #[test]
    fn cases_of_a_branch_and_targets_of_errors_follow_their_step() {
        let mut failing = step("fetch", &[]);
        failing["onError"] = json!({ "branch": { "TIMEOUT": "later", "default": "report" } });
        let steps = json!([
            step("later", &[]),
            failing,
            step("report", &[]),
            step("route", &["fetch"]),
            step("large", &["route.large"]),
        ]);
        assert_eq!(outline(steps), ["fetch", "  later", "  report", "  route", "  large"]);
    }
}
