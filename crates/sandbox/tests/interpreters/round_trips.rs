//! Property tests: JSON that is passed to an interpreter and back is unchanged.

use proptest::prelude::*;
use serde_json::{Map, Number, Value};
use toolwright_sandbox::Language;

use crate::result;

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn python_returns_its_inputs_unchanged(value in values()) {
        let inputs = serde_json::json!({ "value": value });
        prop_assert_eq!(&result(Language::Python, "result = inputs", inputs.clone()), &inputs);
        prop_assert_eq!(&result(Language::Python, "echo(inputs)", inputs.clone()), &inputs);
    }

    #[test]
    fn javascript_returns_its_inputs_unchanged(value in values()) {
        let inputs = serde_json::json!({ "value": value });
        prop_assert_eq!(normalize(&result(Language::JavaScript, "result = inputs", inputs.clone())), normalize(&inputs));
        prop_assert_eq!(normalize(&result(Language::JavaScript, "echo(inputs)", inputs.clone())), normalize(&inputs));
    }
}

/// Normalizes numbers as JavaScript does. JavaScript has one number type and writes integral values without a fraction.
fn normalize(value: &Value) -> Value {
    match value {
        Value::Number(number) if number.is_f64() => {
            let float = number.as_f64().unwrap_or_default();
            let whole = float.fract() == 0.0 && float.abs() <= 9_007_199_254_740_991.0;
            #[expect(clippy::cast_possible_truncation, reason = "an integer small enough to be exact")]
            let integer = whole.then_some(float as i64).filter(|integer| *integer != 0 || float.is_sign_positive());
            integer.map_or_else(|| value.clone(), Value::from)
        }
        Value::Array(items) => items.iter().map(normalize).collect(),
        Value::Object(fields) => fields.iter().map(|(key, field)| (key.clone(), normalize(field))).collect(),
        other => other.clone(),
    }
}

fn values() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        (-1000_i64..1000).prop_map(Value::from),
        any::<f64>().prop_filter_map("JSON numbers are finite", |float| Number::from_f64(float).map(Value::Number)),
        (-1000_i32..1000).prop_map(|whole| Value::from(f64::from(whole))),
        ".*".prop_map(Value::from),
    ];
    leaf.prop_recursive(6, 64, 8, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..8).prop_map(Value::from),
            prop::collection::vec((keys(), inner), 0..8).prop_map(|fields| Value::Object(Map::from_iter(fields))),
        ]
    })
}

fn keys() -> impl Strategy<Value = String> {
    let special = ["__proto__", "constructor", "toString", "length", "", "0", "1.5", "result", "__class__", "a\0b"];
    prop_oneof![prop::sample::select(special.to_vec()).prop_map(str::to_owned), ".*"]
}
