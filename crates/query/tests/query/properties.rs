//! Property tests of parsing, matching, cursors and projections with random input.

use crate::generate::{documents, queries, variables};
use proptest::prelude::*;
use serde_json::{Value, json};
use toolwright_query::{BindContext, Cursor, Filter, Projection, Query, Sort};

proptest! {
    #[test]
    fn parsing_random_text_never_panics(source in any::<String>()) {
        let _ = Query::parse(&source);
        let _ = Sort::parse(&source);
        let _ = Projection::parse(&source);
        let _ = Query::parse(&format!("a:{source}"));
    }

    #[test]
    fn parsing_and_matching_random_query_text_never_panic(source in r#"[a-c0-9.,:?()\[\]{}"$#+*<>!&|~^@ T-]{0,24}"#, document in documents()) {
        if let Ok(query) = Query::parse(&source) {
            prop_assert_eq!(&Query::parse(&query.to_string()).unwrap(), &query, "{}", query);
            if let Ok(filter) = query.bind(&BindContext::new(&variables())) {
                filter.matches(&document);
            }
        }
    }

    #[test]
    fn printed_query_parses_to_the_same_query(source in queries()) {
        let query = Query::parse(&source).unwrap();
        let printed = query.to_string();
        prop_assert_eq!(&Query::parse(&printed).unwrap(), &query, "{}", printed);
        prop_assert_eq!(Query::parse(&printed).unwrap().to_string(), printed);
    }

    #[test]
    fn negated_query_matches_if_and_only_if_the_query_does_not_match(source in queries(), document in documents()) {
        prop_assume!(!source.contains("text("));
        let variables = variables();
        let scope = BindContext::new(&variables);
                let matches =
                    |source: &str| toolwright_query::matches(&Query::parse(source).unwrap(), &document, &scope).unwrap();
                prop_assert_eq!(matches(&format!("!!({source})")), !matches(&source));
    }

    #[test]
    fn conjunction_matches_if_every_part_matches_and_disjunction_if_any_part_matches(left in queries(), right in queries(), document in documents()) {
        let variables = variables();
        let bind = |source: &str| Query::parse(source).unwrap().bind(&BindContext::new(&variables)).unwrap();
        let (left, right) = (bind(&left), bind(&right));
        let (l, r) = (left.matches(&document), right.matches(&document));
        prop_assert_eq!(Filter::all([&left, &right]).matches(&document), l && r);
        prop_assert_eq!(Filter::any([&left, &right]).matches(&document), l || r);
        prop_assert!(!Filter::any([]).matches(&document));
        prop_assert_eq!(Filter::all([&Filter::match_all(), &left]).matches(&document), l);
    }

    #[test]
    fn cursor_decodes_only_for_the_same_query_and_sort_order(document in documents(), id in "[a-z0-9]{1,8}", key in "[a-d]", other in "[e-h]") {
        let query = Query::parse("a:b").unwrap();
        let sort = Sort::parse(&format!("{key}, -id")).unwrap();
        let cursor = Cursor::after(Some(&query), &sort, &document, &id);
        let text = cursor.to_string();
        prop_assert!(text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte)));
        prop_assert_eq!(&Cursor::decode(&text, Some(&query), &sort).unwrap(), &cursor);
        prop_assert!(Cursor::decode(&text, None, &sort).is_err());
        prop_assert!(Cursor::decode(&text, Some(&Query::parse("a:c").unwrap()), &sort).is_err());
        let other = Sort::parse(&format!("{other}, -id")).unwrap();
        prop_assert!(Cursor::decode(&text, Some(&query), &other).is_err());
    }

    #[test]
    fn decoding_random_text_as_a_cursor_fails(text in "[A-Za-z0-9_=-]{0,64}") {
        prop_assert!(Cursor::decode(&text, None, &Sort::default()).is_err());
    }

    #[test]
    fn projection_returns_a_subset_and_is_idempotent(document in documents(), source in "[+-]?[a-d](\\.[a-d])?(,[+-]?[a-d])?") {
        let projection = Projection::parse(&source).unwrap();
        let part = projection.apply(&document);
        prop_assert_eq!(&projection.apply(&part), &part);
        prop_assert_eq!(Projection::parse(&projection.to_string()).unwrap(), projection);
        prop_assert!(is_part(&part, &document));
    }
}

fn is_part(part: &Value, whole: &Value) -> bool {
    match (part, whole) {
        (Value::Object(part), Value::Object(whole)) => {
            part.iter().all(|(name, value)| whole.get(name).is_some_and(|whole| is_part(value, whole)))
        }
        (Value::Array(part), Value::Array(whole)) => {
            part.len() == whole.len() && part.iter().zip(whole).all(|(part, whole)| is_part(part, whole))
        }
        (part, whole) => part == whole,
    }
}

#[test]
fn projection_keeps_included_fields_and_removes_excluded_fields() {
    let document = json!({"a": 1, "b": {"c": 2, "d": [{"e": 3, "f": 4}]}, "g": [1]});
    let cases = [
        ("+a", json!({"a": 1})),
        ("a, b.c", json!({"a": 1, "b": {"c": 2}})),
        ("[+b.d.e]", json!({"b": {"d": [{"e": 3}]}})),
        ("-b", json!({"a": 1, "g": [1]})),
        ("-b.d.e, -a", json!({"b": {"c": 2, "d": [{"f": 4}]}, "g": [1]})),
        ("+b, -b.c", json!({"b": {"d": [{"e": 3, "f": 4}]}})),
        ("+a.x", json!({})),
        ("+missing", json!({})),
    ];
    for (source, expected) in cases {
        assert_eq!(Projection::parse(source).unwrap().apply(&document), expected, "{source}");
    }
}
