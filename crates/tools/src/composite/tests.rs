//! Tests of routing, of parameter mapping and of the validation of definitions.

use serde_json::{Value, json};
use toolwright_types::{Document, ToolDefinition};

use crate::{CompiledTool, Issues, builtin};

/// A composite tool with the operations `search`, `create` and `rest`.
fn definition(composite: Value) -> Value {
    let operations = json!([
        { "operationSlug": "search", "actionSlug": "crm/search" },
        { "operationSlug": "create", "actionId": "tol_1", "displayName": "Create a deal" },
        { "operationSlug": "rest", "actionSlug": "crm/rest@^1.2" },
    ]);
    let mut config = json!({ "routingMode": "rule_based", "operations": operations });
    config.as_object_mut().unwrap().extend(composite.as_object().unwrap().clone());
    json!({ "refName": "deals", "description": "Deals.", "toolType": "COMPOSITE", "composite": config })
}

fn compile(body: Value) -> Result<CompiledTool, Issues> {
    let definition: ToolDefinition = serde_json::from_value(body).unwrap();
    CompiledTool::compile(Document::unsaved(definition.ref_name.clone(), definition), None, &builtin::library())
}

/// Returns the slug of the operation that the tool selects, or the reason of the error.
fn route(tool: &CompiledTool, input: &Value) -> String {
    match tool.composite().unwrap().route(input) {
        Ok(operation) => operation.slug.clone(),
        Err(error) => error.details.unwrap()["reason"].as_str().unwrap().to_owned(),
    }
}

fn condition(kind: &str, field: &str, value: &str) -> Value {
    json!({ "type": kind, "field": field, "value": value })
}

#[test]
fn condition_matches_text_ignoring_case_and_other_values_as_json() {
    let input = json!({
        "q": "Find ACME Corp", "n": 42, "x": 1.5, "flag": true, "none": null, "empty": "",
        "filter": { "company": "Acme", "tags": ["a", { "b": "deep" }] },
    });
    for (kind, field, value, expected) in [
        ("contains", "q", "acme", true),
        ("contains", "q", "acme inc", false),
        ("equals", "q", "find acme corp", true),
        ("equals", "q", "acme", false),
        ("equals", "empty", "", true),
        ("starts_with", "q", "FIND", true),
        ("starts_with", "q", "acme", false),
        ("ends_with", "q", "corp", true),
        ("ends_with", "q", "find", false),
        ("matches", "q", r"^find\s+\w+", true),
        ("matches", "q", "^acme", false),
        ("equals", "n", "42", true),
        ("starts_with", "n", "4", true),
        ("equals", "x", "1.5", true),
        ("equals", "flag", "true", true),
        ("equals", "none", "null", false),
        ("contains", "none", "n", false),
        ("equals", "missing", "", false),
        ("matches", "missing", ".*", false),
        ("equals", "filter.company", "acme", true),
        ("equals", "filter.tags.0", "a", true),
        ("equals", "filter.tags.1.b", "deep", true),
        ("equals", "filter.tags.7", "a", false),
        ("equals", "filter.company.name", "acme", false),
        ("equals", "q.length", "14", false),
        ("contains", "filter", r#""company":"acme""#, true),
        ("equals", "filter.tags", r#"["a",{"b":"deep"}]"#, true),
    ] {
        let rule = json!({ "condition": condition(kind, field, value), "operationId": "search" });
        let tool = compile(definition(json!({ "routingRules": [rule], "defaultOperationId": "rest" }))).unwrap();
        let expected = if expected { "search" } else { "rest" };
        assert_eq!(route(&tool, &input), expected, "{kind} {field} {value}");
    }
}

#[test]
fn case_sensitive_condition_distinguishes_upper_and_lower_case() {
    for (kind, value, expected) in
        [("equals", "Ä", "search"), ("equals", "ä", "rest"), ("matches", "[A-Z]", "rest"), ("contains", "Ä", "search")]
    {
        let mut condition = condition(kind, "q", value);
        condition["caseSensitive"] = json!(true);
        let rules = json!([{ "condition": condition, "operationId": "search" }]);
        let tool = compile(definition(json!({ "routingRules": rules, "defaultOperationId": "rest" }))).unwrap();
        assert_eq!(route(&tool, &json!({ "q": "Ä" })), expected, "{kind} {value}");
    }
    let rules = json!([{ "condition": condition("equals", "q", "Ä"), "operationId": "search" }]);
    let tool = compile(definition(json!({ "routingRules": rules }))).unwrap();
    assert_eq!(route(&tool, &json!({ "q": "ä" })), "search");
}

#[test]
fn lowest_priority_number_wins_and_equal_priorities_keep_the_order_of_the_rules() {
    let rule = |priority: Value, operation: &str| json!({ "condition": condition("contains", "q", "a"), "operationId": operation, "priority": priority });
    for (rules, expected) in [
        (json!([rule(json!(20), "search"), rule(json!(10), "create")]), "create"),
        (json!([rule(json!(10), "search"), rule(json!(10), "create")]), "search"),
        (json!([rule(json!(5), "search"), rule(Value::Null, "create")]), "create"),
        (json!([rule(json!(0), "search"), rule(json!(-1), "rest")]), "rest"),
        (json!([rule(json!(1), "tol_1")]), "create"),
    ] {
        let tool = compile(definition(json!({ "routingRules": rules }))).unwrap();
        assert_eq!(route(&tool, &json!({ "q": "a" })), expected, "{rules}");
        assert_eq!(route(&tool, &json!({ "q": "b" })), "NO_RULE_MATCHED", "{rules}");
        assert_eq!(route(&tool, &json!([])), "input_schema", "{rules}");
    }
}

#[test]
fn operation_parameter_selects_the_operation_in_agent_driven_mode() {
    let unified = json!({ "q": { "type": "string", "required": true } });
    let tool = compile(definition(json!({ "routingMode": "agent_driven", "unifiedSchema": unified }))).unwrap();
    for (input, expected) in [
        (json!({ "operation": "create" }), "create"),
        (json!({ "operation": "Create" }), "OPERATION_NOT_FOUND"),
        (json!({ "operation": "tol_1" }), "OPERATION_NOT_FOUND"),
        (json!({ "operation": ["create"] }), "OPERATION_NOT_FOUND"),
        (json!({ "operation": null }), "MISSING_OPERATION_PARAMETER"),
        (json!({}), "MISSING_OPERATION_PARAMETER"),
    ] {
        assert_eq!(route(&tool, &input), expected, "{input}");
    }
    let error = tool.composite().unwrap().route(&json!({})).unwrap_err();
    assert_eq!(error.details.unwrap()["operations"], json!(["search", "create", "rest"]));
    let schema = json!({
        "type": "object",
        "properties": {
            "q": { "type": "string" },
            "operation": {
                "type": "string", "enum": ["search", "create", "rest"],
                "description": "The operation to perform.\n- `create`: Create a deal"
            },
        },
        "required": ["operation", "q"],
        "additionalProperties": false,
    });
    assert_eq!(tool.input.source(), &schema);
}

#[test]
fn input_schema_is_derived_from_the_unified_schema_unless_the_author_wrote_one() {
    let default = json!({ "defaultOperationId": "rest" });
    let unified = json!({ "q": { "type": "string", "description": "Text.", "operationMappings": { "rest": { "targetParam": "x" } } } });
    let with = |key: &str, schema: Value| {
        let mut body = definition(json!({ "defaultOperationId": "rest", "unifiedSchema": unified }));
        body[key] = schema;
        compile(body).unwrap().input.source().clone()
    };
    assert_eq!(compile(definition(default)).unwrap().input.source(), &json!({ "type": "object" }));
    let generated = json!({ "type": "object", "properties": { "q": { "type": "string", "description": "Text." } }, "additionalProperties": false });
    assert_eq!(with("name", json!("Deals")), generated);
    let own = json!({ "type": "object", "properties": { "z": {} } });
    assert_eq!(with("inputJsonSchema", own.clone()), own);
    assert_eq!(
        with("inputSchema", json!({ "z": { "type": "integer" } })),
        json!({ "type": "object", "properties": { "z": { "type": "integer" } }, "additionalProperties": false })
    );
    let mut open = definition(json!({ "routingMode": "agent_driven" }));
    open["inputJsonSchema"] = json!(true);
    let source = compile(open).unwrap().input.source().clone();
    assert_eq!((&source["type"], &source["required"]), (&json!("object"), &json!(["operation"])));
}

#[test]
fn operations_are_listed_by_priority() {
    let operations = json!([
        { "operationSlug": "b", "actionSlug": "t", "priority": 2, "description": "Second", "displayName": "ignored" },
        { "operationSlug": "a", "actionSlug": "t", "priority": 1 },
        { "operationSlug": "c", "actionSlug": "t", "priority": 2 },
    ]);
    let tool = compile(definition(json!({ "routingMode": "agent_driven", "operations": operations }))).unwrap();
    let parameter = &tool.input.source()["properties"]["operation"];
    assert_eq!(parameter["enum"], json!(["a", "b", "c"]));
    assert_eq!(parameter["description"], "The operation to perform.\n- `b`: Second");
}

#[test]
fn parameters_are_mapped_by_the_unified_schema_then_by_the_operation_then_by_name() {
    let open = json!({});
    let closed = json!({ "properties": { "q": {}, "text": {}, "limit": {} }, "additionalProperties": false });
    let mapped_q =
        json!({ "q": { "operationMappings": { "search": { "targetParam": "text" } } }, "limit": {}, "extra": {} });
    for (unified, mapping, schema, input, expected) in [
        // A parameter is passed under the same name, unless the schema of the operation does not allow it.
        (json!({}), json!({}), &open, json!({ "q": "a", "extra": 1 }), json!({ "q": "a", "extra": 1 })),
        (json!({}), json!({}), &closed, json!({ "q": "a", "extra": 1 }), json!({ "q": "a" })),
        // A renamed parameter is not passed under its own name.
        (mapped_q.clone(), json!({}), &open, json!({ "q": "a", "limit": 2 }), json!({ "limit": 2, "text": "a" })),
        (json!({}), json!({ "text": "q" }), &open, json!({ "q": "a" }), json!({ "text": "a" })),
        (json!({}), json!({ "text": "q", "q": "q" }), &open, json!({ "q": "a" }), json!({ "text": "a", "q": "a" })),
        (json!({}), json!({ "text": "q" }), &open, json!({}), json!({})),
        (json!({}), json!({ "text": "q" }), &open, json!({ "q": null }), json!({ "text": null })),
        // The unified schema takes precedence over the mapping of the operation. Both take precedence over equal names.
        (mapped_q, json!({ "text": "limit" }), &open, json!({ "q": "a", "limit": 2 }), json!({ "text": "a" })),
        (
            json!({}),
            json!({ "q": "${text}" }),
            &open,
            json!({ "q": "a", "text": "b" }),
            json!({ "q": "b", "text": "b" }),
        ),
        // A template that is one expression keeps the type of its value. Expressions inside a text are inserted into
        // the text, and constants are copied.
        (
            json!({}),
            json!({ "n": "${limit * 2}", "s": "at ${limit}", "c": 5, "o": { "of": ["${q}", true] } }),
            &open,
            json!({ "limit": 2, "q": "a" }),
            json!({ "limit": 2, "q": "a", "n": 4, "s": "at 2", "c": 5, "o": { "of": ["a", true] } }),
        ),
        // A template parameter is left out if its value is absent.
        (json!({}), json!({ "n": "${input.limit}" }), &open, json!({ "q": "a" }), json!({ "q": "a" })),
        // A target that the operation's schema does not allow is passed nevertheless, so that the validation reports
        // the mistake.
        (json!({}), json!({ "unknown": "q" }), &closed, json!({ "q": "a" }), json!({ "unknown": "a" })),
        // Values from the caller are data, not templates.
        (json!({}), json!({ "text": "q" }), &open, json!({ "q": "${secret}" }), json!({ "text": "${secret}" })),
    ] {
        let operations = json!([{ "operationSlug": "search", "actionSlug": "t", "parameterMapping": mapping }]);
        let mut config = json!({ "operations": operations, "defaultOperationId": "search" });
        if unified != json!({}) {
            config["unifiedSchema"] = unified.clone();
        }
        let tool = compile(definition(config)).unwrap();
        let operation = tool.composite().unwrap().route(&input).unwrap();
        let mapped = operation.parameters(&input, schema).unwrap();
        assert_eq!(mapped.input, expected, "{unified} {mapping} {input}");
        assert!(mapped.warnings.is_empty(), "{:?}", mapped.warnings);
    }
}

#[test]
fn parameter_that_selects_the_operation_is_not_passed_to_the_operation() {
    let tool = compile(definition(json!({ "routingMode": "agent_driven" }))).unwrap();
    let input = json!({ "operation": "rest", "q": "a" });
    let operation = tool.composite().unwrap().route(&input).unwrap();
    assert_eq!(operation.parameters(&input, &json!({})).unwrap().input, json!({ "q": "a" }));
    assert_eq!(operation.tool.to_string(), "crm/rest@^1.2");
}

#[test]
fn template_that_fails_is_an_error_that_names_operation_and_parameter() {
    let operations =
        json!([{ "operationSlug": "o", "actionSlug": "t", "parameterMapping": { "n": "${1 / q}", "t": "a ${x.y}" } }]);
    let tool = compile(definition(json!({ "operations": operations, "defaultOperationId": "o" }))).unwrap();
    let operation = &tool.composite().unwrap().operations()[0];
    let error = operation.parameters(&json!({ "q": 0 }), &json!({})).unwrap_err();
    let details = error.details.unwrap();
    assert_eq!(
        (&details["reason"], &details["operation"], &details["parameter"]),
        (&json!("parameter_mapping"), &json!("o"), &json!("n"))
    );
    let mapped = operation.parameters(&json!({ "q": 1 }), &json!({})).unwrap();
    assert_eq!(mapped.input, json!({ "q": 1, "n": 1, "t": "a " }));
    assert!(mapped.warnings[0].starts_with("parameter `t`: "), "{:?}", mapped.warnings);
}

#[test]
fn each_mistake_of_a_definition_is_reported_with_its_path() {
    let operation = |slug: &str| json!({ "operationSlug": slug, "actionSlug": "t" });
    let rule = |kind: &str, field: &str, value: &str, operation: &str| json!({ "condition": condition(kind, field, value), "operationId": operation });
    let many: Vec<Value> = (0..21).map(|number| operation(&format!("o{number}"))).collect();
    let rules: Vec<Value> = (0..101).map(|_| rule("equals", "q", "a", "search")).collect();
    let q = json!({ "q": { "type": "string" } });
    let mapped =
        |target: &str, operation: &str| json!({ "operationMappings": { operation: { "targetParam": target } } });
    for (config, path, part) in [
        (
            json!({ "operations": [] , "defaultOperationId": null }),
            "/composite/operations",
            "NO_OPERATIONS_CONFIGURED: must have 1 to 20 operations, got 0",
        ),
        (
            json!({ "operations": many, "defaultOperationId": "o1" }),
            "/composite/operations",
            "must have 1 to 20 operations, got 21",
        ),
        (
            json!({ "operations": [operation("a"), operation("a")], "defaultOperationId": "a" }),
            "/composite/operations/1/operationSlug",
            "already the slug of another",
        ),
        (
            json!({ "operations": [operation("a b")], "defaultOperationId": "a b" }),
            "/composite/operations/0/operationSlug",
            "letters, digits",
        ),
        (
            json!({ "operations": [{ "operationSlug": "a" }], "defaultOperationId": "a" }),
            "/composite/operations/0/actionSlug",
            "is required",
        ),
        (
            json!({ "operations": [{ "operationSlug": "a", "actionId": " " }], "defaultOperationId": "a" }),
            "/composite/operations/0/actionId",
            "is required",
        ),
        (
            json!({ "operations": [{ "operationSlug": "a", "actionSlug": "t@one" }], "defaultOperationId": "a" }),
            "/composite/operations/0/actionSlug",
            "`t@one` is not a tool reference",
        ),
        (
            json!({ "operations": [{ "operationSlug": "a", "actionSlug": "Deals" }], "defaultOperationId": "a" }),
            "/composite/operations/0/actionSlug",
            "must name another tool",
        ),
        (
            json!({ "operations": [{ "operationSlug": "a", "actionSlug": "t", "parameterMapping": { "x": "${1 +}" } }], "defaultOperationId": "a" }),
            "/composite/operations/0/parameterMapping/x",
            "",
        ),
        (
            json!({ "operations": [{ "operationSlug": "a", "actionSlug": "t", "parameterMapping": { "x": { "y/z": "${(}" } } }], "defaultOperationId": "a" }),
            "/composite/operations/0/parameterMapping/x/y~1z",
            "",
        ),
        (
            json!({ "operations": [{ "operationSlug": "a", "actionSlug": "t", "parameterMapping": { "x": "open" } }], "defaultOperationId": "a", "unifiedSchema": q }),
            "/composite/operations/0/parameterMapping/x",
            "`open` is not a parameter",
        ),
        (
            json!({ "defaultOperationId": "gone" }),
            "/composite/defaultOperationId",
            "OPERATION_NOT_FOUND: no operation `gone`; the operations are `search`, `create`, `rest`",
        ),
        (json!({}), "/composite/routingRules", "NO_RULE_MATCHED"),
        (json!({ "routingRules": rules }), "/composite/routingRules", "must have at most 100 rules, got 101"),
        (
            json!({ "routingRules": [rule("equals", "q", "a", "gone")] }),
            "/composite/routingRules/0/operationId",
            "OPERATION_NOT_FOUND",
        ),
        (
            json!({ "routingRules": [rule("matches", "q", "(", "search")] }),
            "/composite/routingRules/0/condition/value",
            "is not a valid regular expression",
        ),
        (
            json!({ "routingRules": [rule("matches", "q", "a(?=b)", "search")] }),
            "/composite/routingRules/0/condition/value",
            "is not a valid regular expression",
        ),
        (
            json!({ "routingRules": [rule("matches", "q", "a{1000}{1000}", "search")] }),
            "/composite/routingRules/0/condition/value",
            "is not a valid regular expression",
        ),
        (
            json!({ "routingRules": [rule("contains", "q", "", "search")] }),
            "/composite/routingRules/0/condition/value",
            "must not be empty",
        ),
        (
            json!({ "routingRules": [rule("contains", "a..b", "x", "search")] }),
            "/composite/routingRules/0/condition/field",
            "must be a path",
        ),
        (
            json!({ "routingRules": [rule("contains", "", "x", "search")] }),
            "/composite/routingRules/0/condition/field",
            "must be a path",
        ),
        (
            json!({ "routingRules": [rule("contains", "querry.x", "x", "search")], "unifiedSchema": q }),
            "/composite/routingRules/0/condition/field",
            "can never match",
        ),
        (
            json!({ "defaultOperationId": "rest", "unifiedSchema": { "q": mapped("x", "gone") } }),
            "/composite/unifiedSchema/q/operationMappings/gone",
            "OPERATION_NOT_FOUND",
        ),
        (
            json!({ "defaultOperationId": "rest", "unifiedSchema": { "q": mapped("", "rest") } }),
            "/composite/unifiedSchema/q/operationMappings/rest/targetParam",
            "must not be empty",
        ),
        (
            json!({ "defaultOperationId": "rest", "unifiedSchema": { "q": mapped("x", "rest"), "r": mapped("x", "rest") } }),
            "/composite/unifiedSchema/r/operationMappings/rest/targetParam",
            "already mapped to `x`",
        ),
        (
            json!({ "defaultOperationId": "rest", "unifiedSchema": { "q": { "jsonSchemaRef": "no name" } } }),
            "/composite/unifiedSchema/q/jsonSchemaRef",
            "entity type",
        ),
        (
            json!({ "routingMode": "agent_driven", "unifiedSchema": { "operation": {} } }),
            "/composite/unifiedSchema/operation",
            "use another name",
        ),
    ] {
        let issues = compile(definition(config.clone())).unwrap_err().0;
        let found = issues.iter().find(|issue| issue.path == path && issue.message.contains(part));
        assert!(found.is_some(), "{config}: {issues:?}");
    }
}

#[test]
fn composite_definition_with_missing_or_conflicting_fields_is_rejected() {
    let path = |body: Value| compile(body).unwrap_err().0.into_iter().map(|issue| issue.path).collect::<Vec<_>>();
    let mut missing = definition(json!({ "defaultOperationId": "rest" }));
    missing.as_object_mut().unwrap().shift_remove("composite");
    assert_eq!(path(missing), ["/composite"]);
    let mut function = definition(json!({ "defaultOperationId": "rest" }));
    function["toolType"] = json!("FUNCTION");
    assert_eq!(path(function), ["/composite"]);
    let mut client = definition(json!({ "defaultOperationId": "rest" }));
    client["isToolFullyExecutedOnServer"] = json!(false);
    assert_eq!(path(client), ["/isToolFullyExecutedOnServer"]);
    let mut taken = definition(json!({ "routingMode": "agent_driven" }));
    taken["inputJsonSchema"] = json!({ "properties": { "operation": { "type": "integer" } } });
    assert_eq!(path(taken), ["/inputJsonSchema/properties/operation"]);
}

#[test]
fn composite_config_round_trips_through_json_and_malformed_fields_are_rejected() {
    let config = json!({
        "routingMode": "agent_driven",
        "operations": [{ "operationSlug": "a", "actionId": "tol_1", "actionSlug": "t", "priority": 1, "parameterMapping": { "x": "q", "y": 1 } }],
        "routingRules": [{ "condition": { "type": "starts_with", "field": "q", "value": "x", "caseSensitive": true }, "operationId": "a", "priority": 3 }],
        "unifiedSchema": { "q": { "type": "string", "required": true, "operationMappings": { "a": { "targetParam": "p" } } } },
        "metadata": { "owner": "ada" },
    });
    let read: toolwright_types::CompositeConfig = serde_json::from_value(config.clone()).unwrap();
    assert_eq!(serde_json::to_value(&read).unwrap(), config);
    for (pointer, value, part) in [
        ("/routingMode", json!("rules"), "INVALID_ROUTING_MODE: must be `rule_based` or `agent_driven`, got `rules`"),
        ("/operations/0", json!(["a"]), "expected an object"),
        ("/operations/0/extra", json!(1), "unknown field `extra`"),
        ("/routingRules/0/condition", json!(["equals", "q", "x"]), "expected an object"),
        ("/routingRules/0/condition/type", json!("regex"), "unknown variant `regex`"),
        ("/unifiedSchema/q", json!("string"), "expected an object"),
        ("/unifiedSchema/q/typ", json!("string"), "unknown field `typ`"),
        ("/unifiedSchema/q/operationMappings", json!({ "a": ["p"] }), "expected an object"),
        ("/unifiedSchema/q/operationMappings", json!({ "a": {} }), "missing field `targetParam`"),
    ] {
        let mut broken = config.clone();
        let (parent, name) = pointer.rsplit_once('/').unwrap();
        match broken.pointer_mut(parent).unwrap() {
            Value::Array(items) => items[name.parse::<usize>().unwrap()] = value,
            fields => fields[name] = value,
        }
        let error = serde_json::from_value::<toolwright_types::CompositeConfig>(broken).unwrap_err().to_string();
        assert!(error.contains(part), "{pointer}: {error}");
    }
}
