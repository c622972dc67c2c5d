//! Compiles the definition of a workflow to a graph, and finds the problems that need no other definition.

use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

use serde_json::Value;
use toolwright_expr::{Expression, Reference, Template};
use toolwright_types::{
    ErrorCode, MAX_WORKFLOW_STEPS, OnError, RetryDelays, RetryPolicy, StepRegistration, WorkflowDefinition,
    WorkflowStep, closest_name, is_valid_step_name, step_handlers,
};

use super::branch::CompiledBranch;
use super::graph::{self, CompiledItems, CompiledMappings, CompiledRetry, Edge, EdgeKind};
use super::references::{CompiledValue, ReferencedValue, StepNames};
use super::{GraphStep, HandlerKind, WorkflowGraph, WorkflowIssue, WorkflowSource, order};

/// The maximum number of dependencies of all steps of a workflow.
pub const MAX_WORKFLOW_EDGES: usize = 100_000;
/// The maximum number of expressions of a workflow.
const MAX_EXPRESSIONS: usize = 100_000;
/// The maximum number of issues that are reported.
const MAX_ISSUES: usize = 50;
/// The maximum number of attempts of a step.
const MAX_ATTEMPTS: u32 = 100;
/// The maximum value of `concurrency` and `maxParallelCalls`.
const MAX_PARALLEL: u32 = 1000;
/// The maximum value of `maxItems`.
const MAX_ITEMS: u32 = 100_000;
/// The maximum time of a step or a delay: one year.
const MAX_WAIT_MS: u64 = 366 * 86_400_000;

pub(super) fn compile(source: WorkflowSource) -> Result<WorkflowGraph, Vec<WorkflowIssue>> {
    let mut compiler = Compiler { issues: Vec::new(), expressions: 0 };
    match compiler.compile(&source.definition, &source) {
        Some(parts) if !compiler.issues.iter().any(WorkflowIssue::is_error) => {
            let Parts { steps, positions, leaves, output } = parts;
            Ok(WorkflowGraph { source, steps, positions, leaves, output, warnings: compiler.issues })
        }
        _ => Err(compiler.issues),
    }
}

struct Compiler {
    issues: Vec<WorkflowIssue>,
    expressions: usize,
}

struct Parts {
    steps: Vec<GraphStep>,
    positions: HashMap<String, u32>,
    leaves: Vec<u32>,
    output: Option<CompiledValue>,
}

impl Compiler {
    fn report(&mut self, issue: WorkflowIssue) {
        if self.issues.len() < MAX_ISSUES {
            self.issues.push(issue);
        }
    }

    fn error(&mut self, code: &str, path: impl Into<String>, message: impl Into<String>) {
        self.report(WorkflowIssue::error(code, path, message));
    }

    /// Returns `None` if the steps cannot be compiled at all.
    fn compile(&mut self, definition: &WorkflowDefinition, source: &WorkflowSource) -> Option<Parts> {
        let count = definition.steps.len();
        if !(1..=MAX_WORKFLOW_STEPS).contains(&count) {
            self.error("step_count", "/steps", format!("must have 1 to {MAX_WORKFLOW_STEPS} steps, got {count}"));
            return None;
        }
        let edges: usize =
            definition.steps.iter().map(|step| step.depends_on.len() + step.on_error.targets().len()).sum();
        if edges > MAX_WORKFLOW_EDGES {
            let message = format!("must have at most {MAX_WORKFLOW_EDGES} dependencies and error targets, got {edges}");
            self.error("edge_count", "/steps", message);
            return None;
        }
        self.check_limits(definition);
        let names = self.names(definition);
        let mut steps: Vec<GraphStep> = Vec::with_capacity(count);
        for (at, step) in definition.steps.iter().enumerate() {
            if self.issues.len() >= MAX_ISSUES {
                return None;
            }
            let compiled = self.compile_step(at, step, source, &names);
            steps.push(compiled);
        }
        self.connect(definition, &names, &mut steps);
        let output = definition.output.as_ref().map(|output| self.value(output, "/output", &names, &[]));
        if self.issues.iter().any(WorkflowIssue::is_error) {
            return None;
        }
        let Some(order) = order::topological_order(&steps) else {
            self.report_cycle(definition, &steps);
            return None;
        };
        self.check_references(&names, &steps, &order, output.as_ref());
        self.warn_unreachable(&steps, &order);
        let leaves = (0..).zip(&steps).filter(|(_, step)| is_leaf(step)).map(|(at, _)| at).collect();
        Some(Parts { steps, positions: names.steps, leaves, output })
    }

    fn check_limits(&mut self, definition: &WorkflowDefinition) {
        let limits = &definition.limits;
        let counts =
            [("maxItems", limits.max_items, MAX_ITEMS), ("maxParallelCalls", limits.max_parallel_calls, MAX_PARALLEL)];
        for (field, value, most) in counts {
            if let Some(value) = value.filter(|value| !(1..=most).contains(value)) {
                self.error("limit", format!("/limits/{field}"), format!("must be 1 to {most}, got {value}"));
            }
        }
        if let Some(cost) = limits.max_cost_usd.filter(|cost| !(cost.is_finite() && *cost >= 0.0)) {
            self.error("limit", "/limits/maxCostUsd", format!("must be 0 or more, got {cost}"));
        }
        self.check_wait("/limits/timeout", limits.timeout.map(|timeout| timeout.0), 1);
    }

    fn check_wait(&mut self, path: &str, wait_ms: Option<u64>, least: u64) {
        if let Some(wait) = wait_ms.filter(|wait| !(least..=MAX_WAIT_MS).contains(wait)) {
            self.error("duration", path, format!("must be {least} to {MAX_WAIT_MS} ms, got {wait} ms"));
        }
    }

    /// Collects the names of the steps and of their outputs.
    fn names(&mut self, definition: &WorkflowDefinition) -> StepNames {
        let mut names = StepNames::default();
        for (at, step) in (0_u32..).zip(&definition.steps) {
            let path = format!("/steps/{at}/name");
            if !is_valid_step_name(&step.name) {
                self.report(invalid_name(path, &step.name));
            } else if names.steps.insert(step.name.clone(), at).is_some() {
                self.error("duplicate_step", path, format!("another step is also named `{}`; rename one", step.name));
            }
        }
        for (at, step) in (0_u32..).zip(&definition.steps) {
            let Some(name) = &step.output_as else { continue };
            let path = format!("/steps/{at}/outputAs");
            if !is_valid_step_name(name) {
                self.report(invalid_name(path, name));
            } else if names.steps.get(name).is_some_and(|step| *step != at) {
                self.error(
                    "duplicate_output",
                    path,
                    format!("`{name}` is the name of another step; choose another name"),
                );
            } else if names.outputs.insert(name.clone(), at).is_some() {
                self.error(
                    "duplicate_output",
                    path,
                    format!("another step also names its output `{name}`; rename one"),
                );
            }
        }
        names
    }

    fn compile_step(
        &mut self,
        at: usize,
        step: &WorkflowStep,
        source: &WorkflowSource,
        names: &StepNames,
    ) -> GraphStep {
        let path = format!("/steps/{at}");
        let locals: &[&str] = if step.for_each.is_some() { &graph::ITEM_NAMES } else { &[] };
        let (kind, mappings) = self.handler(&path, step, source);
        let null = Value::Null;
        let written = step.input.as_ref().unwrap_or(&null);
        let (input, branch) = if kind == HandlerKind::Branch {
            (CompiledValue::null(), self.branch(&format!("{path}/input"), written, names))
        } else {
            (self.value(written, &format!("{path}/input"), names, locals), None)
        };
        let items = step.for_each.as_ref().map(|for_each| {
            let concurrency = for_each.concurrency.unwrap_or(toolwright_types::ForEach::CONCURRENCY);
            if !(1..=MAX_PARALLEL).contains(&concurrency) {
                let path = format!("{path}/forEach/concurrency");
                self.error("concurrency", path, format!("must be 1 to {MAX_PARALLEL}, got {concurrency}"));
            }
            let list = self.value(&for_each.items, &format!("{path}/forEach/items"), names, &[]);
            CompiledItems { list, concurrency }
        });
        if step.for_each.is_some() && matches!(kind, HandlerKind::Branch | HandlerKind::Join) {
            self.error(
                "for_each",
                format!("{path}/forEach"),
                "a branch or join cannot run for each item; remove `forEach`",
            );
        }
        self.check_wait(&format!("{path}/timeout"), step.timeout.map(|timeout| timeout.0), 1);
        GraphStep {
            name: step.name.clone(),
            kind,
            dependencies: 0,
            edges: Vec::new(),
            is_error_target: false,
            conditions: self.conditions(&path, step, source, names),
            input,
            branch,
            items,
            mappings,
            retry: step.retry.as_ref().and_then(|policy| self.retry(&format!("{path}/retry"), policy)),
            timeout_ms: step.timeout.map(|timeout| timeout.0),
        }
    }

    fn handler(
        &mut self,
        path: &str,
        step: &WorkflowStep,
        source: &WorkflowSource,
    ) -> (HandlerKind, Option<Box<CompiledMappings>>) {
        let handler = step.handler_ref.as_str();
        let path = format!("{path}/handlerRef");
        if let Some(kind) = graph::built_in_handler(handler) {
            return (kind, None);
        }
        if handler.starts_with(step_handlers::PREFIX) {
            let closest = closest_name(handler, step_handlers::ALL);
            let hint = closest.map_or_else(
                || format!("the built-in handlers are {}", step_handlers::ALL.join(", ")),
                |name| format!("did you mean `{name}`?"),
            );
            let message = format!("`{handler}` is not a built-in handler");
            self.report(WorkflowIssue::error("unknown_handler", path, message).hint(hint));
            return (HandlerKind::Transform, None);
        }
        let registration = source.registrations.get(handler);
        let tool = registration.map_or(handler, |registration| &registration.tool_ref);
        let (name, version) = match tool.split_once('@') {
            Some((name, version)) => (name, Some(version.to_owned())),
            None => (tool, None),
        };
        if name.is_empty() {
            self.error("unknown_handler", &path, "must name a built-in handler, a step registration or a tool");
        }
        let kind = HandlerKind::Call { tool: name.to_owned(), version };
        (kind, registration.and_then(|registration| self.mappings(&path, registration)))
    }

    fn mappings(&mut self, path: &str, registration: &StepRegistration) -> Option<Box<CompiledMappings>> {
        let mut parse = |mapping: &indexmap::IndexMap<String, String>| {
            let parsed = mapping.iter().map(|(field, text)| Template::parse(text).map(|text| (field.clone(), text)));
            parsed.collect::<Result<Vec<_>, _>>().unwrap_or_else(|error| {
                let message =
                    format!("the mappings of step registration `{}` are not valid: {error}", registration.name);
                self.error("registration", path, message);
                Vec::new()
            })
        };
        let (input, output) = (parse(&registration.input_mapping), parse(&registration.output_mapping));
        let is_empty = input.is_empty() && output.is_empty();
        let read_fields = fields_read_by(&input);
        (!is_empty).then(|| Box::new(CompiledMappings { input, read_fields, output }))
    }

    fn branch(&mut self, path: &str, input: &Value, names: &StepNames) -> Option<CompiledBranch> {
        let compiled =
            CompiledBranch::compile(input, |when, field| self.value(when, &format!("{path}{field}"), names, &[]));
        compiled.map_err(|(field, message)| self.error("branch", format!("{path}{field}"), message)).ok()
    }

    /// The conditions of a step. All of them must be true.
    fn conditions(
        &mut self,
        path: &str,
        step: &WorkflowStep,
        source: &WorkflowSource,
        names: &StepNames,
    ) -> Vec<(&'static str, CompiledValue)> {
        let own = step.condition.as_ref().map(|condition| ("condition", condition));
        let named = step.condition_ref.as_ref().and_then(|name| {
            let condition = source.conditions.get(name);
            if condition.is_none() {
                let path = format!("{path}/conditionRef");
                let hint = closest_name(name, source.conditions.keys().map(String::as_str));
                let issue = WorkflowIssue::error(
                    "unknown_condition",
                    path,
                    format!("condition binding `{name}` does not exist"),
                );
                self.report(match hint {
                    Some(hint) => issue.hint(format!("did you mean `{hint}`?")),
                    None => issue.hint("create it, or write the expression as `condition`"),
                });
            }
            condition.map(|condition| ("conditionRef", condition))
        });
        let mut compiled = Vec::new();
        for (field, condition) in own.into_iter().chain(named) {
            let path = format!("{path}/{field}");
            let is_single = Template::parse(condition).map_or(true, |template| template.single().is_some());
            if !is_single {
                let message = "must be one `${…}` expression, such as `${input.amount > 1000}`";
                self.error("condition", &path, message);
            }
            compiled.push((field, self.value(&Value::String(condition.clone()), &path, names, &[])));
        }
        compiled
    }

    fn retry(&mut self, path: &str, policy: &RetryPolicy) -> Option<CompiledRetry> {
        let RetryPolicy { max_attempts, delay, max_delay, backoff, on } = policy;
        if !(1..=MAX_ATTEMPTS).contains(max_attempts) {
            let message = format!("must be 1 to {MAX_ATTEMPTS}, got {max_attempts}");
            self.error("retry", format!("{path}/maxAttempts"), message);
        }
        self.check_wait(&format!("{path}/delay"), delay.map(|delay| delay.0), 0);
        self.check_wait(&format!("{path}/maxDelay"), max_delay.map(|delay| delay.0), 0);
        let delays = RetryDelays {
            initial: Duration::from_millis(delay.map_or(graph::RETRY_DELAY_MS, |delay| delay.0)),
            max: Duration::from_millis(max_delay.map_or(graph::MAX_RETRY_DELAY_MS, |delay| delay.0)),
            backoff: backoff.unwrap_or_default(),
        };
        let codes = if on.is_empty() { graph::RETRIED_CODES.to_vec() } else { on.clone() };
        (*max_attempts > 1).then_some(CompiledRetry { max_attempts: *max_attempts, delays, codes })
    }

    fn value(&mut self, value: &Value, path: &str, names: &StepNames, locals: &[&str]) -> CompiledValue {
        match CompiledValue::parse(value, names, locals) {
            Ok(compiled) => {
                self.expressions = self.expressions.saturating_add(compiled.expressions().len());
                if self.expressions > MAX_EXPRESSIONS {
                    self.error(
                        "expression_count",
                        path,
                        format!("a workflow must have at most {MAX_EXPRESSIONS} expressions"),
                    );
                }
                compiled
            }
            Err(error) => {
                let path = format!("{path}{}", error.pointer().unwrap_or_default());
                self.error("expression", path, error.to_string());
                CompiledValue::null()
            }
        }
    }

    /// Connects the steps by their dependencies and error targets.
    fn connect(&mut self, definition: &WorkflowDefinition, names: &StepNames, steps: &mut [GraphStep]) {
        for (at, step) in (0_u32..).zip(&definition.steps) {
            let mut seen = Vec::with_capacity(step.depends_on.len().min(8));
            for (index, dependency) in step.depends_on.iter().enumerate() {
                let path = format!("/steps/{at}/dependsOn/{index}");
                let (name, case) = match dependency.split_once('.') {
                    Some((name, case)) => (name, Some(case)),
                    None => (dependency.as_str(), None),
                };
                let Some(from) = self.find(&path, name, names) else { continue };
                if step.depends_on.len() <= 1000 && seen.contains(&dependency) {
                    self.error("duplicate_dependency", &path, format!("`{dependency}` is listed twice; remove one"));
                    continue;
                }
                seen.push(dependency);
                let kind = match case {
                    Some(case) => match self.case(&path, get(steps, from), case) {
                        Some(case) => EdgeKind::Case(case),
                        None => continue,
                    },
                    None => EdgeKind::Dependency,
                };
                add_edge(steps, from, at, kind);
            }
            self.connect_errors(at, step, names, steps);
        }
    }

    fn connect_errors(&mut self, at: u32, step: &WorkflowStep, names: &StepNames, steps: &mut [GraphStep]) {
        let routes: Vec<(String, &String)> = match &step.on_error {
            OnError::Fail | OnError::Continue => Vec::new(),
            OnError::Fallback(target) => vec![("fallback".to_owned(), target)],
            OnError::Branch(routes) => {
                for code in
                    routes.codes.keys().filter(|code| ErrorCode::ALL.iter().all(|known| known.as_str() != *code))
                {
                    let known = ErrorCode::ALL.map(ErrorCode::as_str);
                    let issue = WorkflowIssue::error(
                        "error_code",
                        format!("/steps/{at}/onError/branch/{code}"),
                        format!("`{code}` is not an error code"),
                    );
                    self.report(
                        issue.hint(format!("the error codes are {}, and `default` for all others", known.join(", "))),
                    );
                }
                if routes.codes.is_empty() && routes.default.is_none() {
                    self.error(
                        "error_code",
                        format!("/steps/{at}/onError/branch"),
                        "must have an error code or `default`",
                    );
                }
                let codes = routes.codes.iter().map(|(code, target)| (format!("branch/{code}"), target));
                codes.chain(routes.default.iter().map(|target| ("branch/default".to_owned(), target))).collect()
            }
        };
        let mut targets: BTreeSet<u32> = BTreeSet::new();
        for (field, target) in routes {
            let path = format!("/steps/{at}/onError/{field}");
            let Some(to) = self.find(&path, target, names) else { continue };
            if to == at {
                self.error("error_target", path, "a step cannot handle its own error; name another step");
            } else if targets.insert(to) {
                add_edge(steps, at, to, EdgeKind::Error);
            }
        }
    }

    fn find(&mut self, path: &str, name: &str, names: &StepNames) -> Option<u32> {
        let found = names.steps.get(name).copied();
        // Further issues are not reported, so no similar name is searched for them.
        if found.is_none() && self.issues.len() < MAX_ISSUES {
            let issue = WorkflowIssue::error("unknown_step", path, format!("step `{name}` does not exist"));
            let hint = closest_name(name, names.steps.keys().map(String::as_str));
            self.report(match hint {
                Some(hint) => issue.hint(format!("did you mean `{hint}`?")),
                None => issue.hint("use the name of a step of this workflow"),
            });
        }
        found
    }

    /// Checks that a step is a branch with this case. Returns the case.
    fn case(&mut self, path: &str, step: Option<&GraphStep>, case: &str) -> Option<String> {
        let step = step?;
        if step.kind != HandlerKind::Branch {
            let message = format!("`{}` is not a branch, so it has no case `{case}`", step.name);
            self.report(WorkflowIssue::error("unknown_case", path, message).hint(format!("depend on `{}`", step.name)));
            return None;
        }
        let cases: Vec<&str> = step.branch.iter().flat_map(CompiledBranch::names).collect();
        if !cases.contains(&case) {
            let message = format!("branch `{}` has no case `{case}`", step.name);
            let hint = format!("its cases are {}", cases.join(", "));
            self.report(WorkflowIssue::error("unknown_case", path, message).hint(hint));
            return None;
        }
        Some(case.to_owned())
    }

    fn report_cycle(&mut self, definition: &WorkflowDefinition, steps: &[GraphStep]) {
        let cycle = order::find_cycle(steps);
        let names: Vec<&str> = cycle.iter().filter_map(|at| get(steps, *at)).map(|step| step.name.as_str()).collect();
        let first = cycle.first().copied().unwrap_or_default();
        let field = match definition.steps.get(usize::try_from(first).unwrap_or_default()) {
            Some(step) if !step.depends_on.is_empty() => "dependsOn",
            _ => "onError",
        };
        let shown: Vec<&str> = names.iter().copied().take(20).chain(names.first().copied()).collect();
        let message = format!("the steps wait for each other: {}", shown.join(" → "));
        let issue = WorkflowIssue::error("cycle", format!("/steps/{first}/{field}"), message);
        self.report(issue.hint("remove one of these dependencies; to repeat work for a list, use `forEach`"));
    }

    /// Checks that each step reads only steps that have ended when it starts.
    fn check_references(
        &mut self,
        names: &StepNames,
        steps: &[GraphStep],
        order: &[u32],
        output: Option<&CompiledValue>,
    ) {
        let ancestors = order::Ancestors::new(steps, order);
        for (at, step) in (0_u32..).zip(steps) {
            for (field, value, locals) in step.values() {
                let path = format!("/steps/{at}/{field}");
                for expression in value.expressions() {
                    self.check_expression(&path, expression, names, locals, |read| {
                        if read == at {
                            return Some("a step cannot read its own result".to_owned());
                        }
                        let name = &get(steps, read)?.name;
                        let message = format!("step `{}` does not run after step `{name}`", step.name);
                        (!ancestors.contains(at, read)).then_some(message)
                    });
                }
            }
        }
        for expression in output.into_iter().flat_map(CompiledValue::expressions) {
            self.check_expression("/output", expression, names, &[], |_| None);
        }
    }

    fn check_expression(
        &mut self,
        path: &str,
        expression: &Expression,
        names: &StepNames,
        locals: &[&str],
        unreadable: impl Fn(u32) -> Option<String>,
    ) {
        for reference in expression.references() {
            let issue = match names.resolve(&reference, locals).value {
                ReferencedValue::UnknownStep(name) => {
                    let hint = closest_name(&name, names.steps.keys().map(String::as_str));
                    let hint = hint
                        .map_or_else(|| "use the name of a step".to_owned(), |name| format!("did you mean `{name}`?"));
                    let message = format!("`{}` reads step `{name}`, which does not exist", expression.source());
                    WorkflowIssue::error("unknown_step", path, message).hint(hint)
                }
                ReferencedValue::Output(read) | ReferencedValue::State(read) => match unreadable(read) {
                    Some(why) => {
                        WorkflowIssue::error("unordered_reference", path, format!("`{}`: {why}", expression.source()))
                            .hint("add the step to `dependsOn`")
                    }
                    None => continue,
                },
                _ => continue,
            };
            self.report(issue);
        }
    }

    /// Warns about steps that never run.
    fn warn_unreachable(&mut self, steps: &[GraphStep], order: &[u32]) {
        // Whether an edge can let each step run.
        let mut can_run: Vec<bool> = steps.iter().map(|step| step.dependencies == 0).collect();
        for at in order.iter().copied() {
            let Some(step) = get(steps, at) else { continue };
            let is_false = |(_, condition): &(_, CompiledValue)| condition.constant() == Some(Value::Bool(false));
            if !can_run.get(to_index(at)).is_some_and(|can_run| *can_run) || step.conditions.iter().any(is_false) {
                let message = format!("step `{}` never runs, because a condition is always false", step.name);
                let warning = WorkflowIssue::warning("unreachable_step", format!("/steps/{at}"), message);
                self.report(warning.hint("remove the step, or correct the condition"));
                continue;
            }
            for edge in &step.edges {
                let lets_run =
                    edge.kind == EdgeKind::Error || !get(steps, edge.to).is_some_and(|to| to.is_error_target);
                if let Some(can_run) = can_run.get_mut(to_index(edge.to)) {
                    *can_run |= lets_run;
                }
            }
        }
    }
}

fn invalid_name(path: String, name: &str) -> WorkflowIssue {
    let message = format!("`{name}` is not a valid name of a step");
    let hint = "use letters, digits, `_` and `-`, and start with a letter or `_`; `input`, `param`, `steps`, `item`, \
                `index` and `output` have another meaning";
    WorkflowIssue::error("step_name", path, message).hint(hint)
}

/// The fields of a step's input that a mapping reads. `None` if the mapping reads the whole input.
fn fields_read_by(mapping: &[(String, Template)]) -> Option<BTreeSet<String>> {
    let expressions = mapping.iter().flat_map(|(_, template)| template.expressions());
    let references = expressions.flat_map(Expression::references);
    let field = |reference: Reference<'_>| match reference.root {
        "input" | "param" => reference.fields.first().map(|field| (*field).to_owned()),
        root => Some(root.to_owned()),
    };
    references.map(field).collect()
}

/// Whether no other step depends on a step.
fn is_leaf(step: &GraphStep) -> bool {
    step.edges.iter().all(|edge| edge.kind == EdgeKind::Error)
}

fn add_edge(steps: &mut [GraphStep], from: u32, to: u32, kind: EdgeKind) {
    if let Some(target) = steps.get_mut(to_index(to)) {
        target.dependencies += 1;
        target.is_error_target |= kind == EdgeKind::Error;
    }
    if let Some(source) = steps.get_mut(to_index(from)) {
        source.edges.push(Edge { to, kind });
    }
}

fn get(steps: &[GraphStep], at: u32) -> Option<&GraphStep> {
    steps.get(to_index(at))
}

fn to_index(at: u32) -> usize {
    usize::try_from(at).unwrap_or(usize::MAX)
}
