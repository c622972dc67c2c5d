//! Proptest strategies for definitions. Each field is absent or has a random value of its type.

use proptest::collection::{btree_map, vec};
use proptest::option;
use proptest::prelude::*;
use proptest::sample::select;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};
use toolwright_types::{AgentDefinition, ToolDefinition};

type Field = (&'static str, BoxedStrategy<Value>);

/// Generates random agents.
pub(crate) fn agents() -> impl Strategy<Value = AgentDefinition> {
    definition(vec![
        ("name", text()),
        ("displayName", text()),
        ("description", text()),
        ("llmConfig", llm_config()),
        ("fallbackModel", prop_oneof![text(), llm_config()].boxed()),
        ("systemPrompt", text()),
        ("systemPromptRefs", texts()),
        ("responseFormat", words(&["text", "json", "structured"])),
        ("responseSchema", anything()),
        ("toolRefs", tool_refs()),
        ("toolCategories", texts()),
        ("toolTags", texts()),
        ("excludedToolRefs", texts()),
        ("maxToolsInContext", number()),
        ("delegateAgentRefs", texts()),
        (
            "libraries",
            btree_map("[a-z]{1,4}", btree_map("[a-z]{1,4}", "[a-z]{1,4}", 0..3), 0..3)
                .prop_map(|all| json!(all))
                .boxed(),
        ),
        ("split", split()),
        ("canCreateWorkflows", flag()),
        (
            "executionConfig",
            object(vec![
                ("maxIterations", number()),
                ("timeoutSeconds", large()),
                ("durable", flag()),
                ("restateServiceRef", text()),
                ("parallelToolCalls", flag()),
                ("maxParallelCalls", number()),
            ]),
        ),
        (
            "memoryConfig",
            object(vec![
                ("strategy", words(&["full", "sliding_window", "summary", "none"])),
                ("maxConversationTurns", number()),
                ("maxContextTokens", large()),
                ("persistConversation", flag()),
                ("summaryAgentRef", text()),
            ]),
        ),
        (
            "policy",
            object(vec![
                ("maxToolCalls", number()),
                ("maxTokens", large()),
                ("maxCostUsd", amount()),
                ("sideEffects", words(&["none", "reads", "writes"])),
            ]),
        ),
        ("pins", pins()),
        ("securityUri", text()),
        ("principalRef", text()),
        ("allowedRealms", texts()),
        ("requiresApproval", flag()),
        ("guardrails", guardrails()),
        ("enabled", flag()),
    ])
}

/// An A/B split or shadow run. All fields except `mode` are required.
fn split() -> BoxedStrategy<Value> {
    let modes = option::of(select(vec!["live", "shadow"]));
    ("[a-z]{1,4}", 0.0..=1.0f64, modes)
        .prop_map(|(library, share, mode)| match mode {
            Some(mode) => json!({ "library": library, "share": share, "mode": mode }),
            None => json!({ "library": library, "share": share }),
        })
        .boxed()
}

/// Generates random tools.
pub(crate) fn tools() -> impl Strategy<Value = ToolDefinition> {
    let kinds = ["EXTERNAL_REST", "FUNCTION", "AGENT", "HELIX", "EXTERNAL_MCP", "COMPOSITE"];
    definition(vec![
        ("toolType", prop_oneof![3 => Just(json!("FUNCTION")), 2 => words(&kinds)].boxed()),
        ("name", text()),
        ("description", text()),
        ("category", text()),
        ("tags", texts()),
        ("version", words(&["1.0.0", "2.1.0", "0.1.0-beta.2+build.7"])),
        ("status", words(&["draft", "active", "deprecated", "blocked"])),
        ("inputSchema", parameters()),
        ("outputSchema", parameters()),
        ("inputJsonSchema", schema()),
        ("outputJsonSchema", schema()),
        ("invocation", invocation()),
        ("providerRef", text()),
        ("hasSideEffects", flag()),
        ("sideEffects", words(&["none", "reads", "writes"])),
        ("idempotent", flag()),
        ("estimatedLatency", words(&["fast", "medium", "slow"])),
        ("costHint", words(&["free", "low", "high"])),
        ("requiresConfirmation", flag()),
        ("errorHandling", error_handling()),
        ("defaultRetryCount", number()),
        ("defaultRetryBackoff", words(&["none", "linear", "exponential"])),
        ("availableAs", vec(select(vec!["tool", "workflowStep", "mcpTool"]), 0..4).prop_map(Value::from).boxed()),
        ("enabled", flag()),
        ("securityUri", text()),
        ("longDescription", text()),
        (
            "examples",
            vec(object(vec![("scenario", text()), ("input", map()), ("output", anything())]), 0..3)
                .prop_map(Value::from)
                .boxed(),
        ),
        ("cache", words(&["none", "ttl", "forever"])),
        ("cacheTtlSeconds", large()),
        (
            "rateLimit",
            (amount(), option::of(number()))
                .prop_map(|(rate, burst)| json!({ "perSecond": rate, "burst": burst }))
                .boxed(),
        ),
        ("price", object(vec![("perCallUsd", amount()), ("perUnitUsd", amount()), ("units", text())])),
        ("timeoutMs", large()),
        ("maxOutputBytes", large()),
        ("modelOutputBytes", large()),
        ("isToolFullyExecutedOnServer", flag()),
        ("selectorCategory", words(&["api", "code", "data", "search", "utility"])),
        ("verifyToolRef", text()),
        ("compensateToolRef", text()),
        ("resourceKey", text()),
        ("sequential", flag()),
        ("onOutputMismatch", words(&["fail", "warn"])),
        ("resolve", object(vec![("owner_id", text()), ("stage", text())])),
    ])
}

/// Builds definitions by deserializing JSON, so that each definition can be represented in JSON.
fn definition<T: DeserializeOwned + std::fmt::Debug + 'static>(fields: Vec<Field>) -> impl Strategy<Value = T> {
    (ref_names(), object(fields)).prop_map(|(name, mut body)| {
        body["refName"] = json!(name);
        body.as_object_mut().unwrap().entry("toolType").or_insert(json!("FUNCTION"));
        if std::any::type_name::<T>().ends_with("AgentDefinition") {
            body.as_object_mut().unwrap().shift_remove("toolType");
        }
        serde_json::from_value(body.clone()).unwrap_or_else(|error| panic!("{error}: {body}"))
    })
}

fn object(fields: Vec<Field>) -> BoxedStrategy<Value> {
    let fields = fields.into_iter().map(|(name, values)| option::of(values).prop_map(move |value| (name, value)));
    let fields: Vec<_> = fields.collect();
    fields
        .prop_map(|fields| {
            let there = fields.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?)));
            Value::Object(there.filter(|(_, value)| !value.is_null()).collect())
        })
        .boxed()
}

fn ref_names() -> impl Strategy<Value = String> {
    let name = "[A-Za-z0-9][A-Za-z0-9_.-]{0,12}";
    let names = prop_oneof![name.boxed(), (name, name).prop_map(|(space, name)| format!("{space}/{name}")).boxed()];
    names.prop_filter("a reserved word", |name| name.parse::<toolwright_types::RefName>().is_ok())
}

fn text() -> BoxedStrategy<Value> {
    let hard = select(vec![
        "",
        "default",
        "openai/gpt-4o",
        "a/b/c",
        "json",
        "null",
        "true",
        "7",
        "0x1F",
        "```",
        "`",
        "line\nline\n",
        "//",
        "/** x",
        "\\",
        "\"",
        "'",
        "\u{0}\u{1b}\u{7f}",
        "ünï — ☃ 𝄞",
        "{{user}}",
        "\r\n",
        "  ",
        "(none)",
    ]);
    prop_oneof![hard.prop_map(Value::from), "[ -~]{0,40}".prop_map(Value::from), ".{0,200}".prop_map(Value::from)]
        .boxed()
}

fn texts() -> BoxedStrategy<Value> {
    vec(text(), 0..4).prop_map(Value::from).boxed()
}

fn words(words: &[&'static str]) -> BoxedStrategy<Value> {
    select(words.to_vec()).prop_map(Value::from).boxed()
}

fn flag() -> BoxedStrategy<Value> {
    any::<bool>().prop_map(Value::from).boxed()
}

fn number() -> BoxedStrategy<Value> {
    any::<u32>().prop_map(Value::from).boxed()
}

/// Integers, including values beyond `i64::MAX`.
fn large() -> BoxedStrategy<Value> {
    prop_oneof![any::<u64>(), 0u64..1000, Just(u64::MAX)].prop_map(Value::from).boxed()
}

fn amount() -> BoxedStrategy<Value> {
    prop_oneof![
        any::<f64>().prop_filter("finite", |value| value.is_finite()),
        Just(0.5),
        Just(1e300),
        Just(5e-324),
        Just(-0.0)
    ]
    .prop_map(Value::from)
    .boxed()
}

/// Any JSON except null, which is equivalent to an absent field.
fn anything() -> BoxedStrategy<Value> {
    let leaf = prop_oneof![text(), flag(), large(), amount(), any::<i64>().prop_map(Value::from), Just(Value::Null)];
    let deep = leaf.prop_recursive(3, 24, 4, |inner| {
        prop_oneof![
            vec(inner.clone(), 0..4).prop_map(Value::from),
            vec(("[a-zA-Z$ ._/]{0,8}", inner), 0..4).prop_map(|entries| Value::Object(entries.into_iter().collect())),
        ]
    });
    deep.prop_filter("null", |value| !value.is_null()).boxed()
}

fn map() -> BoxedStrategy<Value> {
    vec(("[a-zA-Z$ ._]{1,8}", anything()), 0..4)
        .prop_map(|entries| Value::Object(entries.into_iter().collect::<Map<_, _>>()))
        .boxed()
}

fn llm_config() -> BoxedStrategy<Value> {
    let provider = prop_oneof![words(&["openai", "OpenAI", "scripted", "a/b", ""]), text()].boxed();
    let model = prop_oneof![words(&["gpt-4o", "default", "meta/llama/3", ""]), text()].boxed();
    object(vec![
        ("provider", provider),
        ("model", model),
        ("temperature", amount()),
        ("maxOutputTokens", number()),
        ("maxInputTokens", large()),
        ("apiKeySecretRef", text()),
        ("baseUrl", text()),
        ("extraParams", map()),
    ])
}

fn tool_refs() -> BoxedStrategy<Value> {
    let odd = select(vec!["find", "find@^1.2", "crm/get@=1.0.0", "a@b@c", "", "@1", "b@", "has space", "7"]);
    vec(prop_oneof![odd.prop_map(str::to_owned), ref_names()], 0..5).prop_map(Value::from).boxed()
}

fn pins() -> BoxedStrategy<Value> {
    let pin = (text(), text(), words(&["latest", "first_success"]), words(&["null", "error", "stale_last_success"]));
    let pin = pin.prop_map(|(name, tool, strategy, on_missing)| {
        json!({ "name": name, "selector": { "tool": tool, "strategy": strategy }, "on_missing": on_missing })
    });
    vec(pin, 0..3).prop_map(Value::from).boxed()
}

fn guardrails() -> BoxedStrategy<Value> {
    let guardrail = (text(), map()).prop_map(|(kind, parameters)| json!({ "type": kind, "parameters": parameters }));
    vec(guardrail, 0..3).prop_map(Value::from).boxed()
}

fn parameters() -> BoxedStrategy<Value> {
    let parameter = object(vec![
        ("name", text()),
        ("type", words(&["string", "number", "integer", "boolean", "object", "array"])),
        ("description", text()),
        ("required", flag()),
        ("defaultValue", anything()),
        ("enumValues", vec(anything(), 0..3).prop_map(Value::from).boxed()),
        ("jsonSchemaRef", text()),
    ]);
    vec(("[a-zA-Z ]{0,6}", parameter), 0..4)
        .prop_map(|entries| Value::Object(entries.into_iter().collect::<Map<_, _>>()))
        .boxed()
}

/// Schemas that a signature can express, schemas that it cannot express, and invalid schemas.
fn schema() -> BoxedStrategy<Value> {
    let plain = prop_oneof![
        words(&["string", "integer", "number", "boolean", "object", "array"]).prop_map(|kind| json!({ "type": kind })),
        text().prop_map(|text| json!({ "type": "string", "description": text, "default": text })),
        text().prop_map(|text| json!({ "type": "string", "enum": ["a", text] })),
        any::<i64>().prop_map(|value| json!({ "type": "integer", "default": value })),
        Just(json!({ "type": ["string", "null"] })),
        Just(json!({ "type": "string", "minLength": 1 })),
        Just(json!({})),
    ];
    let properties = plain.clone().boxed().prop_recursive(3, 16, 4, |inner| {
        let fields = vec(("[a-zA-Z]{0,5}", inner.clone(), any::<bool>()), 0..4).prop_map(|fields| {
            let required: Vec<&String> =
                fields.iter().filter(|(_, _, needed)| *needed).map(|(name, ..)| name).collect();
            let required = json!(required);
            let properties: Map<String, Value> = fields.into_iter().map(|(name, schema, _)| (name, schema)).collect();
            json!({ "type": "object", "properties": properties, "required": required })
        });
        prop_oneof![fields, inner.prop_map(|items| json!({ "type": "array", "items": items }))]
    });
    prop_oneof![6 => properties, 1 => map(), 1 => flag(), 1 => Just(json!({ "type": "object", "properties": {}, "required": [] }))].boxed()
}

fn invocation() -> BoxedStrategy<Value> {
    let pairs = || btree_map("[A-Za-z-]{1,6}", text(), 0..3).prop_map(|pairs| json!(pairs)).boxed();
    object(vec![
        ("method", words(&["GET", "POST"])),
        ("path", text()),
        ("query", pairs()),
        ("headers", pairs()),
        ("bodyTemplate", anything()),
        ("responseMapping", text()),
        ("contentType", text()),
        ("code", text()),
    ])
}

fn error_handling() -> BoxedStrategy<Value> {
    let semantics = (words(&["retry", "clarify", "fail", "fallback"]), option::of(text()), option::of(text()));
    let semantics = semantics
        .prop_map(|(action, message, tool)| json!({ "action": action, "message": message, "fallbackToolRef": tool }));
    btree_map(100u16..600, semantics, 0..3).prop_map(|all| json!(all)).boxed()
}
