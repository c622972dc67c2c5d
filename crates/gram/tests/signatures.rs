//! Tests of signatures and their JSON Schemas.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "test helpers")]

use serde_json::{Value as Json, json};
use toolwright_gram::{Signature, Type, parse};

fn schema(text: &str) -> Json {
    Signature::parse(text).unwrap_or_else(|error| panic!("{text}: {error}")).to_schema()
}

fn rejection(text: &str) -> String {
    Signature::parse(text).unwrap_err().to_string()
}

fn object(properties: Json, required: &[&str]) -> Json {
    json!({"type": "object", "properties": properties, "required": required})
}

#[test]
fn examples_of_the_gram_specification_have_the_documented_schemas() {
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
fn type_and_its_alias_have_the_same_schema() {
    let pairs = [("Text", "String"), ("Int", "Integer"), ("Double", "Number"), ("Bool", "Boolean")];
    for (short, long) in pairs {
        assert_eq!(schema(&format!("(a::{short})==>(::{short})")), schema(&format!("(a:{long})-->(:{long})")));
    }
}

#[test]
fn schema_of_a_parameter_has_its_description_and_its_allowed_values() {
    assert_eq!(
        schema("(unit::Text {enum: [\"C\", \"F\"], default: \"C\", description: \"of temperature\"})==>(::Number)"),
        object(
            json!({"unit": {"type": "string", "description": "of temperature", "enum": ["C", "F"], "default": "C"}}),
            &[]
        )
    );
}

#[test]
fn element_type_of_an_array_and_fields_of_an_object_are_in_the_schema() {
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
fn nested_objects_and_arrays_are_in_the_schema() {
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
fn fields_written_as_an_array_of_maps_are_accepted_only_in_signatures() {
    let documented = "(user::Object {fields:[{name:\"name\", type:\"Text\"}, {name:\"age\", type:\"Int\", default: 18}, \
                       {name: \"home\", type: \"Object\", fields: [{name: \"city\", type: \"Text\"}]}]})==>(::String)";
    let home = object(json!({"city": {"type": "string"}}), &["city"]);
    let fields = json!({"name": {"type": "string"}, "age": {"type": "integer", "default": 18}, "home": home});
    assert_eq!(schema(documented), object(json!({"user": object(fields, &["name", "home"])}), &["user"]));
    assert!(parse(documented).is_err());

    let signature = Signature::parse(documented).unwrap();
    assert_eq!(Signature::from_pattern(&parse(&signature.to_string()).unwrap()).unwrap(), signature);
    assert!(
        rejection("(a::Object {fields:[{type:\"Text\"}]})==>(::String)")
            .starts_with("field must have a `name` and a `type`")
    );
    assert!(rejection("(a::Object {other:[{name:\"x\"}]})==>(::String)").contains("expected a scalar"));
}

#[test]
fn signature_error_names_the_invalid_parameter() {
    let types = "known types are String (Text), Integer (Int), Number (Double), Boolean (Bool), Object, Array";
    let cases = [
        ("(::Text)==>(::String)", "parameter 1 must have a name, as in `(name::Text)`".to_owned()),
        ("(a::Text)==>()==>(::String)", "parameter 2 must have a name, as in `(name::Text)`".to_owned()),
        ("(a::Text)==>(a::Int)==>(::String)", "parameter `a` is declared more than once".to_owned()),
        ("(a::Txt)==>(::String)", format!("parameter `a` has the unknown type `Txt`; {types}")),
        ("(a)==>(::String)", format!("parameter `a` must have exactly one type; {types}")),
        ("(a::Text::Int)==>(::String)", format!("parameter `a` must have exactly one type; {types}")),
        ("(a::Text)==>(::IO)", format!("the result has the unknown type `IO`; {types}")),
        ("(a::Text)==>()", format!("the result must have exactly one type; {types}")),
        ("(a::Text {default:1})==>(::String)", "default of parameter `a` must be a string in quotes".to_owned()),
        ("(a::Text {default:x})==>(::String)", "default of parameter `a` must be a string in quotes".to_owned()),
        ("(a::Int {default:1.5})==>(::String)", "default of parameter `a` must be an integer".to_owned()),
        ("(a::Bool {default:\"true\"})==>(::String)", "default of parameter `a` must be `true` or `false`".to_owned()),
        ("(a::Array {elementType:\"Int\", default:[\"x\"]})==>(::String)", "default of parameter `a` must be an array of Integer".to_owned()),
        ("(a::Text {enum:[1]})==>(::String)", "enum of parameter `a` must be a string in quotes".to_owned()),
        ("(a::Text {enum:[\"b\"], default:\"c\"})==>(::String)", "default of parameter `a` must be one of its `enum` values".to_owned()),
        ("(a::Text {defualt:1})==>(::String)", "parameter `a` has the unknown property `defualt`; known properties are default, description, enum, elementType and fields".to_owned()),
        ("(a::Text {elementType:\"Int\"})==>(::String)", "`elementType` of parameter `a` must be on an Array that has no elements".to_owned()),
        ("(a::Object {fields:{b:\"Txt\"}})==>(::String)", format!("field `b` has the unknown type `Txt`; {types}")),
    ];
    for (text, expected) in cases {
        assert_eq!(rejection(text), expected, "{text}");
    }
}

#[test]
fn signature_that_is_not_a_path_is_rejected() {
    let expected =
        "signature must be a path such as `(name::Text)==>(::String)`, or `()==>(::String)` without parameters";
    for text in [
        "(::String)",
        "",
        "[a | (b::Text), (::String)]",
        "(a::Text)-[r]->(b::Int)-->(::String)",
        "(a::Text)<==(b::Text)==>(::String)",
    ] {
        assert_eq!(rejection(text), expected, "{text}");
    }
    assert!(rejection("(a::Text").starts_with("expected `)`"));
}

#[test]
fn schema_is_unchanged_after_conversion_to_a_signature_and_back() {
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
fn schema_that_a_signature_cannot_express_is_rejected() {
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
