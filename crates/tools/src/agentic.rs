//! Checks the configuration of an agentic tool.

use serde_json::{Value, json};
use toolwright_types::{AgenticConfig, ExecutionMode, SafetyLimits, ToolDefinition, ToolType};

use crate::Issues;
use crate::export::MAX_DESCRIPTION_CHARS;

/// The maximum number of tools that an agentic tool may use.
const MAX_TOOLS: usize = 100;
/// The minimum length of a system prompt.
const MIN_PROMPT_CHARS: usize = 10;

/// Reports all mistakes in the configuration of an agentic tool.
pub(crate) fn check(definition: &ToolDefinition, issues: &mut Issues, warnings: &mut Vec<String>) {
    match (definition.tool_type, &definition.agentic) {
        (ToolType::Agentic, Some(config)) => {
            check_config(config, issues);
            warnings.extend(reply_limit_warning(config));
            let written = definition.long_description.as_deref().unwrap_or_default();
            if written.chars().count() > MAX_DESCRIPTION_CHARS {
                warnings.push(format!("callers see only {MAX_DESCRIPTION_CHARS} characters of `longDescription`"));
            }
        }
        (ToolType::Agentic, None) => issues.add("/agentic", "is required for AGENTIC tools"),
        (_, Some(_)) => issues.add("/agentic", "is allowed for AGENTIC tools only"),
        (_, None) => {}
    }
}

/// Returns the default input schema of an agentic tool: a task in natural language.
pub fn default_agentic_input() -> Value {
    json!({
        "type": "object",
        "properties": { "task": { "type": "string", "description": "The task, in natural language." } },
        "required": ["task"],
        "additionalProperties": false,
    })
}

fn check_config(config: &AgenticConfig, issues: &mut Issues) {
    let prompt = config.system_prompt.as_deref();
    if prompt.is_some_and(|prompt| prompt.trim().chars().count() < MIN_PROMPT_CHARS) {
        issues.add("/agentic/systemPrompt", format!("must have at least {MIN_PROMPT_CHARS} characters"));
    }
    check_model(config, issues);
    check_limits(&config.safety_limits, issues);
    check_allocation(config, issues);
    if config.requires_plan_approval && config.execution_mode == ExecutionMode::Agentic {
        issues.add("/agentic/requiresPlanApproval", "requires executionMode `deterministic`, which makes a plan");
    }
    if config.context_config.max_tokens.is_some_and(|tokens| !(500..=200_000).contains(&tokens)) {
        issues.add("/agentic/contextConfig/maxTokens", "must be between 500 and 200000");
    }
}

/// Returns a warning if `maxTokensPerCall` has no effect, because the limit of the model is lower.
fn reply_limit_warning(config: &AgenticConfig) -> Option<String> {
    let (limit, model) = (config.safety_limits.max_tokens_per_call?, config.embedded_llm_config.max_tokens());
    (limit > model).then(|| {
        format!(
            "`safetyLimits.maxTokensPerCall` is {limit}, but `embeddedLLMConfig.maxTokens` limits replies to {model} \
             tokens; raise `maxTokens` too"
        )
    })
}

fn check_model(config: &AgenticConfig, issues: &mut Issues) {
    let llm = &config.embedded_llm_config;
    let fractions = [("temperature", llm.temperature), ("topP", llm.top_p)];
    for (field, value) in fractions {
        if let Some(value) = value.filter(|value| !(0.0..=1.0).contains(value)) {
            issues.add(format!("/agentic/embeddedLLMConfig/{field}"), format!("must be between 0 and 1, got {value}"));
        }
    }
    let penalties = [("frequencyPenalty", llm.frequency_penalty), ("presencePenalty", llm.presence_penalty)];
    for (field, value) in penalties {
        if let Some(value) = value.filter(|value| !(-2.0..=2.0).contains(value)) {
            issues.add(format!("/agentic/embeddedLLMConfig/{field}"), format!("must be between -2 and 2, got {value}"));
        }
    }
    for (field, name) in [("provider", &llm.provider), ("model", &llm.model)] {
        if name.as_deref().is_some_and(|name| name.trim().is_empty()) {
            issues.add(format!("/agentic/embeddedLLMConfig/{field}"), "must not be empty; omit it for the default");
        }
    }
    if let Some(tokens) = llm.max_tokens.filter(|tokens| !(1000..=8000).contains(tokens)) {
        issues.add("/agentic/embeddedLLMConfig/maxTokens", format!("must be between 1000 and 8000, got {tokens}"));
    }
}

fn check_limits(limits: &SafetyLimits, issues: &mut Issues) {
    let ranges = [
        ("maxSteps", limits.max_steps, 1, 100),
        ("maxDurationSeconds", limits.max_duration_seconds, 1, 3600),
        ("maxTokensPerCall", limits.max_tokens_per_call, 1, 100_000),
        ("maxItems", limits.max_items, 1, 10_000),
    ];
    for (field, value, least, most) in ranges {
        if let Some(value) = value.filter(|value| !(least..=most).contains(value)) {
            let message = format!("must be between {least} and {most}, got {value}");
            issues.add(format!("/agentic/safetyLimits/{field}"), message);
        }
    }
    if let Some(cost) = limits.max_total_cost.filter(|cost| !(0.01..=10.0).contains(cost)) {
        issues.add("/agentic/safetyLimits/maxTotalCost", format!("must be between 0.01 and 10, got {cost}"));
    }
}

fn check_allocation(config: &AgenticConfig, issues: &mut Issues) {
    let allocation = &config.tool_allocation;
    if allocation.mode.is_some_and(|mode| mode != config.execution_mode) {
        let message = format!("must be `{}`, like executionMode", config.execution_mode.as_str());
        issues.add("/agentic/toolAllocation/mode", message);
    }
    let (wanted, count, other) = match config.execution_mode {
        ExecutionMode::Deterministic => {
            ("sequence", allocation.sequence.len(), ("availableTools", allocation.available_tools.len()))
        }
        ExecutionMode::Agentic => {
            ("availableTools", allocation.available_tools.len(), ("sequence", allocation.sequence.len()))
        }
    };
    let mode = config.execution_mode.as_str();
    if !(1..=MAX_TOOLS).contains(&count) {
        let message = format!("must have 1 to {MAX_TOOLS} tools in the mode `{mode}`, got {count}");
        issues.add(format!("/agentic/toolAllocation/{wanted}"), message);
    }
    if other.1 > 0 {
        let message = format!("is not used in the mode `{mode}`; use `{wanted}`");
        issues.add(format!("/agentic/toolAllocation/{}", other.0), message);
    }
    for (path, tool) in config.allocated_tools() {
        if tool.is_none_or(|tool| tool.trim().is_empty()) {
            issues.add(format!("/agentic{path}/actionSlug"), "is required; name a tool");
        }
    }
    let mut last = 0;
    for (at, entry) in allocation.sequence.iter().enumerate() {
        if entry.step <= last {
            let message = format!("must be greater than the step before it, got {}", entry.step);
            issues.add(format!("/agentic/toolAllocation/sequence/{at}/step"), message);
        }
        last = entry.step;
    }
}
