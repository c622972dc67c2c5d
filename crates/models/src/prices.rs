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

/// An entry of the price table. It applies to every model whose name starts with the name of the entry, unless an entry
/// with a longer name also applies.
#[derive(Debug, Clone, PartialEq)]
pub struct KnownModel {
    /// The price.
    pub price: Price,
    /// The name of the provider, if it is known.
    pub provider: Option<String>,
    /// The size of the context in tokens, input and output together, if it is known.
    pub context_tokens: Option<u64>,
    /// Who set the price.
    pub source: PriceSource,
    /// The date of the price, such as `2025-11-30`, if it is known.
    pub as_of: Option<String>,
}

/// Who set a price.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PriceSource {
    /// The built-in table.
    BuiltIn,
    /// The operator, for all realms.
    Operator,
    /// The operator, for one realm.
    Realm,
}

impl PriceSource {
    /// The name of the source.
    pub fn as_str(self) -> &'static str {
        match self {
            PriceSource::BuiltIn => "built-in",
            PriceSource::Operator => "operator",
            PriceSource::Realm => "realm",
        }
    }
}

/// The effective prices: the built-in prices with an operator's overrides and additions.
#[derive(Debug, Clone)]
pub struct Prices {
    models: BTreeMap<String, KnownModel>,
}

impl Default for Prices {
    fn default() -> Self {
        let file = &*BUILT_IN;
        let models = file.models.iter().map(|(name, entry)| {
            (
                name.clone(),
                entry.known(PriceSource::BuiltIn, Some(&file.as_of).filter(|date| !date.is_empty()).cloned()),
            )
        });
        Self { models: models.collect() }
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
    /// The built-in prices, with overrides from text in the format of `prices.json`.
    pub fn from_json(text: &str) -> Result<Self, InvalidPrices> {
        Ok(PriceList::from_json(text)?.default_prices())
    }

    /// The date of the built-in prices. The note in `prices.json` lists their sources. It also lists the prices that
    /// were later compared with a vendor's price list.
    pub fn as_of() -> &'static str {
        &BUILT_IN.as_of
    }

    /// Returns the price of `model`, if it is known.
    pub fn price_of(&self, model: &str) -> Option<Price> {
        self.find(model).map(|(_, known)| known.price)
    }

    /// Returns the entry that applies to `model`: of all entries whose name is a prefix of `model`, the entry with the
    /// longest name.
    pub fn find(&self, model: &str) -> Option<(&str, &KnownModel)> {
        // The longest possible prefix of a name is the name itself, so an exact match needs no separate lookup.
        let applies = |(name, _): &(&String, &KnownModel)| !name.is_empty() && model.starts_with(name.as_str());
        let longest = self.models.iter().filter(applies).max_by_key(|(name, _)| name.len());
        longest.map(|(name, known)| (name.as_str(), known))
    }

    /// Returns all entries, sorted by name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &KnownModel)> {
        self.models.iter().map(|(name, known)| (name.as_str(), known))
    }

    /// Adds the overrides, and replaces entries with the same names. An override without a provider or a context size
    /// keeps the values of the replaced entry.
    fn apply(mut self, overrides: &BTreeMap<String, PriceEntry>, source: PriceSource, as_of: Option<&String>) -> Self {
        for (name, entry) in overrides {
            let mut known = entry.known(source, as_of.cloned());
            if let Some((_, earlier)) = self.find(name) {
                known.provider = known.provider.or_else(|| earlier.provider.clone());
                known.context_tokens = known.context_tokens.or(earlier.context_tokens);
            }
            self.models.insert(name.clone(), known);
        }
        self
    }

    /// Returns the cost of `usage` at the price of `model`; `None` if the price is not known.
    pub fn cost(&self, model: &str, usage: Usage) -> Option<f64> {
        Some(self.price_of(model)?.cost(usage))
    }
}

/// An operator's price overrides: for all realms, and additionally for single realms.
#[derive(Debug, Clone, Default)]
pub struct PriceList {
    models: BTreeMap<String, PriceEntry>,
    realms: BTreeMap<String, BTreeMap<String, PriceEntry>>,
    as_of: Option<String>,
}

impl PriceList {
    /// Parses text in the format of `prices.json`, with an optional `realms` object of overrides by realm name.
    pub fn from_json(text: &str) -> Result<Self, InvalidPrices> {
        let PriceFile { models, realms, as_of, .. } = PriceFile::parse(text)?;
        Ok(Self { models, realms, as_of: Some(as_of).filter(|date| !date.is_empty()) })
    }

    /// The prices of realms without their own overrides.
    pub fn default_prices(&self) -> Prices {
        Prices::default().apply(&self.models, PriceSource::Operator, self.as_of.as_ref())
    }

    /// The realms with their own overrides, each with its effective prices.
    pub fn realms(&self) -> impl Iterator<Item = (&str, Prices)> {
        self.realms.iter().map(|(realm, own)| {
            (realm.as_str(), self.default_prices().apply(own, PriceSource::Realm, self.as_of.as_ref()))
        })
    }
}

/// An entry of a price file.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct PriceEntry {
    input: f64,
    output: f64,
    #[serde(default)]
    cached_input: Option<f64>,
    #[serde(default)]
    provider: Option<String>,
    #[serde(default)]
    context_tokens: Option<u64>,
}

impl PriceEntry {
    fn known(&self, source: PriceSource, as_of: Option<String>) -> KnownModel {
        let price = Price { input: self.input, output: self.output, cached_input: self.cached_input };
        KnownModel { price, provider: self.provider.clone(), context_tokens: self.context_tokens, source, as_of }
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
    models: BTreeMap<String, PriceEntry>,
    #[serde(default)]
    realms: BTreeMap<String, BTreeMap<String, PriceEntry>>,
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
