//! Search quality: how well a query finds the intended tool among a thousand tools.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "tests may panic; the exemption of the lints for tests does not cover helper functions"
)]

use serde_json::json;
use toolwright_tools::{CompiledTool, Library, SearchIndex};
use toolwright_types::{Document, ToolDefinition};

/// Verbs of tool names, their descriptions and their paraphrases.
const VERBS: [(&str, &str, &str); 10] = [
    ("create", "Creates a new", "make a new"),
    ("update", "Changes fields of a", "modify the"),
    ("delete", "Removes a", "get rid of the"),
    ("get", "Reads one", "show me the"),
    ("search", "Finds every", "look for a"),
    ("list", "Lists all", "give me all"),
    ("archive", "Puts away a", "put away the"),
    ("export", "Writes to a file every", "download every"),
    ("assign", "Gives to another owner a", "hand over the"),
    ("approve", "Agrees to a", "say yes to the"),
];
const NOUNS: [(&str, &str); 20] = [
    ("deal", "deals"),
    ("invoice", "invoices"),
    ("order", "orders"),
    ("ticket", "tickets"),
    ("contact", "contacts"),
    ("company", "companies"),
    ("campaign", "campaigns"),
    ("shipment", "shipments"),
    ("refund", "refunds"),
    ("contract", "contracts"),
    ("employee", "employees"),
    ("meeting", "meetings"),
    ("document", "documents"),
    ("repository", "repositories"),
    ("release", "releases"),
    ("alert", "alerts"),
    ("invitation", "invitations"),
    ("subscription", "subscriptions"),
    ("payment", "payments"),
    ("article", "articles"),
];
const SYSTEMS: [&str; 5] = ["hubspot", "zendesk", "stripe", "github", "workday"];

struct Case {
    tool: CompiledTool,
    /// A query with the words of the tool's name, in other grammatical forms.
    plain: String,
    /// A query with a synonym of the tool's verb.
    paraphrase: String,
}

fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for system in SYSTEMS {
        for (noun, plural) in NOUNS {
            for (verb, says, other) in VERBS {
                let definition: ToolDefinition = serde_json::from_value(json!({
                    "refName": format!("{system}/{verb}-{noun}"), "description": format!("{says} {noun} in {system}."),
                    "category": format!("{system}.{plural}"), "toolType": "FUNCTION", "invocation": { "path": "echo" },
                    "inputSchema": { "id": { "type": "string", "description": format!("The id of the {noun}.") } }
                }))
                .unwrap();
                let document = Document::unsaved(definition.ref_name.clone(), definition);
                cases.push(Case {
                    tool: CompiledTool::compile(document, None, &Library::new("none")).unwrap(),
                    plain: format!("Could you please {verb} some {plural} that are in {system} for me?"),
                    paraphrase: format!("I would like to {other} {noun} at {system}, thanks"),
                });
            }
        }
    }
    cases
}

/// Returns the share of queries for which the intended tool is among the first `k` results.
fn recall(index: &SearchIndex, queries: impl IntoIterator<Item = String>, k: usize) -> f64 {
    let ranks = queries
        .into_iter()
        .enumerate()
        .map(|(position, query)| index.rank(&query).iter().take(k).any(|found| *found == position));
    let found: Vec<bool> = ranks.collect();
    found.iter().filter(|found| **found).count() as f64 / found.len() as f64
}

#[test]
fn search_returns_the_intended_tool_in_the_first_15_results() {
    let cases = cases();
    assert_eq!(cases.len(), 1000);
    let index = SearchIndex::new(cases.iter().map(|case| &case.tool));
    let plain = |k| recall(&index, cases.iter().map(|case| case.plain.clone()), k);
    let paraphrase = |k| recall(&index, cases.iter().map(|case| case.paraphrase.clone()), k);
    let measured = [plain(1), plain(5), paraphrase(5), paraphrase(15)];
    assert!(measured[0] >= 0.95 && measured[1] == 1.0, "in the tool's own words: {measured:?}");
    assert!(measured[2] >= 0.5 && measured[3] == 1.0, "in other words: {measured:?}");
}

#[test]
fn query_without_matches_finds_nothing_and_equal_scores_keep_their_order() {
    let cases = cases();
    let index = SearchIndex::new(cases.iter().map(|case| &case.tool));
    assert_eq!(index.rank("the of and please"), Vec::<usize>::new());
    assert_eq!(index.rank("xylophone"), Vec::<usize>::new());
    let first = &cases[0].tool;
    let twins = SearchIndex::new([first, first, first]);
    assert_eq!(twins.rank("create a deal"), [0, 1, 2]);
}
