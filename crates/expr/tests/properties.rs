//! Property tests of expressions, templates and escape functions with random input.

use proptest::prelude::*;
use serde_json::{Value, json};
use toolwright_expr::{Expression, JsonPath, JsonTextTemplate, Mapping, Scope, Template, ValueTemplate, escape};

fn values() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        any::<String>().prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 16, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::vec((any::<String>(), inner), 0..4)
                .prop_map(|fields| Value::Object(fields.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn string_rendered_into_json_text_parses_to_the_same_string(text in any::<String>()) {
        let template = JsonTextTemplate::parse(r#"{"in": "<${v}>", "out": ${v}, "k${v}": [1]}"#).unwrap();
        let input = json!({"v": text});
        let rendered = template.render(&Scope::new(&input)).unwrap();
        let parsed: Value = serde_json::from_str(&rendered.text).unwrap();
        prop_assert_eq!(&parsed["in"], &json!(format!("<{text}>")));
        prop_assert_eq!(&parsed["out"], &json!(text));
        prop_assert_eq!(&parsed[format!("k{text}")], &json!([1]));
    }

    #[test]
    fn value_rendered_into_json_text_parses_to_the_same_value(value in values()) {
        let template = JsonTextTemplate::parse(r#"[${v}, "${v}"]"#).unwrap();
        let input = json!({"v": value});
        let rendered = template.render(&Scope::new(&input)).unwrap();
        let parsed: Value = serde_json::from_str(&rendered.text).unwrap();
        prop_assert_eq!(&parsed[0].to_string(), &value.to_string());
        prop_assert!(parsed[1].is_string());
    }

    #[test]
    fn escaped_path_value_never_adds_a_path_segment(text in any::<String>(), more in any::<String>()) {
        let template = Template::parse("/a/${v}/b${w}").unwrap();
        let input = json!({"v": text, "w": more});
        if let Ok(path) = template.render(&Scope::new(&input), escape::path_segment) {
            prop_assert_eq!(path.text.split('/').count(), 4);
            prop_assert!(path.text.bytes().all(|b| b.is_ascii_alphanumeric() || b"/-._~%".contains(&b)));
        }
    }

    #[test]
    fn escaped_query_value_decodes_to_the_original_text(text in any::<String>()) {
        let encoded = escape::query(&json!(text)).unwrap();
        let decoded = percent_encoding::percent_decode_str(&encoded).decode_utf8().unwrap();
        prop_assert_eq!(decoded, text);
    }

    #[test]
    fn escaped_header_value_has_no_line_break(text in any::<String>()) {
        if let Ok(value) = escape::header(&json!(text)) {
            prop_assert!(!value.contains(['\r', '\n', '\0']));
        }
    }

    #[test]
    fn parsing_random_text_never_panics(source in any::<String>()) {
        let _ = Expression::parse(&source);
        let _ = Template::parse(&format!("x${{{source}"));
        let _ = JsonTextTemplate::parse(&source);
        let _ = JsonPath::parse(&source);
        let _ = JsonPath::parse(&format!("${source}"));
        let _ = Mapping::parse(&source);
    }

    #[test]
    fn parsing_and_evaluating_random_expressions_never_panic(source in r#"[a-c0-9.,:?()\[\]{}'"$`+*/%<>=!&| x-]{0,24}"#, value in values()) {
        let scope = Scope::new(&value).with("a", &value).with("b", &value);
        if let Ok(expression) = Expression::parse(&source) {
            let _ = expression.evaluate(&scope);
        }
        if let Ok(template) = Template::parse(&source) {
            let _ = template.render(&scope, escape::text);
        }
        if let Ok(template) = JsonTextTemplate::parse(&source) {
            let _ = template.render(&scope);
        }
        if let Ok(path) = JsonPath::parse(&source) {
            let _ = path.query(&value);
        }
    }

    #[test]
    fn template_without_placeholders_renders_to_the_same_text(text in any::<String>()) {
        prop_assume!(!text.contains("${"));
        let nothing = Value::Null;
        let template = Template::parse(&text).unwrap();
        prop_assert!(template.is_literal());
        prop_assert_eq!(template.render(&Scope::new(&nothing), escape::text).unwrap().text, text);
    }

    #[test]
    fn doubled_dollar_renders_as_a_literal_placeholder(text in any::<String>()) {
        let nothing = Value::Null;
        let template = Template::parse(&text.replace("${", "$${")).unwrap();
        prop_assert_eq!(template.literal(), Some(text.as_str()));
        prop_assert_eq!(template.render(&Scope::new(&nothing), escape::text).unwrap().text, text);
    }

    #[test]
    fn value_template_without_placeholders_renders_to_the_same_value(value in values()) {
        prop_assume!(!value.to_string().contains("${"));
        let nothing = Value::Null;
        let template = ValueTemplate::compile(&value).unwrap();
        prop_assert!(template.is_literal());
        prop_assert_eq!(template.render(&Scope::new(&nothing)).unwrap().value, value);
    }

    #[test]
    fn simple_path_evaluates_to_the_value_at_the_path(value in values()) {
        let input = json!({"a": {"b": value}});
        let result = Expression::parse("param.a.b").unwrap().evaluate(&Scope::new(&input)).unwrap();
        prop_assert_eq!(result.value, value);
        prop_assert!(result.warnings.is_empty());
    }

    #[test]
    fn integer_arithmetic_gives_the_exact_result_or_an_error(a in any::<i64>(), b in any::<i64>()) {
        let input = json!({"a": a, "b": b});
        let scope = Scope::new(&input);
        let run = |source: &str| Expression::parse(source).unwrap().evaluate(&scope).ok().map(|r| r.value);
        prop_assert_eq!(run("a + b"), a.checked_add(b).map(Value::from));
        prop_assert_eq!(run("a - b"), a.checked_sub(b).map(Value::from));
        prop_assert_eq!(run("a * b"), a.checked_mul(b).map(Value::from));
        prop_assert_eq!(run("a / b"), a.checked_div(b).map(Value::from));
        prop_assert_eq!(run("a < b"), Some(Value::from(a < b)));
        prop_assert_eq!(run("a == b"), Some(Value::from(a == b)));
    }
}

/// Valid selectors, and some invalid ones.
fn selectors() -> impl Strategy<Value = String> {
    let segment = prop_oneof![
        Just(".a".to_owned()),
        Just("..b".to_owned()),
        Just("[*]".to_owned()),
        Just("..*".to_owned()),
        Just("['a', 0]".to_owned()),
        (-3_i8..3, -3_i8..3, -2_i8..3).prop_map(|(start, end, step)| format!("[{start}:{end}:{step}]")),
        (-3_i8..3).prop_map(|index| format!("[{index}]")),
    ];
    let query = prop::collection::vec(segment, 0..3).prop_map(|segments| segments.concat());
    let term = prop_oneof![
        3 => query.clone().prop_map(|query| format!("@{query}")),
        1 => query.clone().prop_map(|query| format!("${query}")),
        1 => query.clone().prop_map(|query| format!("count(@{query})")),
        1 => query.clone().prop_map(|query| format!("length(value(@{query}))")),
        1 => query.clone().prop_map(|query| format!("match(@{query}, 'a|[bc]')")),
        1 => query.clone().prop_map(|query| format!("search(@{query}, @.a)")),
        2 => prop_oneof![Just("1"), Just("'a'"), Just("null"), Just("true"), Just("-1.5e0")].prop_map(str::to_owned),
    ];
    let operators = prop_oneof![Just("=="), Just("!="), Just("<"), Just(">="), Just("&&"), Just("||"), Just(" && !")];
    let filter =
        (term.clone(), operators, term).prop_map(|(left, operator, right)| format!("[?{left}{operator}{right}]"));
    (query.clone(), prop::option::of(filter), query)
        .prop_map(|(before, filter, after)| format!("${before}{}{after}", filter.unwrap_or_default()))
}

proptest! {
    #[test]
    fn selectors_select_the_same_nodes_as_the_reference_implementation(source in selectors(), value in documents()) {
        let (ours, reference) = (JsonPath::parse(&source), serde_json_path::JsonPath::parse(&source));
        prop_assert_eq!(ours.is_ok(), reference.is_ok(), "{}", source);
        if let (Ok(ours), Ok(reference)) = (ours, reference) {
            prop_assert_eq!(ours.query(&value).unwrap(), reference.query(&value).all(), "{}", source);
        }
    }
}

fn documents() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![Just(json!(null)), Just(json!(1)), Just(json!(-1.5)), Just(json!("a")), Just(json!("b"))];
    leaf.prop_recursive(4, 20, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            (inner.clone(), inner).prop_map(|(a, b)| json!({ "a": a, "b": b })),
        ]
    })
}
