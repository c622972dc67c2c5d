//! Composite tools: tools that route each call to one of several operations. Routing and the mapping of parameters are
//! pure. They are compiled with the tool.

mod check;
mod condition;
mod parameters;

use std::fmt;
use std::sync::Arc;

use semver::VersionReq;
use serde_json::{Value, json};
use toolwright_types::{ErrorCode, OPERATION_PARAMETER, RoutingMode, ToolError};

pub(crate) use check::compile;
use condition::Condition;
pub use parameters::MappedParameters;
use parameters::ParameterMapping;

use crate::CompiledTool;

/// `details.reason` of a call whose input matches no rule.
pub(crate) const NO_RULE_MATCHED: &str = "NO_RULE_MATCHED";
/// `details.reason` of a call that selects an operation that does not exist.
pub(crate) const OPERATION_NOT_FOUND: &str = "OPERATION_NOT_FOUND";
/// `details.reason` of a call that does not select an operation although the tool requires it.
pub(crate) const MISSING_OPERATION_PARAMETER: &str = "MISSING_OPERATION_PARAMETER";

/// The compiled configuration of a composite tool.
#[derive(Debug)]
pub struct CompiledComposite {
    mode: RoutingMode,
    operations: Vec<CompiledOperation>,
    /// The rules in the order in which they are tried.
    rules: Vec<Rule>,
    /// The position of the default operation.
    default: Option<usize>,
}

/// An operation of a composite tool.
#[derive(Debug)]
pub struct CompiledOperation {
    /// The name of the operation.
    pub slug: String,
    /// The tool that performs the operation.
    pub tool: ToolReference,
    mapping: ParameterMapping,
}

/// A reference to a tool: its name or id, and the required version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolReference {
    /// The name or the id.
    pub name: String,
    /// The version requirement; `None` means the current version.
    pub version: Option<VersionReq>,
}

#[derive(Debug)]
struct Rule {
    condition: Condition,
    /// The position of the operation that the rule selects.
    operation: usize,
}

impl CompiledComposite {
    /// The operations, in the order of the definition.
    pub fn operations(&self) -> &[CompiledOperation] {
        &self.operations
    }

    /// Selects the operation for `input`, which must match the input schema of the tool and contain its defaults.
    pub fn route(&self, input: &Value) -> Result<&CompiledOperation, ToolError> {
        self.position(input).map(|position| self.operations.get(position))?.ok_or_else(|| self.no_rule_matched())
    }

    fn position(&self, input: &Value) -> Result<usize, ToolError> {
        if !input.is_object() {
            let message = "the input of a composite tool must be an object";
            return Err(ToolError::new(ErrorCode::ValidationError, message).reason("input_schema"));
        }
        match self.mode {
            RoutingMode::AgentDriven => self.selected(input),
            RoutingMode::RuleBased => {
                let matched = self.rules.iter().find(|rule| rule.condition.matches(input));
                matched.map(|rule| rule.operation).or(self.default).ok_or_else(|| self.no_rule_matched())
            }
        }
    }

    /// Checks that the caller selects an operation that exists, if the caller must select one.
    pub(crate) fn check_selection(&self, input: &Value) -> Result<(), ToolError> {
        match self.mode {
            RoutingMode::AgentDriven => self.selected(input).map(drop),
            RoutingMode::RuleBased => Ok(()),
        }
    }

    fn selected(&self, input: &Value) -> Result<usize, ToolError> {
        let selected = input.get(OPERATION_PARAMETER).filter(|selected| !selected.is_null());
        let selected = selected.ok_or_else(|| {
            let rule = format!("`{OPERATION_PARAMETER}` is required; it selects one of {}", self.slugs().join(", "));
            self.invalid(MISSING_OPERATION_PARAMETER, rule)
        })?;
        let found = self.operations.iter().position(|operation| *selected == *operation.slug);
        found.ok_or_else(|| {
            let rule = format!("`{OPERATION_PARAMETER}` must be one of {}, got {selected}", self.slugs().join(", "));
            self.invalid(OPERATION_NOT_FOUND, rule).detail("requested", selected.clone())
        })
    }

    fn no_rule_matched(&self) -> ToolError {
        let message = "no routing rule matches the input, and the tool has no default operation";
        self.invalid(NO_RULE_MATCHED, message.to_owned())
    }

    fn invalid(&self, reason: &str, message: String) -> ToolError {
        let slugs = self.operations.iter().map(|operation| operation.slug.as_str());
        let error = ToolError::new(ErrorCode::ValidationError, message).reason(reason);
        error.detail("operations", json!(slugs.collect::<Vec<_>>()))
    }

    fn slugs(&self) -> Vec<String> {
        self.operations.iter().map(|operation| format!("`{}`", operation.slug)).collect()
    }
}

impl CompiledOperation {
    /// Maps `input` to the input of the operation's tool. `schema` is the input schema of that tool. A parameter that
    /// is not renamed is left out if `schema` neither describes it nor allows additional properties.
    pub fn parameters(&self, input: &Value, schema: &Value) -> Result<MappedParameters, ToolError> {
        self.mapping.apply(input, schema).map_err(|error| error.detail("operation", self.slug.as_str()))
    }
}

impl ToolReference {
    /// Parses `name` or `name@requirement`. A full version such as `1.2.3` requires exactly that version. Returns `None`
    /// if the text after `@` is not a version requirement, or if the name is empty.
    pub fn parse(text: &str) -> Option<Self> {
        let (name, version) = match text.split_once('@') {
            None => (text, None),
            Some((name, version)) => {
                let exact = version.parse::<semver::Version>().ok().map(|version| format!("={version}"));
                (name, Some(exact.as_deref().unwrap_or(version).parse().ok()?))
            }
        };
        (!name.trim().is_empty()).then(|| Self { name: name.trim().to_owned(), version })
    }
}

impl fmt::Display for ToolReference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.version {
            Some(requirement) => write!(f, "{}@{requirement}", self.name),
            None => f.write_str(&self.name),
        }
    }
}

impl CompiledTool {
    /// The operations and rules of a composite tool; `None` for other tools.
    pub fn composite(&self) -> Option<&CompiledComposite> {
        self.composite.as_ref()
    }

    /// Selects the operation of a call to a composite tool. Returns the input and the position of the operation, or no
    /// position for other tools. Routing rules that compare long texts do not block the thread.
    pub async fn route(self: &Arc<Self>, input: Value) -> Result<(Value, Option<usize>), ToolError> {
        if self.composite.is_none() {
            return Ok((input, None));
        }
        let work = |(tool, input): &(Arc<Self>, Value)| {
            tool.composite.as_ref().map(|composite| composite.position(input)).transpose()
        };
        match toolwright_budget::run((Arc::clone(self), input), work).await {
            Ok(((_, input), routed)) => routed.map(|position| (input, position)),
            Err(stopped) => {
                let message = format!("the input cannot be routed: {stopped}");
                Err(ToolError::new(ErrorCode::ValidationError, message).reason("budget_exceeded"))
            }
        }
    }
}

#[cfg(test)]
mod tests;
