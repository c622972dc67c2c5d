//! Round trips of definitions through gram text.

use proptest::prelude::*;
use toolwright_gram::{DefinitionIndex, Diagnostic, DiagnosticCode, check, format, parse, print};
use toolwright_notation::{AgentBundle, read_tool, write_agent, write_tool};

use crate::generate;

/// Returns the errors of a text. References to undefined tools do not count, because tools are resolved by name when
/// the agent runs.
fn diagnostics(text: &str) -> Vec<Diagnostic> {
    let found = check(text, &DefinitionIndex::default()).into_iter();
    found.filter(|diagnostic| diagnostic.code != DiagnosticCode::UndefinedReference).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn agent_is_unchanged_by_a_gram_round_trip(agent in generate::agents()) {
        let text = print(&write_agent(&agent));
        prop_assert_eq!(diagnostics(&text), Vec::new(), "{}", text);
        let again = AgentBundle::compile(&parse(&text).unwrap(), &DefinitionIndex::default());
        let again = again.map_err(|errors| TestCaseError::fail(format!("{errors:?}\n{text}")))?;
        prop_assert_eq!(serde_json::to_string(&again.definition).unwrap(), serde_json::to_string(&agent).unwrap(), "{}", text);
        prop_assert_eq!(&again.definition, &agent);
        prop_assert_eq!(format(&text).unwrap(), text);
    }

    #[test]
    fn tool_is_unchanged_by_a_gram_round_trip(tool in generate::tools()) {
        let text = print(&write_tool(&tool));
        prop_assert_eq!(diagnostics(&text), Vec::new(), "{}", text);
        let again = read_tool(&parse(&text).unwrap());
        let again = again.map_err(|errors| TestCaseError::fail(format!("{errors:?}\n{text}")))?;
        prop_assert_eq!(&again, &tool, "{}", text);
        prop_assert_eq!(format(&text).unwrap(), text);
    }

    /// Interpreting an agent without unknown properties returns the same definition as compiling the agent.
    #[test]
    fn interpret_returns_the_same_agent_as_compile(agent in generate::agents(), tools in proptest::collection::vec(generate::tools(), 0..3)) {
        let mut pattern = write_agent(&agent);
        let mut seen: std::collections::BTreeSet<String> = pattern.elements.iter().map(|e| e.identity().to_owned()).collect();
        pattern.elements.extend(tools.iter().map(write_tool).filter(|tool| seen.insert(tool.identity().to_owned())));
        let compiled = AgentBundle::compile(&pattern, &DefinitionIndex::default()).unwrap();
        let view = toolwright_gram::AgentSpecView::new(&pattern, &DefinitionIndex::default()).unwrap();
        prop_assert_eq!(AgentBundle::interpret(&view, &DefinitionIndex::default()).unwrap(), compiled);
    }
}
