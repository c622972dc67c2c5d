//! Compiles the configuration of a composite tool, and reports all its mistakes.

use std::collections::BTreeSet;

use serde_json::Value;
use toolwright_expr::ValueTemplate;
use toolwright_types::{
    CompositeConfig, CompositeOperation, OPERATION_PARAMETER, RoutingMode, RoutingRule, ToolDefinition, ToolType,
};

use super::condition::Condition;
use super::parameters::{ParameterMapping, Source};
use super::{CompiledComposite, CompiledOperation, NO_RULE_MATCHED, OPERATION_NOT_FOUND, Rule, ToolReference};
use crate::Issues;
use crate::compile::check_type_reference;

/// The maximum number of operations.
const MAX_OPERATIONS: usize = 20;
/// The maximum number of routing rules.
const MAX_RULES: usize = 100;
/// The maximum length of the slug of an operation.
const MAX_SLUG_CHARS: usize = 100;
/// The code in the error message about a definition without operations.
const NO_OPERATIONS_CONFIGURED: &str = "NO_OPERATIONS_CONFIGURED";

/// Compiles the configuration of a composite tool. Returns `None` for other tools, and for an invalid configuration.
pub(crate) fn compile(
    definition: &ToolDefinition,
    issues: &mut Issues,
    warnings: &mut Vec<String>,
) -> Option<CompiledComposite> {
    let config = match (definition.tool_type, &definition.composite) {
        (ToolType::Composite, Some(config)) => config,
        (ToolType::Composite, None) => {
            issues.add("/composite", format!("{NO_OPERATIONS_CONFIGURED}: is required for COMPOSITE tools"));
            return None;
        }
        (_, Some(_)) => {
            issues.add("/composite", "is allowed for COMPOSITE tools only");
            return None;
        }
        (_, None) => return None,
    };
    if !definition.is_tool_fully_executed_on_server {
        issues
            .add("/isToolFullyExecutedOnServer", "must be true for COMPOSITE tools; an operation may be a client tool");
    }
    Compiler { definition, config, known: known_parameters(definition), issues, warnings }.compile()
}

/// Returns the parameter names of a tool, or `None` if the input schema of the tool allows additional parameters.
fn known_parameters(definition: &ToolDefinition) -> Option<BTreeSet<String>> {
    let schema = definition.effective_input_schema();
    let closed = schema.get("additionalProperties") == Some(&Value::Bool(false));
    let properties = schema.get("properties").and_then(Value::as_object);
    let names = || properties.map(|properties| properties.keys().cloned().collect()).unwrap_or_default();
    (closed && schema.get("patternProperties").is_none()).then(names)
}

struct Compiler<'a> {
    definition: &'a ToolDefinition,
    config: &'a CompositeConfig,
    /// The parameter names of the tool; `None` if its input schema allows additional parameters.
    known: Option<BTreeSet<String>>,
    issues: &'a mut Issues,
    warnings: &'a mut Vec<String>,
}

impl Compiler<'_> {
    fn compile(mut self) -> Option<CompiledComposite> {
        let config = self.config;
        let count = config.operations.len();
        if !(1..=MAX_OPERATIONS).contains(&count) {
            let rule = format!("must have 1 to {MAX_OPERATIONS} operations, got {count}");
            let reason = if count == 0 { format!("{NO_OPERATIONS_CONFIGURED}: ") } else { String::new() };
            self.report("/operations", format!("{reason}{rule}"));
        }
        let rules = config.routing_rules.len();
        if rules > MAX_RULES {
            self.report("/routingRules", format!("must have at most {MAX_RULES} rules, got {rules}"));
        }
        self.check_unified_schema();
        let operations = config.operations.iter().enumerate().filter_map(|(at, one)| self.operation(at, one)).collect();
        let mut rules: Vec<(i32, Rule)> = Vec::new();
        for (at, rule) in config.routing_rules.iter().enumerate() {
            let compiled = self.rule(&format!("/routingRules/{at}"), rule);
            rules.extend(compiled.map(|compiled| (rule.priority.unwrap_or_default(), compiled)));
        }
        // The sort is stable, so rules with equal priorities stay in the order of the definition.
        rules.sort_by_key(|(priority, _)| *priority);
        let default = config.default_operation_id.as_deref();
        let default = default.and_then(|reference| self.position("/defaultOperationId", reference));
        self.check_mode();
        Some(CompiledComposite {
            mode: config.routing_mode,
            operations,
            rules: rules.into_iter().map(|(_, rule)| rule).collect(),
            default,
        })
    }

    fn report(&mut self, path: &str, message: impl Into<String>) {
        self.issues.add(format!("/composite{path}"), message);
    }

    fn check_mode(&mut self) {
        let config = self.config;
        let routes = !config.routing_rules.is_empty() || config.default_operation_id.is_some();
        match config.routing_mode {
            RoutingMode::RuleBased if !routes => {
                let message = format!("{NO_RULE_MATCHED}: must have at least one rule, or set `defaultOperationId`");
                self.report("/routingRules", message);
            }
            RoutingMode::AgentDriven if routes => {
                let message = "routingRules and defaultOperationId have no effect in the mode `agent_driven`";
                self.warnings.push(message.to_owned());
            }
            RoutingMode::RuleBased | RoutingMode::AgentDriven => {}
        }
        if config.routing_mode == RoutingMode::AgentDriven {
            self.check_operation_parameter();
        }
    }

    /// Checks that the author's schema does not define the parameter that selects the operation.
    fn check_operation_parameter(&mut self) {
        let message =
            format!("`{OPERATION_PARAMETER}` selects the operation in the mode `agent_driven`; use another name");
        if self.config.unified_schema.contains_key(OPERATION_PARAMETER) {
            self.report(&format!("/unifiedSchema/{OPERATION_PARAMETER}"), message.as_str());
        }
        if self.definition.input_schema.as_ref().is_some_and(|short| short.contains_key(OPERATION_PARAMETER)) {
            self.issues.add(format!("/inputSchema/{OPERATION_PARAMETER}"), message.as_str());
        }
        let pointer = format!("/properties/{OPERATION_PARAMETER}");
        let complete = self.definition.input_json_schema.as_ref().and_then(|schema| schema.0.pointer(&pointer));
        // The server may have generated `inputJsonSchema` to insert the schemas of entity types. A generated schema
        // contains the parameter as the server defines it.
        if complete.is_some_and(|property| *property != self.config.operation_parameter()) {
            self.issues.add(format!("/inputJsonSchema{pointer}"), message);
        }
    }

    fn check_unified_schema(&mut self) {
        let config = self.config;
        let mut targets = BTreeSet::new();
        for (name, parameter) in &config.unified_schema {
            let path = format!("/unifiedSchema/{}", escaped(name));
            if name.trim().is_empty() {
                self.report(&path, "must not be empty");
            }
            if let Err(message) = check_type_reference(&parameter.definition) {
                self.report(&format!("{path}/jsonSchemaRef"), message);
            }
            for (operation, mapping) in &parameter.operation_mappings {
                let path = format!("{path}/operationMappings/{}", escaped(operation));
                let target = mapping.target_param.as_str();
                if !config.operations.iter().any(|known| known.operation_slug == *operation) {
                    self.report(&path, self.unknown_operation(operation));
                } else if target.trim().is_empty() {
                    self.report(&format!("{path}/targetParam"), "must not be empty");
                } else if !targets.insert((operation, target)) {
                    let message = format!("another parameter is already mapped to `{target}` in this operation");
                    self.report(&format!("{path}/targetParam"), message);
                }
            }
        }
    }

    fn operation(&mut self, at: usize, operation: &CompositeOperation) -> Option<CompiledOperation> {
        let path = format!("/operations/{at}");
        let slug = operation.operation_slug.as_str();
        let allowed = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '_' | '-' | '.');
        if slug.is_empty() || slug.len() > MAX_SLUG_CHARS || !slug.chars().all(allowed) {
            let rule = format!("must have 1 to {MAX_SLUG_CHARS} letters, digits, `_`, `-` and `.`, got `{slug}`");
            self.report(&format!("{path}/operationSlug"), rule);
        }
        if self.config.operations.iter().take(at).any(|other| other.operation_slug == slug) {
            self.report(&format!("{path}/operationSlug"), format!("`{slug}` is already the slug of another operation"));
        }
        let tool = self.tool(&path, operation);
        let mapping = self.mapping(&path, operation);
        Some(CompiledOperation { slug: slug.to_owned(), tool: tool?, mapping })
    }

    fn tool(&mut self, path: &str, operation: &CompositeOperation) -> Option<ToolReference> {
        let field =
            if operation.action_slug.is_none() && operation.action_id.is_some() { "actionId" } else { "actionSlug" };
        let path = format!("{path}/{field}");
        let Some(text) = operation.tool().filter(|text| !text.trim().is_empty()) else {
            self.report(&path, "is required; name a tool");
            return None;
        };
        let Some(reference) = ToolReference::parse(text) else {
            self.report(&path, format!("`{text}` is not a tool reference; use `name` or `name@^1.2`"));
            return None;
        };
        if self.definition.ref_name.key() == reference.name.to_ascii_lowercase() {
            self.report(&path, "must name another tool: a composite tool cannot be an operation");
        }
        Some(reference)
    }

    fn mapping(&mut self, path: &str, operation: &CompositeOperation) -> ParameterMapping {
        let mut mapping = ParameterMapping::default();
        if self.config.routing_mode == RoutingMode::AgentDriven {
            mapping.renamed.push(OPERATION_PARAMETER.to_owned());
        }
        for (target, source) in &operation.parameter_mapping {
            let path = format!("{path}/parameterMapping/{}", escaped(target));
            if target.trim().is_empty() {
                self.report(&path, "must not be empty; name a parameter of the operation");
            }
            let source = match source {
                Value::String(name) if !name.contains("${") => {
                    if self.known.as_ref().is_some_and(|known| !known.contains(name)) {
                        let message =
                            format!("`{name}` is not a parameter of this tool; write a text as `${{'{name}'}}`");
                        self.report(&path, message);
                    }
                    mapping.renamed.push(name.clone());
                    Source::Parameter(name.clone())
                }
                template => match ValueTemplate::compile(template) {
                    Ok(template) => Source::Template(template),
                    Err(error) => {
                        let path = format!("{path}{}", error.pointer().unwrap_or_default());
                        self.report(&path, error.to_string());
                        continue;
                    }
                },
            };
            mapping.entries.push((target.clone(), source));
        }
        for (name, parameter) in &self.config.unified_schema {
            let name = parameter.definition.name.as_ref().unwrap_or(name);
            if let Some(target) = parameter.operation_mappings.get(&operation.operation_slug) {
                mapping.renamed.push(name.clone());
                mapping.entries.push((target.target_param.clone(), Source::Parameter(name.clone())));
            }
        }
        mapping
    }

    fn rule(&mut self, path: &str, rule: &RoutingRule) -> Option<Rule> {
        let field = rule.condition.field.as_str();
        let first = field.split('.').next().unwrap_or_default();
        if field.split('.').any(|segment| segment.trim().is_empty()) {
            let message = format!("must be a path with dots such as `filter.company`, got `{field}`");
            self.report(&format!("{path}/condition/field"), message);
        } else if self.known.as_ref().is_some_and(|known| !known.contains(first)) {
            let message = format!("`{first}` is not a parameter of this tool, so the rule can never match");
            self.report(&format!("{path}/condition/field"), message);
        }
        let condition = Condition::compile(&rule.condition);
        let condition = condition.map_err(|message| self.report(&format!("{path}/condition/value"), message)).ok();
        let operation = self.position(&format!("{path}/operationId"), &rule.operation_id);
        Some(Rule { condition: condition?, operation: operation? })
    }

    /// Returns the position of the operation whose slug, or whose tool id, is `reference`.
    fn position(&mut self, path: &str, reference: &str) -> Option<usize> {
        let operations = &self.config.operations;
        let by_slug = operations.iter().position(|operation| operation.operation_slug == reference);
        let found = by_slug.or_else(|| operations.iter().position(|operation| operation.is_named(reference)));
        if found.is_none() {
            self.report(path, self.unknown_operation(reference));
        }
        found
    }

    fn unknown_operation(&self, reference: &str) -> String {
        let slugs = self.config.operations.iter().map(|operation| format!("`{}`", operation.operation_slug));
        let slugs: Vec<String> = slugs.collect();
        format!("{OPERATION_NOT_FOUND}: no operation `{reference}`; the operations are {}", slugs.join(", "))
    }
}

fn escaped(name: &str) -> String {
    name.replace('~', "~0").replace('/', "~1")
}
