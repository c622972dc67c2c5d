//! Returns the references between definitions as gram relations, which graph queries can follow. The tools of an agent
//! are not included.

use serde_json::Value as Json;
use toolwright_gram::{Pattern, is_agent, is_tool};

use crate::value;

/// Returns a relation for each reference from an agent or tool of `texts` to another:
///
/// | relation | from | property |
/// |---|---|---|
/// | `DELEGATES_TO` | agent | `delegateAgentRefs` |
/// | `FALLS_BACK_TO` | tool | `fallbackToolRef` in `errorHandling` |
/// | `VERIFIED_BY`, `COMPENSATED_BY` | tool | `verifyToolRef`, `compensateToolRef` |
pub fn reference_relations<'p>(texts: impl IntoIterator<Item = &'p Pattern>) -> Vec<Pattern> {
    let mut found = Vec::new();
    for text in texts {
        visit(text, &mut found);
    }
    found
}

fn visit(pattern: &Pattern, found: &mut Vec<Pattern>) {
    let mut link = |label: &str, to: &Json| {
        if let Some(to) = to.as_str() {
            let relation = Pattern::default().label(label);
            found.push(relation.element(Pattern::named(pattern.identity())).element(Pattern::named(to)));
        }
    };
    let property = |key: &str| pattern.get(key).and_then(|value| value::to_json(value).ok()).unwrap_or_default();
    if is_agent(pattern) {
        for to in property("delegateAgentRefs").as_array().into_iter().flatten() {
            // The relation contains the name of the agent without the version requirement.
            let name = to.as_str().and_then(|text| text.split('@').next());
            link("DELEGATES_TO", &name.map_or(Json::Null, Json::from));
        }
    } else if is_tool(pattern) {
        for semantics in property("errorHandling").as_object().into_iter().flat_map(|all| all.values()) {
            link("FALLS_BACK_TO", semantics.get("fallbackToolRef").unwrap_or(&Json::Null));
        }
        link("VERIFIED_BY", &property("verifyToolRef"));
        link("COMPENSATED_BY", &property("compensateToolRef"));
        return;
    }
    for element in &pattern.elements {
        visit(element, found);
    }
}
