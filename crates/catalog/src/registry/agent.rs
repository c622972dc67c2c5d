//! Implements [`Definition`] for agents and prompt fragments, including their validation.

use semver::Version;
use toolwright_authz::{Action, Resource};
use toolwright_tools::{DefinitionIssue, Issues};
use toolwright_types::{AgentDefinition, Document, DocumentKind, PromptFragment, RefName, ToolDefinition, ToolStatus};

use crate::Unavailable;
use crate::catalog::select_version;
use crate::registry::{Definition, ValidationContext, security_uri_issue};
use crate::toolset::{VersionedRef, excluded_by_name, matches_category_or_tag};
use toolwright_expr::prompt::Prompt;

impl Definition for AgentDefinition {
    const KIND: DocumentKind = DocumentKind::Agent;
    const NOUN: &'static str = "agent";

    fn ref_name(&self) -> &RefName {
        &self.ref_name
    }

    fn resource(&self) -> Resource<'_> {
        Resource::Agent { name: self.ref_name.as_str() }
    }

    fn version(&self) -> Option<&Version> {
        Some(&self.version)
    }

    fn status(&self) -> ToolStatus {
        self.status
    }

    /// An agent with `principalRef` acts as that principal. So its author needs the permission to act as that
    /// principal.
    fn additional_permission(&self) -> Option<(Action, Resource<'_>)> {
        self.principal_ref.as_deref().map(|name| (Action::ActAs, Resource::Principal { name }))
    }

    async fn check(&self, context: &ValidationContext<'_>) -> Result<Result<Vec<String>, Issues>, Unavailable> {
        let ValidationContext { catalog, models, realm, .. } = context;
        let unsaved = Document::unsaved(self.ref_name.clone(), self.clone());
        let (agent, missing) = match catalog.compile_agent(realm, unsaved).await? {
            Ok(compiled) => compiled,
            Err(issues) => return Ok(Err(issues)),
        };
        let mut issues: Vec<DefinitionIssue> =
            self.security_uri.as_deref().and_then(security_uri_issue).into_iter().collect();
        let mut report = |path: &str, message: String| issues.push(DefinitionIssue { path: path.to_owned(), message });
        let fallback = self.fallback_model.as_ref().map(|choice| models.fallback_config(&self.llm_config, choice));
        for (path, llm) in [("/llmConfig", Some(&self.llm_config)), ("/fallbackModel", fallback.as_ref())] {
            let Some(llm) = llm else { continue };
            if llm.base_url.as_deref().is_some_and(contains_credentials) {
                let message = "must not contain a user, a password or parameters; store the key as a secret and name it in `apiKeySecretRef`";
                report(&format!("{path}/baseUrl"), message.to_owned());
            } else if let Err(error) = models.model_ref(llm) {
                report(path, error.to_string());
            } else if let Some(Err(error)) = models.script(llm) {
                report(&format!("{path}/extraParams/script"), error_chain(&error));
            } else if agent.cost_limit().is_some() && models.price(realm, llm).is_none() {
                let model = models.model_ref(llm).map(|model| model.to_string()).unwrap_or_default();
                report(path, format!("the price of `{model}` is unknown, so the cost limit cannot be enforced"));
            }
        }
        if !issues.is_empty() {
            return Ok(Err(Issues(issues)));
        }
        let mut warnings: Vec<String> =
            missing.into_iter().map(|name| format!("no prompt fragment `{name}` exists yet")).collect();
        if self.execution_config.restate_service_ref.is_some() {
            warnings.push("executionConfig.restateServiceRef has no effect: durable runs use the Restate server of the deployment".into());
        }
        let implementations = self.libraries.values().flat_map(|tools| tools.values());
        for tool in self.tool_refs.iter().chain(implementations).filter_map(|text| VersionedRef::parse(text)) {
            warnings.extend(tool_warning(context, &tool, "the agent").await?);
        }
        if !(self.tool_categories.is_empty() && self.tool_tags.is_empty()) {
            let tools = catalog.tools(realm).await?;
            let selected = tools
                .iter()
                .map(|tool| &tool.definition)
                .filter(|tool| matches_category_or_tag(self, tool) && !excluded_by_name(self, tool.ref_name.as_str()));
            warnings.extend(selected.filter_map(|tool| lifecycle_warning(tool, "the agent")));
        }
        if let Some(name) = &self.principal_ref
            && !catalog.principal_exists(realm, name).await?
        {
            warnings.push(format!("no principal `{name}` exists yet"));
        }
        let others = self.delegate_agent_refs.iter().chain(&self.memory_config.summary_agent_ref);
        for name in others.filter(|name| !self.ref_name.as_str().eq_ignore_ascii_case(name)) {
            match catalog.agent(realm, name).await? {
                _ if context.is_written_agent(name) => {}
                None => warnings.push(format!("no agent `{name}` exists yet")),
                Some(agent) => {
                    let AgentDefinition { ref_name, version, status, .. } = &agent.document.body;
                    warnings.extend(status_warning("agent", ref_name, version, *status, "the agent"));
                }
            }
        }
        Ok(Ok(warnings))
    }
}

/// Returns the warning for a tool that a definition refers to by name. `user` is the part of the definition that calls
/// the tool.
pub(super) async fn tool_warning(
    context: &ValidationContext<'_>,
    reference: &VersionedRef<'_>,
    user: &str,
) -> Result<Option<String>, Unavailable> {
    let name = reference.name;
    if context.is_written_tool(name) {
        return Ok(None);
    }
    let versions = context.catalog.versions(context.realm, name).await?;
    if versions.is_empty() {
        return Ok(Some(format!("no tool `{name}` exists yet")));
    }
    let tool = select_version(&versions, reference.version_req.as_ref());
    Ok(tool.and_then(|tool| lifecycle_warning(&tool.definition, user)))
}

fn lifecycle_warning(tool: &ToolDefinition, user: &str) -> Option<String> {
    status_warning("tool", &tool.ref_name, &tool.version, tool.status, user)
}

/// Returns the warning for a tool or delegate that is deprecated or that `user` cannot call.
fn status_warning(kind: &str, name: &RefName, version: &Version, status: ToolStatus, user: &str) -> Option<String> {
    match status {
        ToolStatus::Active => None,
        ToolStatus::Deprecated => {
            Some(format!("{kind} `{name}@{version}` is deprecated; use another version or {kind}"))
        }
        ToolStatus::Blocked => Some(format!("{kind} `{name}@{version}` is blocked, so {user} cannot call it")),
        ToolStatus::Draft => Some(format!("{kind} `{name}@{version}` is a draft, so {user} cannot call it yet")),
    }
}

/// Whether a base URL has a part that may contain credentials: user info, a query or a fragment.
fn contains_credentials(url: &str) -> bool {
    let authority =
        url.split_once("://").map_or(url, |(_, rest)| rest).split(['/', '?', '#']).next().unwrap_or_default();
    authority.contains('@') || url.contains(['?', '#'])
}

/// Formats an error and its causes on one line.
fn error_chain(error: &dyn std::error::Error) -> String {
    match error.source() {
        Some(cause) => format!("{error}: {}", error_chain(cause)),
        None => error.to_string(),
    }
}

impl Definition for PromptFragment {
    const KIND: DocumentKind = DocumentKind::Fragment;
    const NOUN: &'static str = "prompt fragment";

    fn ref_name(&self) -> &RefName {
        &self.ref_name
    }

    fn resource(&self) -> Resource<'_> {
        Resource::Fragment { name: self.ref_name.as_str() }
    }

    async fn check(&self, _context: &ValidationContext<'_>) -> Result<Result<Vec<String>, Issues>, Unavailable> {
        Ok(match Prompt::compile([self.content.as_str()]) {
            Ok(_) => Ok(Vec::new()),
            Err((_, error)) => {
                Err(Issues(vec![DefinitionIssue { path: "/content".into(), message: error.to_string() }]))
            }
        })
    }
}
