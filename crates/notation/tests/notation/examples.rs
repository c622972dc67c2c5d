//! Examples of gram documents and their definitions.

use serde_json::{Value, json};
use toolwright_gram::{AgentSpecView, DefinitionIndex, parse, print};
use toolwright_notation::{
    AgentBundle, ParsedDefinition, read_all, read_tool, reference_relations, write_agent, write_tool,
};
use toolwright_types::{AgentDefinition, ToolDefinition};

const HELLO: &str = r#"
[hello_world_agent:Agent {
  description: "A friendly agent",
  instruction: "You are a friendly assistant.",
  model: "OpenAI/gpt-3.5-turbo",
  policy.maxToolCalls: 5,
  memoryConfig: {strategy: sliding_window, maxConversationTurns: 3}
} |
  [sayHello:ToolSpecification {description: "Returns a friendly greeting", sideEffects: none} |
    (personName::Text {default: "world"})==>(::String)
  ],
  calculator
]"#;

fn agent(text: &str) -> Result<AgentBundle, Vec<String>> {
    let errors = |errors: Vec<toolwright_notation::DefinitionError>| errors.iter().map(ToString::to_string).collect();
    AgentBundle::compile(&parse(text).unwrap(), &DefinitionIndex::default()).map_err(errors)
}

#[test]
fn agent_pattern_becomes_an_agent_and_the_tools_defined_in_it() {
    let AgentBundle { definition, tools, ignored_properties } = agent(HELLO).unwrap();
    let expected: AgentDefinition = serde_json::from_value(json!({
        "refName": "hello_world_agent",
        "description": "A friendly agent",
        "systemPrompt": "You are a friendly assistant.",
        "llmConfig": { "provider": "OpenAI", "model": "gpt-3.5-turbo" },
        "toolRefs": ["sayHello", "calculator"],
        "policy": { "maxToolCalls": 5 },
        "memoryConfig": { "strategy": "sliding_window", "maxConversationTurns": 3 },
    }))
    .unwrap();
    assert_eq!(definition, expected);
    let expected: ToolDefinition = serde_json::from_value(json!({
        "refName": "sayHello",
        "toolType": "FUNCTION",
        "description": "Returns a friendly greeting",
        "sideEffects": "none",
        "invocation": { "path": "sayHello" },
        "inputJsonSchema": { "type": "object", "properties": { "personName": { "type": "string", "default": "world" } }, "required": [] },
        "outputJsonSchema": { "type": "string" },
    }))
    .unwrap();
    assert_eq!(tools, [expected]);
    assert!(ignored_properties.is_empty());
}

#[test]
fn written_tool_uses_canonical_type_names_and_omits_defaults() {
    let text = r#"[find:Tool {description: "Finds", toolType: "FUNCTION", enabled: true, invocation: {path: "find"}} |
        (q::Text)-->(limit::Int {default: 10})-->(::Array {elementType: "Text"})]"#;
    let tool = read_tool(&parse(text).unwrap()).unwrap();
    let canonical = "[find:ToolSpecification {description: \"Finds\"} |\n  (q::String)==>(limit::Integer {default: 10})==>(::Array {elementType: \"String\"})\n]\n";
    assert_eq!(print(&write_tool(&tool)), canonical);
}

#[test]
fn tool_versions_are_written_as_a_property() {
    let mut definition = AgentDefinition::new("a".parse().unwrap());
    definition.tool_refs = vec!["find@^1.2".into(), "crm/get".into()];
    let pattern = write_agent(&definition);
    let names: Vec<&str> = pattern.elements.iter().map(|tool| tool.identity()).collect();
    assert_eq!(names, ["find", "crm/get"]);
    assert!(print(&pattern).contains("toolVersions: {find: \"^1.2\"}"), "{}", print(&pattern));
}

#[test]
fn unknown_property_is_rejected_by_compile_and_ignored_by_interpret() {
    let text =
        HELLO.replace("sideEffects: none", "mood: \"sunny\"").replace("policy.maxToolCalls: 5", "policy.mood: 1");
    let errors = agent(&text).unwrap_err();
    assert_eq!(
        errors,
        [
            "property `mood` of tool `sayHello` is unknown",
            "property `policy.mood` of agent `hello_world_agent` is unknown"
        ]
    );
    let pattern = parse(&text).unwrap();
    let view = AgentSpecView::new(&pattern, &DefinitionIndex::default()).unwrap();
    let interpreted = AgentBundle::interpret(&view, &DefinitionIndex::default()).unwrap();
    assert_eq!(interpreted.tools.len(), 1);
    assert_eq!(
        interpreted.ignored_properties,
        ["property `mood` of tool `sayHello`", "property `policy.mood` of agent `hello_world_agent`"]
    );
}

#[test]
fn all_errors_of_a_definition_are_reported_together_and_unknown_properties_with_a_suggestion() {
    let errors =
        agent("[a:Agent {instructions: \"i\", model: \"m\", maxToolsInContext: \"x\", policy.maxToolCall: 1}]");
    assert_eq!(
        errors.unwrap_err(),
        [
            "agent `a` must have the property `instruction`",
            "property `instructions` of agent `a` is unknown; did you mean `instruction`?",
            "property `policy.maxToolCall` of agent `a` is unknown; did you mean `policy.maxToolCalls`?",
            "property `maxToolsInContext` of agent `a` is invalid: invalid type: string \"x\", expected u32",
        ]
    );
    // The errors of an agent and of a tool in it, each once.
    let errors = agent(
        "[a:Agent {model: \"m\", mode: 1} | [t:Tool {descripton: \"d\", exact: {timeoutMS: 1}} | (a::String)==>(::String)]]",
    );
    assert_eq!(
        errors.unwrap_err(),
        [
            "agent `a` must have the property `instruction`",
            "tool `t` must have the property `description`",
            "property `descripton` of tool `t` is unknown; did you mean `description`?",
            "property `exact.timeoutMS` of tool `t` is unknown; did you mean `exact.timeoutMs`?",
            "property `mode` of agent `a` is unknown; did you mean `model`?",
        ]
    );
}

#[test]
fn invalid_value_of_a_known_property_is_rejected_by_compile_and_interpret() {
    for (given, because) in [
        ("policy.maxToolCalls: \"five\"", "property `policy.maxToolCalls` of agent"),
        ("requiresApproval: 1..2", "must not be a range"),
        ("requiresApproval: yes", "property `requiresApproval` of agent"),
        ("guardrails: json`[{`", "must be valid JSON"),
        ("toolVersions: {nothing: \"1\"}", "which is not one of the agent's tools"),
        ("exact: 7", "must be a JSON object"),
    ] {
        let text = HELLO.replace("policy.maxToolCalls: 5", given);
        let errors = agent(&text).unwrap_err();
        assert!(errors.iter().any(|error| error.contains(because)), "{given}: {errors:?}");
        let pattern = parse(&text).unwrap();
        let view = AgentSpecView::new(&pattern, &DefinitionIndex::default()).unwrap();
        assert!(AgentBundle::interpret(&view, &DefinitionIndex::default()).is_err(), "{given}");
    }
}

#[test]
fn tool_defined_in_another_document_is_found_and_returned_once() {
    let texts = [
        r#"[desk:Agent {instruction: "Help.", model: "default"} | lookUp]
           [clerk:Agent {instruction: "File.", model: "default", delegateAgentRefs: ["desk"]} |
             [store:Tool {description: "Stores", sideEffects: writes} | (id::Int)==>(::Boolean)], lookUp]"#,
        r#"[lookUp:ToolSpecification {description: "Looks up"} | (id::Int)==>(::String)]"#,
        r#"[lookUp:ToolSpecification {description: "Looks up"} | (id::Integer)==>(::Text)]"#,
    ]
    .map(|text| parse(text).unwrap());
    let found = read_all(&texts).unwrap();
    let names: Vec<(usize, &str)> = found
        .iter()
        .map(|defined| match &defined.definition {
            ParsedDefinition::Agent(agent) => (defined.text, agent.ref_name.as_str()),
            ParsedDefinition::Tool(tool) => (defined.text, tool.ref_name.as_str()),
        })
        .collect();
    assert_eq!(names, [(0, "desk"), (0, "clerk"), (0, "store"), (1, "lookUp")], "equal definitions are returned once");

    let desk = AgentBundle::compile(&texts[0].elements[0], &DefinitionIndex::from_patterns(&texts)).unwrap();
    assert_eq!(desk.tools[0].ref_name.as_str(), "lookUp");
    let found = reference_relations(&texts);
    assert_eq!(found.iter().map(print).collect::<String>(), "(clerk)-[:DELEGATES_TO]->(desk)\n");
}

#[test]
fn error_has_the_path_of_the_invalid_element() {
    let texts =
        [parse("(a)-->(b)").unwrap(), parse(&format!("(x) {}", HELLO.replace("sideEffects", "effects"))).unwrap()];
    let errors = read_all(&texts).unwrap_err();
    let locations: Vec<_> = errors.iter().map(|(text, error)| (*text, error.path.as_slice())).collect();
    assert_eq!(locations, [(1, [1, 0].as_slice())]);
}

#[test]
fn schema_that_a_signature_cannot_express_is_preserved() {
    let schema = json!({ "type": "object", "properties": { "q": { "type": "string", "minLength": 2 }, "n": { "type": ["integer", "null"] } }, "additionalProperties": false });
    let tool: ToolDefinition = serde_json::from_value(
        json!({ "refName": "t", "toolType": "FUNCTION", "description": "d", "inputJsonSchema": schema }),
    )
    .unwrap();
    let text = print(&write_tool(&tool));
    assert!(
        text.contains("(q::String)==>(n::Integer)==>(::Object)"),
        "the signature still shows the parameters: {text}"
    );
    assert_eq!(read_tool(&parse(&text).unwrap()).unwrap().effective_input_schema(), schema);
}

#[test]
fn model_text_is_split_into_provider_and_model_name() {
    for (model, llm) in [
        ("OpenAI/gpt-4o", json!({ "provider": "OpenAI", "model": "gpt-4o" })),
        ("together/meta-llama/3", json!({ "provider": "together", "model": "meta-llama/3" })),
        ("gpt-4o", json!({ "model": "gpt-4o" })),
        ("default", json!({})),
    ] {
        let text = format!("[a:Agent {{instruction: \"x\", model: \"{model}\"}}]");
        let read = agent(&text).unwrap().definition;
        assert_eq!(serde_json::to_value(&read.llm_config).unwrap(), llm, "{model}");
        assert_eq!(write_agent(&read).get("model").and_then(|model| model.as_text()), Some(model));
    }
    // The property `llmConfig.provider` overrides the provider in `model`, so an agent can use another provider without
    // changing `model`.
    let scripted =
        agent(&HELLO.replace("policy.maxToolCalls: 5", "llmConfig.provider: \"scripted\"")).unwrap().definition;
    assert_eq!(
        (scripted.llm_config.provider.as_deref(), scripted.llm_config.model.as_deref()),
        (Some("scripted"), Some("gpt-3.5-turbo"))
    );
    let exact: Value = serde_json::to_value(&scripted.llm_config).unwrap();
    assert_eq!(exact, json!({ "provider": "scripted", "model": "gpt-3.5-turbo" }));
}
