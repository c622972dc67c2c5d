//! Signatures and their schemas.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "helpers of tests")]

use serde_json::{Value as Json, json};
use toolwright_gram::{Signature, Type, parse};

fn schema(text: &str) -> Json {
    Signature::parse(text).unwrap_or_else(|error| panic!("{text}: {error}")).to_schema()
}

fn refused(text: &str) -> String {
    Signature::parse(text).unwrap_err().to_string()
}

fn object(properties: Json, required: &[&str]) -> Json {
    json!({"type": "object", "properties": properties, "required": required})
}

#[test]
fn the_examples_of_the_specification() {
    assert_eq!(
        schema("(personName::Text)==>(::String)"),
        object(json!({"personName": {"type": "string"}}), &["personName"])
    );
    assert_eq!(
        schema("(personName::Text {default:\"world\"})==>(::String)"),
        object(json!({"personName": {"type": "string", "default": "world"}}), &[])
    );
    assert_eq!(
        schema("(personName::Text)==>(age::Int {default:18})==>(::String)"),
        object(json!({"personName": {"type": "string"}, "age": {"type": "integer", "default": 18}}), &["personName"])
    );
    assert_eq!(schema("()==>(::String)"), object(json!({}), &[]));
}

#[test]
fn both_vocabularies_name_the_same_types() {
    let pairs = [("Text", "String"), ("Int", "Integer"), ("Double", "Number"), ("Bool", "Boolean")];
    for (short, long) in pairs {
        assert_eq!(schema(&format!("(a::{short})==>(::{short})")), schema(&format!("(a:{long})-->(:{long})")));
    }
}

#[test]
fn parameters_carry_descriptions_and_choices() {
    assert_eq!(
        schema("(unit::Text {enum: [\"C\", \"F\"], default: \"C\", description: \"of temperature\"})==>(::Number)"),
        object(
            json!({"unit": {"type": "string", "description": "of temperature", "enum": ["C", "F"], "default": "C"}}),
            &[]
        )
    );
}

#[test]
fn arrays_and_objects_say_what_is_in_them() {
    assert_eq!(
        schema("(items::Array {elementType:\"Text\"})==>(::Array)"),
        object(json!({"items": {"type": "array", "items": {"type": "string"}}}), &["items"])
    );
    assert_eq!(
        schema("(user::Object {fields:{name:\"Text\", age:Int}})==>(::Object)"),
        object(
            json!({"user": object(json!({"age": {"type": "integer"}, "name": {"type": "string"}}), &["age", "name"])}),
            &["user"]
        )
    );
    assert_eq!(schema("(o::Object)==>(::Array)"), object(json!({"o": {"type": "object"}}), &["o"]));
}

#[test]
fn what_lies_deeper_is_written_as_elements() {
    let nested = "[ | [user:Object | (name::Text), [address:Object | (city::Text {default: \"Bonn\"})]], \
                      [tags:Array | (::Text)], (::String)]";
    let address = object(json!({"city": {"type": "string", "default": "Bonn"}}), &[]);
    let user = object(json!({"name": {"type": "string"}, "address": address}), &["name", "address"]);
    let expected =
        object(json!({"user": user, "tags": {"type": "array", "items": {"type": "string"}}}), &["user", "tags"]);
    assert_eq!(schema(nested), expected);
    let tool = parse(&format!("[t:Tool {{description: \"d\"}} | {nested}]")).unwrap();
    assert_eq!(Signature::from_pattern(&tool.elements[0]).unwrap().to_schema(), expected);
}

#[test]
fn the_documented_form_of_fields_is_read_in_signatures_only() {
    let documented = "(user::Object {fields:[{name:\"name\", type:\"Text\"}, {name:\"age\", type:\"Int\", default: 18}, \
                       {name: \"home\", type: \"Object\", fields: [{name: \"city\", type: \"Text\"}]}]})==>(::String)";
    let home = object(json!({"city": {"type": "string"}}), &["city"]);
    let fields = json!({"name": {"type": "string"}, "age": {"type": "integer", "default": 18}, "home": home});
    assert_eq!(schema(documented), object(json!({"user": object(fields, &["name", "home"])}), &["user"]));
    assert!(parse(documented).is_err());

    let signature = Signature::parse(documented).unwrap();
    assert_eq!(Signature::from_pattern(&parse(&signature.to_string()).unwrap()).unwrap(), signature);
    assert!(
        refused("(a::Object {fields:[{type:\"Text\"}]})==>(::String)").starts_with("field without `name` and `type`")
    );
    assert!(refused("(a::Object {other:[{name:\"x\"}]})==>(::String)").contains("expected a plain value"));
}

#[test]
fn mistakes_name_the_parameter() {
    let types = "known types are String (Text), Integer (Int), Number (Double), Boolean (Bool), Object, Array";
    let cases = [
        ("(::Text)==>(::String)", "parameter 1 has no name; write `(name::Text)`".to_owned()),
        ("(a::Text)==>()==>(::String)", "parameter 2 has no name; write `(name::Text)`".to_owned()),
        ("(a::Text)==>(a::Int)==>(::String)", "two parameters have the name `a`".to_owned()),
        ("(a::Txt)==>(::String)", format!("parameter `a` has the unknown type `Txt`; {types}")),
        ("(a)==>(::String)", format!("parameter `a` needs exactly one type; {types}")),
        ("(a::Text::Int)==>(::String)", format!("parameter `a` needs exactly one type; {types}")),
        ("(a::Text)==>(::IO)", format!("the result has the unknown type `IO`; {types}")),
        ("(a::Text)==>()", format!("the result needs exactly one type; {types}")),
        ("(a::Text {default:1})==>(::String)", "default of parameter `a` must be a string in quotes".to_owned()),
        ("(a::Text {default:x})==>(::String)", "default of parameter `a` must be a string in quotes".to_owned()),
        ("(a::Int {default:1.5})==>(::String)", "default of parameter `a` must be an integer".to_owned()),
        ("(a::Bool {default:\"true\"})==>(::String)", "default of parameter `a` must be `true` or `false`".to_owned()),
        ("(a::Array {elementType:\"Int\", default:[\"x\"]})==>(::String)", "default of parameter `a` must be an array of Integer".to_owned()),
        ("(a::Text {enum:[1]})==>(::String)", "enum of parameter `a` must be a string in quotes".to_owned()),
        ("(a::Text {enum:[\"b\"], default:\"c\"})==>(::String)", "default of parameter `a` is not one of its `enum`".to_owned()),
        ("(a::Text {defualt:1})==>(::String)", "parameter `a` has the unknown property `defualt`; known are default, description, enum, elementType and fields".to_owned()),
        ("(a::Text {elementType:\"Int\"})==>(::String)", "`elementType` of parameter `a` must be on an Array that has no elements".to_owned()),
        ("(a::Object {fields:{b:\"Txt\"}})==>(::String)", format!("field `b` has the unknown type `Txt`; {types}")),
    ];
    for (text, expected) in cases {
        assert_eq!(refused(text), expected, "{text}");
    }
}

#[test]
fn only_a_path_is_a_signature() {
    let expected =
        "a signature is a path such as `(name::Text)==>(::String)`; without parameters it is `()==>(::String)`";
    for text in [
        "(::String)",
        "",
        "[a | (b::Text), (::String)]",
        "(a::Text)-[r]->(b::Int)-->(::String)",
        "(a::Text)<==(b::Text)==>(::String)",
    ] {
        assert_eq!(refused(text), expected, "{text}");
    }
    assert!(refused("(a::Text").starts_with("expected `)`"));
}

#[test]
fn a_schema_becomes_a_signature_and_back() {
    let schema = object(
        json!({
            "q": {"type": "string", "description": "what to look for"},
            "limit": {"type": "integer", "default": 10},
            "tags": {"type": "array", "items": {"type": "string"}},
            "filter": object(json!({"since": {"type": "integer"}, "deep": object(json!({"x": {"type": "number"}}), &["x"])}), &["since", "deep"]),
        }),
        &["q", "tags", "filter"],
    );
    let signature = Signature::from_schema(&schema, Type::String).unwrap();
    assert_eq!(signature.to_schema(), schema);
    let text = signature.to_string();
    assert_eq!(Signature::parse(&text).unwrap(), signature, "{text}");
}

#[test]
fn a_schema_that_would_lose_something_is_refused() {
    let cases = [
        (json!({"type": "string"}), "/type"),
        (json!(true), ""),
        (json!({"type": "object", "properties": {}}), ""),
        (
            json!({"type": "object", "properties": {}, "required": [], "additionalProperties": false}),
            "/additionalProperties",
        ),
        (object(json!({"a": {"type": "string", "format": "date"}}), &["a"]), "/properties/a/format"),
        (object(json!({"a": {"type": ["string", "null"]}}), &["a"]), "/properties/a"),
        (object(json!({"a": {"type": "string"}}), &[]), "/properties/a"),
        (object(json!({"a": {"type": "string", "default": "x"}}), &["a"]), "/properties/a"),
        (object(json!({"a/b": {"type": "string", "default": 1}}), &[]), "/properties/a~1b/default"),
        (object(json!({"a": {"type": "array", "default": []}}), &[]), "/properties/a/default"),
        (object(json!({"a": {"type": "string"}, "b": {"type": "string"}}), &["b", "a"]), ""),
        (object(json!({"": {"type": "string"}}), &[""]), "/properties/"),
    ];
    for (schema, pointer) in cases {
        let error = Signature::from_schema(&schema, Type::String).unwrap_err();
        assert_eq!(error.pointer, pointer, "{schema}: {error}");
    }
}
