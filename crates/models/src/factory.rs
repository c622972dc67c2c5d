//! Builds models from configurations.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use crate::endpoint::{self, Endpoint, Environment, UrlSource};
use crate::helix::Helix;
use crate::remote::Remote;
use crate::{ErrorKind, Model, ModelConfig, ModelError, Price, Prices, Provider, Script, Scripted};

/// Builds models: knows the clients, the environment, the prices and the scripts.
#[derive(Clone)]
pub struct Models {
    guarded: reqwest::Client,
    operators: reqwest::Client,
    environment: Arc<Environment>,
    prices: Arc<Prices>,
    scripts: HashMap<String, Script>,
}

impl Models {
    /// Models that are reached through `client`. Keys and addresses come from the process environment.
    ///
    /// A client that follows redirects would take keys along: give one that does not. Its resolver is where the egress
    /// rules apply; an address that is written as a number never reaches a resolver, so check [`Models::endpoint`].
    pub fn new(client: reqwest::Client) -> Self {
        Self {
            operators: client.clone(),
            guarded: client,
            environment: Arc::new(|name: &str| std::env::var(name).ok()),
            prices: Arc::new(Prices::default()),
            scripts: HashMap::new(),
        }
    }

    /// The client for addresses that the operator set by environment, which the egress rules exempt.
    pub fn with_operators_client(mut self, client: reqwest::Client) -> Self {
        self.operators = client;
        self
    }

    /// Another environment than that of the process.
    pub fn with_environment(mut self, lookup: impl Fn(&str) -> Option<String> + Send + Sync + 'static) -> Self {
        self.environment = Arc::new(lookup);
        self
    }

    /// Other prices.
    pub fn with_prices(mut self, prices: Prices) -> Self {
        self.prices = Arc::new(prices);
        self
    }

    /// A script that `scripted` models of this name follow.
    pub fn with_script(mut self, name: impl Into<String>, script: Script) -> Self {
        self.scripts.insert(name.into(), script);
        self
    }

    /// Where a model of this configuration is reached, and who said so.
    pub fn endpoint(&self, config: &ModelConfig) -> Result<Endpoint, ModelError> {
        endpoint::endpoint(config, &*self.environment)
    }

    /// What a model of this configuration costs; None when nobody knows.
    pub fn price(&self, config: &ModelConfig) -> Option<Price> {
        match config.provider {
            Provider::Scripted => Some(Price::FREE),
            _ => self.prices.of(&config.model),
        }
    }

    /// The model of this configuration. Without retries: see [`Retrying`](crate::Retrying).
    pub fn build(&self, config: &ModelConfig) -> Result<Arc<dyn Model>, ModelError> {
        if config.model.trim().is_empty() {
            return Err(ModelError::new(
                ErrorKind::InvalidRequest,
                format!("{} needs a model's name", config.provider),
            ));
        }
        if config.provider == Provider::Scripted {
            let script = self.scripts.get(&config.model).cloned().unwrap_or_else(Script::echo);
            return Ok(Arc::new(Scripted::new(script)));
        }
        let endpoint = self.endpoint(config)?;
        if config.provider == Provider::Helix && endpoint.url.is_none() {
            let nowhere = "helix needs a base URL; set HELIX_BASE_URL or give the model one";
            return Err(ModelError::new(ErrorKind::InvalidRequest, nowhere));
        }
        let key = endpoint::key(config, endpoint.source, &*self.environment)?;
        let client = if endpoint.source == UrlSource::Operator { &self.operators } else { &self.guarded };
        let price = self.price(config);
        Ok(match (config.provider, endpoint.url) {
            (Provider::Helix, Some(url)) => Arc::new(Helix::new(client.clone(), config, url, key, price)),
            (_, url) => Arc::new(Remote::new(client.clone(), config, url, key, price)?),
        })
    }
}

impl fmt::Debug for Models {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Models").field("scripts", &self.scripts.keys()).finish_non_exhaustive()
    }
}
