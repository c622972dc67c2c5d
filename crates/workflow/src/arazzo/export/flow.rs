//! What follows each step: the order of the steps, branches and error routes.

use std::collections::{BTreeMap, HashMap};

use serde_json::Value;
use toolwright_types::{OnError, WorkflowDefinition, WorkflowStep};

use super::super::problem::Problems;
use super::super::{BRANCH, JOIN};

/// Where a workflow continues.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Target {
    /// The step at a position of the definition.
    Step(usize),
    End,
}

/// What follows a step after its success.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Success {
    Goto(Target),
    Branch { at: usize, cases: Vec<Case>, default: (String, Target) },
}

/// A case of a branch.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Case {
    pub name: String,
    pub when: String,
    pub target: Target,
}

/// The steps that become steps of the document.
pub(super) struct Flow {
    /// Their positions in the definition, in the order of the document.
    pub order: Vec<usize>,
    pub success: HashMap<usize, Success>,
    /// The routes of errors: the code, or none for all others.
    pub failure: HashMap<usize, Vec<(Option<String>, usize)>>,
    /// Whether the steps wait for each other in another way than the order of the document.
    pub is_parallel: bool,
}

/// Finds what follows each step. Problems have the prefix `path`.
pub(super) fn flow(definition: &WorkflowDefinition, path: &str, problems: &mut Problems) -> Option<Flow> {
    let before = problems.list.len();
    let mut reader = FlowReader::new(definition, path, problems)?;
    let flow = reader.read();
    (problems.list.len() == before).then_some(flow).flatten()
}

struct FlowReader<'d> {
    definition: &'d WorkflowDefinition,
    path: &'d str,
    problems: &'d mut Problems,
    positions: HashMap<&'d str, usize>,
    /// The steps that wait for each step, with the case of a branch.
    waiting: Vec<Vec<(usize, Option<&'d str>)>>,
    order: Vec<usize>,
}

impl<'d> FlowReader<'d> {
    fn new(definition: &'d WorkflowDefinition, path: &'d str, problems: &'d mut Problems) -> Option<Self> {
        let mut positions = HashMap::new();
        for (at, step) in definition.steps.iter().enumerate() {
            if positions.insert(step.name.as_str(), at).is_some() {
                problems.add(format!("{path}/steps/{at}/name"), "another step has the same name");
            }
        }
        let mut waiting = vec![Vec::new(); definition.steps.len()];
        let mut open = vec![0_usize; definition.steps.len()];
        let mut after: Vec<Vec<usize>> = vec![Vec::new(); definition.steps.len()];
        for (at, step) in definition.steps.iter().enumerate() {
            for (index, dependency) in step.depends_on.iter().enumerate() {
                let (name, case) =
                    dependency.split_once('.').map_or((dependency.as_str(), None), |(name, case)| (name, Some(case)));
                match positions
                    .get(name)
                    .and_then(|from| Some((waiting.get_mut(*from)?, after.get_mut(*from)?, open.get_mut(at)?)))
                {
                    Some((waiting, after, open)) => {
                        waiting.push((at, case));
                        after.push(at);
                        *open += 1;
                    }
                    None => problems
                        .add(format!("{path}/steps/{at}/dependsOn/{index}"), format!("step `{name}` does not exist")),
                }
            }
            for target in step.on_error.targets() {
                let to = positions.get(target.as_str()).copied();
                match to.and_then(|to| Some((to, after.get_mut(at)?, open.get_mut(to)?))) {
                    Some((to, after, open)) => {
                        after.push(to);
                        *open += 1;
                    }
                    None => {
                        problems.add(format!("{path}/steps/{at}/onError"), format!("step `{target}` does not exist"))
                    }
                }
            }
        }
        // The order of the definition, as far as no step precedes those that it waits for.
        let mut ready: std::collections::BTreeSet<usize> =
            open.iter().enumerate().filter(|(_, open)| **open == 0).map(|(at, _)| at).collect();
        let mut order = Vec::with_capacity(open.len());
        while let Some(at) = ready.pop_first() {
            order.push(at);
            for to in after.get(at).into_iter().flatten() {
                if let Some(open) = open.get_mut(*to) {
                    *open = open.saturating_sub(1);
                    if *open == 0 {
                        ready.insert(*to);
                    }
                }
            }
        }
        if order.len() < definition.steps.len() {
            problems.add(format!("{path}/steps"), "the steps wait for each other");
            return None;
        }
        Some(Self { definition, path, problems, positions, waiting, order })
    }

    fn step(&self, at: usize) -> Option<&'d WorkflowStep> {
        self.definition.steps.get(at)
    }

    fn refuse(&mut self, at: usize, field: &str, message: impl Into<String>) {
        self.problems.add(format!("{}/steps/{at}/{field}", self.path), message);
    }

    fn is_branch(&self, at: usize) -> bool {
        self.step(at).is_some_and(|step| step.handler_ref == BRANCH)
    }

    /// Whether a step only stands for an error of another step.
    fn is_rescue(&self, at: usize) -> bool {
        let Some(step) = self.step(at) else { return false };
        step.handler_ref == JOIN && step.depends_on.is_empty() && self.is_error_target(&step.name)
    }

    fn is_error_target(&self, name: &str) -> bool {
        self.definition.steps.iter().any(|step| step.on_error.targets().iter().any(|target| *target == name))
    }

    fn read(&mut self) -> Option<Flow> {
        let steps = || self.definition.steps.iter().enumerate();
        let is_plain = steps().all(|(at, step)| !self.is_branch(at) && step.on_error.targets().is_empty());
        let order: Vec<usize> =
            self.order.iter().copied().filter(|at| !self.is_branch(*at) && !self.is_rescue(*at)).collect();
        match is_plain {
            true => self.read_plain(order),
            false => self.read_routes(order),
        }
    }

    /// All steps run, unless one of them fails. They can run one after the other.
    fn read_plain(&mut self, order: Vec<usize>) -> Option<Flow> {
        let mut flow = Flow { order, success: HashMap::new(), failure: HashMap::new(), is_parallel: false };
        let nexts = flow.order.iter().skip(1).map(|at| Target::Step(*at)).chain([Target::End]);
        for (at, next) in flow.order.iter().copied().zip(nexts) {
            flow.success.insert(at, Success::Goto(next));
            if self.step(at)?.on_error == OnError::Continue {
                match next {
                    Target::Step(next) => drop(flow.failure.insert(at, vec![(None, next)])),
                    Target::End => self.refuse(at, "onError", LAST_CONTINUE),
                }
            }
        }
        let names = flow.order.iter().filter_map(|at| Some(self.step(*at)?.name.as_str()));
        let previous = [None].into_iter().chain(names.map(Some));
        flow.is_parallel = flow.order.iter().zip(previous).any(|(at, previous)| {
            self.step(*at).is_some_and(|step| !step.depends_on.iter().map(String::as_str).eq(previous))
        });
        Some(flow)
    }

    /// Some steps run only in some cases. Then one step runs at a time, because the document describes one path.
    fn read_routes(&mut self, order: Vec<usize>) -> Option<Flow> {
        let mut flow = Flow { order, success: HashMap::new(), failure: HashMap::new(), is_parallel: false };
        for (index, at) in flow.order.iter().copied().enumerate() {
            let step = self.step(at)?;
            let is_target = self.is_error_target(&step.name);
            if index > 0 && step.depends_on.is_empty() && !is_target {
                self.refuse(at, "dependsOn", "only one step can run first, because other steps run only in some cases");
            }
            if is_target && !step.depends_on.is_empty() {
                self.refuse(at, "dependsOn", "a step that runs after an error cannot depend on other steps");
            }
            let success = self.success(at)?;
            let failure = self.failure(at, &success);
            flow.success.insert(at, success);
            flow.failure.insert(at, failure);
        }
        Some(flow)
    }

    /// The step that waits for a step, or for a case of a branch.
    fn successor(&mut self, at: usize, case: Option<&str>) -> Target {
        let waiting: Vec<usize> =
            self.waiting.get(at).into_iter().flatten().filter(|(_, other)| *other == case).map(|(to, _)| *to).collect();
        match waiting.as_slice() {
            [] => Target::End,
            [to] => Target::Step(*to),
            [_, second, ..] => {
                let message = "two steps run at the same time, and other steps run only in some cases; \
                               an Arazzo document describes one path";
                self.refuse(*second, "dependsOn", message);
                Target::End
            }
        }
    }

    fn success(&mut self, at: usize) -> Option<Success> {
        let Target::Step(next) = self.successor(at, None) else { return Some(Success::Goto(Target::End)) };
        if !self.is_branch(next) {
            return Some(Success::Goto(Target::Step(next)));
        }
        let branch = self.step(next)?;
        if branch.depends_on.len() > 1 {
            self.refuse(next, "dependsOn", "a branch must depend on one step");
        }
        if branch.on_error != OnError::Fail {
            self.refuse(next, "onError", "a branch must fail on errors");
        }
        if self.waiting.get(next).is_some_and(|waiting| waiting.iter().any(|(_, case)| case.is_none())) {
            self.refuse(next, "name", "steps must depend on a case of the branch");
        }
        let text = |value: &Value, key: &str| value.get(key).and_then(Value::as_str).map(str::to_owned);
        let input = branch.input.as_ref().unwrap_or(&Value::Null);
        let list = input.get("cases").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
        let mut cases = Vec::with_capacity(list.len());
        for (index, case) in list.iter().enumerate() {
            let (Some(name), Some(when)) = (text(case, "name"), text(case, "when")) else {
                self.refuse(next, &format!("input/cases/{index}"), "must have `name` and the expression `when`");
                continue;
            };
            let target = self.case_target(next, &name);
            cases.push(Case { name, when, target });
        }
        let default = text(input, "default").unwrap_or_else(|| "end".to_owned());
        let target = self.case_target(next, &default);
        Some(Success::Branch { at: next, cases, default: (default, target) })
    }

    fn case_target(&mut self, branch: usize, case: &str) -> Target {
        let target = self.successor(branch, Some(case));
        if let Target::Step(to) = target
            && self.is_branch(to)
        {
            self.refuse(to, "dependsOn", "a branch must depend on a step that calls an operation or a workflow");
        }
        target
    }

    fn failure(&mut self, at: usize, success: &Success) -> Vec<(Option<String>, usize)> {
        let Some(step) = self.step(at) else { return Vec::new() };
        match &step.on_error {
            OnError::Fail => Vec::new(),
            OnError::Continue => match success {
                Success::Goto(Target::Step(next)) => vec![(None, *next)],
                Success::Goto(Target::End) => {
                    self.refuse(at, "onError", LAST_CONTINUE);
                    Vec::new()
                }
                Success::Branch { .. } => {
                    self.refuse(at, "onError", "a step before a branch cannot continue after an error");
                    Vec::new()
                }
            },
            OnError::Fallback(target) => self.error_target(at, target).map(|to| (None, to)).into_iter().collect(),
            OnError::Branch(routes) => {
                let mut list = Vec::new();
                let codes: BTreeMap<&String, &String> = routes.codes.iter().collect();
                for (code, target) in codes {
                    list.extend(self.error_target(at, target).map(|to| (Some(code.clone()), to)));
                }
                if let Some(target) = &routes.default {
                    list.extend(self.error_target(at, target).map(|to| (None, to)));
                }
                list
            }
        }
    }

    fn error_target(&mut self, at: usize, name: &str) -> Option<usize> {
        let to = self.positions.get(name).copied()?;
        if !self.is_rescue(to) {
            return Some(to);
        }
        match self.successor(to, None) {
            Target::Step(next) if !self.is_branch(next) => Some(next),
            _ => {
                self.refuse(
                    at,
                    "onError",
                    "an error must lead to a step; an Arazzo workflow that ends after an error fails",
                );
                None
            }
        }
    }
}

const LAST_CONTINUE: &str = "no step follows, and an Arazzo workflow that ends after an error fails";
