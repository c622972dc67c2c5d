//! Implements [`Definition`] for triggers and webhooks, including their validation.

use toolwright_authz::{Action, Resource};
use toolwright_tools::{DefinitionIssue, Issues};
use toolwright_types::{
    DocumentKind, RefName, SystemClock, TriggerDefinition, TriggerTarget, WebhookDefinition, WebhookEvent,
};
use url::Url;

use super::agent::tool_warning;
use super::{Definition, ValidationContext};
use crate::Unavailable;
use crate::toolset::VersionedRef;
use crate::trigger::CompiledTrigger;

/// The maximum number of characters of the address of a webhook.
const MAX_URL_CHARS: usize = 2048;

impl Definition for TriggerDefinition {
    const KIND: DocumentKind = DocumentKind::Trigger;
    const NOUN: &'static str = "trigger";

    fn ref_name(&self) -> &RefName {
        &self.ref_name
    }

    fn resource(&self) -> Resource<'_> {
        Resource::Trigger { name: self.ref_name.as_str() }
    }

    fn additional_permission(&self) -> Option<(Action, Resource<'_>)> {
        Some((Action::ActAs, Resource::Principal { name: &self.principal_ref }))
    }

    async fn check(&self, context: &ValidationContext<'_>) -> Result<Result<Vec<String>, Issues>, Unavailable> {
        use toolwright_types::Clock as _;
        if let Err(issues) = CompiledTrigger::compile(self.clone(), SystemClock.now()) {
            return Ok(Err(issues));
        }
        let mut warnings = Vec::new();
        if !context.catalog.principal_exists(context.realm, &self.principal_ref).await? {
            warnings.push(format!("no principal `{}` exists yet", self.principal_ref));
        }
        warnings.extend(target_warning(&self.target, context).await?);
        if let Some(secret) = &self.secret_ref {
            warnings.extend(secret_warning(secret, context).await?);
        }
        Ok(Ok(warnings))
    }
}

/// Returns a warning if the realm and the organization do not have a secret yet.
async fn secret_warning(name: &str, context: &ValidationContext<'_>) -> Result<Option<String>, Unavailable> {
    let found = match name.parse::<RefName>() {
        Ok(name) => context.catalog.store().secrets(context.realm).shared(&name).await?.is_some(),
        Err(_) => false,
    };
    Ok((!found).then(|| format!("no secret `{name}` of the realm or of the organization exists yet")))
}

/// Returns a warning if the target of a trigger does not exist yet.
async fn target_warning(
    target: &TriggerTarget,
    context: &ValidationContext<'_>,
) -> Result<Option<String>, Unavailable> {
    let (kind, name) = target.parts();
    let missing = match target {
        TriggerTarget::Tool(_) => {
            let Some(tool) = VersionedRef::parse(name) else { return Ok(None) };
            return tool_warning(context, &tool, "the trigger").await;
        }
        TriggerTarget::Agent(_) => {
            !context.is_written_agent(name) && context.catalog.agent(context.realm, name).await?.is_none()
        }
        TriggerTarget::Workflow(_) => context.catalog.workflow(context.realm, name).await?.is_none(),
    };
    Ok(missing.then(|| format!("no {kind} `{name}` exists yet")))
}

impl Definition for WebhookDefinition {
    const KIND: DocumentKind = DocumentKind::Webhook;
    const NOUN: &'static str = "webhook";

    fn ref_name(&self) -> &RefName {
        &self.ref_name
    }

    fn resource(&self) -> Resource<'_> {
        Resource::Webhook { name: self.ref_name.as_str() }
    }

    async fn check(&self, context: &ValidationContext<'_>) -> Result<Result<Vec<String>, Issues>, Unavailable> {
        let mut issues = Vec::new();
        let mut push = |path: &str, message: String| issues.push(DefinitionIssue { path: path.to_owned(), message });
        if let Some(message) = url_problem(&self.url) {
            push("/url", message);
        }
        if self.events.is_empty() {
            let names: Vec<&str> = WebhookEvent::ALL.iter().map(|event| event.as_str()).collect();
            push("/events", format!("must have at least one of {}", names.join(", ")));
        }
        if self.secret_ref.trim().is_empty() {
            push("/secretRef", "must be the name of the secret that signs the requests".to_owned());
        }
        if !issues.is_empty() {
            return Ok(Err(Issues(issues)));
        }
        Ok(Ok(secret_warning(&self.secret_ref, context).await?.into_iter().collect()))
    }
}

fn url_problem(text: &str) -> Option<String> {
    if text.chars().count() > MAX_URL_CHARS {
        return Some(format!("must have at most {MAX_URL_CHARS} characters"));
    }
    let Ok(url) = text.parse::<Url>() else {
        return Some(format!("must be an absolute URL such as `https://example.com/hooks`, got `{text}`"));
    };
    if !matches!(url.scheme(), "http" | "https") || !url.has_host() {
        return Some(format!("must start with `https://` or `http://`, got `{text}`"));
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Some("must not contain a user or a password; requests are authenticated by their signature".to_owned());
    }
    None
}
