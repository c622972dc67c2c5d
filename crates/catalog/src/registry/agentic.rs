//! Validates the agent inside an agentic tool.

use toolwright_tools::{DefinitionIssue, Issues};
use toolwright_types::{AgenticConfig, Document, ToolDefinition};

use crate::agentic::embedded_agent;
use crate::catalog::select_version;
use crate::placeholders;
use crate::registry::ValidationContext;
use crate::toolset::VersionedRef;
use crate::{CompiledAgent, Unavailable};

/// Checks the agent inside an agentic tool. Returns warnings for the author, or all issues.
pub(super) async fn check_embedded_agent(
    tool: &ToolDefinition,
    config: &AgenticConfig,
    context: &ValidationContext<'_>,
) -> Result<Result<Vec<String>, Issues>, Unavailable> {
    let agent = embedded_agent(tool, config);
    let tools = agent.tool_refs.clone();
    let document = Document::unsaved(tool.ref_name.clone(), agent);
    let compiled = match context.catalog.compile_agent(context.realm, document).await? {
        Ok((agent, _)) => agent,
        Err(Issues(issues)) => {
            let located = issues.into_iter().map(|issue| located(issue, config, &tools));
            return Ok(Err(Issues(located.collect())));
        }
    };
    if let Err(error) = context.models.model_ref(&compiled.document.body.llm_config) {
        let path = "/agentic/embeddedLLMConfig".to_owned();
        return Ok(Err(Issues(vec![DefinitionIssue { path, message: error.to_string() }])));
    }
    let mut warnings = tool_warnings(config, context).await?;
    warnings.extend(unknown_placeholders(&compiled));
    for selected in config.context_config.reference_data.iter() {
        let provider = &selected.integration_id;
        if !context.catalog.provider_exists(context.realm, provider).await? {
            warnings.push(format!("no provider `{provider}` exists yet, so the prompt has no reference data of it"));
        }
    }
    let steps = config.tool_allocation.sequence.len();
    let limit = config.safety_limits.steps();
    if u32::try_from(steps).is_ok_and(|steps| steps > limit) {
        warnings.push(format!("the sequence has {steps} steps, but `safetyLimits.maxSteps` is {limit}"));
    }
    Ok(Ok(warnings))
}

/// Converts the path of an issue in the agent to the path in the tool definition.
fn located(issue: DefinitionIssue, config: &AgenticConfig, tools: &[String]) -> DefinitionIssue {
    let DefinitionIssue { path, message } = issue;
    let position = path.strip_prefix("/toolRefs/").and_then(|at| at.parse::<usize>().ok());
    let allocated = position
        .and_then(|at| tools.get(at))
        .and_then(|name| config.allocated_tools().find(|(_, tool)| *tool == Some(name.as_str())).map(|(path, _)| path));
    let path = match (allocated, path.strip_prefix("/llmConfig"), path.strip_prefix("/responseSchema")) {
        (Some(allocated), ..) => format!("/agentic{allocated}/actionSlug"),
        (_, Some(field), _) => format!("/agentic/embeddedLLMConfig{field}"),
        (_, _, Some(field)) => format!("/outputJsonSchema{field}"),
        _ if path.starts_with("/systemPrompt") => format!("/agentic{path}"),
        _ => path,
    };
    DefinitionIssue { path, message }
}

/// Returns warnings about tools and versions that do not exist.
async fn tool_warnings(config: &AgenticConfig, context: &ValidationContext<'_>) -> Result<Vec<String>, Unavailable> {
    let mut warnings = Vec::new();
    for (_, text) in config.allocated_tools() {
        let Some((text, reference)) = text.and_then(|text| Some((text, VersionedRef::parse(text)?))) else { continue };
        let name = reference.name;
        let versions = context.catalog.versions(context.realm, name).await?;
        if context.is_written_tool(name) || select_version(&versions, reference.version_req.as_ref()).is_some() {
            continue;
        }
        let is_draft = versions
            .iter()
            .any(|tool| reference.version_req.as_ref().is_none_or(|req| req.matches(&tool.definition.version)));
        warnings.push(match (versions.is_empty(), is_draft) {
            (true, _) => format!("no tool `{name}` exists yet"),
            (_, true) => format!("tool `{name}` has no active version for `{text}` yet"),
            (_, false) => format!("tool `{name}` has no version that matches `{text}` yet"),
        });
    }
    Ok(warnings)
}

/// Returns a warning for each placeholder of the prompt that the server does not fill in.
fn unknown_placeholders(agent: &CompiledAgent) -> Vec<String> {
    let mut unknown: Vec<&str> = agent.prompt.variables().filter(|path| !placeholders::is_known(path)).collect();
    unknown.sort_unstable();
    unknown.dedup();
    let known = placeholders::ALL.map(|name| format!("`{{{{{name}}}}}`")).join(", ");
    let warning = |path: &str| {
        format!(
            "the prompt has the unknown placeholder `{{{{{path}}}}}`, which stays empty; the placeholders are {known}"
        )
    };
    unknown.into_iter().map(warning).collect()
}
