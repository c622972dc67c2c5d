//! Checks three laws of getters and setters. A getter returns the value that was set. Setting the current value changes
//! nothing. If two values are set one after the other, only the second has an effect.

use proptest::prelude::*;
use toolwright_gram::{
    AgentBuilder, AgentSpecView, DefinitionIndex, Pattern, Scalar, Signature, Symbol, ToolSpecView, Value, parse,
};

use crate::strategies::{properties, text};

fn non_empty_text() -> impl Strategy<Value = String> {
    text().prop_filter("not empty", |text| !text.is_empty())
}

/// A plain or tagged string.
fn text_value() -> impl Strategy<Value = Value> {
    (non_empty_text(), any::<bool>()).prop_map(|(content, is_tagged)| match Symbol::new("md").filter(|_| is_tagged) {
        Some(tag) => Value::Scalar(Scalar::Tagged { tag, content }),
        None => Value::from(content),
    })
}

fn signature() -> impl Strategy<Value = Pattern> {
    let texts = [
        "(p::Text)==>(::String)",
        "()==>(::Int)",
        "(a::Int {default: 1})==>(b::Bool)==>(::String)",
        "[ | (p::Text), (::Text)]",
    ];
    prop::sample::select(texts.to_vec()).prop_map(|text| parse(text).unwrap())
}

fn tool() -> impl Strategy<Value = Pattern> {
    let label = prop::sample::select(&["Tool", "ToolSpecification"][..]);
    (non_empty_text(), label, text_value(), properties(), signature()).prop_map(
        |(name, label, description, more, signature)| {
            let mut pattern = Pattern::named(name).label(label).element(signature);
            pattern.subject.properties = more;
            pattern.property("description", description)
        },
    )
}

fn tools() -> impl Strategy<Value = Vec<Pattern>> {
    prop::collection::btree_map(non_empty_text(), tool(), 0..4).prop_map(|tools| {
        let named = tools.into_iter().map(|(name, mut tool)| {
            tool.subject.identity = name;
            tool
        });
        named.collect()
    })
}

fn agent() -> impl Strategy<Value = Pattern> {
    let description = prop::option::of(text_value());
    (non_empty_text(), text_value(), text_value(), description, properties(), tools()).prop_map(
        |(name, model, instruction, description, more, tools)| {
            let mut pattern = Pattern::named(name).label("Agent");
            pattern.subject.properties = more;
            pattern.subject.properties.remove("description");
            pattern.elements = tools;
            let pattern = pattern.property("model", model).property("instruction", instruction);
            match description {
                Some(description) => pattern.property("description", description),
                None => pattern,
            }
        },
    )
}

/// Checks the three laws for one property of an agent.
macro_rules! agent_laws {
    ($law:ident, $values:expr, $get:expr, $set:expr) => {
        proptest! {
            #[test]
            fn $law(pattern in agent(), one in $values, other in $values) {
                let known = DefinitionIndex::default();
                let mut view = AgentSpecView::new(pattern.clone(), &known).unwrap();
                let before = $get(&view);
                $set(&mut view, before);
                prop_assert_eq!(view.pattern(), &pattern);

                $set(&mut view, other);
                $set(&mut view, one.clone());
                prop_assert_eq!($get(&view), one.clone());

                let mut at_once = AgentSpecView::new(pattern, &known).unwrap();
                $set(&mut at_once, one);
                prop_assert_eq!(view.pattern(), at_once.pattern());
                prop_assert!(AgentSpecView::new(view.pattern(), &known).is_ok());
            }
        }
    };
}

type Agent = AgentSpecView<Pattern>;

agent_laws!(
    agent_name_is_the_one_that_was_set_last,
    non_empty_text(),
    |view: &Agent| view.name().to_owned(),
    |view: &mut Agent, name: String| view.set_name(&name).unwrap()
);
agent_laws!(
    agent_model_is_the_one_that_was_set_last,
    non_empty_text(),
    |view: &Agent| view.model().to_owned(),
    |view: &mut Agent, model: String| view.set_model(&model).unwrap()
);
agent_laws!(
    agent_instruction_is_the_one_that_was_set_last,
    non_empty_text(),
    |view: &Agent| view.instruction().to_owned(),
    |view: &mut Agent, instruction: String| view.set_instruction(&instruction).unwrap()
);
agent_laws!(
    agent_description_is_the_one_that_was_set_last,
    non_empty_text().prop_map(Some),
    |view: &Agent| view.description().map(str::to_owned),
    |view: &mut Agent, description: Option<String>| view.set_description(description.as_deref())
);
agent_laws!(
    agent_tools_are_the_ones_that_were_set_last,
    tools(),
    |view: &Agent| view.tools().cloned().collect::<Vec<_>>(),
    |view: &mut Agent, tools: Vec<Pattern>| view.set_tools(tools).unwrap()
);

proptest! {
    #[test]
    fn name_and_description_of_a_tool_are_the_ones_that_were_set_last(pattern in tool(), one in non_empty_text(), other in non_empty_text()) {
        let mut view = ToolSpecView::new(pattern.clone()).unwrap();
        let (name, description) = (view.name().to_owned(), view.description().to_owned());
        view.set_name(&name).unwrap();
        view.set_description(&description).unwrap();
        prop_assert_eq!(view.pattern(), &pattern);

        for text in [&other, &one] {
            view.set_name(text).unwrap();
            view.set_description(text).unwrap();
        }
        prop_assert_eq!((view.name(), view.description()), (one.as_str(), one.as_str()));
        let mut at_once = ToolSpecView::new(pattern).unwrap();
        at_once.set_name(&one).unwrap();
        at_once.set_description(&one).unwrap();
        prop_assert_eq!(view.pattern(), at_once.pattern());
    }

    #[test]
    fn signature_of_a_tool_is_the_one_that_was_set_last(pattern in tool(), one in signature(), other in signature()) {
        let mut view = ToolSpecView::new(pattern.clone()).unwrap();
        let before = view.signature_pattern().unwrap().clone();
        view.set_signature_pattern(before).unwrap();
        prop_assert_eq!(view.pattern(), &pattern);

        view.set_signature_pattern(other).unwrap();
        view.set_signature_pattern(one.clone()).unwrap();
        prop_assert_eq!(view.signature_pattern(), Some(&one));
        prop_assert_eq!(view.schema().unwrap(), Signature::from_pattern(&one).unwrap().to_schema());
        prop_assert_eq!(Signature::parse(&view.signature_text()).unwrap(), view.signature().unwrap());
    }

    #[test]
    fn built_agent_has_the_values_set_in_the_builder(name in non_empty_text(), model in non_empty_text(), tools in tools()) {
        let builder = AgentBuilder { name: name.clone(), model: model.clone(), instruction: "i".to_owned(), description: None, tools: tools.clone() };
        let agent = builder.build().unwrap();
        prop_assert_eq!((agent.name(), agent.model()), (name.as_str(), model.as_str()));
        prop_assert!(agent.tools().eq(&tools));
    }
}
