//! What holds for every input.

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
    fn json_text_carries_any_string(text in any::<String>()) {
        let template = JsonTextTemplate::parse(r#"{"in": "<${v}>", "out": ${v}, "k${v}": [1]}"#).unwrap();
        let input = json!({"v": text});
        let rendered = template.render(&Scope::new(&input)).unwrap();
        let parsed: Value = serde_json::from_str(&rendered.text).unwrap();
        prop_assert_eq!(&parsed["in"], &json!(format!("<{text}>")));
        prop_assert_eq!(&parsed["out"], &json!(text));
        prop_assert_eq!(&parsed[format!("k{text}")], &json!([1]));
    }

    #[test]
    fn json_text_carries_any_value(value in values()) {
        let template = JsonTextTemplate::parse(r#"[${v}, "${v}"]"#).unwrap();
        let input = json!({"v": value});
        let rendered = template.render(&Scope::new(&input)).unwrap();
        let parsed: Value = serde_json::from_str(&rendered.text).unwrap();
        prop_assert_eq!(&parsed[0].to_string(), &value.to_string());
        prop_assert!(parsed[1].is_string());
    }

    #[test]
    fn a_path_value_never_adds_a_segment(text in any::<String>(), more in any::<String>()) {
        let template = Template::parse("/a/${v}/b${w}").unwrap();
        let input = json!({"v": text, "w": more});
        if let Ok(path) = template.render(&Scope::new(&input), escape::path_segment) {
            prop_assert_eq!(path.text.split('/').count(), 4);
            prop_assert!(path.text.bytes().all(|b| b.is_ascii_alphanumeric() || b"/-._~%".contains(&b)));
        }
    }

    #[test]
    fn a_query_value_decodes_to_itself(text in any::<String>()) {
        let encoded = escape::query(&json!(text)).unwrap();
        let decoded = percent_encoding::percent_decode_str(&encoded).decode_utf8().unwrap();
        prop_assert_eq!(decoded, text);
    }

    #[test]
    fn a_header_value_stays_one_line(text in any::<String>()) {
        if let Ok(value) = escape::header(&json!(text)) {
            prop_assert!(!value.contains(['\r', '\n', '\0']));
        }
    }

    #[test]
    fn parsing_never_panics(source in any::<String>()) {
        let _ = Expression::parse(&source);
        let _ = Template::parse(&format!("x${{{source}"));
        let _ = JsonTextTemplate::parse(&source);
        let _ = JsonPath::parse(&source);
        let _ = JsonPath::parse(&format!("${source}"));
        let _ = Mapping::parse(&source);
    }

    #[test]
    fn neither_parsing_nor_running_panics(source in r#"[a-c0-9.,:?()\[\]{}'"$`+*/%<>=!&| x-]{0,24}"#, value in values()) {
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
    fn a_literal_template_renders_to_itself(text in any::<String>()) {
        prop_assume!(!text.contains("${"));
        let nothing = Value::Null;
        let template = Template::parse(&text).unwrap();
        prop_assert!(template.is_literal());
        prop_assert_eq!(template.render(&Scope::new(&nothing), escape::text).unwrap().text, text);
    }

    #[test]
    fn an_escaped_template_renders_to_the_text(text in any::<String>()) {
        let nothing = Value::Null;
        let template = Template::parse(&text.replace("${", "$${")).unwrap();
        prop_assert_eq!(template.literal(), Some(text.as_str()));
        prop_assert_eq!(template.render(&Scope::new(&nothing), escape::text).unwrap().text, text);
    }

    #[test]
    fn a_literal_value_template_renders_to_itself(value in values()) {
        prop_assume!(!value.to_string().contains("${"));
        let nothing = Value::Null;
        let template = ValueTemplate::compile(&value).unwrap();
        prop_assert!(template.is_literal());
        prop_assert_eq!(template.render(&Scope::new(&nothing)).unwrap().value, value);
    }

    #[test]
    fn a_plain_path_gives_what_is_there(value in values()) {
        let input = json!({"a": {"b": value}});
        let result = Expression::parse("param.a.b").unwrap().evaluate(&Scope::new(&input)).unwrap();
        prop_assert_eq!(result.value, value);
        prop_assert!(result.warnings.is_empty());
    }

    #[test]
    fn integer_arithmetic_is_exact_or_an_error(a in any::<i64>(), b in any::<i64>()) {
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
