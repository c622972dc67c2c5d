//! JSON → gram → JSON is the identity, through the text.

use proptest::prelude::*;
use toolwright_gram::{Code, Definitions, Diagnostic, check, format, parse, print};
use toolwright_notation::{Agent, read_tool, write_agent, write_tool};

use crate::generate;

/// What is wrong with a text. Tools that it only names are bound by whoever runs the agent.
fn mistakes(text: &str) -> Vec<Diagnostic> {
    let found = check(text, &Definitions::default()).into_iter();
    found.filter(|mistake| mistake.code != Code::UndefinedReference).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn every_agent_survives(agent in generate::agents()) {
        let text = print(&write_agent(&agent));
        prop_assert_eq!(mistakes(&text), Vec::new(), "{}", text);
        let again = Agent::compile(&parse(&text).unwrap(), &Definitions::default());
        let again = again.map_err(|problems| TestCaseError::fail(format!("{problems:?}\n{text}")))?;
        prop_assert_eq!(serde_json::to_string(&again.definition).unwrap(), serde_json::to_string(&agent).unwrap(), "{}", text);
        prop_assert_eq!(&again.definition, &agent);
        prop_assert_eq!(format(&text).unwrap(), text);
    }

    #[test]
    fn every_tool_survives(tool in generate::tools()) {
        let text = print(&write_tool(&tool));
        prop_assert_eq!(mistakes(&text), Vec::new(), "{}", text);
        let again = read_tool(&parse(&text).unwrap());
        let again = again.map_err(|problems| TestCaseError::fail(format!("{problems:?}\n{text}")))?;
        prop_assert_eq!(&again, &tool, "{}", text);
        prop_assert_eq!(format(&text).unwrap(), text);
    }

    /// An interpreted agent is the compiled one wherever there is one.
    #[test]
    fn both_readings_agree(agent in generate::agents(), tools in proptest::collection::vec(generate::tools(), 0..3)) {
        let mut pattern = write_agent(&agent);
        let mut seen: std::collections::BTreeSet<String> = pattern.elements.iter().map(|e| e.identity().to_owned()).collect();
        pattern.elements.extend(tools.iter().map(write_tool).filter(|tool| seen.insert(tool.identity().to_owned())));
        let compiled = Agent::compile(&pattern, &Definitions::default()).unwrap();
        let view = toolwright_gram::AgentView::new(&pattern, &Definitions::default()).unwrap();
        prop_assert_eq!(Agent::interpret(&view, &Definitions::default()).unwrap(), compiled);
    }
}
