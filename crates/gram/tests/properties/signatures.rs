//! Property tests: a signature is unchanged after conversion to a pattern, text or schema and back.

use proptest::prelude::*;
use serde_json::{Value as Json, json};
use toolwright_gram::{Parameter, Signature, Type};

use crate::strategies::text;

fn kind() -> impl Strategy<Value = Type> {
    let plain = prop::sample::select(vec![
        Type::String,
        Type::Integer,
        Type::Number,
        Type::Boolean,
        Type::Object(None),
        Type::Array(None),
    ]);
    plain.prop_recursive(3, 12, 3, |inner| {
        let fields = parameters(inner.clone().boxed());
        prop_oneof![
            inner.prop_map(|item| Type::Array(Some(Box::new(item)))),
            fields.prop_map(|fields| Type::Object(Some(fields))),
        ]
    })
}

fn parameters(kind: BoxedStrategy<Type>) -> impl Strategy<Value = Vec<Parameter>> {
    let name = prop_oneof![3 => "[a-e]", 1 => text()].prop_filter("a name", |name| !name.is_empty());
    prop::collection::hash_map(name, (kind, any::<u8>(), prop::option::of(text())), 0..4).prop_map(|parameters| {
        let parameters = parameters.into_iter().map(|(name, (kind, chance, description))| {
            let default = values(&kind).get(usize::from(chance) % 4).cloned();
            let choices = if chance % 3 == 0 { choices(&kind) } else { Vec::new() };
            Parameter { name, kind, default, description, choices }
        });
        parameters.collect()
    })
}

/// Returns values of the type `kind` that gram can express.
fn values(kind: &Type) -> Vec<Json> {
    match kind {
        Type::Object(None) => vec![json!({}), json!({"a": 1, "b": ["x"]})],
        Type::Array(None) => vec![json!([1, "x", true])],
        _ => choices(kind),
    }
}

fn choices(kind: &Type) -> Vec<Json> {
    match kind {
        Type::String => vec![json!(""), json!("a\nb"), json!("//")],
        Type::Integer => vec![json!(0), json!(-7)],
        Type::Number => vec![json!(1), json!(0.5), json!(1e300)],
        Type::Boolean => vec![json!(true), json!(false)],
        _ => Vec::new(),
    }
}

fn signatures() -> impl Strategy<Value = Signature> {
    (parameters(kind().boxed()), kind()).prop_map(|(parameters, returns)| Signature { parameters, returns })
}

proptest! {
    #[test]
    fn signature_is_unchanged_after_conversion_to_a_pattern_and_back(signature in signatures()) {
        prop_assert_eq!(Signature::from_pattern(&signature.to_pattern()).unwrap(), signature);
    }

    #[test]
    fn signature_is_unchanged_after_conversion_to_text_and_back(signature in signatures()) {
        let text = signature.to_string();
        prop_assert_eq!(Signature::parse(&text).unwrap(), signature, "{}", text);
    }

    #[test]
    fn signature_is_unchanged_after_conversion_to_a_schema_and_back(signature in signatures()) {
        let schema = signature.to_schema();
        prop_assert_eq!(Signature::from_schema(&schema, signature.returns.clone()).unwrap(), signature, "{}", schema);
    }
}
