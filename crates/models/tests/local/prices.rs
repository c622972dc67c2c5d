//! Price lookup, costs and price files.

use toolwright_models::{InvalidPrices, Price, PriceList, PriceSource, Prices};
use toolwright_types::Usage;

#[test]
fn realm_prices_override_default_and_built_in_prices() {
    let list = PriceList::from_json(
        r#"{"version": 1, "models": {"gpt-4o": {"input": 1, "output": 2}, "own": {"input": 3, "output": 4}},
            "realms": {"sales": {"gpt-4o": {"input": 5, "output": 6}}}}"#,
    )
    .unwrap();
    let (realm, sales) = list.realms().next().unwrap();
    assert_eq!(
        (realm, sales.price_of("gpt-4o").unwrap().input, sales.price_of("own").unwrap().input),
        ("sales", 5.0, 3.0)
    );
    assert_eq!(list.default_prices().price_of("gpt-4o").unwrap().input, 1.0);
    assert!(list.default_prices().price_of("claude-sonnet-4").is_some(), "built-in prices without an override remain");
    let invalid = r#"{"version": 1, "models": {}, "realms": {"x": {"m": {"input": -1, "output": 0}}}}"#;
    assert!(matches!(PriceList::from_json(invalid), Err(InvalidPrices::InvalidPrice(model)) if model == "m"));
}

#[test]
fn overridden_price_has_the_source_of_the_override_and_keeps_provider_and_context_size() {
    let list = PriceList::from_json(
        r#"{"version": 1, "asOf": "2026-01-02", "models": {"gpt-4o": {"input": 1, "output": 2}, "own": {"input": 3, "output": 4}},
            "realms": {"sales": {"own": {"input": 5, "output": 6, "provider": "openai", "contextTokens": 9}}}}"#,
    )
    .unwrap();
    let entry = |prices: &Prices, model: &str| {
        let (name, known) = prices.find(model).unwrap();
        let provider = known.provider.clone().unwrap_or_default();
        (name.to_owned(), known.source, known.as_of.clone().unwrap_or_default(), provider, known.context_tokens)
    };
    let (default, built_in) = (list.default_prices(), Prices::as_of().to_owned());
    let expected = ("claude-sonnet-4".into(), PriceSource::BuiltIn, built_in, "anthropic".into(), Some(200_000));
    assert_eq!(entry(&default, "claude-sonnet-4-20250514"), expected);
    let overridden = ("gpt-4o".into(), PriceSource::Operator, "2026-01-02".into(), "openai".into(), Some(128_000));
    assert_eq!(entry(&default, "gpt-4o-2024-08-06"), overridden);
    assert_eq!(entry(&default, "own").4, None, "an unknown context size is not guessed");
    let (_, sales) = list.realms().next().unwrap();
    assert_eq!(entry(&sales, "own"), ("own".into(), PriceSource::Realm, "2026-01-02".into(), "openai".into(), Some(9)));
}

fn usage(input: u64, output: u64, cached: u64) -> Usage {
    Usage { input_tokens: input, output_tokens: output, cached_input_tokens: cached }
}

fn is_close(actual: Option<f64>, expected: f64) -> bool {
    actual.is_some_and(|actual| (actual - expected).abs() < 1e-12)
}

#[test]
fn built_in_prices_match_the_documentation() {
    let prices = Prices::default();
    for (model, input, output) in
        [("claude-sonnet-4", 0.003, 0.015), ("gpt-4o", 0.005, 0.015), ("gemini-1.5-pro", 0.00125, 0.005)]
    {
        let price = prices.price_of(model).unwrap();
        assert_eq!((price.input, price.output), (input, output), "{model}");
    }
    assert!(is_close(prices.cost("claude-sonnet-4", usage(800, 434, 0)), 0.00891));
}

#[test]
fn cached_tokens_cost_the_cached_price() {
    let price = Price { input: 0.003, output: 0.015, cached_input: Some(0.0003) };
    assert!(is_close(Some(price.cost(usage(1000, 0, 900))), 0.0003 + 0.00027));
    assert!(is_close(Some(price.cost(usage(100, 0, 900))), 0.00003));
    assert!(is_close(Some(Price { cached_input: None, ..price }.cost(usage(1000, 0, 900))), 0.003));
}

#[test]
fn price_of_the_longest_matching_name_applies() {
    let prices = Prices::default();
    assert_eq!(prices.price_of("claude-sonnet-4-20250514"), prices.price_of("claude-sonnet-4"));
    assert_ne!(prices.price_of("gpt-4o-mini"), prices.price_of("gpt-4o"));
    assert_eq!(prices.price_of("gpt-4o-mini-2024-07-18"), prices.price_of("gpt-4o-mini"));
    assert_eq!(prices.price_of("my-own-model"), None);
    assert_eq!(prices.price_of(""), None);
}

#[test]
fn operator_prices_replace_built_in_prices() {
    let table = r#"{"version": 1, "models": {"gpt-4o": {"input": 1, "output": 2}, "mine": {"input": 0, "output": 0}}}"#;
    let prices = Prices::from_json(table).unwrap();
    assert_eq!(prices.price_of("gpt-4o-2024-08-06").unwrap().input, 1.0);
    assert_eq!(prices.cost("mine", usage(5, 5, 5)), Some(0.0));
    assert_eq!(prices.price_of("claude-sonnet-4"), Prices::default().price_of("claude-sonnet-4"));
}

#[test]
fn invalid_price_files_are_rejected() {
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
