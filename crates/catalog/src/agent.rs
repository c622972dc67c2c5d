//! Compiles agent definitions: the prompt, the guardrails and the response schema.

use std::sync::Arc;

use toolwright_machine::{Guardrail, Limits};
use toolwright_tools::{CompiledTool, DefinitionIssue, Issues, Schema};
use toolwright_types::{
    AgentDefinition, AnswerFormat, ContextConfig, Document, PromptFragment, ResponseFormat, ToolStatus, Trial,
};

use super::toolset::VersionedRef;
use toolwright_expr::prompt::Prompt;

/// An agent that is ready to run.
pub struct CompiledAgent {
    /// The definition with its id, revision and content hash.
    pub document: Document<AgentDefinition>,
    /// The rules that refuse calls.
    pub guardrails: Vec<Guardrail>,
    /// The system prompt, including the prompt fragments.
    pub prompt: Prompt,
    /// The format of the agent's answer.
    pub response_format: ResponseFormat,
    /// The schema of a structured response.
    pub response_schema: Option<Arc<Schema>>,
    /// The tools whose definitions are inline in the agent. They are not in the catalog.
    pub inline_tools: Vec<Arc<CompiledTool>>,
    /// Warnings that every run of the agent reports.
    pub warnings: Vec<String>,
    /// The data that is added to the prompt of an agentic tool. `None` for other agents, whose prompts contain only the
    /// data that the prompt text refers to.
    pub context: Option<ContextConfig>,
}

impl CompiledAgent {
    /// Compiles a definition with the fragments that it refers to. Returns all issues of an invalid definition.
    pub fn compile(document: Document<AgentDefinition>, fragments: &[PromptFragment]) -> Result<Self, Issues> {
        let agent = &document.body;
        let mut issues = Vec::new();
        let mut report = |path: String, message: String| issues.push(DefinitionIssue { path, message });
        check_numbers(agent, &mut report);
        check_names(agent, &mut report);
        let mut guardrails = Vec::with_capacity(agent.guardrails.len());
        for (at, config) in agent.guardrails.iter().enumerate() {
            match Guardrail::try_from(config.clone()) {
                Ok(guardrail) => guardrails.push(guardrail),
                Err(error) => report(format!("/guardrails/{at}"), error.to_string()),
            }
        }
        let own = agent.system_prompt.as_deref();
        let parts = own.into_iter().chain(fragments.iter().map(|fragment| fragment.content.as_str()));
        let prompt = Prompt::compile(parts).map_err(|(at, error)| {
            let fragment = at.checked_sub(usize::from(own.is_some())).and_then(|at| fragments.get(at));
            let prefix = fragment.map_or_else(String::new, |fragment| format!("fragment `{}`, ", fragment.ref_name));
            report("/systemPrompt".into(), format!("{prefix}{error}"));
        });
        let response = response_format(agent, &mut report);
        match (prompt, response, issues.is_empty()) {
            (Ok(prompt), Some((response_format, response_schema)), true) => {
                let (inline_tools, warnings) = (Vec::new(), deprecation(agent).into_iter().collect());
                Ok(Self {
                    document,
                    guardrails,
                    prompt,
                    response_format,
                    response_schema,
                    inline_tools,
                    warnings,
                    context: None,
                })
            }
            _ => Err(Issues(issues)),
        }
    }

    /// Returns the versions of the inline tool with this name.
    pub fn inline_versions(&self, name: &str) -> Vec<Arc<CompiledTool>> {
        let has_name = |tool: &&Arc<CompiledTool>| tool.definition.ref_name.as_str().eq_ignore_ascii_case(name);
        self.inline_tools.iter().filter(has_name).cloned().collect()
    }

    /// Returns the limits of a run. A limit that the definition does not set is taken from `defaults`. No limit exceeds
    /// `platform`.
    pub fn limits(&self, defaults: Limits, mut platform: Limits) -> Limits {
        // The limit of an agentic tool follows its number of steps. The default limit for agents does not apply to it,
        // but a limit that the operator has set does.
        if self.context.is_some() && platform.max_tool_calls == Limits::platform().max_tool_calls {
            platform.max_tool_calls = u32::MAX;
        }
        let AgentDefinition { execution_config: execution, policy, .. } = &self.document.body;
        Limits {
            max_iterations: execution.max_iterations.unwrap_or(defaults.max_iterations),
            max_tool_calls: policy.max_tool_calls.unwrap_or(defaults.max_tool_calls),
            timeout_ms: execution.timeout_seconds.map(|s| s.saturating_mul(1000)).or(defaults.timeout_ms),
            max_tokens: policy.max_tokens.or(defaults.max_tokens),
            max_cost_usd: policy.max_cost_usd.or(defaults.max_cost_usd),
        }
        .tightest(platform)
    }

    /// Whether the agent can be run: it is enabled, and this version is not blocked.
    pub fn is_runnable(&self) -> bool {
        let AgentDefinition { enabled, status, .. } = self.document.body;
        enabled && status != ToolStatus::Blocked
    }

    /// Returns the lowest cost limit that the policy or the guardrails of the agent set.
    pub fn cost_limit(&self) -> Option<f64> {
        let guarded = self.guardrails.iter().filter_map(|guardrail| match guardrail {
            Guardrail::MaxCost { max_cost_usd } => Some(*max_cost_usd),
            _ => None,
        });
        guarded.chain(self.document.body.policy.max_cost_usd).reduce(f64::min)
    }
}

/// Returns the warning about a deprecated version of an agent.
fn deprecation(agent: &AgentDefinition) -> Option<String> {
    let AgentDefinition { ref_name, version, .. } = agent;
    let warning = || format!("version {version} of agent `{ref_name}` is deprecated; use another version");
    (agent.status == ToolStatus::Deprecated).then(warning)
}

type CompiledResponseFormat = (ResponseFormat, Option<Arc<Schema>>);

fn response_format(agent: &AgentDefinition, report: &mut impl FnMut(String, String)) -> Option<CompiledResponseFormat> {
    match (agent.response_format, &agent.response_schema) {
        (AnswerFormat::Text, None) => Some((ResponseFormat::Text, None)),
        (AnswerFormat::Json, None) => Some((ResponseFormat::Json, None)),
        (AnswerFormat::Text, Some(_)) => {
            report("/responseSchema".into(), "requires `responseFormat` to be `json` or `structured`".into());
            None
        }
        (AnswerFormat::Structured, None) => {
            report("/responseSchema".into(), "is required if `responseFormat` is `structured`".into());
            None
        }
        (_, Some(schema)) => match Schema::compile(schema.clone()) {
            Ok(compiled) => Some((ResponseFormat::Structured(schema.clone()), Some(Arc::new(compiled)))),
            Err(error) => {
                report(format!("/responseSchema{}", error.path), error.message);
                None
            }
        },
    }
}

fn check_numbers(agent: &AgentDefinition, report: &mut impl FnMut(String, String)) {
    let positive = [
        ("/executionConfig/maxIterations", agent.execution_config.max_iterations.map(u64::from)),
        ("/executionConfig/timeoutSeconds", agent.execution_config.timeout_seconds),
        ("/executionConfig/maxParallelCalls", agent.execution_config.max_parallel_calls.map(u64::from)),
        ("/llmConfig/maxOutputTokens", agent.llm_config.max_output_tokens.map(u64::from)),
        ("/llmConfig/maxInputTokens", agent.llm_config.max_input_tokens),
        ("/memoryConfig/maxConversationTurns", agent.memory_config.max_conversation_turns.map(u64::from)),
        ("/memoryConfig/maxContextTokens", agent.memory_config.max_context_tokens),
        ("/policy/maxTokens", agent.policy.max_tokens),
    ];
    for (path, value) in positive {
        if value == Some(0) {
            report(path.into(), "must be at least 1; omit it for the default".into());
        }
    }
    if agent.llm_config.temperature.is_some_and(|value| !(0.0..=1.0).contains(&value)) {
        report("/llmConfig/temperature".into(), "must be between 0 and 1".into());
    }
    if agent.policy.max_cost_usd.is_some_and(|value| !(value.is_finite() && value > 0.0)) {
        report("/policy/maxCostUsd".into(), "must be greater than 0".into());
    }
}

fn check_names(agent: &AgentDefinition, report: &mut impl FnMut(String, String)) {
    if agent.name.as_ref().is_some_and(|name| name.chars().count() > 128) {
        report("/name".into(), "must have at most 128 characters".into());
    }
    for (at, text) in agent.tool_refs.iter().enumerate() {
        if VersionedRef::parse(text).is_none() {
            let message = format!("`{text}` is not a tool reference; use `name` or `name@^1.2`");
            report(format!("/toolRefs/{at}"), message);
        }
    }
    check_libraries(agent, report);
    for (at, pin) in agent.pins.iter().enumerate() {
        if pin.name.trim().is_empty() {
            report(format!("/pins/{at}/name"), "must not be empty".to_owned());
        }
        if agent.pins.iter().take(at).any(|other| other.name == pin.name) {
            report(format!("/pins/{at}/name"), format!("`{}` is already the name of another pin", pin.name));
        }
    }
    let delegates = agent.delegate_agent_refs.iter().enumerate();
    let delegates = delegates.map(|(at, text)| (format!("/delegateAgentRefs/{at}"), text));
    let summary = agent.memory_config.summary_agent_ref.as_ref();
    let summary_path = || "/memoryConfig/summaryAgentRef".to_owned();
    for (path, text) in delegates.chain(summary.map(|text| (summary_path(), text))) {
        if VersionedRef::parse(text).is_none() {
            report(path, format!("`{text}` is not an agent reference; use `name` or `name@^1.2`"));
        }
    }
    if summary.and_then(|text| VersionedRef::parse(text)).is_some_and(|other| other.name == agent.ref_name.as_str()) {
        report(
            summary_path(),
            "must name another agent, because an agent cannot summarize its own conversations; omit it to use the agent's model".into(),
        );
    }
}

fn check_libraries(agent: &AgentDefinition, report: &mut impl FnMut(String, String)) {
    for (name, tools) in &agent.libraries {
        let pointer = format!("/libraries/{}", name.replace('~', "~0").replace('/', "~1"));
        if name.trim().is_empty() || name == Trial::DEFAULT_ARM || name.chars().count() > 128 {
            let message =
                format!("library name `{name}` must have 1 to 128 characters and must not be `{}`", Trial::DEFAULT_ARM);
            report(pointer.clone(), message);
        }
        if tools.is_empty() {
            report(pointer.clone(), "must bind at least one tool".into());
        }
        for (tool, implementation) in tools {
            if VersionedRef::parse(implementation).is_none_or(|found| found.name.is_empty()) {
                let tool = tool.replace('~', "~0").replace('/', "~1");
                let message = format!("`{implementation}` is not a tool reference; use `name` or `name@^1.2`");
                report(format!("{pointer}/{tool}"), message);
            }
        }
    }
    if let Some(split) = &agent.split {
        if !agent.libraries.contains_key(&split.library) {
            report("/split/library".into(), format!("library `{}` must be one of `libraries`", split.library));
        }
        if !(0.0..=1.0).contains(&split.share) {
            report("/split/share".into(), "must be between 0 and 1".into());
        }
    }
}
