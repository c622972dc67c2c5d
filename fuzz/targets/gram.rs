//! Gram texts: parsed, printed, laid out, checked, queried, rewritten and read as definitions.
#![no_main]

use libfuzzer_sys::fuzz_target;
use toolwright_gram::{
    Definitions, Diagnostic, Graph, Pattern, Query, Rewrite, Signature, Tree, check, decode, diff, format, parse, print,
    tokens,
};
use toolwright_notation::{Definition, links, read_all, read_tool, write_agent, write_tool};

fuzz_target!(|bytes: &[u8]| {
    let Ok(text) = decode(bytes) else { return };
    let tree = Tree::parse(text);
    assert_eq!(tree.tokens().map(|token| token.text).collect::<String>(), text, "nothing is lost");
    let _ = tokens(text);
    for mistake in check(text, &Definitions::default()) {
        mistake_is_in(&mistake, text);
    }
    let Ok(pattern) = parse(text) else { return };
    same_when_printed(&pattern);
    let laid_out = format(text).expect("what parses can be laid out");
    assert_eq!(parse(&laid_out).expect("layout is no change"), pattern);
    assert_eq!(format(&laid_out).expect("again"), laid_out, "laying out twice changes nothing");
    let json = serde_json::to_value(&pattern).expect("a pattern is JSON");
    assert_eq!(serde_json::from_value::<Pattern>(json).expect("and back"), pattern);
    if let Ok(signature) = Signature::parse(text) {
        let again = Signature::parse(&signature.to_string()).expect("a signature prints one");
        assert_eq!(again.to_schema(), signature.to_schema());
    }
    ask(text, &pattern);
    define(&pattern);
});

fn mistake_is_in(mistake: &Diagnostic, text: &str) {
    assert!(mistake.span.end <= text.len().max(mistake.span.start));
    let _ = mistake.render(text);
}

fn same_when_printed(pattern: &Pattern) {
    let printed = print(pattern);
    let again = parse(&printed).expect("what is printed can be read");
    assert_eq!(again, *pattern, "{printed}");
    assert!(diff(pattern, &again).is_empty());
}

/// The text is a query of itself and of what it links, and is rewritten.
fn ask(text: &str, pattern: &Pattern) {
    let linked = links([pattern]);
    let graph = Graph::of(linked.iter().chain([pattern]));
    if let Ok(query) = Query::parse(text) {
        let _ = query.run(&graph);
        if let Ok(rewrite) = Rewrite::parse(query, text) {
            rewritten(&rewrite, text);
        }
    }
    for (query, changes) in [("(x)", "(x:L {k: 1})"), ("(x {k:: present})", "(x {k:: absent}) @@not (x:L)")] {
        let query = Query::parse(query).expect("it is one");
        rewritten(&Rewrite::parse(query, changes).expect("it is one"), text);
    }
}

/// What is rewritten is gram still, and differs only if something changed.
fn rewritten(rewrite: &Rewrite, text: &str) {
    let Ok(once) = rewrite.apply(&[text], &[]) else { return };
    for once in once {
        assert_eq!(once.changed == 0, once.text == text, "{}", once.text);
        parse(&once.text).expect("a rewritten text is gram");
    }
}

/// What the text defines is the same when it is written and read again.
fn define(pattern: &Pattern) {
    for defined in read_all(std::slice::from_ref(pattern)).unwrap_or_default() {
        match defined.definition {
            Definition::Tool(tool) => assert_eq!(read_tool(&write_tool(&tool)).expect("it was one"), *tool),
            Definition::Agent(agent) => {
                let again = toolwright_notation::Agent::compile(&write_agent(&agent), &Definitions::default());
                assert_eq!(again.expect("it was one").definition, *agent);
            }
        }
    }
}
