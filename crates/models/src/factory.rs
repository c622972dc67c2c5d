//! Builds models from configurations.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use crate::endpoint::{self, Environment, ModelEndpoint, UrlSource};
use crate::helix::HelixModel;
use crate::remote::RemoteModel;
use crate::{ErrorKind, Model, ModelConfig, ModelError, Price, Prices, Provider, Script, ScriptedModel};

/// Builds models from configurations. Holds the HTTP clients, environment, prices and scripts that the models use.
#[derive(Clone)]
pub struct ModelFactory {
    /// The client for the URLs of vendors and definitions.
    client: reqwest::Client,
    /// The client for the URLs that the operator set.
    operator_client: reqwest::Client,
    environment: Arc<Environment>,
    prices: Arc<Prices>,
    scripts: HashMap<String, Script>,
}

impl ModelFactory {
    /// Creates a factory for models that connect through `client`. Keys and URLs come from the process environment.
    ///
    /// `client` must not follow redirects, because it would send the key to their target. Its resolver applies the
    /// egress rules. A URL with an IP address never reaches the resolver, so the caller must check the URL that
    /// [`ModelFactory::endpoint`] returns.
    pub fn new(client: reqwest::Client) -> Self {
        Self {
            operator_client: client.clone(),
            client,
            environment: Arc::new(|name: &str| std::env::var(name).ok()),
            prices: Arc::new(Prices::default()),
            scripts: HashMap::new(),
        }
    }

    /// Sets the client for URLs that the operator sets in the environment. These URLs are exempt from the egress rules.
    pub fn with_operator_client(mut self, client: reqwest::Client) -> Self {
        self.operator_client = client;
        self
    }

    /// Replaces the process environment.
    pub fn with_environment(mut self, lookup: impl Fn(&str) -> Option<String> + Send + Sync + 'static) -> Self {
        self.environment = Arc::new(lookup);
        self
    }

    /// Replaces the default prices.
    pub fn with_prices(mut self, prices: Prices) -> Self {
        self.prices = Arc::new(prices);
        self
    }

    /// Adds the script of the `scripted` model with this name.
    pub fn with_script(mut self, name: impl Into<String>, script: Script) -> Self {
        self.scripts.insert(name.into(), script);
        self
    }

    /// Returns the URL of the configured model, and who chose it.
    pub fn endpoint(&self, config: &ModelConfig) -> Result<ModelEndpoint, ModelError> {
        endpoint::resolve_endpoint(config, &*self.environment)
    }

    /// Returns the price of the configured model; `None` if the price is not known.
    pub fn price(&self, config: &ModelConfig) -> Option<Price> {
        match config.provider {
            Provider::Scripted => Some(Price::FREE),
            _ => self.prices.price_of(&config.model),
        }
    }

    /// Returns the prices.
    pub fn prices(&self) -> &Prices {
        &self.prices
    }

    /// Returns the name of the environment variable with the API key of a provider, and whether it is set. `None` if the
    /// provider needs no key.
    pub fn key_variable(&self, provider: Provider) -> Option<(String, bool)> {
        endpoint::key_variable(provider, &*self.environment)
    }

    /// Builds the configured model, without retries. [`RetryingModel`](crate::RetryingModel) adds retries.
    pub fn build(&self, config: &ModelConfig) -> Result<Arc<dyn Model>, ModelError> {
        if config.model.trim().is_empty() {
            return Err(ModelError::new(
                ErrorKind::InvalidRequest,
                format!("the name of the {} model is required", config.provider),
            ));
        }
        if config.provider == Provider::Scripted {
            let script = self.scripts.get(&config.model).cloned().unwrap_or_else(Script::echo);
            return Ok(Arc::new(ScriptedModel::new(script)));
        }
        let endpoint = self.endpoint(config)?;
        if config.provider == Provider::Helix && endpoint.url.is_none() {
            let message = "the base URL of helix is required; set HELIX_BASE_URL or the base URL of the model";
            return Err(ModelError::new(ErrorKind::InvalidRequest, message));
        }
        let key = endpoint::resolve_key(config, endpoint.source, &*self.environment)?;
        let client = if endpoint.source == UrlSource::Operator { &self.operator_client } else { &self.client };
        let price = self.price(config);
        Ok(match (config.provider, endpoint.url) {
            (Provider::Helix, Some(url)) => Arc::new(HelixModel::new(client.clone(), config, url, key, price)),
            (_, url) => Arc::new(RemoteModel::new(client.clone(), config, url, key, price)?),
        })
    }
}

impl fmt::Debug for ModelFactory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ModelFactory").field("scripts", &self.scripts.keys()).finish_non_exhaustive()
    }
}
