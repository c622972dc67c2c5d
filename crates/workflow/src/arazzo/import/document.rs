//! The document: version, sources, workflows and components.

use std::collections::{BTreeSet, HashMap};

use serde_json::{Map, Value};

use super::super::problem::{Problems, join};
use super::super::{OperationRef, OperationTool, Problem};
use super::{Imported, workflow};

/// The maximum number of workflows of a document.
const MAX_WORKFLOWS: usize = 1000;

/// The parts of a document that its workflows share.
pub(super) struct Document<'d> {
    pub is_1_1: bool,
    pub sources: Vec<Source<'d>>,
    /// The workflows by id, each with its position.
    pub workflows: HashMap<&'d str, (usize, &'d Map<String, Value>)>,
    pub components: &'d Map<String, Value>,
    pub version: Option<semver::Version>,
}

/// A source description.
pub(super) struct Source<'d> {
    pub name: &'d str,
    pub url: &'d str,
    pub is_openapi: bool,
}

pub(super) type ToolOf<'f> = &'f dyn Fn(&OperationRef<'_>) -> Option<OperationTool>;

pub(super) fn import(document: &Value, only: Option<&str>, tool_of: ToolOf<'_>) -> Result<Imported, Vec<Problem>> {
    let empty = Map::new();
    let mut problems = Problems::default();
    let mut warnings = Problems::default();
    let Some(document) = Document::read(document, &empty, &mut problems, &mut warnings) else {
        return Err(problems.list);
    };
    let selected = document.select(only, &mut problems);
    let mut workflows = Vec::new();
    let mut ordered: Vec<_> = document
        .workflows
        .iter()
        .filter(|(id, _)| selected.contains(**id))
        .map(|(id, found)| (found.0, *id, found.1))
        .collect();
    ordered.sort_unstable_by_key(|(at, ..)| *at);
    for (at, id, fields) in ordered {
        let object = workflow::WorkflowObject { path: format!("/workflows/{at}"), id, fields };
        workflows.extend(workflow::import(&document, object, tool_of, &mut problems, &mut warnings));
    }
    match problems.list.is_empty() {
        true => Ok(Imported { workflows, warnings: warnings.list }),
        false => Err(problems.list),
    }
}

impl<'d> Document<'d> {
    fn read(
        root: &'d Value,
        empty: &'d Map<String, Value>,
        problems: &mut Problems,
        warnings: &mut Problems,
    ) -> Option<Self> {
        let Some(fields) = root.as_object() else {
            problems.add("", "must be an object");
            return None;
        };
        let version = fields.get("arazzo").and_then(Value::as_str).unwrap_or_default();
        let is_1_1 = version.starts_with("1.1.");
        if !is_1_1 && !version.starts_with("1.0.") {
            problems.add("/arazzo", format!("must be a version 1.0.x or 1.1.x, got `{version}`"));
            return None;
        }
        let mut allowed = vec!["arazzo", "info", "sourceDescriptions", "workflows", "components"];
        allowed.extend(is_1_1.then_some("$self"));
        check_fields(fields, "", &allowed, problems);
        let components = match fields.get("components") {
            None => empty,
            Some(Value::Object(components)) => {
                check_fields(
                    components,
                    "/components",
                    &["inputs", "parameters", "successActions", "failureActions"],
                    problems,
                );
                components
            }
            Some(_) => {
                problems.add("/components", "must be an object");
                empty
            }
        };
        let version = fields.get("info").and_then(|info| info.get("version")).and_then(Value::as_str);
        let parsed = version.and_then(|version| version.parse().ok());
        if let (Some(version), None) = (version, &parsed) {
            let message = format!("`{version}` is not a semantic version; the workflows have the version 1.0.0");
            warnings.add("/info/version", message);
        }
        let sources = fields.get("sourceDescriptions").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
        let sources = sources.iter().enumerate().filter_map(|(at, source)| {
            let text = |key: &str| source.get(key).and_then(Value::as_str);
            let (Some(name), Some(url)) = (text("name"), text("url")) else {
                problems.add(format!("/sourceDescriptions/{at}"), "must have `name` and `url`");
                return None;
            };
            Some(Source { name, url, is_openapi: text("type").is_none_or(|kind| kind == "openapi") })
        });
        let sources = sources.collect();
        let list =
            fields.get("workflows").and_then(Value::as_array).filter(|list| (1..=MAX_WORKFLOWS).contains(&list.len()));
        let Some(list) = list else {
            problems.add("/workflows", format!("must be a list of 1 to {MAX_WORKFLOWS} workflows"));
            return None;
        };
        let mut workflows = HashMap::new();
        for (at, workflow) in list.iter().enumerate() {
            let id = workflow.get("workflowId").and_then(Value::as_str);
            match (id, workflow.as_object()) {
                (Some(id), Some(workflow)) => {
                    if workflows.insert(id, (at, workflow)).is_some() {
                        problems.add(
                            format!("/workflows/{at}/workflowId"),
                            format!("another workflow is also named `{id}`"),
                        );
                    }
                }
                _ => problems.add(format!("/workflows/{at}"), "must be an object with `workflowId`"),
            }
        }
        Some(Self { is_1_1, sources, workflows, components, version: parsed })
    }

    /// The workflows to read: all, or one with those that it executes.
    fn select(&self, only: Option<&str>, problems: &mut Problems) -> BTreeSet<&'d str> {
        let Some(only) = only else { return self.workflows.keys().copied().collect() };
        let Some((only, _)) = self.workflows.get_key_value(only) else {
            problems.add("/workflows", format!("workflow `{only}` does not exist"));
            return BTreeSet::new();
        };
        let mut selected = BTreeSet::from([*only]);
        let mut open = vec![*only];
        while let Some((_, fields)) = open.pop().and_then(|id| self.workflows.get(id)) {
            let steps = fields.get("steps").and_then(Value::as_array).into_iter().flatten();
            let called = steps.filter_map(|step| step.get("workflowId"));
            let needed = fields.get("dependsOn").and_then(Value::as_array).into_iter().flatten();
            for id in called.chain(needed).filter_map(Value::as_str) {
                if let Some((id, _)) = self.workflows.get_key_value(id)
                    && selected.insert(id)
                {
                    open.push(id);
                }
            }
        }
        selected
    }

    /// Replaces a reference to an object under `components`. Returns the object with its path, and the `value` next to
    /// the reference.
    pub(crate) fn follow<'v>(&self, value: &'v Value, path: &str, kind: &str) -> Result<Component<'v>, Problem>
    where
        'd: 'v,
    {
        let fields = value.as_object().ok_or_else(|| Problem::new(path, "must be an object"))?;
        let Some(reference) = fields.get("reference") else {
            return Ok(Component { fields, path: path.to_owned(), value: None });
        };
        let reference = reference.as_str().unwrap_or_default();
        let place = join(path, "reference");
        let name = reference.strip_prefix("$components.").and_then(|rest| rest.strip_prefix(kind)?.strip_prefix('.'));
        let name =
            name.ok_or_else(|| Problem::new(&place, format!("must be `$components.{kind}.NAME`, got `{reference}`")))?;
        let found = self.components.get(kind).and_then(|all| all.get(name)).and_then(Value::as_object);
        let found = found.ok_or_else(|| Problem::new(&place, format!("`{reference}` does not exist")))?;
        let path = join(&format!("/components/{kind}"), name);
        Ok(Component { fields: found, path, value: fields.get("value") })
    }

    /// The schemas under `components`.
    pub(crate) fn input_components(&self) -> Option<&'d Map<String, Value>> {
        self.components.get("inputs").and_then(Value::as_object)
    }
}

/// An object, possibly under `components`.
pub(super) struct Component<'d> {
    pub fields: &'d Map<String, Value>,
    pub path: String,
    /// The value that replaces the value of a parameter.
    pub value: Option<&'d Value>,
}

/// Reports the fields that the specification does not have. Extensions have no meaning here.
pub(super) fn check_fields(fields: &Map<String, Value>, path: &str, allowed: &[&str], problems: &mut Problems) {
    for field in fields.keys().filter(|field| !allowed.contains(&field.as_str()) && !field.starts_with("x-")) {
        problems
            .add(join(path, field), format!("the field is not supported here; the fields are {}", allowed.join(", ")));
    }
}
