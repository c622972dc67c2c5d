//! Compiled tools: schemas, templates and limits are compiled once per definition, not once per call.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use serde_json::Value;
use toolwright_expr::{Mapping, Template, ValueTemplate};
use toolwright_types::{DefinitionSource, SideEffects, ToolDefinition, ToolStatus, ToolType};

use crate::builtin::search_tools;
use crate::composite::CompiledComposite;
use crate::export::snake_case;
use crate::http_client::{CompiledProvider, RequestTemplate};
use crate::price::CompiledPrice;
use crate::run_function::RunFunction;
use crate::{Schema, Violation};

/// A compiled tool.
#[derive(Debug)]
pub struct CompiledTool {
    /// The definition's id.
    pub id: String,
    /// The content hash of the definition.
    pub content_hash: String,
    /// The origin of the definition.
    pub source: DefinitionSource,
    /// The definition.
    pub definition: ToolDefinition,
    /// The side effects of the tool.
    pub effects: SideEffects,
    /// The input schema.
    pub input: Schema,
    /// The output schema.
    pub output: Schema,
    /// The provider of the tool.
    pub provider: Option<Arc<CompiledProvider>>,
    /// The retry count and the timeouts.
    pub limits: CallLimits,
    pub(crate) mapping: Option<Mapping>,
    pub(crate) message_mapping: Option<Mapping>,
    pub(crate) resource_key: Option<Template>,
    pub(crate) price: Option<CompiledPrice>,
    /// The operations and rules of a composite tool.
    pub(crate) composite: Option<CompiledComposite>,
    /// The template that renders the arguments of a function or client tool.
    pub(crate) arguments: Option<ValueTemplate>,
    /// Whether the server runs the function or the code of a client tool to prepare the payload.
    pub(crate) has_preflight: bool,
    pub(crate) http: Option<RequestTemplate>,
    /// Whether exports wrap the input in an object, because the input schema accepts no object. Computed on first use.
    pub(crate) wraps_input: OnceLock<bool>,
    /// The description of an agentic tool for its callers.
    pub(crate) agentic_description: Option<String>,
    /// The name of the tool in exports for frameworks. Computed on first use.
    pub(crate) exported_name: OnceLock<String>,
    /// The fingerprint of the tool's closure. Computed on first use.
    pub(crate) closure_fingerprint: OnceLock<String>,
    pub(crate) warnings: Vec<String>,
}

/// The retry count and the timeouts of a tool.
#[derive(Debug, Clone, Copy)]
pub struct CallLimits {
    /// The timeout of one attempt.
    pub attempt: Duration,
    /// The timeout of all attempts and the delays between them.
    pub total: Duration,
    /// The number of attempts after the first.
    pub retries: u32,
}

impl CompiledTool {
    /// Returns the text that describes the tool to its callers. For an agentic tool, this is `longDescription` or a text
    /// made from the definition, with at most 2500 characters.
    pub fn description(&self) -> &str {
        self.agentic_description.as_deref().unwrap_or_else(|| self.definition.description_or_name())
    }

    /// Returns the name of the tool in exports for frameworks, in snake case. Two tools can have the same exported
    /// name.
    pub fn exported_name(&self) -> &str {
        self.exported_name.get_or_init(|| snake_case(&self.definition.ref_name))
    }

    /// Returns warnings for the author of the definition.
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// Adds warnings for the author of the definition.
    pub fn add_warnings(&mut self, warnings: impl IntoIterator<Item = String>) {
        self.warnings.extend(warnings);
    }

    /// Applies the schema's defaults to `input` and validates it. A long validation does not block the thread, and
    /// stops when the future is dropped.
    pub async fn validate_input(self: &Arc<Self>, input: Value) -> Result<Value, Vec<Violation>> {
        let input = self.input.with_defaults(&input).unwrap_or(input);
        let checked = toolwright_budget::run((Arc::clone(self), input), |(tool, input)| tool.input.check(input)).await;
        match checked {
            Ok(((_, input), result)) => result.map(|()| input),
            Err(stopped) => Err(vec![Violation::unchecked(stopped)]),
        }
    }

    /// Whether each call starts a run of its own. Calls to agents, workflows, agentic tools and composite tools do.
    pub fn starts_run(&self) -> bool {
        let types = [ToolType::Agent, ToolType::Agentic, ToolType::Composite, ToolType::Workflow];
        types.contains(&self.definition.tool_type) || self.run_function().is_some()
    }

    /// The function of the tool, if it starts a run.
    pub fn run_function(&self) -> Option<RunFunction> {
        RunFunction::of(&self.definition)
    }

    /// Whether the tool can be used only in a run of an agent. This applies to `search_tools`, which searches the tools
    /// of that agent.
    pub fn is_run_only(&self) -> bool {
        self.source == DefinitionSource::BuiltIn && self.definition.ref_name.as_str() == search_tools::NAME
    }

    /// Returns the price of a call in US dollars, if the tool has a price that does not depend on the response.
    pub fn fixed_price_usd(&self) -> Option<f64> {
        self.price.as_ref().and_then(CompiledPrice::highest_usd)
    }

    /// Returns the highest cost of a call in US dollars. The cost is 0 if the tool has no price. Returns `None` if the
    /// cost depends on the response.
    pub fn highest_cost_usd(&self) -> Option<f64> {
        let own = self.price.as_ref().map_or(Some(0.0), CompiledPrice::highest_usd)?;
        // The cost limit of an agentic tool is added, because its run ends when it exceeds this limit.
        Some(own + self.definition.agentic.as_ref().map_or(0.0, |config| config.safety_limits.cost_usd()))
    }

    /// Returns the names of the secrets that a call needs.
    pub fn secret_names(&self) -> impl Iterator<Item = &str> {
        self.provider.as_deref().into_iter().flat_map(|provider| provider.config.secret_names())
    }

    /// Returns warnings about the life cycle status of this version of the tool.
    pub(crate) fn lifecycle_warnings(&self) -> Vec<String> {
        match self.definition.status {
            ToolStatus::Deprecated => {
                vec![format!("`{}@{}` is deprecated", self.definition.ref_name, self.definition.version)]
            }
            _ => Vec::new(),
        }
    }
}
