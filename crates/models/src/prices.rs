//! What a reply costs. Prices are data: a table in the crate, and what an operator lays over it.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use serde::{Deserialize, Serialize};
use toolwright_types::Usage;

/// The version of the table's form that this code reads.
const VERSION: u32 = 1;

#[expect(clippy::expect_used, reason = "the table is a constant, read by every test of this module")]
static BUILT_IN: LazyLock<Table> =
    LazyLock::new(|| Table::parse(include_str!("prices.json")).expect("built-in prices"));

/// What a model costs, in US dollars per 1,000 tokens.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Price {
    /// Tokens read.
    pub input: f64,
    /// Tokens written.
    pub output: f64,
    /// Tokens read from the provider's cache; as much as others when None.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cached_input: Option<f64>,
}

impl Price {
    /// The price of what costs nothing.
    pub const FREE: Price = Price { input: 0.0, output: 0.0, cached_input: None };

    /// What `usage` costs.
    pub fn cost(&self, usage: Usage) -> f64 {
        // INVARIANT: `input_tokens` includes the cached ones; a provider that reports more cached than read is taken
        // at the larger price for none of them.
        let cached = usage.cached_input_tokens.min(usage.input_tokens);
        let fresh = usage.input_tokens.saturating_sub(cached);
        let thousands = |tokens: u64| tokens as f64 / 1000.0;
        thousands(fresh) * self.input
            + thousands(cached) * self.cached_input.unwrap_or(self.input)
            + thousands(usage.output_tokens) * self.output
    }
}

/// The prices that hold: the built-in ones, and an operator's own in their place or beside them.
#[derive(Debug, Clone)]
pub struct Prices {
    models: BTreeMap<String, Price>,
}

impl Default for Prices {
    fn default() -> Self {
        Self { models: BUILT_IN.models.clone() }
    }
}

/// A text that holds no prices.
#[derive(Debug, thiserror::Error)]
pub enum InvalidPrices {
    /// It is not the JSON of a table.
    #[error("the table of prices cannot be read")]
    Json(#[from] serde_json::Error),
    /// It is from another time.
    #[error("the table of prices has version {0}, and only version {VERSION} can be read")]
    Version(u32),
    /// A price below nothing, or beyond counting.
    #[error("the price of `{0}` is not a number from 0 up")]
    NotAPrice(String),
}

impl Prices {
    /// The built-in prices, with `overrides` in place of those of the same name.
    pub fn with_overrides(overrides: impl IntoIterator<Item = (String, Price)>) -> Self {
        let mut prices = Self::default();
        prices.models.extend(overrides);
        prices
    }

    /// The built-in prices, with those of a table in the form of `prices.json` in their place.
    pub fn from_json(text: &str) -> Result<Self, InvalidPrices> {
        Ok(Self::with_overrides(Table::parse(text)?.models))
    }

    /// When the built-in table was last held against the vendors' pages.
    pub fn as_of() -> &'static str {
        &BUILT_IN.as_of
    }

    /// The price of `model`: that of exactly this name, else that of the longest name it begins with; None when there
    /// is neither.
    pub fn of(&self, model: &str) -> Option<Price> {
        // A name is its own longest prefix, so the exact match needs no look of its own.
        let begins = |name: &&String| !name.is_empty() && model.starts_with(name.as_str());
        let longest = self.models.keys().filter(begins).max_by_key(|name| name.len())?;
        self.models.get(longest).copied()
    }

    /// What `usage` of `model` costs; None when its price is not known.
    pub fn cost(&self, model: &str, usage: Usage) -> Option<f64> {
        Some(self.of(model)?.cost(usage))
    }
}

/// An operator's prices: for everyone, and for single realms on top of that.
#[derive(Debug, Clone, Default)]
pub struct PriceList {
    models: BTreeMap<String, Price>,
    realms: BTreeMap<String, BTreeMap<String, Price>>,
}

impl PriceList {
    /// The list in `text`: the form of `prices.json`, and `realms` with further `models` by the realm's name.
    pub fn from_json(text: &str) -> Result<Self, InvalidPrices> {
        let table = Table::parse(text)?;
        Ok(Self { models: table.models, realms: table.realms })
    }

    /// The prices of every realm that has none of its own.
    pub fn everywhere(&self) -> Prices {
        Prices::with_overrides(self.models.clone())
    }

    /// The realms with prices of their own, and all prices that hold there.
    pub fn realms(&self) -> impl Iterator<Item = (&str, Prices)> {
        self.realms.iter().map(|(realm, own)| {
            (realm.as_str(), Prices::with_overrides(self.models.clone().into_iter().chain(own.clone())))
        })
    }
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Table {
    version: u32,
    #[serde(default)]
    as_of: String,
    #[serde(default, rename = "note")]
    _note: Option<String>,
    models: BTreeMap<String, Price>,
    #[serde(default)]
    realms: BTreeMap<String, BTreeMap<String, Price>>,
}

impl Table {
    fn parse(text: &str) -> Result<Self, InvalidPrices> {
        let table: Table = serde_json::from_str(text)?;
        if table.version != VERSION {
            return Err(InvalidPrices::Version(table.version));
        }
        let fits = |price: f64| price.is_finite() && price >= 0.0;
        let wrong = table
            .models
            .iter()
            .chain(table.realms.values().flatten())
            .find(|(_, price)| !(fits(price.input) && fits(price.output) && price.cached_input.is_none_or(fits)));
        match wrong {
            Some((name, _)) => Err(InvalidPrices::NotAPrice(name.clone())),
            None => Ok(table),
        }
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_realm_pays_its_own_prices_and_the_rest_as_everyone() {
        let list = PriceList::from_json(
            r#"{"version": 1, "models": {"gpt-4o": {"input": 1, "output": 2}, "own": {"input": 3, "output": 4}},
                "realms": {"sales": {"gpt-4o": {"input": 5, "output": 6}}}}"#,
        )
        .unwrap();
        let (realm, sales) = list.realms().next().unwrap();
        assert_eq!((realm, sales.of("gpt-4o").unwrap().input, sales.of("own").unwrap().input), ("sales", 5.0, 3.0));
        assert_eq!(list.everywhere().of("gpt-4o").unwrap().input, 1.0);
        assert!(list.everywhere().of("claude-sonnet-4").is_some(), "what is not overridden stays");
        let wrong = r#"{"version": 1, "models": {}, "realms": {"x": {"m": {"input": -1, "output": 0}}}}"#;
        assert!(matches!(PriceList::from_json(wrong), Err(InvalidPrices::NotAPrice(model)) if model == "m"));
    }

    use super::*;

    fn usage(input: u64, output: u64, cached: u64) -> Usage {
        Usage { input_tokens: input, output_tokens: output, cached_input_tokens: cached }
    }

    fn close(one: Option<f64>, two: f64) -> bool {
        one.is_some_and(|one| (one - two).abs() < 1e-12)
    }

    #[test]
    fn the_seeds_prices_and_its_formula() {
        let prices = Prices::default();
        for (model, input, output) in
            [("claude-sonnet-4", 0.003, 0.015), ("gpt-4o", 0.005, 0.015), ("gemini-1.5-pro", 0.00125, 0.005)]
        {
            let price = prices.of(model).unwrap();
            assert_eq!((price.input, price.output), (input, output), "{model}");
        }
        assert!(close(prices.cost("claude-sonnet-4", usage(800, 434, 0)), 0.00891));
    }

    #[test]
    fn cached_tokens_have_their_own_price() {
        let price = Price { input: 0.003, output: 0.015, cached_input: Some(0.0003) };
        assert!(close(Some(price.cost(usage(1000, 0, 900))), 0.0003 + 0.00027));
        assert!(close(Some(price.cost(usage(100, 0, 900))), 0.00003));
        assert!(close(Some(Price { cached_input: None, ..price }.cost(usage(1000, 0, 900))), 0.003));
    }

    #[test]
    fn exact_names_come_before_the_longest_prefix() {
        let prices = Prices::default();
        assert_eq!(prices.of("claude-sonnet-4-20250514"), prices.of("claude-sonnet-4"));
        assert_ne!(prices.of("gpt-4o-mini"), prices.of("gpt-4o"));
        assert_eq!(prices.of("gpt-4o-mini-2024-07-18"), prices.of("gpt-4o-mini"));
        assert_eq!(prices.of("my-own-model"), None);
        assert_eq!(prices.of(""), None);
    }

    #[test]
    fn an_operators_prices_replace_the_built_in_ones() {
        let table =
            r#"{"version": 1, "models": {"gpt-4o": {"input": 1, "output": 2}, "mine": {"input": 0, "output": 0}}}"#;
        let prices = Prices::from_json(table).unwrap();
        assert_eq!(prices.of("gpt-4o-2024-08-06").unwrap().input, 1.0);
        assert_eq!(prices.cost("mine", usage(5, 5, 5)), Some(0.0));
        assert_eq!(prices.of("claude-sonnet-4"), Prices::default().of("claude-sonnet-4"));
    }

    #[test]
    fn wrong_tables_are_refused() {
        for text in [
            "[]",
            r#"{"version": 2, "models": {}}"#,
            r#"{"version": 1, "models": {"m": {"input": -1, "output": 0}}}"#,
            r#"{"version": 1, "models": {"m": {"input": 1, "output": 0, "cached": 1}}}"#,
        ] {
            assert!(Prices::from_json(text).is_err(), "{text}");
        }
        assert!(!Prices::as_of().is_empty());
    }
}
