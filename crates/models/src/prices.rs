//! The prices of models: a built-in table, and the overrides of an operator.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use serde::{Deserialize, Serialize};
use toolwright_types::{Usage, round_usd};

/// The supported version of the file format.
const FORMAT_VERSION: u32 = 1;

#[expect(clippy::expect_used, reason = "the table is a constant, and the tests parse it")]
static BUILT_IN: LazyLock<PriceFile> =
    LazyLock::new(|| PriceFile::parse(include_str!("prices.json")).expect("built-in prices"));

/// The price of a model, in US dollars per 1,000 tokens.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Price {
    /// The price of input tokens.
    pub input: f64,
    /// The price of output tokens.
    pub output: f64,
    /// The price of input tokens from the provider's cache; `None` if they cost as much as other input tokens.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cached_input: Option<f64>,
}

impl Price {
    /// The price of a free model.
    pub const FREE: Price = Price { input: 0.0, output: 0.0, cached_input: None };

    /// Returns the cost of `usage`.
    pub fn cost(&self, usage: Usage) -> f64 {
        // INVARIANT: `input_tokens` includes the cached tokens. If a provider reports more cached than input tokens,
        // all input tokens count as cached.
        let cached = usage.cached_input_tokens.min(usage.input_tokens);
        let uncached = usage.input_tokens.saturating_sub(cached);
        let thousands = |tokens: u64| tokens as f64 / 1000.0;
        round_usd(
            thousands(uncached) * self.input
                + thousands(cached) * self.cached_input.unwrap_or(self.input)
                + thousands(usage.output_tokens) * self.output,
        )
    }
}

/// The effective prices: the built-in prices with an operator's overrides and additions.
#[derive(Debug, Clone)]
pub struct Prices {
    models: BTreeMap<String, Price>,
}

impl Default for Prices {
    fn default() -> Self {
        Self { models: BUILT_IN.models.clone() }
    }
}

/// An invalid price file.
#[derive(Debug, thiserror::Error)]
pub enum InvalidPrices {
    /// The text is not JSON, or does not have the format of a price file.
    #[error("the price file cannot be parsed")]
    Json(#[from] serde_json::Error),
    /// The version is not supported.
    #[error("the version of the price file must be {FORMAT_VERSION}, got {0}")]
    Version(u32),
    /// A price is negative or not finite.
    #[error("the price of `{0}` must be a finite number of at least 0")]
    InvalidPrice(String),
}

impl Prices {
    /// The built-in prices, with `overrides` replacing the prices of the same name.
    pub fn with_overrides(overrides: impl IntoIterator<Item = (String, Price)>) -> Self {
        let mut prices = Self::default();
        prices.models.extend(overrides);
        prices
    }

    /// The built-in prices, with overrides from text in the format of `prices.json`.
    pub fn from_json(text: &str) -> Result<Self, InvalidPrices> {
        Ok(Self::with_overrides(PriceFile::parse(text)?.models))
    }

    /// The date of the built-in prices. The note in `prices.json` names their sources, and the prices that were compared
    /// with a vendor's list later.
    pub fn as_of() -> &'static str {
        &BUILT_IN.as_of
    }

    /// Returns the price of `model`: the entry with the same name, else the entry with the longest name that is a
    /// prefix of `model`.
    pub fn price_of(&self, model: &str) -> Option<Price> {
        // The longest possible prefix of a name is the name itself, so an exact match needs no separate lookup.
        let is_prefix = |name: &&String| !name.is_empty() && model.starts_with(name.as_str());
        let longest = self.models.keys().filter(is_prefix).max_by_key(|name| name.len())?;
        self.models.get(longest).copied()
    }

    /// Returns the cost of `usage` of `model`; `None` if its price is not known.
    pub fn cost(&self, model: &str, usage: Usage) -> Option<f64> {
        Some(self.price_of(model)?.cost(usage))
    }
}

/// An operator's price overrides: for all realms, and additionally for single realms.
#[derive(Debug, Clone, Default)]
pub struct PriceList {
    models: BTreeMap<String, Price>,
    realms: BTreeMap<String, BTreeMap<String, Price>>,
}

impl PriceList {
    /// Parses text in the format of `prices.json`, with an optional `realms` object of overrides by realm name.
    pub fn from_json(text: &str) -> Result<Self, InvalidPrices> {
        let file = PriceFile::parse(text)?;
        Ok(Self { models: file.models, realms: file.realms })
    }

    /// The prices of realms without their own overrides.
    pub fn default_prices(&self) -> Prices {
        Prices::with_overrides(self.models.clone())
    }

    /// The realms with their own overrides, each with its effective prices.
    pub fn realms(&self) -> impl Iterator<Item = (&str, Prices)> {
        self.realms.iter().map(|(realm, own)| {
            (realm.as_str(), Prices::with_overrides(self.models.clone().into_iter().chain(own.clone())))
        })
    }
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct PriceFile {
    version: u32,
    #[serde(default)]
    as_of: String,
    #[serde(default, rename = "note")]
    _note: Option<String>,
    models: BTreeMap<String, Price>,
    #[serde(default)]
    realms: BTreeMap<String, BTreeMap<String, Price>>,
}

impl PriceFile {
    fn parse(text: &str) -> Result<Self, InvalidPrices> {
        let file: PriceFile = serde_json::from_str(text)?;
        if file.version != FORMAT_VERSION {
            return Err(InvalidPrices::Version(file.version));
        }
        let is_valid = |price: f64| price.is_finite() && price >= 0.0;
        let invalid = file.models.iter().chain(file.realms.values().flatten()).find(|(_, price)| {
            !(is_valid(price.input) && is_valid(price.output) && price.cached_input.is_none_or(is_valid))
        });
        match invalid {
            Some((name, _)) => Err(InvalidPrices::InvalidPrice(name.clone())),
            None => Ok(file),
        }
    }
}
