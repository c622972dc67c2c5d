//! The difference between two definitions of a workflow. Layout and the order of steps have no meaning, so they are not
//! differences.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt;

use serde::Serialize;
use serde_json::{Map, Value};
use toolwright_types::{OnError, WorkflowDefinition, WorkflowStep};

use crate::edges::{Edge, edges};

/// The maximum number of times that renamed steps are searched. A rename can depend on another rename.
const MAX_RENAME_ROUNDS: usize = 100;

/// The difference between two definitions of a workflow.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct WorkflowDiff {
    /// The changed fields of the workflow, such as its schemas and limits.
    pub fields: Vec<FieldChange>,
    /// The changed steps: first the removed and changed ones in their old order, then the added ones.
    pub steps: Vec<StepChange>,
    /// The added and removed edges between steps.
    pub edges: Vec<EdgeChange>,
}

/// A changed field.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct FieldChange {
    /// The JSON pointer of the field.
    pub path: String,
    /// The value before the change. Absent if the field is new.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub before: Option<Value>,
    /// The value after the change. Absent if the field was removed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub after: Option<Value>,
}

/// A changed step.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase", tag = "change")]
pub enum StepChange {
    /// The step is new.
    Added {
        /// The name.
        name: String,
        /// The handler.
        #[serde(rename = "handlerRef")]
        handler_ref: String,
    },
    /// The step was removed.
    Removed {
        /// The name.
        name: String,
        /// The handler.
        #[serde(rename = "handlerRef")]
        handler_ref: String,
    },
    /// The step has a new name, and nothing else changed.
    Renamed {
        /// The old name.
        name: String,
        /// The new name.
        to: String,
    },
    /// Some fields of the step changed.
    Changed {
        /// The name.
        name: String,
        /// The changed fields, relative to the step. Dependencies are edges.
        fields: Vec<FieldChange>,
    },
}

/// A changed edge. Renamed steps have their new names.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase", tag = "change")]
pub enum EdgeChange {
    /// The edge is new.
    Added(Edge),
    /// The edge was removed.
    Removed(Edge),
}

impl WorkflowDiff {
    /// Whether the definitions have the same meaning.
    pub fn is_empty(&self) -> bool {
        self.fields.is_empty() && self.steps.is_empty() && self.edges.is_empty()
    }
}

/// Compares two definitions. If a name occurs twice in a definition, only its first step is compared.
pub fn diff(before: &WorkflowDefinition, after: &WorkflowDefinition) -> WorkflowDiff {
    let (old, new) = (by_name(before), by_name(after));
    let renames = renames(before, after, &old, &new);
    let mut fields = Vec::new();
    compare("", &header(before), &header(after), &mut fields);
    WorkflowDiff {
        fields,
        steps: step_changes(before, after, &old, &new, &renames),
        edges: edge_changes(before, after, &renames),
    }
}

type Steps<'a> = HashMap<&'a str, &'a WorkflowStep>;
/// The new name of each renamed step, by its old name.
type Renames<'a> = HashMap<&'a str, &'a str>;

fn by_name(workflow: &WorkflowDefinition) -> Steps<'_> {
    workflow.steps.iter().rev().map(|step| (step.name.as_str(), step)).collect()
}

/// The fields of a workflow except its steps and its layout.
fn header(workflow: &WorkflowDefinition) -> Value {
    let mut fields = object(workflow);
    for field in ["steps", "layout"] {
        fields.shift_remove(field);
    }
    // The name of a workflow is its reference name by default.
    if fields.get("name") == fields.get("refName") {
        fields.shift_remove("name");
    }
    Value::Object(fields)
}

fn object(value: &impl Serialize) -> Map<String, Value> {
    match serde_json::to_value(value) {
        Ok(Value::Object(fields)) => fields,
        _ => Map::new(),
    }
}

/// Finds the steps that have a new name and are equal otherwise. Steps that several steps equal are paired in order.
fn renames<'a>(
    before: &'a WorkflowDefinition,
    after: &'a WorkflowDefinition,
    old: &Steps<'a>,
    new: &Steps<'a>,
) -> Renames<'a> {
    let is_gone = |step: &&WorkflowStep| !new.contains_key(step.name.as_str());
    let mut removed: Vec<&WorkflowStep> = before.steps.iter().filter(is_gone).collect();
    let mut added: Vec<&WorkflowStep> =
        after.steps.iter().filter(|step| !old.contains_key(step.name.as_str())).collect();
    let mut renames = Renames::new();
    for _ in 0..MAX_RENAME_ROUNDS {
        let mut candidates: HashMap<String, Vec<&WorkflowStep>> = HashMap::new();
        for step in added.iter().rev() {
            candidates.entry(identity(step, &Renames::new())).or_default().push(step);
        }
        let known = renames.len();
        let mut found = Vec::new();
        for step in &removed {
            if let Some(to) = candidates.get_mut(&identity(step, &renames)).and_then(Vec::pop) {
                found.push((step.name.as_str(), to.name.as_str()));
            }
        }
        renames.extend(found);
        if renames.len() == known {
            break;
        }
        let targets: BTreeSet<&str> = renames.values().copied().collect();
        removed.retain(|step| !renames.contains_key(step.name.as_str()));
        added.retain(|step| !targets.contains(step.name.as_str()));
    }
    renames
}

/// A text that is equal for steps that differ only in their names.
fn identity(step: &WorkflowStep, renames: &Renames<'_>) -> String {
    let mut renamed = with_new_names(step, renames);
    renamed.name.clear();
    renamed.depends_on.sort();
    serde_json::to_string(&renamed).unwrap_or_default()
}

/// A step in which dependencies and error routes have the new names of renamed steps.
fn with_new_names(step: &WorkflowStep, renames: &Renames<'_>) -> WorkflowStep {
    let rename = |name: &mut String| {
        if let Some(new) = renames.get(name.as_str()) {
            *name = (*new).to_owned();
        }
    };
    let mut step = step.clone();
    for dependency in &mut step.depends_on {
        let (mut name, case) = match dependency.split_once('.') {
            Some((name, case)) => (name.to_owned(), Some(case)),
            None => (dependency.clone(), None),
        };
        rename(&mut name);
        *dependency = case.map_or_else(|| name.clone(), |case| format!("{name}.{case}"));
    }
    match &mut step.on_error {
        OnError::Fail | OnError::Continue => {}
        OnError::Fallback(target) => rename(target),
        OnError::Branch(routes) => routes.codes.values_mut().chain(&mut routes.default).for_each(rename),
    }
    step
}

fn step_changes(
    before: &WorkflowDefinition,
    after: &WorkflowDefinition,
    old: &Steps<'_>,
    new: &Steps<'_>,
    renames: &Renames<'_>,
) -> Vec<StepChange> {
    let (mut changes, mut seen) = (Vec::new(), BTreeSet::new());
    for step in before.steps.iter().filter(|step| seen.insert(step.name.as_str())) {
        let name = step.name.clone();
        if let Some(to) = renames.get(name.as_str()) {
            changes.push(StepChange::Renamed { name, to: (*to).to_owned() });
        } else if let Some(other) = new.get(name.as_str()) {
            let mut fields = Vec::new();
            compare("", &step_fields(&with_new_names(step, renames)), &step_fields(other), &mut fields);
            if !fields.is_empty() {
                changes.push(StepChange::Changed { name, fields });
            }
        } else {
            changes.push(StepChange::Removed { name, handler_ref: step.handler_ref.clone() });
        }
    }
    let targets: BTreeSet<&str> = renames.values().copied().collect();
    let is_new = |step: &&WorkflowStep| !old.contains_key(step.name.as_str()) && !targets.contains(step.name.as_str());
    changes.extend(
        after
            .steps
            .iter()
            .filter(is_new)
            .map(|step| StepChange::Added { name: step.name.clone(), handler_ref: step.handler_ref.clone() }),
    );
    changes
}

/// The fields of a step that are compared. Its dependencies are compared as edges.
fn step_fields(step: &WorkflowStep) -> Value {
    let mut fields = object(step);
    for field in ["name", "dependsOn"] {
        fields.shift_remove(field);
    }
    Value::Object(fields)
}

fn edge_changes(before: &WorkflowDefinition, after: &WorkflowDefinition, renames: &Renames<'_>) -> Vec<EdgeChange> {
    let renamed = |name: String| renames.get(name.as_str()).map_or(name.clone(), |new| (*new).to_owned());
    let old =
        edges(before).into_iter().map(|edge| Edge { from: renamed(edge.from), to: renamed(edge.to), kind: edge.kind });
    let (old, new): (BTreeSet<Edge>, BTreeSet<Edge>) = (old.collect(), edges(after).into_iter().collect());
    let removed = old.difference(&new).cloned().map(EdgeChange::Removed);
    removed.chain(new.difference(&old).cloned().map(EdgeChange::Added)).collect()
}

/// Compares two values. The fields of objects, and the items of lists of equal length, are compared one by one.
fn compare(path: &str, before: &Value, after: &Value, changes: &mut Vec<FieldChange>) {
    match (before, after) {
        (Value::Object(before), Value::Object(after)) => {
            let mut fields: BTreeMap<&String, (Option<&Value>, Option<&Value>)> = BTreeMap::new();
            for (name, value) in before {
                fields.entry(name).or_default().0 = Some(value);
            }
            for (name, value) in after {
                fields.entry(name).or_default().1 = Some(value);
            }
            for (name, (before, after)) in fields {
                let path = format!("{path}/{}", name.replace('~', "~0").replace('/', "~1"));
                match (before, after) {
                    (Some(before), Some(after)) => compare(&path, before, after, changes),
                    (before, after) => {
                        changes.push(FieldChange { path, before: before.cloned(), after: after.cloned() });
                    }
                }
            }
        }
        (Value::Array(old), Value::Array(new)) if old.len() == new.len() => {
            for (at, (before, after)) in old.iter().zip(new).enumerate() {
                compare(&format!("{path}/{at}"), before, after, changes);
            }
        }
        _ if before == after => {}
        _ => changes.push(FieldChange {
            path: path.to_owned(),
            before: Some(before.clone()),
            after: Some(after.clone()),
        }),
    }
}

impl fmt::Display for WorkflowDiff {
    /// Writes one change per line. Lines of added parts begin with `+`, of removed parts with `-` and of changed parts
    /// with `~`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for field in &self.fields {
            writeln!(f, "{field}")?;
        }
        for step in &self.steps {
            match step {
                StepChange::Added { name, handler_ref } => writeln!(f, "+ step {name}: {handler_ref}")?,
                StepChange::Removed { name, handler_ref } => writeln!(f, "- step {name}: {handler_ref}")?,
                StepChange::Renamed { name, to } => writeln!(f, "~ step {name} is renamed to {to}")?,
                StepChange::Changed { name, fields } => {
                    writeln!(f, "~ step {name}")?;
                    for field in fields {
                        writeln!(f, "  {field}")?;
                    }
                }
            }
        }
        for edge in &self.edges {
            match edge {
                EdgeChange::Added(edge) => writeln!(f, "+ {edge}")?,
                EdgeChange::Removed(edge) => writeln!(f, "- {edge}")?,
            }
        }
        Ok(())
    }
}

impl fmt::Display for FieldChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = self.path.trim_start_matches('/');
        match (&self.before, &self.after) {
            (Some(before), Some(after)) => write!(f, "~ {path}: {before} → {after}"),
            (Some(before), None) => write!(f, "- {path}: {before}"),
            (None, Some(after)) => write!(f, "+ {path}: {after}"),
            (None, None) => write!(f, "~ {path}"),
        }
    }
}

impl fmt::Display for Edge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "edge {} → {}", self.from, self.to)?;
        match self.kind.label() {
            label if label.is_empty() => Ok(()),
            label => write!(f, " ({label})"),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn workflow(steps: Value) -> WorkflowDefinition {
        serde_json::from_value(json!({ "refName": "w", "steps": steps })).unwrap()
    }

    fn step(name: &str, handler: &str, after: &[&str]) -> Value {
        json!({ "name": name, "handlerRef": handler, "dependsOn": after })
    }

    fn text(before: Value, after: Value) -> String {
        diff(&workflow(before), &workflow(after)).to_string()
    }

    #[test]
    fn layout_order_of_steps_and_written_defaults_are_no_difference() {
        let before: WorkflowDefinition = serde_json::from_value(
            json!({ "refName": "w", "steps": [step("a", "x", &[]), step("b", "x", &["a"])], "layout": { "a": { "x": 1 } } }),
        )
        .unwrap();
        let after: WorkflowDefinition = serde_json::from_value(
            json!({ "refName": "w", "name": "w", "version": "1.0.0", "steps": [step("b", "x", &["a"]), { "name": "a", "handlerRef": "x", "onError": "fail" }] }),
        )
        .unwrap();
        let difference = diff(&before, &after);
        assert!(difference.is_empty(), "{difference}");
    }

    #[test]
    fn changes_of_fields_schemas_and_limits_have_their_paths() {
        let definition = |version: &str, kind: &str, limits: Value| -> WorkflowDefinition {
            let schema = json!({ "properties": { "a/b": { "type": kind }, "c": {} } });
            let fields =
                json!({ "refName": "w", "version": version, "steps": [], "inputSchema": schema, "limits": limits });
            serde_json::from_value(fields).unwrap()
        };
        let difference = diff(
            &definition("1.0.0", "string", json!({ "timeout": "1m", "maxItems": 5 })),
            &definition("1.1.0", "number", json!({ "timeout": "60s", "maxTokens": 9 })),
        );
        assert_eq!(
            difference.to_string(),
            "~ inputSchema/properties/a~1b/type: \"string\" → \"number\"\n- limits/maxItems: 5\n+ limits/maxTokens: 9\n~ version: \"1.0.0\" → \"1.1.0\"\n"
        );
    }

    #[test]
    fn added_removed_and_changed_steps_and_edges_are_listed() {
        let before = json!([step("load", "x", &[]), step("old", "x", &["load"]), { "name": "c", "handlerRef": "x", "timeout": "30s",
            "dependsOn": ["load"], "onError": { "fallback": "old" } }]);
        let after = json!([step("load", "x", &[]), step("new", "y", &["load"]), { "name": "c", "handlerRef": "x", "timeout": "60s",
            "dependsOn": ["load", "new"], "onError": { "branch": { "TIMEOUT": "new", "RATE_LIMIT": "new" } } }]);
        assert_eq!(
            text(before, after),
            "- step old: x\n~ step c\n  + onError/branch: {\"RATE_LIMIT\":\"new\",\"TIMEOUT\":\"new\"}\n  - onError/fallback: \"old\"\n  ~ timeout: \"30s\" → \"1m\"\n+ step new: y\n- edge c → old (error)\n- edge load → old\n+ edge c → new (RATE_LIMIT, TIMEOUT)\n+ edge load → new\n+ edge new → c\n"
        );
    }

    #[test]
    fn renamed_step_is_detected_with_its_dependents() {
        let before = json!([step("a", "x", &[]), step("b", "y", &["a"]), { "name": "c", "handlerRef": "z", "dependsOn": ["b.large"],
            "onError": { "fallback": "a" } }]);
        let after = json!([step("first", "x", &[]), step("second", "y", &["first"]), { "name": "c", "handlerRef": "z", "dependsOn": ["second.large"],
            "onError": { "fallback": "first" } }]);
        assert_eq!(text(before, after), "~ step a is renamed to first\n~ step b is renamed to second\n");
    }

    #[test]
    fn step_with_a_new_name_and_another_change_is_removed_and_added() {
        let before = json!([step("a", "x", &[])]);
        assert_eq!(text(before, json!([step("b", "y", &[])])), "- step a: x\n+ step b: y\n");
    }

    #[test]
    fn difference_is_serialized_with_the_kind_of_each_change() {
        let before = json!([step("a", "x", &[]), step("c", "z", &[])]);
        let after = json!([step("b", "x", &[]), { "name": "c", "handlerRef": "z", "dependsOn": ["b.large"], "condition": "${input.ok}" }]);
        let difference = diff(&workflow(before), &workflow(after));
        assert_eq!(
            serde_json::to_value(&difference).unwrap(),
            json!({
                "fields": [],
                "steps": [
                    { "change": "renamed", "name": "a", "to": "b" },
                    { "change": "changed", "name": "c", "fields": [{ "path": "/condition", "after": "${input.ok}" }] },
                ],
                "edges": [{ "change": "added", "from": "b", "to": "c", "kind": "case", "case": "large" }],
            })
        );
    }
}
