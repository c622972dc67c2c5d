//! Connects the steps: the order of the document, `goto` and `end` become dependencies, branches and error routes.

use std::collections::BTreeSet;

use serde_json::{Value, json};
use toolwright_types::{ErrorRoutes, OnError, WorkflowStep};

use super::super::problem::Problems;
use super::super::{BRANCH, JOIN};
use super::outcome::{Outcome, Success, Target};
use super::step;

/// A converted step with what follows it.
pub(super) struct ImportedStep {
    pub path: String,
    pub step: WorkflowStep,
    pub outcome: Outcome,
}

pub(super) fn connect(steps: Vec<ImportedStep>, problems: &mut Problems) -> Option<Vec<WorkflowStep>> {
    let mut graph = Graph::new(&steps, problems);
    let errors: Vec<(OnError, Vec<WorkflowStep>)> = steps.iter().map(|step| graph.error_route(step, &steps)).collect();
    for (at, step) in steps.iter().enumerate() {
        if !graph.is_reached(at) {
            problems.add(&step.path, "no step leads to this step; remove it, or lead to it with `goto`");
        }
    }
    let Graph { waits, branches, .. } = graph;
    let mut connected = Vec::with_capacity(waits.len());
    for (((mut imported, waits), branch), (on_error, rescues)) in steps.into_iter().zip(waits).zip(branches).zip(errors)
    {
        imported.step.depends_on = waits;
        imported.step.retry = imported.outcome.retry;
        imported.step.on_error = on_error;
        connected.push(imported.step);
        connected.extend(branch);
        connected.extend(rescues);
    }
    Some(connected)
}

/// The dependencies of the steps, by position.
struct Graph {
    /// The names of all steps.
    names: BTreeSet<String>,
    /// What each step waits for.
    waits: Vec<Vec<String>>,
    /// The branch after each step.
    branches: Vec<Option<WorkflowStep>>,
    /// Whether each step also runs without an error.
    regular: Vec<bool>,
    /// The steps that run only after errors.
    targets: BTreeSet<usize>,
    /// Whether the document contains the dependencies of an export.
    has_written: bool,
}

impl Graph {
    fn new(steps: &[ImportedStep], problems: &mut Problems) -> Self {
        let mut graph = Self {
            names: steps.iter().map(|step| step.step.name.clone()).collect(),
            waits: vec![Vec::new(); steps.len()],
            branches: Vec::with_capacity(steps.len()),
            regular: Vec::new(),
            targets: BTreeSet::new(),
            has_written: steps.iter().any(|step| step.outcome.depends_on.is_some()),
        };
        for (at, step) in steps.iter().enumerate() {
            let next = if at + 1 < steps.len() { Target::Step(at + 1) } else { Target::End };
            let is_next = matches!(&step.outcome.success, Success::Goto(target) if *target == next)
                && step
                    .outcome
                    .failure
                    .iter()
                    .all(|(codes, target)| codes.is_empty() && [next, Target::End].contains(target));
            if graph.has_written && !is_next {
                problems.add(&step.path, "steps with `dependsOn` in `x-toolwright` must lead to the next step");
            }
            let branch = graph.success(step);
            graph.branches.push(branch);
        }
        for (waits, step) in graph.waits.iter_mut().zip(steps) {
            if let Some(written) = &step.outcome.depends_on {
                waits.clone_from(written);
            }
        }
        let is_regular = |(at, step): (usize, &ImportedStep)| {
            at == 0 || step.outcome.depends_on.is_some() || graph.waits.get(at).is_some_and(|waits| !waits.is_empty())
        };
        graph.regular = steps.iter().enumerate().map(is_regular).collect();
        graph
    }

    fn is_reached(&self, at: usize) -> bool {
        self.regular.get(at) == Some(&true) || self.targets.contains(&at)
    }

    fn wait(&mut self, target: Target, dependency: String) {
        if let Target::Step(to) = target
            && let Some(waits) = self.waits.get_mut(to)
            && !waits.contains(&dependency)
        {
            waits.push(dependency);
        }
    }

    /// Connects a step with those that follow its success. Returns the branch between them.
    fn success(&mut self, step: &ImportedStep) -> Option<WorkflowStep> {
        let name = &step.step.name;
        match &step.outcome.success {
            Success::Goto(target) => {
                self.wait(*target, name.clone());
                None
            }
            Success::Branch { cases, default } => {
                let branch = unique(&format!("{name}_next"), &mut self.names);
                for (case, _, target) in cases {
                    self.wait(*target, format!("{branch}.{case}"));
                }
                self.wait(default.1, format!("{branch}.{}", default.0));
                Some(branch_step(&branch, name, cases, &default.0))
            }
        }
    }

    /// Connects a step with those that follow its errors. Returns the steps that stand for errors: a step runs either
    /// after an error or after other steps, so that a target that follows both waits for the step in between.
    fn error_route(&mut self, step: &ImportedStep, steps: &[ImportedStep]) -> (OnError, Vec<WorkflowStep>) {
        let mut routes = ErrorRoutes::default();
        let mut rescues: Vec<(usize, WorkflowStep)> = Vec::new();
        for (codes, target) in &step.outcome.failure {
            let Target::Step(to) = target else { break };
            let is_successor = matches!(&step.outcome.success, Success::Goto(success) if success == target);
            if codes.is_empty() && routes.codes.is_empty() && is_successor {
                return (OnError::Continue, Vec::new());
            }
            let known = rescues.iter().find(|(known, _)| known == to).map(|(_, rescue)| rescue.name.clone());
            let name = match (self.regular.get(*to), known) {
                (Some(true), Some(known)) => known,
                (Some(true), None) => {
                    let name = unique(&format!("{}_failed", step.step.name), &mut self.names);
                    self.wait(*target, name.clone());
                    rescues.push((*to, step::new(&name, JOIN)));
                    name
                }
                _ => {
                    self.targets.insert(*to);
                    steps.get(*to).map(|step| step.step.name.clone()).unwrap_or_default()
                }
            };
            for code in codes {
                routes.codes.entry(code.as_str().to_owned()).or_insert_with(|| name.clone());
            }
            if codes.is_empty() {
                routes.default = Some(name);
            }
        }
        let on_error = match (routes.codes.is_empty(), routes.default) {
            (true, None) => OnError::Fail,
            (true, Some(target)) => OnError::Fallback(target),
            (false, default) => OnError::Branch(ErrorRoutes { codes: routes.codes, default }),
        };
        (on_error, rescues.into_iter().map(|(_, rescue)| rescue).collect())
    }
}

fn branch_step(name: &str, after: &str, cases: &[(String, String, Target)], default: &str) -> WorkflowStep {
    let cases: Vec<Value> =
        cases.iter().map(|(name, when, _)| json!({ "name": name, "when": format!("${{{when}}}") })).collect();
    let mut branch = step::new(name, BRANCH);
    branch.input = Some(json!({ "cases": cases, "default": default }));
    branch.depends_on = vec![after.to_owned()];
    branch
}

fn unique(name: &str, taken: &mut BTreeSet<String>) -> String {
    let mut unique = name.to_owned();
    while !taken.insert(unique.clone()) {
        unique.push('_');
    }
    unique
}
