//! Proptest strategies that generate patterns.

use proptest::prelude::*;
use toolwright_gram::{
    Array, Decimal, Map, MapValue, Measurement, Number, Pattern, Properties, Range, Scalar, Subject, Symbol, Value,
};

pub(crate) fn text() -> impl Strategy<Value = String> {
    prop_oneof![
        any::<String>(),
        "[a-z \\n\\\\`\"'/*\\t]{0,12}",
        "//.{0,6}",
        " /\\*\\*.{0,6}",
        "[a-z `\\n]{100,160}",
        Just("```".to_owned()),
        Just("\0".to_owned()),
    ]
}

pub(crate) fn name() -> impl Strategy<Value = String> {
    prop_oneof![4 => "[a-d]", 1 => "[A-Za-z_][A-Za-z0-9_.@-]{0,5}", 1 => "-?[0-9]{1,3}", 1 => text(), 1 => Just(String::new())]
}

fn symbol() -> impl Strategy<Value = Symbol> {
    "[A-Za-z_][A-Za-z0-9_.@-]{0,5}".prop_filter_map("a boolean is not a symbol", Symbol::new)
}

fn number() -> impl Strategy<Value = Number> {
    prop_oneof![
        any::<i64>().prop_map(Number::Integer),
        any::<f64>().prop_filter_map("finite", Decimal::new).prop_map(Number::Decimal),
        (-9i64..9, "[a-z]{1,3}|x[a-fA-F]{0,2}")
            .prop_filter_map("a unit", |(amount, unit)| Measurement::new(amount, unit))
            .prop_map(Number::Measurement),
    ]
}

pub(crate) fn scalar() -> impl Strategy<Value = Scalar> {
    prop_oneof![
        number().prop_map(Scalar::Number),
        any::<bool>().prop_map(Scalar::Boolean),
        text().prop_map(Scalar::String),
        symbol().prop_map(Scalar::Symbol),
        (symbol(), text()).prop_map(|(tag, content)| Scalar::Tagged { tag, content }),
        (number(), number()).prop_map(|(lower, upper)| Scalar::Range(Range::Between(lower, upper))),
        number().prop_map(|lower| Scalar::Range(Range::From(lower))),
        number().prop_map(|upper| Scalar::Range(Range::To(upper))),
    ]
}

fn array() -> impl Strategy<Value = Array> {
    prop::collection::vec(scalar(), 1..4).prop_filter_map("not empty", Array::new)
}

pub(crate) fn value() -> impl Strategy<Value = Value> {
    let entry = prop_oneof![3 => scalar().prop_map(MapValue::Scalar), 1 => array().prop_map(MapValue::Array)];
    let key = prop_oneof![3 => name(), 1 => Just("type".to_owned())];
    let map = prop::collection::btree_map(key, entry, 0..3).prop_map(|map: Map| Value::Map(map));
    prop_oneof![4 => scalar().prop_map(Value::Scalar), 1 => array().prop_map(Value::Array), 1 => map]
}

pub(crate) fn properties() -> impl Strategy<Value = Properties> {
    prop::collection::btree_map(name(), value(), 0..3)
}

pub(crate) fn subject() -> impl Strategy<Value = Subject> {
    let label = prop_oneof![
        4 => name(),
        1 => Just("Gram.Root".to_owned()),
        1 => Just("Gram.Walk".to_owned()),
        1 => Just("Agent".to_owned()),
        1 => Just("Tool".to_owned()),
    ];
    (name(), prop::collection::btree_set(label, 0..3), properties())
        .prop_map(|(identity, labels, properties)| Subject { identity, labels, properties })
}

pub(crate) fn pattern() -> impl Strategy<Value = Pattern> {
    let plain = prop_oneof![Just(Subject::default()), subject()];
    let leaf = plain.prop_map(|subject| Pattern { subject, elements: Vec::new() });
    leaf.prop_recursive(4, 24, 4, |inner| {
        let elements = prop::collection::vec(inner.clone(), 0..4);
        let general = (subject(), elements.clone()).prop_map(|(subject, elements)| Pattern { subject, elements });
        let bare = elements.prop_map(|elements| Pattern { elements, ..Pattern::default() });
        prop_oneof![3 => general, 1 => bare, 1 => walk(), 1 => prop::collection::vec(inner, 0..4).prop_map(root)]
    })
}

fn root(elements: Vec<Pattern>) -> Pattern {
    Pattern { elements, ..Pattern::default().label("Gram.Root") }
}

/// Generates walks. Most of their relations are connected.
fn walk() -> impl Strategy<Value = Pattern> {
    let edge = ("[ab]?", "[ab]?", any::<bool>(), "[rs]?");
    prop::collection::vec(edge, 0..4).prop_map(|edges| {
        let mut here = String::from("a");
        let edges = edges.into_iter().map(|(to, elsewhere, flip, name)| {
            let mut ends = [here.clone(), to.clone()];
            if flip {
                ends.reverse();
            }
            here = if elsewhere == "a" { elsewhere } else { to };
            ends.iter().fold(Pattern::named(name), |edge, end| edge.element(Pattern::named(end.as_str())))
        });
        Pattern { elements: edges.collect(), ..Pattern::default().label("Gram.Walk") }
    })
}
