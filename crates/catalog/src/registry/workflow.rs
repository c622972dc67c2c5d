//! Implements [`Definition`] for workflows, step registrations and condition bindings, including their validation.

use std::collections::HashSet;

use semver::Version;
use serde_json::{Map, Value};
use toolwright_authz::Resource;
use toolwright_expr::Template;
use toolwright_machine::workflow::WorkflowIssue;
use toolwright_tools::{DefinitionIssue, Issues};
use toolwright_types::step_handlers::PREFIX;
use toolwright_types::{
    ConditionBinding, DefinitionSource, Document, DocumentKind, RefName, StepRegistration, ToolStatus,
    WorkflowDefinition,
};

use super::agent::tool_warning;
use super::{
    Batch, Definition, Registry, RegistryError, ValidationContext, WrittenNames, parse, security_uri_issue,
    workflow_check,
};
use crate::Unavailable;
use crate::access::Session;
use crate::toolset::VersionedRef;

/// The maximum number of characters of the display name of a workflow.
const MAX_NAME_CHARS: usize = 128;

/// The route that checks a workflow without a name, which no workflow can have as its name.
const CHECK_ROUTE: &str = "check";

/// The code of an issue that is found when the fields are read.
const INVALID_FIELD: &str = "invalid_field";

/// The maximum number of issues that are reported.
const MAX_ISSUES: usize = 50;

impl Definition for WorkflowDefinition {
    const KIND: DocumentKind = DocumentKind::Workflow;
    const NOUN: &'static str = "workflow";

    fn ref_name(&self) -> &RefName {
        &self.ref_name
    }

    fn resource(&self) -> Resource<'_> {
        Resource::Workflow { name: self.ref_name.as_str() }
    }

    fn version(&self) -> Option<&Version> {
        Some(&self.version)
    }

    fn status(&self) -> ToolStatus {
        self.status
    }

    async fn check(&self, context: &ValidationContext<'_>) -> Result<Result<Vec<String>, Issues>, Unavailable> {
        let (errors, warnings): (Vec<WorkflowIssue>, Vec<WorkflowIssue>) =
            check_workflow(self, context).await?.into_iter().partition(WorkflowIssue::is_error);
        Ok(match errors.is_empty() {
            true => Ok(warnings.iter().map(ToString::to_string).collect()),
            false => Err(Issues(errors.into_iter().map(as_definition_issue).collect())),
        })
    }
}

impl Registry {
    /// Parses the workflow in the body of a request. Returns all invalid fields.
    pub fn parse_workflow(body: Value) -> Result<WorkflowDefinition, Issues> {
        parse::definition(body)
    }

    /// Checks the workflow in the body of a request as a save does, and writes nothing. The session needs the permission
    /// to write the workflow, because the issues tell which other definitions exist.
    pub async fn check_workflow(&self, session: &Session, body: Value) -> Result<Vec<WorkflowIssue>, RegistryError> {
        match Self::parse_workflow(body) {
            Ok(workflow) => {
                self.may_write(session, &workflow)?;
                self.recheck_workflow(session, &workflow).await
            }
            Err(Issues(issues)) => {
                let issues = issues.into_iter().map(|one| WorkflowIssue::error(INVALID_FIELD, one.path, one.message));
                Ok(issues.collect())
            }
        }
    }

    /// Checks a stored workflow again, as a save does.
    pub async fn recheck_workflow(
        &self,
        session: &Session,
        workflow: &WorkflowDefinition,
    ) -> Result<Vec<WorkflowIssue>, RegistryError> {
        let written = WrittenNames::default();
        let context =
            ValidationContext { catalog: &self.catalog, models: &self.models, realm: &session.realm, written };
        Ok(check_workflow(workflow, &context).await?)
    }
}

/// Workflows that are about to be saved together.
#[derive(Default)]
pub struct WorkflowPlan {
    /// The workflows that are new or differ from the stored ones.
    pub batch: Batch,
    /// The names of the new workflows.
    pub created: Vec<RefName>,
    /// The names of the workflows that differ from the stored ones.
    pub updated: Vec<RefName>,
    /// The names of the workflows that are stored already.
    pub unchanged: Vec<RefName>,
    /// Warnings for the author.
    pub warnings: Vec<String>,
}

impl Registry {
    /// Checks workflows as a save does, and compares them with the stored ones. Writes nothing. The path of an issue begins
    /// with the position of its workflow.
    pub async fn plan_workflows(
        &self,
        session: &Session,
        workflows: Vec<WorkflowDefinition>,
    ) -> Result<WorkflowPlan, RegistryError> {
        let (mut plan, mut invalid) = (WorkflowPlan::default(), Vec::new());
        let names: HashSet<String> = workflows.iter().map(|workflow| workflow.ref_name.key()).collect();
        let written = WrittenNames { workflows: names.into(), ..WrittenNames::default() };
        for (at, workflow) in workflows.into_iter().enumerate() {
            let name = workflow.ref_name.clone();
            let current = self.find::<WorkflowDefinition>(session, &name).await?;
            self.may_replace(session, current.as_ref(), &workflow)?;
            match self.check_among(&session.realm, &workflow, written.clone()).await {
                Ok(warnings) => plan.warnings.extend(warnings.into_iter().map(|warning| format!("{name}: {warning}"))),
                Err(RegistryError::Invalid(Issues(issues))) => {
                    invalid.extend(issues.into_iter().map(|DefinitionIssue { path, message }| DefinitionIssue {
                        path: format!("/workflows/{at}{path}"),
                        message: format!("workflow `{name}`: {message}"),
                    }));
                    continue;
                }
                Err(error) => return Err(error),
            }
            let version = workflow.version.to_string();
            let stored = match &current {
                Some(_) => self.stored_with_version::<WorkflowDefinition>(session, &name, &version).await?,
                None => None,
            };
            if stored.is_some_and(|stored| stored.body == workflow) {
                plan.unchanged.push(name);
                continue;
            }
            plan.batch.add(current.as_ref(), Self::prepare_revision(&workflow, DefinitionSource::Manual)?);
            let list = if current.is_some() { &mut plan.updated } else { &mut plan.created };
            list.push(name);
        }
        if invalid.is_empty() { Ok(plan) } else { Err(RegistryError::Invalid(Issues(invalid))) }
    }
}

/// Checks a workflow. Returns all errors and warnings.
pub(super) async fn check_workflow(
    workflow: &WorkflowDefinition,
    context: &ValidationContext<'_>,
) -> Result<Vec<WorkflowIssue>, Unavailable> {
    let mut issues: Vec<WorkflowIssue> = Vec::new();
    issues.extend(reserved_name_issue("/refName", &workflow.ref_name).map(as_error("reserved_name")));
    if workflow.ref_name.key() == CHECK_ROUTE {
        let message = format!("`{CHECK_ROUTE}` is the name of a route");
        issues.push(WorkflowIssue::error("reserved_name", "/refName", message).hint("choose another name"));
    }
    issues.extend(workflow.security_uri.as_deref().and_then(security_uri_issue).map(as_error("invalid_security_uri")));
    if let Some(count) = workflow.name.as_ref().map(|name| name.chars().count())
        && !(1..=MAX_NAME_CHARS).contains(&count)
    {
        let message = format!("must have 1 to {MAX_NAME_CHARS} characters, got {count}");
        issues.push(WorkflowIssue::error("invalid_name", "/name", message));
    }
    issues.extend(workflow_check::check_steps(workflow, context).await?);
    issues.truncate(MAX_ISSUES);
    Ok(issues)
}

fn as_definition_issue(issue: WorkflowIssue) -> DefinitionIssue {
    let WorkflowIssue { path, message, hint, .. } = issue;
    let message = match hint {
        Some(hint) => format!("{message}; {hint}"),
        None => message,
    };
    DefinitionIssue { path, message }
}

/// Returns a function that converts the issue of a field to an error with a code.
fn as_error(code: &str) -> impl Fn(DefinitionIssue) -> WorkflowIssue + '_ {
    move |issue| WorkflowIssue::error(code, issue.path, issue.message)
}

impl Definition for StepRegistration {
    const KIND: DocumentKind = DocumentKind::StepRegistration;
    const NOUN: &'static str = "step registration";

    fn ref_name(&self) -> &RefName {
        &self.name
    }

    fn resource(&self) -> Resource<'_> {
        Resource::StepRegistration { name: self.name.as_str() }
    }

    fn expand_fields(fields: &mut Map<String, Value>) -> Result<(), Issues> {
        use_ref_name_as_name(fields)
    }

    async fn users(
        document: &Document<Self>,
        registry: &Registry,
        session: &Session,
    ) -> Result<Option<String>, RegistryError> {
        registry.workflows_of_registration(session, document).await
    }

    async fn check(&self, context: &ValidationContext<'_>) -> Result<Result<Vec<String>, Issues>, Unavailable> {
        let mut issues: Vec<DefinitionIssue> = reserved_name_issue("/name", &self.name).into_iter().collect();
        let tool = VersionedRef::parse(&self.tool_ref).filter(|tool| !tool.name.trim().is_empty());
        if tool.is_none() {
            let message = "must be the name of a tool, which may have a version requirement such as `name@^1.2`";
            issues.push(issue("/toolRef", format!("{message}, got `{}`", self.tool_ref)));
        }
        for (field, mapping) in [("inputMapping", &self.input_mapping), ("outputMapping", &self.output_mapping)] {
            for (name, text) in mapping {
                let path = || format!("/{field}/{}", name.replace('~', "~0").replace('/', "~1"));
                issues.extend(Template::parse(text).err().map(|error| issue(&path(), error.to_string())));
            }
        }
        match tool {
            Some(tool) if issues.is_empty() => {
                Ok(Ok(tool_warning(context, &tool, "the step").await?.into_iter().collect()))
            }
            _ => Ok(Err(Issues(issues))),
        }
    }
}

impl Definition for ConditionBinding {
    const KIND: DocumentKind = DocumentKind::ConditionBinding;
    const NOUN: &'static str = "condition binding";

    fn ref_name(&self) -> &RefName {
        &self.name
    }

    fn resource(&self) -> Resource<'_> {
        Resource::ConditionBinding { name: self.name.as_str() }
    }

    fn expand_fields(fields: &mut Map<String, Value>) -> Result<(), Issues> {
        use_ref_name_as_name(fields)
    }

    async fn users(
        document: &Document<Self>,
        registry: &Registry,
        session: &Session,
    ) -> Result<Option<String>, RegistryError> {
        registry.workflows_of_condition(session, document).await
    }

    async fn check(&self, _context: &ValidationContext<'_>) -> Result<Result<Vec<String>, Issues>, Unavailable> {
        let mut issues: Vec<DefinitionIssue> = reserved_name_issue("/name", &self.name).into_iter().collect();
        match Template::parse(&self.condition) {
            Err(error) => issues.push(issue("/condition", error.to_string())),
            Ok(condition) if condition.single().is_none() => {
                let message = "must be one `${…}` expression, such as `${input.amount > 1000}`";
                issues.push(issue("/condition", format!("{message}, got `{}`", self.condition)));
            }
            Ok(_) => {}
        }
        Ok(if issues.is_empty() { Ok(Vec::new()) } else { Err(Issues(issues)) })
    }
}

/// Returns an issue if a name has the prefix of the built-in step handlers. Names are case-insensitive.
fn reserved_name_issue(path: &str, name: &RefName) -> Option<DefinitionIssue> {
    let message = format!("`{name}` must not start with `{PREFIX}`, the prefix of built-in steps; choose another name");
    name.key().starts_with(PREFIX).then(|| issue(path, message))
}

/// Moves `refName` to `name`, which is the stored field. If a body has both, they must be equal.
fn use_ref_name_as_name(fields: &mut Map<String, Value>) -> Result<(), Issues> {
    // Null means that the field is absent.
    if fields.get("name").is_some_and(Value::is_null) {
        fields.shift_remove("name");
    }
    let Some(ref_name) = fields.shift_remove("refName") else { return Ok(()) };
    match fields.get("name").filter(|name| !name.is_null()) {
        None => drop(fields.insert("name".into(), ref_name)),
        Some(name) if !is_same_name(name, &ref_name) => {
            let message = format!("must be equal to `refName`, which is {ref_name}, got {name}");
            return Err(Issues(vec![issue("/name", message)]));
        }
        Some(_) => {}
    }
    Ok(())
}

fn is_same_name(name: &Value, ref_name: &Value) -> bool {
    match (name.as_str(), ref_name.as_str()) {
        (Some(name), Some(ref_name)) => name.eq_ignore_ascii_case(ref_name),
        _ => name == ref_name,
    }
}

fn issue(path: &str, message: String) -> DefinitionIssue {
    DefinitionIssue { path: path.to_owned(), message }
}
