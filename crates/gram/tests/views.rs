//! Tests of agents, tools, responses and conversations.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "test helpers")]

use serde_json::json;
use toolwright_gram::{
    AgentBuilder, AgentResponse, AgentSpecView, ConversationContext, DefinitionIndex, DiagnosticCode, Message,
    MessageRole, Pattern, Signature, ToolInvocation, ToolSpecBuilder, ToolSpecView, ValidationErrorKind, check, parse,
    print, validate_agent, validate_tool,
};

const HELLO: &str = r#"
[hello_world_agent:Agent {
  description: "A friendly agent that uses the sayHello tool to greet users",
  instruction: "You are a friendly assistant. Use the `sayHello` tool to respond with a personalized greeting.",
  model: "OpenAI/gpt-3.5-turbo"
} |
  [sayHello:ToolSpecification {description: "Returns a friendly greeting message for the given name"} |
    (personName::Text)==>(::String)
  ]
]"#;

fn errors(text: &str) -> Vec<String> {
    let pattern = parse(text).unwrap();
    let errors = validate_agent(&pattern, &DefinitionIndex::from_patterns([&pattern]));
    errors.iter().map(ToString::to_string).collect()
}

#[test]
fn view_returns_the_properties_and_tools_of_the_hello_world_agent() {
    let pattern = parse(HELLO).unwrap();
    let agent = AgentSpecView::new(&pattern, &DefinitionIndex::default()).unwrap();
    assert_eq!(agent.name(), "hello_world_agent");
    assert_eq!(agent.description(), Some("A friendly agent that uses the sayHello tool to greet users"));
    assert_eq!(agent.provider_and_model(), (Some("OpenAI"), "gpt-3.5-turbo"));
    assert!(agent.instruction().starts_with("You are a friendly"));

    let tool = ToolSpecView::new(agent.tools().next().unwrap()).unwrap();
    assert_eq!(tool.name(), "sayHello");
    assert_eq!(tool.description(), "Returns a friendly greeting message for the given name");
    assert_eq!(tool.signature_text(), "(personName::Text)==>(::String)");
    let schema =
        json!({"type": "object", "properties": {"personName": {"type": "string"}}, "required": ["personName"]});
    assert_eq!(tool.schema().unwrap(), schema);
}

#[test]
fn agent_without_tools_is_valid() {
    assert_eq!(errors("[a:Agent {instruction: \"i\", model: \"m\"}]"), Vec::<String>::new());
}

#[test]
fn invalid_agent_is_rejected_with_the_reason() {
    let cases = [
        ("[a {instruction: \"i\", model: \"m\"}]", "agent pattern must have the label `Agent`"),
        (
            "[:Agent {instruction: \"i\", model: \"m\"}]",
            "agent must have a name before its label, as in `[name:Agent …]`",
        ),
        ("[a:Agent {model: \"m\"}]", "agent `a` must have the property `instruction`"),
        ("[a:Agent {instruction: \"i\"}]", "agent `a` must have the property `model`"),
        ("[a:Agent {instruction: \"\", model: \"m\"}]", "property `instruction` of `a` must not be empty"),
        ("[a:Agent {instruction: \"i\", model: m}]", "property `model` of `a` must be a string; write it in quotes"),
        (
            "[a:Agent {instruction: \"i\", model: \"m\"} | (t:Thing)]",
            "element `(t:Thing)` of agent `a` must be a tool: give it the label `ToolSpecification` or `Tool`",
        ),
        ("[a:Agent {instruction: \"i\", model: \"m\"} | t, t]", "agent `a` must not have two tools with the name `t`"),
    ];
    for (text, expected) in cases {
        assert_eq!(errors(text), [expected], "{text}");
    }
    assert_eq!(errors("(a)").len(), 3, "all errors are reported");
}

#[test]
fn invalid_tool_is_rejected_with_the_reason() {
    let errors = |text: &str| {
        let pattern = parse(text).unwrap();
        let found = validate_tool(&pattern);
        found.iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    let signature = "(p::Text)==>(::String)";
    assert_eq!(errors(&format!("[t:Tool {{description: \"d\"}} | {signature}]")), Vec::<String>::new());
    let cases = [
        (
            format!("[t {{description: \"d\"}} | {signature}]"),
            "tool pattern must have the label `ToolSpecification` or `Tool`",
        ),
        (
            format!("[:Tool {{description: \"d\"}} | {signature}]"),
            "tool must have a name before its label, as in `[name:ToolSpecification …]`",
        ),
        (format!("[t:Tool | {signature}]"), "tool `t` must have the property `description`"),
        (format!("[t:Tool {{description: \"\"}} | {signature}]"), "property `description` of `t` must not be empty"),
        (
            "[t:Tool {description: \"d\"}]".to_owned(),
            "tool `t` must have exactly one element, its type signature, got 0",
        ),
        (
            format!("[t:Tool {{description: \"d\"}} | {signature}, {signature}]"),
            "tool `t` must have exactly one element, its type signature, got 2",
        ),
        (
            "[t:Tool {description: \"d\"} | (::Text)==>(::String)]".to_owned(),
            "tool `t`: parameter 1 must have a name, as in `(name::Text)`",
        ),
    ];
    for (text, expected) in cases {
        assert_eq!(errors(&text), [expected], "{text}");
    }
}

#[test]
fn check_reports_the_span_of_the_invalid_element() {
    let text = "// two\n(x)\n[a:Agent {instruction: \"i\", model: \"m\"} |\n  shared,\n  [t:Tool {description: \"d\"} | (p::Text)==>(q::Txt)==>(::String)]\n]\n@k(1) [shared:Tool | (p::Text)==>(::String)]";
    let found = check(text, &DefinitionIndex::default());
    let shown: Vec<(DiagnosticCode, &str, String)> =
        found.iter().map(|error| (error.code, error.span.slice(text), error.position.to_string())).collect();
    assert_eq!(
        shown,
        [
            (DiagnosticCode::InvalidSignature, "(p::Text)==>(q::Txt)==>(::String)", "5:32".to_owned()),
            (DiagnosticCode::InvalidTool, "[shared:Tool | (p::Text)==>(::String)]", "7:7".to_owned()),
        ]
    );
    let json = serde_json::to_value(&found[0]).unwrap();
    assert_eq!((&json["code"], &json["line"], &json["column"]), (&json!("invalid-signature"), &json!(5), &json!(32)));
}

#[test]
fn reference_to_a_pattern_that_is_not_a_tool_is_rejected() {
    let agent = "[a:Agent {instruction: \"i\", model: \"m\"} | t]";
    let tool = "[t:Tool {description: \"d\"} | (p::Text)==>(::String)]";
    let text = parse(&format!("{agent} {tool}")).unwrap();
    assert!(AgentSpecView::new(&text.elements[0], &DefinitionIndex::from_patterns([&text])).is_ok());
    let text = parse(&format!("{agent} [t:Thing]")).unwrap();
    let found = AgentSpecView::new(&text.elements[0], &DefinitionIndex::from_patterns([&text])).unwrap_err();
    assert!(matches!(&found[0].kind, ValidationErrorKind::NotATool { .. }) && found[0].path == [0]);
}

#[test]
fn agent_setters_reject_empty_values_and_elements_that_are_not_tools() {
    let mut pattern = parse(HELLO).unwrap();
    let mut agent = AgentSpecView::new(&mut pattern, &DefinitionIndex::default()).unwrap();
    assert!(agent.set_name("").is_err() && agent.set_model("").is_err() && agent.set_instruction("").is_err());
    assert!(agent.set_tools(vec![Pattern::named("x").label("Thing")]).is_err());
    agent.set_tools(vec![Pattern::named("shared")]).unwrap();
    agent.set_description(None);
    agent.set_name("other").unwrap();
    assert!(print(&pattern).starts_with("[other:Agent {\n  instruction:"));
    assert!(print(&pattern).ends_with("} |\n  shared\n]\n"), "{}", print(&pattern));
}

#[test]
fn built_agent_equals_the_parsed_agent() {
    let signature = Signature::parse("(personName::Text)==>(::String)").unwrap();
    let description = "Returns a friendly greeting message for the given name".to_owned();
    let tool = ToolSpecBuilder { name: "sayHello".to_owned(), description, signature }.build().unwrap();
    let agent = AgentBuilder {
        name: "a".to_owned(),
        model: "m".to_owned(),
        instruction: "i".to_owned(),
        tools: vec![tool.pattern().clone()],
        ..AgentBuilder::default()
    };
    let built = agent.build().unwrap();
    let text = "[a:Agent {instruction: \"i\", model: \"m\"} | [sayHello:ToolSpecification {description: \"Returns a friendly \
                greeting message for the given name\"} | (personName::String)==>(::String)]]";
    assert_eq!(*built.pattern(), parse(text).unwrap());
    assert!(AgentBuilder::default().build().is_err());
}

#[test]
fn response_is_unchanged_after_conversion_to_pattern_or_json_and_back() {
    let response = AgentResponse {
        content: "Hello, World! Nice to meet you.".to_owned(),
        tools_used: vec![
            ToolInvocation {
                tool_name: "sayHello".to_owned(),
                args: json!({"personName": "World", "deep": [{"a": [null]}]}),
                result: Ok(json!("Hello, World! Nice to meet you.")),
            },
            ToolInvocation { tool_name: "sayHello".to_owned(), args: json!({}), result: Err("no `name`".to_owned()) },
        ],
    };
    let pattern = Pattern::from(&response);
    assert_eq!(AgentResponse::try_from(&parse(&print(&pattern)).unwrap()).unwrap(), response);

    let json = serde_json::to_value(&response).unwrap();
    assert_eq!(json["tools_used"][0]["result"], json!({"success": "Hello, World! Nice to meet you."}));
    assert_eq!(json["tools_used"][1]["result"], json!({"error": "no `name`"}));
    assert_eq!(serde_json::from_value::<AgentResponse>(json).unwrap(), response);
}

#[test]
fn invalid_response_pattern_is_rejected_with_the_reason() {
    let rejection = |text: &str| AgentResponse::try_from(&parse(text).unwrap()).unwrap_err().to_string();
    assert_eq!(rejection("(a)"), "pattern must have the label `AgentResponse`");
    assert_eq!(rejection("(:AgentResponse)"), "property `content` must be a string");
    let invocation =
        "[:AgentResponse {content: \"\"} | (:ToolInvocation {toolName: \"t\", args: \"{\", result: \"1\"})]";
    assert_eq!(rejection(invocation), "property `args` must be JSON in a string");
    assert_eq!(
        rejection("[:AgentResponse {content: \"\"} | (:ToolInvocation {toolName: \"t\", args: \"1\"})]"),
        "tool invocation must have either a `result` or an `error`"
    );
}

#[test]
fn conversation_is_unchanged_after_conversion_to_a_pattern_and_back() {
    let message = |role: MessageRole, content: &str| Message { role, content: content.into() };
    let context = ConversationContext {
        messages: vec![
            message(MessageRole::System, "Be kind."),
            message(MessageRole::User, "Greet \"World\"\nplease"),
            message(MessageRole::Function { name: "sayHello".into() }, "Hello, World!"),
            message(MessageRole::Assistant, "Done."),
        ],
    };
    let printed = print(&Pattern::from(&context));
    assert!(printed.contains(r#"name: "sayHello""#) && printed.contains(r#"role: "function""#), "{printed}");
    assert_eq!(ConversationContext::try_from(&parse(&printed).unwrap()).unwrap(), context);
    for (wrong, why) in [
        (
            "[:ConversationContext | (:Message {role: \"function\", content: \"x\"})]",
            "property `name` must be a string",
        ),
        ("[:ConversationContext | (:Message {role: \"tool\", content: \"x\"})]", "property `role` must be one of"),
        ("[:ConversationContext | (:Other)]", "pattern must have the label `Message`"),
    ] {
        let error = ConversationContext::try_from(&parse(wrong).unwrap()).unwrap_err().to_string();
        assert!(error.starts_with(why), "{error}");
    }
}
