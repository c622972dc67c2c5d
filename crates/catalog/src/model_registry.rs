//! Builds the models of agents from the configuration of the agent, the defaults of the server, the secret with the API
//! key and the egress policy.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Map, Value};
use toolwright_models::{
    ErrorKind, InvalidModelRef, InvalidScript, KnownModel, Model, ModelConfig, ModelError, ModelFactory, ModelRef,
    Price, PriceSource, Provider, RetryPolicy, RetryingModel, Script, ScriptedModel, UrlSource,
};
use toolwright_tools::http::{EgressPolicy, Grant};
use toolwright_tools::ports::{SecretResolver, SecretRevision};
use toolwright_types::{LlmConfig, ModelChoice, Principal, RealmScope};

/// The name of the extra parameter that contains the script of a scripted model.
const SCRIPT_PARAM: &str = "script";

/// The model settings of agents that do not configure them.
#[derive(Debug, Clone)]
pub struct ModelDefaults {
    /// The name of the provider, such as `anthropic`.
    pub provider: String,
    /// The name of the model at the provider.
    pub model: String,
    /// The sampling temperature, between 0 and 1.
    pub temperature: f64,
    /// The maximum length of one reply, in tokens.
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

/// What the server knows about a model.
#[derive(Debug, Clone)]
pub struct ModelInfo {
    /// The name, or a prefix that applies to all models whose names start with it.
    pub name: String,
    /// The name of the provider, if it is known.
    pub provider: Option<String>,
    /// The price, its source and its date. `None` if the price is not known.
    pub price: Option<ModelPrice>,
    /// The size of the context in tokens, if it is known.
    pub context_tokens: Option<u64>,
    /// The environment variable with the operator's API key, and whether it is set. `None` if the provider is not known
    /// or needs no key.
    pub key_variable: Option<(String, bool)>,
    /// Whether agents without a model use this model.
    pub is_default: bool,
}

/// The price of a model and its origin.
#[derive(Debug, Clone)]
pub struct ModelPrice {
    /// The price.
    pub price: Price,
    /// Who set the price. `None` for a scripted model, which is free.
    pub source: Option<PriceSource>,
    /// The date of the price, if it is known.
    pub as_of: Option<String>,
}

/// Builds the models of agents and caches them. Cheap to clone.
#[derive(Clone)]
pub struct ModelRegistry(Arc<Inner>);

struct Inner {
    models: ModelFactory,
    /// The model factories of the realms that have their own prices. The key is the name of the realm.
    realm_models: BTreeMap<String, ModelFactory>,
    defaults: ModelDefaults,
    egress: EgressPolicy,
    secrets: Arc<dyn SecretResolver>,
    /// The built models, by configuration and secret revision. A new API key has a new revision, so a new model is
    /// built.
    cache: moka::sync::Cache<Key, Arc<dyn Model>>,
}

type Key = (String, Vec<SecretRevision>);

impl ModelRegistry {
    /// Creates a registry. `realm_models` has the factories of the realms that have their own prices.
    pub fn new(
        models: ModelFactory,
        realm_models: BTreeMap<String, ModelFactory>,
        defaults: ModelDefaults,
        egress: EgressPolicy,
        secrets: Arc<dyn SecretResolver>,
    ) -> Self {
        let cache = moka::sync::Cache::builder().max_capacity(1_000).build();
        Self(Arc::new(Inner { models, realm_models, defaults, egress, secrets, cache }))
    }

    fn models(&self, realm: &RealmScope) -> &ModelFactory {
        self.0.realm_models.get(realm.name.as_str()).unwrap_or(&self.0.models)
    }

    /// Returns the model settings of agents that do not configure them.
    pub fn defaults(&self) -> &ModelDefaults {
        &self.0.defaults
    }

    /// Returns the provider and the name of the model in a configuration, with the defaults for missing fields. Fails
    /// if the configuration has no model and a provider other than the default provider.
    pub fn model_ref(&self, llm: &LlmConfig) -> Result<ModelRef, InvalidModelRef> {
        let defaults = &self.0.defaults;
        let named = llm.model.as_deref().map(str::trim).filter(|name| !name.is_empty());
        match (llm.provider.as_deref(), named) {
            (Some(provider), Some(model)) => Ok(ModelRef { provider: provider.parse()?, model: model.to_owned() }),
            // If no provider is configured, the text before the slash is the provider. Otherwise the slash is a part of
            // the model's name.
            (None, Some(reference)) if reference.contains('/') => reference.parse(),
            (None, Some(model)) => Ok(ModelRef { provider: defaults.provider.parse()?, model: model.to_owned() }),
            (None, None) => Ok(ModelRef { provider: defaults.provider.parse()?, model: defaults.model.clone() }),
            (Some(provider), None) if provider.parse::<Provider>()? == defaults.provider.parse()? => {
                Ok(ModelRef { provider: provider.parse()?, model: defaults.model.clone() })
            }
            (Some(provider), None) => Err(InvalidModelRef::Malformed(provider.to_owned())),
        }
    }

    /// Returns the script, if the configuration is for a scripted model and contains the script.
    pub fn script(&self, llm: &LlmConfig) -> Option<Result<Script, InvalidScript>> {
        self.has_script(llm).then(|| llm.extra_params.get(SCRIPT_PARAM).cloned()).flatten().map(Script::from_value)
    }

    fn has_script(&self, llm: &LlmConfig) -> bool {
        let has_param = llm.extra_params.get(SCRIPT_PARAM).is_some_and(|script| !script.is_null());
        has_param && self.model_ref(llm).is_ok_and(|model| model.provider == Provider::Scripted)
    }

    /// Returns the extra parameters that are sent with every request. The script is omitted, because the scripted model
    /// already has it.
    pub fn request_params(&self, llm: &LlmConfig) -> Map<String, Value> {
        let scripted = self.has_script(llm);
        let sent = llm.extra_params.iter().filter(|(name, _)| !(scripted && name.as_str() == SCRIPT_PARAM));
        sent.map(|(name, value)| (name.clone(), value.clone())).collect()
    }

    /// Returns the price of the model in a realm, if it is known.
    pub fn price(&self, realm: &RealmScope, llm: &LlmConfig) -> Option<Price> {
        self.models(realm).price(&self.config(llm).ok()?)
    }

    /// Returns the models for which the realm has prices, and the default model, sorted by name.
    pub fn known_models(&self, realm: &RealmScope) -> Vec<ModelInfo> {
        let default = self.info(realm, &LlmConfig::default()).ok();
        let priced = self.models(realm).prices().iter().map(|(name, known)| {
            let provider = known.provider.as_deref().and_then(|name| name.parse().ok());
            ModelInfo {
                name: name.to_owned(),
                provider: known.provider.clone(),
                price: Some(ModelPrice::new(known)),
                context_tokens: known.context_tokens,
                key_variable: provider.and_then(|provider| self.models(realm).key_variable(provider)),
                is_default: default.as_ref().is_some_and(|default| default.name == name),
            }
        });
        let mut models: Vec<ModelInfo> = priced.collect();
        models.extend(default.filter(|default| !models.iter().any(|model| model.name == default.name)));
        models.sort_by(|a, b| a.name.cmp(&b.name));
        models
    }

    /// Returns the information about the model of a configuration.
    pub fn info(&self, realm: &RealmScope, llm: &LlmConfig) -> Result<ModelInfo, InvalidModelRef> {
        let ModelRef { provider, model } = self.model_ref(llm)?;
        let models = self.models(realm);
        let known = models.prices().find(&model).map(|(_, known)| known);
        let price = match (provider, known) {
            (Provider::Scripted, _) => Some(ModelPrice { price: Price::FREE, source: None, as_of: None }),
            (_, known) => known.map(ModelPrice::new),
        };
        Ok(ModelInfo {
            price,
            context_tokens: known.and_then(|known| known.context_tokens),
            key_variable: models.key_variable(provider),
            is_default: self.model_ref(&LlmConfig::default()).is_ok_and(|default| default.model == model),
            provider: Some(provider.to_string()),
            name: model,
        })
    }

    /// Returns the configuration of the fallback model, which is used if the configured model is not available.
    pub fn fallback_config(&self, first: &LlmConfig, choice: &ModelChoice) -> LlmConfig {
        match choice {
            ModelChoice::Configured(own) => (**own).clone(),
            ModelChoice::Named(name) if name.contains('/') => {
                LlmConfig { model: Some(name.clone()), ..LlmConfig::default() }
            }
            // A name without a provider means another model with the same connection settings.
            ModelChoice::Named(name) => LlmConfig { model: Some(name.clone()), ..first.clone() },
        }
    }

    /// Returns the model of a configuration, with retries and fallback, for a principal in a realm.
    pub async fn model(
        &self,
        realm: &RealmScope,
        principal: &Principal,
        llm: &LlmConfig,
        fallback: Option<&ModelChoice>,
    ) -> Result<Arc<dyn Model>, ModelError> {
        let second = fallback.map(|choice| self.fallback_config(llm, choice));
        let mut identities = Vec::new();
        for name in [Some(llm), second.as_ref()].into_iter().flatten().filter_map(|one| one.api_key_secret_ref.as_ref())
        {
            identities.push(self.identify(realm, principal, name).await?);
        }
        let realm_name = self.0.realm_models.contains_key(realm.name.as_str()).then(|| realm.name.as_str());
        let text = serde_json::to_string(&(realm_name, llm, &second)).map_err(|error| invalid(error.to_string()))?;
        let key = (text, identities);
        if let Some(built) = self.0.cache.get(&key) {
            return Ok(built);
        }
        let mut retrying = RetryingModel::new(self.build(realm, principal, llm).await?, RetryPolicy::default());
        if let Some(second) = &second {
            retrying = retrying.with_fallback(self.build(realm, principal, second).await?);
        }
        let built: Arc<dyn Model> = Arc::new(retrying);
        self.0.cache.insert(key, Arc::clone(&built));
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
            return Ok(Arc::new(ScriptedModel::new(script)));
        }
        let mut config = self.config(llm).map_err(|error| invalid(error.to_string()))?;
        if let Some(name) = &llm.api_key_secret_ref {
            let identity = self.identify(realm, principal, name).await?;
            let secret = self.0.secrets.reveal(realm, &identity).await.map_err(|error| unavailable(&error))?;
            if Grant::from_secret(&secret).is_some() {
                return Err(invalid(format!("secret `{name}` is a login to an MCP server; a model needs an API key")));
            }
            config.api_key = Some(secret);
        }
        let endpoint = self.models(realm).endpoint(&config)?;
        if let (UrlSource::Definition, Some(url)) = (endpoint.source, &endpoint.url) {
            self.0.egress.check_literal(url).map_err(|denied| {
                // A model has no provider definition, so only the setting of the server can permit the address.
                let rule = format!("the `baseUrl` of the model is {}, which is not a public address", denied.address);
                invalid(format!("{rule}; list its network in TOOLWRIGHT_EGRESS_ALLOW to permit it"))
            })?;
        }
        self.models(realm).build(&config)
    }

    fn config(&self, llm: &LlmConfig) -> Result<ModelConfig, InvalidModelRef> {
        let mut config = ModelConfig::from(self.model_ref(llm)?);
        config.base_url.clone_from(&llm.base_url);
        Ok(config)
    }

    async fn identify(
        &self,
        realm: &RealmScope,
        principal: &Principal,
        name: &str,
    ) -> Result<SecretRevision, ModelError> {
        let found = self.0.secrets.identify(realm, principal, name).await.map_err(|error| unavailable(&error))?;
        found.ok_or_else(|| {
            let message = format!("secret `{name}` does not exist for `{}` in realm `{}`", principal.name, realm.name);
            ModelError::new(ErrorKind::Auth, message)
        })
    }
}

impl ModelPrice {
    fn new(known: &KnownModel) -> Self {
        Self { price: known.price, source: Some(known.source), as_of: known.as_of.clone() }
    }
}

fn invalid(message: String) -> ModelError {
    ModelError::new(ErrorKind::InvalidRequest, message)
}

fn unavailable(error: &toolwright_tools::ports::PortError) -> ModelError {
    tracing::error!(error = %error, source = error.source.as_ref() as &dyn std::error::Error, "could not read the API key of a model");
    ModelError::new(ErrorKind::Auth, "the API key of the model is not available")
}
