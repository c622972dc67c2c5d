//! Parses gram texts, prints, formats, checks, queries and rewrites them, and reads the definitions in them.
#![no_main]

use libfuzzer_sys::fuzz_target;
use toolwright_gram::{
    DefinitionIndex, Diagnostic, Graph, Pattern, Query, Rewrite, Signature, Tree, check, decode, diff, format,
    highlight, parse, print,
};
use toolwright_notation::{ParsedDefinition, read_all, read_tool, reference_relations, write_agent, write_tool};

fuzz_target!(|bytes: &[u8]| {
    let Ok(text) = decode(bytes) else { return };
    let tree = Tree::parse(text);
    assert_eq!(tree.tokens().map(|token| token.text).collect::<String>(), text, "the tokens must cover the text");
    let _ = highlight(text);
    for diagnostic in check(text, &DefinitionIndex::default()) {
        assert_span_is_valid(&diagnostic, text);
    }
    let Ok(pattern) = parse(text) else { return };
    assert_prints_and_parses_alike(&pattern);
    let formatted = format(text).expect("a valid text must format");
    assert_eq!(parse(&formatted).expect("a formatted text must parse"), pattern);
    assert_eq!(format(&formatted).expect("a formatted text must format"), formatted, "formatting must be idempotent");
    let json = serde_json::to_value(&pattern).expect("a pattern must serialize");
    assert_eq!(serde_json::from_value::<Pattern>(json).expect("a serialized pattern must parse"), pattern);
    if let Ok(signature) = Signature::parse(text) {
        let again = Signature::parse(&signature.to_string()).expect("a printed signature must parse");
        assert_eq!(again.to_schema(), signature.to_schema());
    }
    query_and_rewrite(text, &pattern);
    assert_definitions_round_trip(&pattern);
});

fn assert_span_is_valid(diagnostic: &Diagnostic, text: &str) {
    assert!(diagnostic.span.end <= text.len().max(diagnostic.span.start));
    let _ = diagnostic.render(text);
}

fn assert_prints_and_parses_alike(pattern: &Pattern) {
    let printed = print(pattern);
    let again = parse(&printed).expect("a printed pattern must parse");
    assert_eq!(again, *pattern, "{printed}");
    assert!(diff(pattern, &again).is_empty());
}

/// Runs the text as a query on itself and on the relations that stand for its references. Also rewrites the text, with
/// itself as the rewrite and with two fixed rewrites.
fn query_and_rewrite(text: &str, pattern: &Pattern) {
    let linked = reference_relations([pattern]);
    let graph = Graph::from_patterns(linked.iter().chain([pattern]));
    if let Ok(query) = Query::parse(text) {
        let _ = query.run(&graph);
        if let Ok(rewrite) = Rewrite::parse(query, text) {
            assert_rewrite_is_gram(&rewrite, text);
        }
    }
    for (query, changes) in [("(x)", "(x:L {k: 1})"), ("(x {k:: present})", "(x {k:: absent}) @@not (x:L)")] {
        let query = Query::parse(query).expect("a constant must parse");
        assert_rewrite_is_gram(&Rewrite::parse(query, changes).expect("a constant must parse"), text);
    }
}

/// Checks that the rewritten text is valid gram, and that it differs from `text` exactly if an item was changed.
fn assert_rewrite_is_gram(rewrite: &Rewrite, text: &str) {
    let Ok(results) = rewrite.apply(&[text], &[]) else { return };
    for rewritten in results {
        assert_eq!(rewritten.changed == 0, rewritten.text == text, "{}", rewritten.text);
        parse(&rewritten.text).expect("a rewritten text must parse");
    }
}

/// Checks that the definitions in the text are unchanged after they are written as gram and read again.
fn assert_definitions_round_trip(pattern: &Pattern) {
    for parsed in read_all(std::slice::from_ref(pattern)).unwrap_or_default() {
        match parsed.definition {
            ParsedDefinition::Tool(tool) => assert_eq!(read_tool(&write_tool(&tool)).expect("a written tool must parse"), *tool),
            ParsedDefinition::Agent(agent) => {
                let again =
                    toolwright_notation::AgentBundle::compile(&write_agent(&agent), &DefinitionIndex::default());
                assert_eq!(again.expect("a written agent must compile").definition, *agent);
            }
        }
    }
}
