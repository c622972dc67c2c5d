//! Agents, tools and what a run leaves behind.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "helpers of tests")]

use serde_json::json;
use toolwright_gram::{
    AgentParts, AgentResponse, AgentView, Code, ConversationContext, Definitions, Flaw, Message, Pattern, Role,
    Signature, ToolInvocation, ToolSpecParts, ToolSpecView, check, parse, print, validate_agent, validate_tool,
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

fn problems(text: &str) -> Vec<String> {
    let pattern = parse(text).unwrap();
    let problems = validate_agent(&pattern, &Definitions::of([&pattern]));
    problems.iter().map(ToString::to_string).collect()
}

#[test]
fn the_hello_world_agent_is_one() {
    let pattern = parse(HELLO).unwrap();
    let agent = AgentView::new(&pattern, &Definitions::default()).unwrap();
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
fn an_agent_without_tools_is_one_too() {
    assert_eq!(problems("[a:Agent {instruction: \"i\", model: \"m\"}]"), Vec::<String>::new());
}

#[test]
fn what_an_agent_lacks_is_said() {
    let cases = [
        ("[a {instruction: \"i\", model: \"m\"}]", "agent pattern must have the label `Agent`"),
        (
            "[:Agent {instruction: \"i\", model: \"m\"}]",
            "agent must have a name: an identifier before its label, as in `[name:Agent …]`",
        ),
        ("[a:Agent {model: \"m\"}]", "agent `a` must have the property `instruction`"),
        ("[a:Agent {instruction: \"i\"}]", "agent `a` must have the property `model`"),
        ("[a:Agent {instruction: \"\", model: \"m\"}]", "property `instruction` of `a` must not be empty"),
        ("[a:Agent {instruction: \"i\", model: m}]", "property `model` of `a` must be a string; put it in quotes"),
        (
            "[a:Agent {instruction: \"i\", model: \"m\"} | (t:Thing)]",
            "element `(t:Thing)` of agent `a` must be a tool: give it the label `ToolSpecification` or `Tool`",
        ),
        ("[a:Agent {instruction: \"i\", model: \"m\"} | t, t]", "agent `a` has two tools of the name `t`"),
    ];
    for (text, expected) in cases {
        assert_eq!(problems(text), [expected], "{text}");
    }
    assert_eq!(problems("(a)").len(), 3, "all problems are listed");
}

#[test]
fn what_a_tool_lacks_is_said() {
    let said = |text: &str| {
        let pattern = parse(text).unwrap();
        let found = validate_tool(&pattern);
        found.iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    let signature = "(p::Text)==>(::String)";
    assert_eq!(said(&format!("[t:Tool {{description: \"d\"}} | {signature}]")), Vec::<String>::new());
    let cases = [
        (
            format!("[t {{description: \"d\"}} | {signature}]"),
            "tool pattern must have the label `ToolSpecification` or `Tool`",
        ),
        (
            format!("[:Tool {{description: \"d\"}} | {signature}]"),
            "tool must have a name: an identifier before its label, as in `[name:ToolSpecification …]`",
        ),
        (format!("[t:Tool | {signature}]"), "tool `t` must have the property `description`"),
        (format!("[t:Tool {{description: \"\"}} | {signature}]"), "property `description` of `t` must not be empty"),
        (
            "[t:Tool {description: \"d\"}]".to_owned(),
            "tool `t` must have exactly one element, its type signature, not 0",
        ),
        (
            format!("[t:Tool {{description: \"d\"}} | {signature}, {signature}]"),
            "tool `t` must have exactly one element, its type signature, not 2",
        ),
        (
            "[t:Tool {description: \"d\"} | (::Text)==>(::String)]".to_owned(),
            "tool `t`: parameter 1 has no name; write `(name::Text)`",
        ),
    ];
    for (text, expected) in cases {
        assert_eq!(said(&text), [expected], "{text}");
    }
}

#[test]
fn a_check_shows_the_element_that_is_wrong() {
    let text = "// two\n(x)\n[a:Agent {instruction: \"i\", model: \"m\"} |\n  shared,\n  [t:Tool {description: \"d\"} | (p::Text)==>(q::Txt)==>(::String)]\n]\n@k(1) [shared:Tool | (p::Text)==>(::String)]";
    let found = check(text, &Definitions::default());
    let shown: Vec<(Code, &str, String)> =
        found.iter().map(|mistake| (mistake.code, mistake.span.of(text), mistake.position.to_string())).collect();
    assert_eq!(
        shown,
        [
            (Code::InvalidSignature, "(p::Text)==>(q::Txt)==>(::String)", "5:32".to_owned()),
            (Code::InvalidTool, "[shared:Tool | (p::Text)==>(::String)]", "7:7".to_owned()),
        ]
    );
    let json = serde_json::to_value(&found[0]).unwrap();
    assert_eq!((&json["code"], &json["line"], &json["column"]), (&json!("invalid-signature"), &json!(5), &json!(32)));
}

#[test]
fn a_reference_must_lead_to_a_tool() {
    let agent = "[a:Agent {instruction: \"i\", model: \"m\"} | t]";
    let tool = "[t:Tool {description: \"d\"} | (p::Text)==>(::String)]";
    let text = parse(&format!("{agent} {tool}")).unwrap();
    assert!(AgentView::new(&text.elements[0], &Definitions::of([&text])).is_ok());
    let text = parse(&format!("{agent} [t:Thing]")).unwrap();
    let found = AgentView::new(&text.elements[0], &Definitions::of([&text])).unwrap_err();
    assert!(matches!(&found[0].flaw, Flaw::NotATool { .. }) && found[0].path == [0]);
}

#[test]
fn setters_keep_the_form() {
    let mut pattern = parse(HELLO).unwrap();
    let mut agent = AgentView::new(&mut pattern, &Definitions::default()).unwrap();
    assert!(agent.set_name("").is_err() && agent.set_model("").is_err() && agent.set_instruction("").is_err());
    assert!(agent.set_tools(vec![Pattern::named("x").label("Thing")]).is_err());
    agent.set_tools(vec![Pattern::named("shared")]).unwrap();
    agent.set_description(None);
    agent.set_name("other").unwrap();
    assert!(print(&pattern).starts_with("[other:Agent {\n  instruction:"));
    assert!(print(&pattern).ends_with("} |\n  shared\n]\n"), "{}", print(&pattern));
}

#[test]
fn parts_make_what_the_notation_says() {
    let signature = Signature::parse("(personName::Text)==>(::String)").unwrap();
    let description = "Returns a friendly greeting message for the given name".to_owned();
    let tool = ToolSpecParts { name: "sayHello".to_owned(), description, signature }.build().unwrap();
    let agent = AgentParts {
        name: "a".to_owned(),
        model: "m".to_owned(),
        instruction: "i".to_owned(),
        tools: vec![tool.pattern().clone()],
        ..AgentParts::default()
    };
    let built = agent.build().unwrap();
    let text = "[a:Agent {instruction: \"i\", model: \"m\"} | [sayHello:ToolSpecification {description: \"Returns a friendly \
                greeting message for the given name\"} | (personName::String)==>(::String)]]";
    assert_eq!(*built.pattern(), parse(text).unwrap());
    assert!(AgentParts::default().build().is_err());
}

#[test]
fn responses_are_patterns_and_json() {
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
fn a_pattern_that_is_no_response_says_why() {
    let refused = |text: &str| AgentResponse::try_from(&parse(text).unwrap()).unwrap_err().to_string();
    assert_eq!(refused("(a)"), "pattern must have the label `AgentResponse`");
    assert_eq!(refused("(:AgentResponse)"), "property `content` must be a string");
    let invocation =
        "[:AgentResponse {content: \"\"} | (:ToolInvocation {toolName: \"t\", args: \"{\", result: \"1\"})]";
    assert_eq!(refused(invocation), "property `args` must be JSON in a string");
    assert_eq!(
        refused("[:AgentResponse {content: \"\"} | (:ToolInvocation {toolName: \"t\", args: \"1\"})]"),
        "an invocation has either a `result` or an `error`"
    );
}

#[test]
fn what_was_said_is_a_pattern_and_a_tool_is_a_function() {
    let message = |role: Role, content: &str| Message { role, content: content.into() };
    let context = ConversationContext {
        messages: vec![
            message(Role::System, "Be kind."),
            message(Role::User, "Greet \"World\"\nplease"),
            message(Role::Function { name: "sayHello".into() }, "Hello, World!"),
            message(Role::Assistant, "Done."),
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
