//! Which model an agent speaks to: its configuration, the server's defaults, a key, and the egress rules.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Map, Value};
use toolwright_models::{
    ErrorKind, InvalidModelRef, InvalidScript, Model, ModelConfig, ModelError, ModelRef, Models, Price, Provider,
    RetryPolicy, Retrying, Script, Scripted, UrlSource,
};
use toolwright_tools::http::{Egress, Grant};
use toolwright_tools::ports::{SecretIdentity, Secrets};
use toolwright_types::{LlmConfig, ModelChoice, Principal, RealmScope};

/// Where a scripted model finds its own script.
const SCRIPT: &str = "script";

/// What holds for agents that do not say.
#[derive(Debug, Clone)]
pub struct ModelDefaults {
    /// Who runs the model.
    pub provider: String,
    /// Its name there.
    pub model: String,
    /// How freely it speaks.
    pub temperature: f64,
    /// How much it may say at once.
    pub max_output_tokens: u32,
}

impl Default for ModelDefaults {
    fn default() -> Self {
        Self {
            provider: "anthropic".into(),
            model: "claude-sonnet-4-20250514".into(),
            temperature: 0.7,
            max_output_tokens: 4096,
        }
    }
}

/// Builds the models of agents, and keeps them.
#[derive(Clone)]
pub(crate) struct ModelShop(Arc<Inner>);

struct Inner {
    models: Models,
    /// Realms that pay other prices.
    of_realms: BTreeMap<String, Models>,
    defaults: ModelDefaults,
    egress: Egress,
    secrets: Arc<dyn Secrets>,
    /// By configuration and secret, so that a new key makes a new model.
    built: moka::sync::Cache<Key, Arc<dyn Model>>,
}

type Key = (String, Vec<SecretIdentity>);

impl ModelShop {
    pub fn new(
        models: Models,
        of_realms: BTreeMap<String, Models>,
        defaults: ModelDefaults,
        egress: Egress,
        secrets: Arc<dyn Secrets>,
    ) -> Self {
        let built = moka::sync::Cache::builder().max_capacity(1_000).build();
        Self(Arc::new(Inner { models, of_realms, defaults, egress, secrets, built }))
    }

    fn models(&self, realm: &RealmScope) -> &Models {
        self.0.of_realms.get(realm.name.as_str()).unwrap_or(&self.0.models)
    }

    pub fn defaults(&self) -> &ModelDefaults {
        &self.0.defaults
    }

    /// Provider and name of the model that a configuration means.
    pub fn chosen(&self, llm: &LlmConfig) -> Result<ModelRef, InvalidModelRef> {
        let defaults = &self.0.defaults;
        let named = llm.model.as_deref().map(str::trim).filter(|name| !name.is_empty());
        match (llm.provider.as_deref(), named) {
            (Some(provider), Some(model)) => Ok(ModelRef { provider: provider.parse()?, model: model.to_owned() }),
            // Only where no provider is given: a model's own name may hold slashes.
            (None, Some(both)) if both.contains('/') => both.parse(),
            (None, Some(model)) => Ok(ModelRef { provider: defaults.provider.parse()?, model: model.to_owned() }),
            (None, None) => Ok(ModelRef { provider: defaults.provider.parse()?, model: defaults.model.clone() }),
            (Some(provider), None) if provider.parse::<Provider>()? == defaults.provider.parse()? => {
                Ok(ModelRef { provider: provider.parse()?, model: defaults.model.clone() })
            }
            (Some(provider), None) => Err(InvalidModelRef::NotAPair(provider.to_owned())),
        }
    }

    /// The script of a scripted model that brings its own.
    pub fn script(&self, llm: &LlmConfig) -> Option<Result<Script, InvalidScript>> {
        self.has_script(llm).then(|| llm.extra_params.get(SCRIPT).cloned()).flatten().map(Script::from_value)
    }

    fn has_script(&self, llm: &LlmConfig) -> bool {
        let written = llm.extra_params.get(SCRIPT).is_some_and(|script| !script.is_null());
        written && self.chosen(llm).is_ok_and(|model| model.provider == Provider::Scripted)
    }

    /// What goes out with every request: all but a script, which the model has already.
    pub fn extra(&self, llm: &LlmConfig) -> Map<String, Value> {
        let scripted = self.has_script(llm);
        let sent = llm.extra_params.iter().filter(|(name, _)| !(scripted && name.as_str() == SCRIPT));
        sent.map(|(name, value)| (name.clone(), value.clone())).collect()
    }

    /// What the model costs in a realm; none when nobody knows.
    pub fn price(&self, realm: &RealmScope, llm: &LlmConfig) -> Option<Price> {
        self.models(realm).price(&self.config(llm).ok()?)
    }

    /// The configuration of the model to ask when the first cannot be had.
    pub fn fallback(&self, first: &LlmConfig, choice: &ModelChoice) -> LlmConfig {
        match choice {
            ModelChoice::Configured(own) => (**own).clone(),
            ModelChoice::Named(name) if name.contains('/') => {
                LlmConfig { model: Some(name.clone()), ..LlmConfig::default() }
            }
            // Another model of the same provider is reached in the same way.
            ModelChoice::Named(name) => LlmConfig { model: Some(name.clone()), ..first.clone() },
        }
    }

    /// The model of a configuration, with its retries and its fallback, for whoever acts in this realm.
    pub async fn model(
        &self,
        realm: &RealmScope,
        principal: &Principal,
        llm: &LlmConfig,
        fallback: Option<&ModelChoice>,
    ) -> Result<Arc<dyn Model>, ModelError> {
        let second = fallback.map(|choice| self.fallback(llm, choice));
        let mut identities = Vec::new();
        for name in [Some(llm), second.as_ref()].into_iter().flatten().filter_map(|one| one.api_key_secret_ref.as_ref())
        {
            identities.push(self.identify(realm, principal, name).await?);
        }
        let realm_name = self.0.of_realms.contains_key(realm.name.as_str()).then(|| realm.name.as_str());
        let text = serde_json::to_string(&(realm_name, llm, &second)).map_err(|error| invalid(error.to_string()))?;
        let key = (text, identities);
        if let Some(built) = self.0.built.get(&key) {
            return Ok(built);
        }
        let mut retrying = Retrying::new(self.build(realm, principal, llm).await?, RetryPolicy::default());
        if let Some(second) = &second {
            retrying = retrying.with_fallback(self.build(realm, principal, second).await?);
        }
        let built: Arc<dyn Model> = Arc::new(retrying);
        self.0.built.insert(key, Arc::clone(&built));
        Ok(built)
    }

    async fn build(
        &self,
        realm: &RealmScope,
        principal: &Principal,
        llm: &LlmConfig,
    ) -> Result<Arc<dyn Model>, ModelError> {
        if let Some(script) = self.script(llm) {
            let script = script.map_err(|error| invalid(error.to_string()))?;
            return Ok(Arc::new(Scripted::new(script)));
        }
        let mut config = self.config(llm).map_err(|error| invalid(error.to_string()))?;
        if let Some(name) = &llm.api_key_secret_ref {
            let identity = self.identify(realm, principal, name).await?;
            let secret = self.0.secrets.reveal(realm, &identity).await.map_err(|error| unavailable(&error))?;
            if Grant::read(&secret).is_some() {
                return Err(invalid(format!("secret `{name}` is a login to an MCP server, and no key of a model")));
            }
            config.api_key = Some(secret);
        }
        let endpoint = self.models(realm).endpoint(&config)?;
        if let (UrlSource::Definition, Some(url)) = (endpoint.source, &endpoint.url) {
            self.0.egress.check_literal(url).map_err(|refused| invalid(refused.to_string()))?;
        }
        self.models(realm).build(&config)
    }

    fn config(&self, llm: &LlmConfig) -> Result<ModelConfig, InvalidModelRef> {
        let mut config = ModelConfig::from(self.chosen(llm)?);
        config.base_url.clone_from(&llm.base_url);
        Ok(config)
    }

    async fn identify(
        &self,
        realm: &RealmScope,
        principal: &Principal,
        name: &str,
    ) -> Result<SecretIdentity, ModelError> {
        let found = self.0.secrets.identify(realm, principal, name).await.map_err(|error| unavailable(&error))?;
        found.ok_or_else(|| {
            let message = format!("there is no secret `{name}` for `{}` in realm `{}`", principal.name, realm.name);
            ModelError::new(ErrorKind::Auth, message)
        })
    }
}

fn invalid(message: String) -> ModelError {
    ModelError::new(ErrorKind::InvalidRequest, message)
}

fn unavailable(error: &toolwright_tools::ports::Unavailable) -> ModelError {
    tracing::error!(error = %error, source = error.source.as_ref() as &dyn std::error::Error, "no model key");
    ModelError::new(ErrorKind::Auth, "the model's key cannot be read now")
}
