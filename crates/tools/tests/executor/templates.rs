//! Request templates: how values are escaped in the path, query, headers and body. The server reports what it received.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use crate::world::{World, failure, merged};

/// Characters that are special in paths, queries, headers or JSON.
const HOSTILE: &str = "a/b?c#d&e=f\"é %2F+\\;";

async fn echoed(invocation: Value, input: Value) -> Value {
    let world = World::start().await;
    world.rest("t", invocation, json!({}));
    world.output("t", input).await
}

async fn refused(invocation: Value, input: Value) -> String {
    let world = World::start().await;
    world.rest("t", invocation, json!({}));
    let envelope = world.call("t", input).await;
    assert_eq!(world.faults.hits("/"), 0, "a request was sent");
    failure(&envelope)
}

#[tokio::test]
async fn slash_in_a_path_value_does_not_add_a_segment() {
    let echo = echoed(json!({ "path": "/echo/${param.id}/tail" }), json!({ "id": HOSTILE })).await;
    assert_eq!(echo["path"], "/echo/a%2Fb%3Fc%23d%26e%3Df%22%C3%A9%20%252F%2B%5C%3B/tail");
    assert_eq!(echo["query"], json!([]));
}

#[tokio::test]
async fn path_traversal_is_refused() {
    for (path, input) in [
        ("/echo/${param.id}/x", json!({ "id": ".." })),
        ("/echo/${param.id}", json!({ "id": "." })),
        ("/echo/${a}${b}/x", json!({ "a": ".", "b": "." })),
        ("/echo/${param.id}", json!({ "id": "" })),
        ("/echo/${param.id}", json!({ "id": null })),
        ("/echo/${param.id}", json!({})),
    ] {
        let failure = refused(json!({ "path": path }), input.clone()).await;
        assert!(failure.starts_with("VALIDATION_ERROR template: "), "{input}: {failure}");
    }
}

#[tokio::test]
async fn path_value_cannot_change_the_host() {
    for id in ["//evil.example/x", "http://evil.example/", "@evil.example", "\\\\evil.example"] {
        let echo = echoed(json!({ "path": "/echo/${param.id}" }), json!({ "id": id })).await;
        assert!(echo["path"].as_str().unwrap().starts_with("/echo/"), "{echo}");
    }
}

#[tokio::test]
async fn special_characters_in_a_query_value_do_not_add_parameters() {
    let invocation =
        json!({ "path": "/echo?q=${param.v}&fixed=1", "query": { "r": "${param.v}", "both": "<${param.v}>" } });
    let echo = echoed(invocation, json!({ "v": HOSTILE })).await;
    assert_eq!(
        echo["query"],
        json!([["q", HOSTILE], ["fixed", "1"], ["r", HOSTILE], ["both", format!("<{HOSTILE}>")]])
    );
}

#[tokio::test]
async fn query_parameters_without_a_value_are_omitted() {
    let query = json!({ "nil": "${param.nil}", "absent": "${param.absent}", "empty": "${param.empty}", "zero": "${param.zero}", "list": "${param.list}" });
    let echo = echoed(
        json!({ "path": "/echo", "query": query }),
        json!({ "nil": null, "empty": "", "zero": 0, "list": [1, "a"] }),
    )
    .await;
    assert_eq!(echo["query"], json!([["empty", ""], ["zero", "0"], ["list", "[1,\"a\"]"]]));
}

#[tokio::test]
async fn question_mark_inside_an_expression_does_not_start_the_query() {
    let echo = echoed(
        json!({ "path": "/echo/${param.a == '?' ? 'yes' : 'no'}?x=${param.b ? 'y}' : 'n'}" }),
        json!({ "a": "?", "b": true }),
    )
    .await;
    assert_eq!((&echo["path"], &echo["query"]), (&json!("/echo/yes"), &json!([["x", "y}"]])));
}

#[tokio::test]
async fn header_values_with_line_breaks_are_refused() {
    let invocation = json!({ "path": "/echo", "headers": { "X-Trace": "t-${param.id}" } });
    let echo = echoed(invocation.clone(), json!({ "id": "a/b?c#d&e=f\"é" })).await;
    assert_eq!(echo["headers"]["x-trace"], "t-a/b?c#d&e=f\"é");
    for hostile in ["x\r\nX-Admin: 1", "x\n", "\0"] {
        let failure = refused(invocation.clone(), json!({ "id": hostile })).await;
        assert!(failure.starts_with("VALIDATION_ERROR template: "), "{failure}");
    }
}

#[tokio::test]
async fn object_template_keeps_the_types_of_its_values() {
    let template = json!({ "n": "${param.n}", "list": "${param.list}", "text": "n=${param.n}", "none": "${param.none}", "fixed": [1, { "x": true }], "${param.key}": 1 });
    let input = json!({ "n": 3, "list": [1, { "a": null }], "key": "k\"ey" });
    let echo = echoed(json!({ "method": "POST", "path": "/echo", "bodyTemplate": template }), input).await;
    assert_eq!(
        echo["json"],
        json!({ "n": 3, "list": [1, { "a": null }], "text": "n=3", "none": null, "fixed": [1, { "x": true }], "k\"ey": 1 })
    );
    assert_eq!(echo["headers"]["content-type"], "application/json");
}

#[tokio::test]
async fn text_template_escapes_values_inside_and_outside_of_quotes() {
    let template =
        "{\"inside\": \"<${param.v}>\", \"outside\": ${param.v}, \"list\": ${param.list}, \"gone\": ${param.none}}";
    let input = json!({ "v": HOSTILE, "list": [1, "\""] });
    let echo = echoed(json!({ "method": "POST", "path": "/echo", "bodyTemplate": template }), input).await;
    assert_eq!(
        echo["json"],
        json!({ "inside": format!("<{HOSTILE}>"), "outside": HOSTILE, "list": [1, "\""], "gone": null })
    );
}

#[tokio::test]
async fn body_is_the_input_if_the_tool_has_no_template() {
    let input = json!({ "a": HOSTILE, "n": 1.5 });
    for method in ["POST", "put", "PATCH"] {
        let echo = echoed(json!({ "method": method, "path": "/echo" }), input.clone()).await;
        assert_eq!((&echo["json"], &echo["method"]), (&input, &json!(method.to_uppercase())));
    }
    for method in ["GET", "DELETE"] {
        assert_eq!(echoed(json!({ "method": method, "path": "/echo" }), input.clone()).await["body"], "", "{method}");
    }
}

#[tokio::test]
async fn form_body_is_rendered_from_an_object_or_a_text() {
    let form = "application/x-www-form-urlencoded";
    let parse = |echo: &Value| -> Vec<(String, String)> {
        assert_eq!(echo["headers"]["content-type"], form);
        url::form_urlencoded::parse(echo["body"].as_str().unwrap().as_bytes()).into_owned().collect()
    };
    let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    let fields = json!({ "v": "${param.v}", "none": "${param.none}", "list": ["${param.v}", 2] });
    let echo = echoed(
        json!({ "method": "POST", "path": "/echo", "contentType": form, "bodyTemplate": fields }),
        json!({ "v": HOSTILE }),
    )
    .await;
    assert_eq!(parse(&echo), [pair("v", HOSTILE), pair("list", HOSTILE), pair("list", "2")]);
    let text = "grant=a&v=${param.v}";
    let echo = echoed(
        json!({ "method": "POST", "path": "/echo", "contentType": form, "bodyTemplate": text }),
        json!({ "v": HOSTILE }),
    )
    .await;
    assert_eq!(parse(&echo), [pair("grant", "a"), pair("v", HOSTILE)]);
}

#[tokio::test]
async fn text_body_is_sent_unchanged_and_binary_body_is_decoded_from_base64() {
    let text =
        json!({ "method": "POST", "path": "/echo", "contentType": "text/plain", "bodyTemplate": "<${param.v}>" });
    assert_eq!(echoed(text, json!({ "v": HOSTILE })).await["body"], format!("<{HOSTILE}>"));
    let binary = json!({ "method": "POST", "path": "/echo", "contentType": "application/octet-stream", "bodyTemplate": "${param.data}" });
    let echo = echoed(binary.clone(), json!({ "data": STANDARD.encode("raw \u{1} bytes") })).await;
    assert_eq!(echo["body"], "raw \u{1} bytes");
    let failure = refused(binary, json!({ "data": "***" })).await;
    assert!(failure.starts_with("VALIDATION_ERROR template: a binary body must be base64"), "{failure}");
}

#[tokio::test]
async fn missing_parameter_in_a_header_renders_empty_with_a_warning() {
    let world = World::start().await;
    world.rest("t", json!({ "path": "/echo", "headers": { "X-A": "v${param.nope}" } }), json!({}));
    let envelope = world.call("t", json!({})).await;
    assert_eq!(envelope.output["headers"]["x-a"], "v");
    assert!(
        envelope.metadata.warnings.iter().any(|warning| warning.contains("nope")),
        "{:?}",
        envelope.metadata.warnings
    );
}

#[tokio::test]
async fn failing_expression_is_a_validation_error() {
    let failure = refused(json!({ "path": "/echo", "query": { "q": "${param.a / 0}" } }), json!({ "a": 1 })).await;
    assert!(failure.starts_with("VALIDATION_ERROR template: "), "{failure}");
}

#[tokio::test]
async fn response_mapping_accepts_paths_and_expressions() {
    let world = World::start().await;
    let input = json!({ "a": 2, "list": [{ "id": 1 }, { "id": 2 }] });
    for (mapping, expected) in [
        ("$.json.a", json!(2)),
        ("$.json.list[*].id", json!([1, 2])),
        ("$.json.list[?@.id > 1]", json!([{ "id": 2 }])),
        ("json.list.size() + param.a", json!(4)),
        ("${body.json.a * 10}", json!(20)),
        ("a is ${response.json.a}", json!("a is 2")),
    ] {
        world.rest("t", json!({ "method": "POST", "path": "/echo", "responseMapping": mapping }), json!({}));
        assert_eq!(world.output("t", input.clone()).await, expected, "{mapping}");
    }
}

#[tokio::test]
async fn mapping_without_a_match_warns_and_mapping_with_an_error_fails() {
    let world = World::start().await;
    world.rest("misses", json!({ "path": "/echo", "responseMapping": "$.nope" }), json!({}));
    let envelope = world.call("misses", json!({})).await;
    assert!(envelope.output.is_null() && envelope.is_success());
    assert!(envelope.metadata.warnings[0].contains("matches nothing"), "{:?}", envelope.metadata.warnings);
    world.rest("breaks", json!({ "path": "/echo", "responseMapping": "method + 1" }), json!({}));
    let envelope = world.call("breaks", json!({})).await;
    assert!(failure(&envelope).starts_with("PROVIDER_ERROR response_mapping: "), "{}", failure(&envelope));
}

#[tokio::test]
async fn mapped_output_is_checked_against_the_output_schema() {
    let world = World::start().await;
    let extra = json!({ "outputJsonSchema": { "type": "integer" }, "onOutputMismatch": "fail" });
    world.rest("t", json!({ "path": "/count/mapped", "responseMapping": "$.count" }), extra);
    assert_eq!(world.output("t", json!({})).await, json!(0));
}

#[tokio::test]
async fn tool_headers_override_provider_headers() {
    let world = World::start().await;
    world.provider(json!({ "refName": "faults", "defaultHeaders": { "X-Tenant": "7", "Accept": "application/json" } }));
    world.rest("t", json!({ "path": "/echo", "headers": { "x-tenant": "${param.tenant}" } }), json!({}));
    let headers = &world.output("t", json!({ "tenant": 8 })).await["headers"];
    assert_eq!((&headers["x-tenant"], &headers["accept"]), (&json!("8"), &json!("application/json")));
}

#[tokio::test]
async fn invalid_invocation_is_rejected_with_its_path() {
    let world = World::start().await;
    let tool = |invocation: Value| json!({ "refName": "t", "toolType": "EXTERNAL_REST", "providerRef": "faults", "invocation": invocation });
    let alone = merged(tool(json!({ "path": "/x" })), json!({ "providerRef": null }));
    for (body, place) in [
        (tool(json!({ "path": "/x/${" })), "/invocation/path"),
        (tool(json!({ "path": "/x", "method": "G E T" })), "/invocation/method"),
        (tool(json!({ "path": "/x", "headers": { "Bad Name": "x" } })), "/invocation/headers/Bad Name"),
        (
            tool(json!({ "path": "/x", "headers": { "Authorization": "Bearer abc" } })),
            "/invocation/headers/Authorization",
        ),
        (tool(json!({ "path": "/x?api_key=abc" })), "/invocation/path"),
        (tool(json!({ "method": "POST", "path": "/x", "bodyTemplate": "{\"a\": ${" })), "/invocation/bodyTemplate"),
        (tool(json!({ "path": "/x", "responseMapping": "$[" })), "/invocation/responseMapping"),
        (alone, "/invocation/path"),
        // A tool with a provider must not have an absolute URL. Otherwise, the provider's credentials would be sent
        // to a URL that the tool's author chooses.
        (tool(json!({ "path": "https://elsewhere.example/x" })), "/invocation/path"),
    ] {
        let issues = world.try_tool(body.clone()).err().unwrap_or_else(|| panic!("{body} was accepted"));
        assert_eq!(issues.0[0].path, place, "{issues}");
    }
}

#[tokio::test]
async fn star_suffix_explodes_query_parameters() {
    let query = json!({ "tag*": "${param.tags}", "filter[*]": "${param.filter}", "more*": "${param.more}", "none*": "${param.none}", "also[*]": "${param.none}" });
    let input = json!({ "tags": ["a", "b&c"], "filter": { "age": { "gte": 3 }, "in": [1, 2] }, "more": { "x": "y" } });
    let echo = echoed(json!({ "path": "/echo", "query": query }), input).await;
    assert_eq!(
        echo["query"],
        json!([
            ["tag", "a"],
            ["tag", "b&c"],
            ["filter[age][gte]", "3"],
            ["filter[in][0]", "1"],
            ["filter[in][1]", "2"],
            ["x", "y"]
        ])
    );
    let bare = echoed(json!({ "path": "/echo", "query": { "tag*": "${param.tags}" } }), json!({})).await;
    assert_eq!(bare["query"], json!([]));
}

#[tokio::test]
async fn star_suffix_explodes_form_fields() {
    let template = json!({ "name": "${param.name}", "metadata[*]": "${param.metadata}", "items[*]": "${param.items}", "tag": "${param.tags}" });
    let invocation = json!({ "method": "POST", "path": "/echo", "contentType": "application/x-www-form-urlencoded", "bodyTemplate": template });
    let input = json!({ "metadata": { "a b": "1" }, "items": [{ "price": "p", "n": 2 }], "tags": ["x", "y"] });
    let echo = echoed(invocation, input).await;
    assert_eq!(echo["body"], "metadata%5Ba+b%5D=1&items%5B0%5D%5Bprice%5D=p&items%5B0%5D%5Bn%5D=2&tag=x&tag=y");
}

#[tokio::test]
async fn headers_without_a_value_are_omitted() {
    let headers = json!({ "X-Given": "${param.given}", "X-Nil": "${param.nil}", "X-Absent": "${param.absent}", "X-Text": "<${param.absent}>" });
    let echo = echoed(json!({ "path": "/echo", "headers": headers }), json!({ "given": "", "nil": null })).await;
    let headers = &echo["headers"];
    assert_eq!((&headers["x-given"], &headers["x-text"]), (&json!(""), &json!("<>")));
    assert!(headers.get("x-nil").is_none() && headers.get("x-absent").is_none(), "{headers}");
}

#[tokio::test]
async fn template_that_renders_empty_or_null_sends_no_body() {
    let post = |template: &str| json!({ "method": "POST", "path": "/echo", "bodyTemplate": template });
    for (template, input) in
        [("", json!({ "a": 1 })), ("${param.body}", json!({})), ("${param.body}", json!({ "body": null }))]
    {
        let echo = echoed(post(template), input).await;
        assert_eq!((&echo["body"], echo["headers"].get("content-type")), (&json!(""), None), "{template}");
    }
    let echo = echoed(post("${param.omit(['id'])}"), json!({ "id": 7, "name": null, "n": 1 })).await;
    assert_eq!(echo["json"], json!({ "name": null, "n": 1 }));
}

#[tokio::test]
async fn url_that_is_too_long_is_refused_before_anything_is_sent() {
    let world = World::start().await;
    world.get("t", "/echo/${param.id}", json!({ "sideEffects": "writes" }));
    let envelope = world.call("t", json!({ "id": "x".repeat(70_000) })).await;
    assert!(
        failure(&envelope).starts_with("VALIDATION_ERROR request: the URL must have at most"),
        "{}",
        failure(&envelope)
    );
    assert_eq!(world.faults.hits("/echo"), 0);
}
