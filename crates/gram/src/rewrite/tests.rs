//! Tests that a rewrite makes exactly the requested changes and preserves layout and comments.

use proptest::prelude::*;

use super::*;

#[allow(dead_code, reason = "shared with the grammar tests")]
#[path = "../../tests/grammar/generate.rs"]
mod generate;

fn rewrite(query: &str, changes: &str) -> Rewrite {
    Rewrite::parse(Query::parse(query).unwrap(), changes).unwrap()
}

/// Returns `text` after applying `changes` to the items that `query` finds.
fn after(text: &str, query: &str, changes: &str) -> String {
    rewrite(query, changes).apply(&[text], &[]).unwrap().remove(0).text
}

/// Applies the changes to a parsed pattern instead of the text. Returns the new pattern and the number of changed
/// items.
fn rewrite_pattern(rewrite: &Rewrite, text: &Pattern) -> (Pattern, usize) {
    fn visit(pattern: &mut Pattern, found: &BTreeMap<u32, MatchedSubject>, occurrence: &mut u32, changed: &mut usize) {
        if let Some(found) = found.get(occurrence) {
            found.changes.iter().for_each(|change| change.apply(&mut pattern.subject));
            *changed += usize::from(pattern.subject != *found.subject);
        }
        *occurrence += 1;
        pattern.elements.iter_mut().for_each(|element| visit(element, found, occurrence, changed));
    }
    let graph = Graph::from_patterns([text]);
    let found = rewrite.matched_subjects(&graph).unwrap();
    let (mut pattern, mut changed) = (text.clone(), 0);
    visit(&mut pattern, &found, &mut 0, &mut changed);
    (pattern, changed)
}

/// Returns the comments of a text. Comments inside of a property are included only if `inside` is set, because a
/// rewrite that removes the property also removes these comments.
fn comments(text: &str, inside: bool) -> Vec<String> {
    fn properties(node: Node, spans: &mut Vec<std::ops::Range<usize>>) {
        for part in node.nodes() {
            match part.kind() {
                NodeKind::Property => spans.push(part.token_range()),
                _ => properties(part, spans),
            }
        }
    }
    let tree = Tree::parse(text);
    let mut spans = Vec::new();
    properties(tree.root(), &mut spans);
    let comments = tree.tokens().filter(|token| token.kind.is_comment());
    let comments = comments.filter(|token| inside || !spans.iter().any(|span| span.contains(&token.index)));
    comments.map(|token| token.text.trim_end().to_owned()).collect()
}

fn is_subsequence(some: &[String], of: &[String]) -> bool {
    let mut rest = of.iter();
    some.iter().all(|one| rest.any(|other| other == one))
}

fn has_walk(pattern: &Pattern) -> bool {
    pattern.is_walk() || pattern.elements.iter().any(has_walk)
}

const QUERIES: [&str; 5] = ["(x)", "(x:A)", "(x:Agent)", "({k:: present}) (x)", "(x)-[y]->(z)"];
const CHANGES: [&str; 6] = [
    "(x {new: \"v\"})",
    "(x:New:`two words`)",
    "(x {k: [1, 2], key:: absent, true:: absent})",
    "(x {k:: absent, `q k`:: absent, \"d k\":: absent, \"\": 7})",
    "@@not (x:A:Agent:`two words`:true:Gram.Root:L)",
    "(x:New {k:: absent, `a b`: md`t`}) @@not (x:A)",
];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2048))]

    #[test]
    fn rewritten_text_parses_to_the_rewritten_pattern(
        seed in any::<u64>(),
        query in prop::sample::select(&QUERIES[..]),
        changes in prop::sample::select(&CHANGES[..]),
    ) {
        let text = generate::document(&mut generate::Random::new(seed));
        let Ok(pattern) = crate::parse(&text) else { return Ok(()) };
        let rewrite = rewrite(query, changes);
        let rewritten = match rewrite.apply(&[&text], &[]) {
            Ok(mut rewritten) => rewritten.remove(0),
            Err(error) => {
                prop_assert_eq!(error, RewriteError::UnwritablePath);
                return Ok(());
            }
        };
        let kept = is_subsequence(&comments(&text, false), &comments(&rewritten.text, true));
        prop_assert!(kept, "{:?} became {:?}", text, rewritten.text);
        if rewritten.changed == 0 {
            prop_assert_eq!(&rewritten.text, &text);
        }
        let again = crate::parse(&rewritten.text);
        prop_assert!(again.is_ok(), "{:?} became {:?}: {}", text, rewritten.text, again.unwrap_err());
        // Walks are not compared, because a node between two arrows is written once in the text, but occurs twice in
        // the pattern.
        if !has_walk(&pattern) {
            let (expected, changed) = rewrite_pattern(&rewrite, &pattern);
            prop_assert_eq!(again.unwrap(), expected, "{:?} became {:?}", text, rewritten.text);
            prop_assert_eq!(rewritten.changed, changed);
        }
    }
}

const TOOL: &str = r#"// Before.
[store:Tool {   // about the record
  description:   'Stores', // about the description
  // about the effect
  effect: writes,
  limits: [ 1,2 ] // about limits
} |
  (id::Int)==>( :: Boolean )   // about the signature
]


(other)   // After.
"#;

#[test]
fn new_property_after_a_removed_property_is_not_written_into_a_preceding_line_comment() {
    let changed = after("(x {a: 1, // first\nold: /** second */ 2\n})", "(x)", "(x {new: 3, old:: absent})");
    assert_eq!(changed, "(x {a: 1, // first\nnew: 3\n})");
}

#[test]
fn changing_a_value_keeps_comments_and_layout() {
    let changed = after(TOOL, "(t:Tool)", "(t {effect: \"reads\", limits: [3, 4]})");
    assert_eq!(changed, TOOL.replace("writes", "\"reads\"").replace("[ 1,2 ]", "[3, 4]"));
}

#[test]
fn setting_the_same_value_does_not_change_the_text() {
    assert_eq!(after(TOOL, "(t:Tool)", "(t {description: \"Stores\", limits: [1, 2]})"), TOOL);
    assert_eq!(after("(a {k: 0x1F})", "(a)", "(a {k: 31})"), "(a {k: 0x1F})");
}

#[test]
fn line_comment_before_two_removed_properties_stays_on_its_own_line() {
    let text = "(a {// first\nkey: 1,\nkey: 2 ,// second\nk: 3})";
    assert_eq!(after(text, "(a)", "(a {key:: absent})"), "(a {// first\n// second\nk: 3})");
}

#[test]
fn removing_a_property_removes_its_line_and_keeps_comments() {
    let cases = [
        ("effect", "\n  effect: writes,", ""),
        ("limits", "writes,\n  limits: [ 1,2 ] //", "writes\n  //"),
        ("description", "description:   'Stores', //", "//"),
    ];
    for (key, from, to) in cases {
        let changed = after(TOOL, "(t:Tool)", &format!("(t {{{key}:: absent}})"));
        assert_eq!(changed, TOOL.replace(from, to), "{key}");
    }
}

#[test]
fn removing_a_property_removes_one_comma() {
    for (text, key, expected) in [
        ("(a {k: 1, l: 2, m: 3})", "k", "(a {l: 2, m: 3})"),
        ("(a {k: 1, l: 2, m: 3})", "l", "(a {k: 1, m: 3})"),
        ("(a {k: 1, l: 2, m: 3})", "m", "(a {k: 1, l: 2})"),
        ("(a { k: 1 , l: 2 })", "k", "(a { l: 2 })"),
        ("(a { k: 1 , l: 2 })", "l", "(a { k: 1  })"),
        ("(a {k: 1})", "k", "(a)"),
        ("[a {k: 1}]", "k", "[a]"),
        ("({k: 1})", "k", "()"),
        ("(a { /** c */ k: 1})", "k", "(a { /** c */})"),
        ("(a {k: 1, // c\n l: 2})", "l", "(a {k: 1 // c\n })"),
        ("(a {k: 1, k: 2, l: 3})", "k", "(a {l: 3})"),
        ("(a {\r\n  k: 1,\r\n  l: 2\r\n})", "k", "(a {\r\n  l: 2\r\n})"),
        ("(a {\r\n  k: 1,\r\n  l: 2\r\n})", "l", "(a {\r\n  k: 1\r\n})"),
    ] {
        assert_eq!(after(text, "(x)", &format!("(x {{{key}:: absent}})")), expected, "{text}");
    }
    let several = "(x {k:: absent, l:: absent, n: 4})";
    assert_eq!(after("(a {k: 1, l: 2, m: 3})", "(x)", several), "(a {m: 3, n: 4})");
    assert_eq!(after("(a {k: 1, l: 2})", "(x)", several), "(a {n: 4})");
    assert_eq!(after("(a {m: 3, k: 1, l: 2})", "(x)", several), "(a {m: 3, n: 4})");
}

#[test]
fn new_property_is_appended_with_the_layout_of_the_last_property() {
    let changed = after(TOOL, "(t:Tool)", "(t {checked: true, `by whom`: me})");
    let (from, to) = ("[ 1,2 ] // about limits\n", "[ 1,2 ], // about limits\n  `by whom`: me,\n  checked: true\n");
    assert_eq!(changed, TOOL.replace(from, to));
    for (text, expected) in [
        ("(a)", "(a {n: 1})"),
        ("()", "({n: 1})"),
        ("[]", "[{n: 1}]"),
        ("[| (b) ]", "[{n: 1} | (b) ]"),
        ("(a:L)", "(a:L {n: 1})"),
        ("(a {})", "(a {n: 1})"),
        ("(a {/** c */ })", "(a {n: 1 /** c */ })"),
        ("(a {k: 1})", "(a {k: 1, n: 1})"),
        ("(a {k: 1 // c\n})", "(a {k: 1, // c\nn: 1\n})"),
        ("(a {k: 1 /** c */})", "(a {k: 1, /** c */ n: 1})"),
        ("(a {\r\n\tk: 1 // c\r\n})", "(a {\r\n\tk: 1, // c\r\n\tn: 1\r\n})"),
    ] {
        assert_eq!(after(text, "(x) @@not [| (x)] @@not (x:Other)", "(x {n: 1})"), expected, "{text}");
    }
}

#[test]
fn adding_and_removing_labels_preserves_comments_and_other_labels() {
    for (text, expected) in [
        ("(a)", "(a:New)"),
        ("(a:Old)", "(a:New)"),
        ("(a :Old {k: 1})", "(a:New {k: 1})"),
        ("(a::Old::B)", "(a::B::New)"),
        ("(:Old {k: 1})", "(:New {k: 1})"),
        ("({k: 1})", "(:New {k: 1})"),
        ("(a: /** c */ Old)", "(a /** c */ :New)"),
        ("[|b]", "[:New |b]"),
    ] {
        assert_eq!(after(text, "(x) @@not [| (x)]", "(x:New) @@not (x:Old)"), expected, "{text}");
    }
    assert_eq!(after("(:Old {k: 1})", "(x)", "@@not (x:Old)"), "({k: 1})");
    assert_eq!(after("(a:`to go`:B // c\n)", "(x)", "@@not (x:`to go`)"), "(a:B // c\n)");
}

#[test]
fn properties_can_be_added_to_arrows_and_references_and_annotated_patterns() {
    let relation = |text| after(text, "(a)-[r]-(b)", "(r {w: 1})");
    assert_eq!(relation("(a)-->(b)"), "(a)-[{w: 1}]->(b)");
    assert_eq!(relation("(a)<--(b)"), "(a)<-[{w: 1}]-(b)");
    assert_eq!(relation("(a) <==> (b)"), "(a) <=[{w: 1}]=> (b)");
    assert_eq!(relation("(a)-[]->(b)"), "(a)-[{w: 1}]->(b)");
    assert_eq!(relation("(a)-[ :R ]->(b)"), "(a)-[ :R {w: 1} ]->(b)");
    assert_eq!(
        after("[a | b , c, d]", "[`a` | (x)]", "(x:B {k: 1})"),
        "[a | (b:B {k: 1}) , (c:B {k: 1}), (d:B {k: 1})]"
    );
    let wrapper = |text, changes| after(text, "[x | (:L)]", changes);
    assert_eq!(wrapper("@k(1) // c\n(a:L)", "(x {k: 2, l: \"t\"})"), "// c\n@k(2) @l(\"t\") (a:L)");
    assert_eq!(wrapper("@@i:M @k(1) (a:L)", "(x:N) @@not (x:M)"), "@@i:N @k(1) (a:L)");
    assert_eq!(wrapper("@k(1) [a:L |b]", "(x {k:: absent})"), "[ | [a:L |b]]");
    assert_eq!(wrapper("@k(1) (a:L)", "(x {`no name`: 1})"), "[{k: 1, `no name`: 1} | (a:L)]");
}

#[test]
fn changes_of_a_node_in_two_relations_are_written_once() {
    assert_eq!(after("(a)-->(b:B)-->(c)", "(x:B)", "(x {k: 1})"), "(a)-->(b:B {k: 1})-->(c)");
    let both = after("(a)-->(:B)-->(c)", "(`a`)-->(x) (y)-->(`c`)", "(x {k: 1}) (y {l: 2})");
    assert_eq!(both, "(a)-->(:B {k: 1, l: 2})-->(c)");
    let whole = rewrite("(w:Gram.Walk)", "(w {k: 1})").apply(&["(a)-->(b)-->(c)"], &[]);
    assert_eq!(whole, Err(RewriteError::UnwritablePath));
}

#[test]
fn item_is_changed_only_in_the_document_that_defines_it() {
    let texts = ["[desk:Agent | store] // uses it\n", "(x)\n// defines it\n[store:Tool | (id::Int)==>(::Boolean)]\n"];
    let context = [crate::parse("(boss)-[:DELEGATES]->(desk)").unwrap()];
    let rewrite = rewrite("(`boss`)==>(t:Tool)", "(t {checked: true})");
    let rewritten = rewrite.apply(&texts, &context).unwrap();
    assert_eq!((rewritten[0].text.as_str(), rewritten[0].changed), (texts[0], 0));
    assert_eq!(rewritten[1].text, texts[1].replace("store:Tool", "store:Tool {checked: true}"));
    let wrong = rewrite.apply(&[texts[0], "(a"], &context).unwrap_err();
    assert!(wrong.to_string().starts_with("document 2 is not valid gram: expected `)`"), "{wrong}");
}
