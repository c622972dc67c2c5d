//! What texts that people write mean.

use serde_json::{Value, json};
use toolwright_gram::{AgentView, Definitions, parse, print};
use toolwright_notation::{Agent, Definition, links, read_all, read_tool, write_agent, write_tool};
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

fn agent(text: &str) -> Result<Agent, Vec<String>> {
    let problems = |problems: Vec<toolwright_notation::Problem>| problems.iter().map(ToString::to_string).collect();
    Agent::compile(&parse(text).unwrap(), &Definitions::default()).map_err(problems)
}

#[test]
fn an_agent_brings_the_tools_it_specifies() {
    let Agent { definition, tools, left_out } = agent(HELLO).unwrap();
    let wanted: AgentDefinition = serde_json::from_value(json!({
        "refName": "hello_world_agent",
        "description": "A friendly agent",
        "systemPrompt": "You are a friendly assistant.",
        "llmConfig": { "provider": "OpenAI", "model": "gpt-3.5-turbo" },
        "toolRefs": ["sayHello", "calculator"],
        "policy": { "maxToolCalls": 5 },
        "memoryConfig": { "strategy": "sliding_window", "maxConversationTurns": 3 },
    }))
    .unwrap();
    assert_eq!(definition, wanted);
    let wanted: ToolDefinition = serde_json::from_value(json!({
        "refName": "sayHello",
        "toolType": "FUNCTION",
        "description": "Returns a friendly greeting",
        "sideEffects": "none",
        "invocation": { "path": "sayHello" },
        "inputJsonSchema": { "type": "object", "properties": { "personName": { "type": "string", "default": "world" } }, "required": [] },
        "outputJsonSchema": { "type": "string" },
    }))
    .unwrap();
    assert_eq!(tools, [wanted]);
    assert!(left_out.is_empty());
}

#[test]
fn canonical_text_uses_one_vocabulary_and_leaves_defaults_out() {
    let text = r#"[find:Tool {description: "Finds", toolType: "FUNCTION", enabled: true, invocation: {path: "find"}} |
        (q::Text)-->(limit::Int {default: 10})-->(::Array {elementType: "Text"})]"#;
    let tool = read_tool(&parse(text).unwrap()).unwrap();
    let canonical = "[find:ToolSpecification {description: \"Finds\"} |\n  (q::String)==>(limit::Integer {default: 10})==>(::Array {elementType: \"String\"})\n]\n";
    assert_eq!(print(&write_tool(&tool)), canonical);
}

#[test]
fn versions_of_tools_stand_apart_so_that_elements_are_names() {
    let mut definition = AgentDefinition::new("a".parse().unwrap());
    definition.tool_refs = vec!["find@^1.2".into(), "crm/get".into()];
    let pattern = write_agent(&definition);
    let names: Vec<&str> = pattern.elements.iter().map(|tool| tool.identity()).collect();
    assert_eq!(names, ["find", "crm/get"]);
    assert!(print(&pattern).contains("toolVersions: {find: \"^1.2\"}"), "{}", print(&pattern));
}

#[test]
fn what_nobody_knows_is_refused_by_one_reading_and_left_out_by_the_other() {
    let text =
        HELLO.replace("sideEffects: none", "mood: \"sunny\"").replace("policy.maxToolCalls: 5", "policy.mood: 1");
    let problems = agent(&text).unwrap_err();
    assert_eq!(
        problems,
        [
            "property `mood` of tool `sayHello` is not known",
            "property `policy.mood` of agent `hello_world_agent` is not known"
        ]
    );
    let pattern = parse(&text).unwrap();
    let view = AgentView::new(&pattern, &Definitions::default()).unwrap();
    let interpreted = Agent::interpret(&view, &Definitions::default()).unwrap();
    assert_eq!(interpreted.tools.len(), 1);
    assert_eq!(
        interpreted.left_out,
        ["property `mood` of tool `sayHello`", "property `policy.mood` of agent `hello_world_agent`"]
    );
}

#[test]
fn what_is_known_and_wrong_is_refused_by_both() {
    for (given, because) in [
        ("policy.maxToolCalls: \"five\"", "property `policy.maxToolCalls` of agent"),
        ("requiresApproval: 1..2", "is a range"),
        ("requiresApproval: yes", "property `requiresApproval` of agent"),
        ("guardrails: json`[{`", "is not JSON"),
        ("toolVersions: {nothing: \"1\"}", "which is none of its tools"),
        ("exact: 7", "is a JSON object"),
    ] {
        let text = HELLO.replace("policy.maxToolCalls: 5", given);
        let problems = agent(&text).unwrap_err();
        assert!(problems.iter().any(|problem| problem.contains(because)), "{given}: {problems:?}");
        let pattern = parse(&text).unwrap();
        let view = AgentView::new(&pattern, &Definitions::default()).unwrap();
        assert!(Agent::interpret(&view, &Definitions::default()).is_err(), "{given}");
    }
}

#[test]
fn texts_share_their_tools() {
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
            Definition::Agent(agent) => (defined.text, agent.ref_name.as_str()),
            Definition::Tool(tool) => (defined.text, tool.ref_name.as_str()),
        })
        .collect();
    assert_eq!(names, [(0, "desk"), (0, "clerk"), (0, "store"), (1, "lookUp")], "a tool defined twice alike is one");

    let desk = Agent::compile(&texts[0].elements[0], &Definitions::of(&texts)).unwrap();
    assert_eq!(desk.tools[0].ref_name.as_str(), "lookUp");
    let found = links(&texts);
    assert_eq!(found.iter().map(print).collect::<String>(), "(clerk)-[:DELEGATES_TO]->(desk)\n");
}

#[test]
fn problems_lead_to_their_place() {
    let texts =
        [parse("(a)-->(b)").unwrap(), parse(&format!("(x) {}", HELLO.replace("sideEffects", "effects"))).unwrap()];
    let problems = read_all(&texts).unwrap_err();
    let places: Vec<_> = problems.iter().map(|(text, problem)| (*text, problem.path.as_slice())).collect();
    assert_eq!(places, [(1, [1, 0].as_slice())]);
}

#[test]
fn a_schema_that_no_signature_says_is_carried_whole() {
    let schema = json!({ "type": "object", "properties": { "q": { "type": "string", "minLength": 2 }, "n": { "type": ["integer", "null"] } }, "additionalProperties": false });
    let tool: ToolDefinition = serde_json::from_value(
        json!({ "refName": "t", "toolType": "FUNCTION", "description": "d", "inputJsonSchema": schema }),
    )
    .unwrap();
    let text = print(&write_tool(&tool));
    assert!(text.contains("(q::String)==>(n::Integer)==>(::Object)"), "readers still see the parameters: {text}");
    assert_eq!(read_tool(&parse(&text).unwrap()).unwrap().effective_input_schema(), schema);
}

#[test]
fn the_model_is_one_word_or_two() {
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
    // A property says more than the word: the text of someone else runs on rules without being rewritten.
    let scripted =
        agent(&HELLO.replace("policy.maxToolCalls: 5", "llmConfig.provider: \"scripted\"")).unwrap().definition;
    assert_eq!(
        (scripted.llm_config.provider.as_deref(), scripted.llm_config.model.as_deref()),
        (Some("scripted"), Some("gpt-3.5-turbo"))
    );
    let exact: Value = serde_json::to_value(&scripted.llm_config).unwrap();
    assert_eq!(exact, json!({ "provider": "scripted", "model": "gpt-3.5-turbo" }));
}
