//! An agent made ready to run: prompt, guardrails and answer schema compiled once.

use std::sync::Arc;

use toolwright_machine::{Guardrail, Limits};
use toolwright_tools::{CompiledTool, DefinitionIssue, Issues, Schema};
use toolwright_types::{AgentDefinition, AnswerFormat, Document, PromptFragment, ResponseFormat, Trial};

use super::toolset::ToolRef;
use toolwright_expr::prompt::Prompt;

/// An agent that can be run.
pub struct CompiledAgent {
    /// The definition and its identity.
    pub document: Document<AgentDefinition>,
    pub(crate) guardrails: Vec<Guardrail>,
    pub(crate) prompt: Prompt,
    /// What its answers must fit; none for text.
    pub(crate) answer: ResponseFormat,
    pub(crate) answer_schema: Option<Arc<Schema>>,
    /// The tools it brings along, which are in no catalog.
    pub(crate) carried: Vec<Arc<CompiledTool>>,
    /// What its author should know about every run of it.
    pub(crate) notes: Vec<String>,
}

impl CompiledAgent {
    /// Compiles a definition with the fragments it refers to, or says everything that is wrong with it.
    pub(crate) fn compile(document: Document<AgentDefinition>, fragments: &[PromptFragment]) -> Result<Self, Issues> {
        let agent = &document.body;
        let mut issues = Vec::new();
        let mut wrong = |path: String, message: String| issues.push(DefinitionIssue { path, message });
        check_numbers(agent, &mut wrong);
        check_names(agent, &mut wrong);
        let mut guardrails = Vec::with_capacity(agent.guardrails.len());
        for (at, config) in agent.guardrails.iter().enumerate() {
            match Guardrail::try_from(config.clone()) {
                Ok(guardrail) => guardrails.push(guardrail),
                Err(error) => wrong(format!("/guardrails/{at}"), error.to_string()),
            }
        }
        let own = agent.system_prompt.as_deref();
        let parts = own.into_iter().chain(fragments.iter().map(|fragment| fragment.content.as_str()));
        let prompt = Prompt::compile(parts).map_err(|(at, error)| {
            let fragment = at.checked_sub(usize::from(own.is_some())).and_then(|at| fragments.get(at));
            let place = fragment.map_or_else(String::new, |fragment| format!("fragment `{}`, ", fragment.ref_name));
            wrong("/systemPrompt".into(), format!("{place}{error}"));
        });
        let answer = answer(agent, &mut wrong);
        match (prompt, answer, issues.is_empty()) {
            (Ok(prompt), Some((answer, answer_schema)), true) => {
                let (carried, notes) = (Vec::new(), Vec::new());
                Ok(Self { document, guardrails, prompt, answer, answer_schema, carried, notes })
            }
            _ => Err(Issues(issues)),
        }
    }

    /// The tool of this name that it brings along, in the versions there are.
    pub(crate) fn carried_versions(&self, name: &str) -> Vec<Arc<CompiledTool>> {
        let is_it = |tool: &&Arc<CompiledTool>| tool.definition.ref_name.as_str().eq_ignore_ascii_case(name);
        self.carried.iter().filter(is_it).cloned().collect()
    }

    /// How much a run may do: the definition, else `defaults`, and never more than `platform`.
    pub(crate) fn limits(&self, defaults: Limits, platform: Limits) -> Limits {
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

    /// How much it may cost by its own word, if it says so.
    pub(crate) fn own_cost_limit(&self) -> Option<f64> {
        let guarded = self.guardrails.iter().filter_map(|guardrail| match guardrail {
            Guardrail::MaxCost { max_cost_usd } => Some(*max_cost_usd),
            _ => None,
        });
        guarded.chain(self.document.body.policy.max_cost_usd).reduce(f64::min)
    }
}

type Answer = (ResponseFormat, Option<Arc<Schema>>);

fn answer(agent: &AgentDefinition, wrong: &mut impl FnMut(String, String)) -> Option<Answer> {
    match (agent.response_format, &agent.response_schema) {
        (AnswerFormat::Text, None) => Some((ResponseFormat::Text, None)),
        (AnswerFormat::Json, None) => Some((ResponseFormat::Json, None)),
        (AnswerFormat::Text, Some(_)) => {
            wrong("/responseSchema".into(), "text has no schema; set `responseFormat` to `structured`".into());
            None
        }
        (AnswerFormat::Structured, None) => {
            wrong("/responseSchema".into(), "a structured answer needs the schema it must fit".into());
            None
        }
        (_, Some(schema)) => match Schema::compile(schema.clone()) {
            Ok(compiled) => Some((ResponseFormat::Structured(schema.clone()), Some(Arc::new(compiled)))),
            Err(error) => {
                wrong(format!("/responseSchema{}", error.path), error.message);
                None
            }
        },
    }
}

fn check_numbers(agent: &AgentDefinition, wrong: &mut impl FnMut(String, String)) {
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
            wrong(path.into(), "must be at least 1; leave it out for the default".into());
        }
    }
    if agent.llm_config.temperature.is_some_and(|value| !(0.0..=1.0).contains(&value)) {
        wrong("/llmConfig/temperature".into(), "must lie between 0 and 1".into());
    }
    if agent.policy.max_cost_usd.is_some_and(|value| !(value.is_finite() && value > 0.0)) {
        wrong("/policy/maxCostUsd".into(), "must be more than 0".into());
    }
}

fn check_names(agent: &AgentDefinition, wrong: &mut impl FnMut(String, String)) {
    if agent.name.as_ref().is_some_and(|name| name.chars().count() > 128) {
        wrong("/name".into(), "has at most 128 characters".into());
    }
    for (at, text) in agent.tool_refs.iter().enumerate() {
        if ToolRef::parse(text).is_none() {
            let message = format!("`{text}` is no tool; write `name` or `name@^1.2`");
            wrong(format!("/toolRefs/{at}"), message);
        }
    }
    check_libraries(agent, wrong);
    for (at, pin) in agent.pins.iter().enumerate() {
        if agent.pins.iter().take(at).any(|other| other.name == pin.name) {
            wrong(format!("/pins/{at}/name"), format!("two pins are called `{}`", pin.name));
        }
    }
    if agent.memory_config.summary_agent_ref.as_deref() == Some(agent.ref_name.as_str()) {
        wrong(
            "/memoryConfig/summaryAgentRef".into(),
            "an agent cannot summarise its own conversations; leave it out to use its model".into(),
        );
    }
}

fn check_libraries(agent: &AgentDefinition, wrong: &mut impl FnMut(String, String)) {
    for (name, tools) in &agent.libraries {
        let place = format!("/libraries/{}", name.replace('~', "~0").replace('/', "~1"));
        if name.trim().is_empty() || name == Trial::DEFAULT_ARM || name.chars().count() > 128 {
            let message =
                format!("`{name}` cannot name a library: 1 to 128 characters, and not `{}`", Trial::DEFAULT_ARM);
            wrong(place.clone(), message);
        }
        if tools.is_empty() {
            wrong(place.clone(), "binds nothing; name a tool and what it is bound to".into());
        }
        for (tool, implementation) in tools {
            if ToolRef::parse(implementation).is_none_or(|found| found.name.is_empty()) {
                let tool = tool.replace('~', "~0").replace('/', "~1");
                let message = format!("`{implementation}` is no tool; write `name` or `name@^1.2`");
                wrong(format!("{place}/{tool}"), message);
            }
        }
    }
    if let Some(split) = &agent.split {
        if !agent.libraries.contains_key(&split.library) {
            wrong("/split/library".into(), format!("`{}` is none of the agent's `libraries`", split.library));
        }
        if !(0.0..=1.0).contains(&split.share) {
            wrong("/split/share".into(), "must lie between 0 and 1".into());
        }
    }
}
