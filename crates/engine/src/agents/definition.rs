//! Agents and prompt fragments as definitions: what is checked when one is written.

use toolwright_authz::{Action, Resource};
use toolwright_tools::{DefinitionIssue, Issues};
use toolwright_types::{AgentDefinition, Document, DocumentKind, PromptFragment, RefName};

use super::toolset::ToolRef;
use crate::Unavailable;
use crate::registry::{Definition, Surroundings, wrong_uri};
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

    /// Whoever could write an agent that acts as someone else could do whatever they may.
    fn also_needs(&self) -> Option<(Action, Resource<'_>)> {
        self.principal_ref.as_deref().map(|name| (Action::ActAs, Resource::Principal { name }))
    }

    async fn check(&self, around: &Surroundings<'_>) -> Result<Result<Vec<String>, Issues>, Unavailable> {
        let Surroundings { catalog, models, realm } = *around;
        let unsaved = Document::unsaved(self.ref_name.clone(), self.clone());
        let (agent, missing) = match catalog.compile_agent(realm, unsaved).await? {
            Ok(compiled) => compiled,
            Err(issues) => return Ok(Err(issues)),
        };
        let mut issues: Vec<DefinitionIssue> = self.security_uri.as_deref().and_then(wrong_uri).into_iter().collect();
        let mut wrong = |path: &str, message: String| issues.push(DefinitionIssue { path: path.to_owned(), message });
        let second = self.fallback_model.as_ref().map(|choice| models.fallback(&self.llm_config, choice));
        for (path, llm) in [("/llmConfig", Some(&self.llm_config)), ("/fallbackModel", second.as_ref())] {
            let Some(llm) = llm else { continue };
            if llm.base_url.as_deref().is_some_and(holds_credentials) {
                let message = "a URL holds no user, password or parameters; put the key into a secret and name it in `apiKeySecretRef`";
                wrong(&format!("{path}/baseUrl"), message.to_owned());
            } else if let Err(error) = models.chosen(llm) {
                wrong(path, error.to_string());
            } else if let Some(Err(error)) = models.script(llm) {
                wrong(&format!("{path}/extraParams/script"), chain(&error));
            } else if agent.own_cost_limit().is_some() && models.price(realm, llm).is_none() {
                let model = models.chosen(llm).map(|model| model.to_string()).unwrap_or_default();
                wrong(path, format!("the price of `{model}` is not known, so a limit on cost could not be kept"));
            }
        }
        if !issues.is_empty() {
            return Ok(Err(Issues(issues)));
        }
        let mut warnings: Vec<String> =
            missing.into_iter().map(|name| format!("no prompt fragment `{name}` exists yet")).collect();
        let implementations = self.libraries.values().flat_map(|tools| tools.values());
        for tool in self.tool_refs.iter().chain(implementations).filter_map(|text| ToolRef::parse(text)) {
            if catalog.versions(realm, tool.name).await?.is_empty() {
                warnings.push(format!("no tool `{}` exists yet", tool.name));
            }
        }
        if let Some(name) = &self.principal_ref
            && !catalog.knows_principal(realm, name).await?
        {
            warnings.push(format!("no principal `{name}` exists yet"));
        }
        let others = self.delegate_agent_refs.iter().chain(&self.memory_config.summary_agent_ref);
        for name in others.filter(|name| !self.ref_name.as_str().eq_ignore_ascii_case(name)) {
            if catalog.agent(realm, name).await?.is_none() {
                warnings.push(format!("no agent `{name}` exists yet"));
            }
        }
        Ok(Ok(warnings))
    }
}

/// Whether a base URL has something in it that only a credential needs.
fn holds_credentials(url: &str) -> bool {
    let authority =
        url.split_once("://").map_or(url, |(_, rest)| rest).split(['/', '?', '#']).next().unwrap_or_default();
    authority.contains('@') || url.contains(['?', '#'])
}

/// An error with what caused it, in one line.
fn chain(error: &dyn std::error::Error) -> String {
    match error.source() {
        Some(cause) => format!("{error}: {}", chain(cause)),
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

    async fn check(&self, _around: &Surroundings<'_>) -> Result<Result<Vec<String>, Issues>, Unavailable> {
        Ok(match Prompt::compile([self.content.as_str()]) {
            Ok(_) => Ok(Vec::new()),
            Err((_, error)) => {
                Err(Issues(vec![DefinitionIssue { path: "/content".into(), message: error.to_string() }]))
            }
        })
    }
}
