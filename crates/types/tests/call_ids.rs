//! Call ids are a published contract. They are compared with test vectors that were computed without this code.

use serde::Deserialize;
use serde_json::{Value, json};
use toolwright_types::{CallId, json as canonical_json};

#[derive(Deserialize)]
struct Vector {
    name: String,
    version: String,
    input: Value,
    seq: u64,
    canonical: String,
    call_id: String,
}

#[test]
fn call_ids_match_independently_computed_test_vectors() {
    let vectors: Vec<Vector> = serde_json::from_str(include_str!("data/call_ids.json")).unwrap();
    for v in vectors {
        let whole = json!([v.name, v.version, v.input, v.seq]);
        assert_eq!(canonical_json::canonical(&whole), v.canonical);
        assert_eq!(CallId::derive(&v.name, &v.version, &v.input, v.seq).as_str(), v.call_id, "{}", v.canonical);
    }
}

proptest::proptest! {
    #[test]
    fn parsing_and_rewriting_canonical_json_gives_the_same_text(text in "\\PC*", a in proptest::num::f64::NORMAL, b in proptest::num::i64::ANY) {
        let value = json!({ "z": text, "a": a, "m": [b, text], "\u{1F600}": null });
        let canonical = canonical_json::canonical(&value);
        let back: Value = serde_json::from_str(&canonical).unwrap();
        proptest::prop_assert_eq!(canonical_json::canonical(&back), canonical);
        proptest::prop_assert_eq!(&back["m"], &value["m"]);
    }
}
