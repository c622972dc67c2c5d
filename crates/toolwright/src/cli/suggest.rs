//! Suggests names that are similar to a name that does not exist.

use std::time::Duration;

use serde_json::Value;
use toolwright_api::wire::PageView;

use super::client::{AGENTIC_TOOLS, ApiClient, TOOLS};
use super::failure::Failure;
use super::fields::text;

/// The maximum number of suggested names.
const MAX_SUGGESTIONS: usize = 3;
/// The maximum number of pages that a search for names reads.
const MAX_PAGES: usize = 10;
/// How long the search for names may take. A suggestion must not delay an error.
const TIMEOUT: Duration = Duration::from_secs(2);

/// Adds a suggestion to the failure, if a definition was not found and a similar name exists.
pub(super) async fn explain(client: &ApiClient, mut failure: Failure) -> Failure {
    if let Failure::Refused(refusal) = &mut failure
        && refusal.problem.status == 404
        && let Some((collection, name)) = refusal.requested.clone()
    {
        let names = tokio::time::timeout(TIMEOUT, names(client, collection)).await.unwrap_or_default();
        let wanted = name.split_once('@').map_or(name.as_str(), |(name, _)| name);
        // If the name exists, the missing thing is something else, so there is nothing to suggest.
        if !names.iter().any(|name| name.eq_ignore_ascii_case(wanted)) {
            refusal.hints.extend(did_you_mean(wanted, names.iter().map(String::as_str)));
        }
    }
    failure
}

/// Returns the names of the definitions of a collection. If a request fails, returns the names found so far, because a
/// suggestion is optional.
pub(super) async fn names(client: &ApiClient, collection: &str) -> Vec<String> {
    let mut found = Vec::new();
    if collection == TOOLS {
        found.extend(page(client, collection, &[("source", "built-in".to_owned())]).await.0);
    }
    let mut query = vec![("limit", "100".to_owned())];
    for _ in 0..MAX_PAGES {
        let (names, cursor) = page(client, collection, &query).await;
        found.extend(names);
        let Some(cursor) = cursor else { break };
        query.truncate(1);
        query.push(("cursor", cursor));
    }
    found
}

async fn page(client: &ApiClient, collection: &str, query: &[(&str, String)]) -> (Vec<String>, Option<String>) {
    let response = client.get(collection, query).await.and_then(|response| response.read::<PageView<Value>>());
    let Ok(page) = response else { return (Vec::new(), None) };
    let field = if collection == AGENTIC_TOOLS { "slug" } else { "refName" };
    (page.items.iter().map(|view| text(view, field)).collect(), page.next_cursor)
}

/// Returns a hint for the unknown name `wanted`, if a similar name exists.
pub(super) fn did_you_mean<'a>(wanted: &str, names: impl IntoIterator<Item = &'a str>) -> Option<String> {
    let mut similar: Vec<(usize, &str)> =
        names.into_iter().filter_map(|name| Some((distance(wanted, name)?, name))).collect();
    similar.sort_unstable();
    similar.dedup();
    let quoted: Vec<String> = similar.iter().take(MAX_SUGGESTIONS).map(|(_, name)| format!("`{name}`")).collect();
    let (last, others) = quoted.split_last()?;
    Some(match others {
        [] => format!("did you mean {last}?"),
        _ => format!("did you mean {} or {last}?", others.join(", ")),
    })
}

/// Returns how much two names differ; `None` if they are not similar. `wanted` is also compared with the last part of
/// `name`, after the slash.
fn distance(wanted: &str, name: &str) -> Option<usize> {
    let (wanted, name) = (wanted.to_lowercase(), name.to_lowercase());
    let tail = name.rsplit('/').next().unwrap_or_default();
    let limit = wanted.chars().count().div_ceil(3).min(4);
    let distance = [name.as_str(), tail].map(|name| strsim::damerau_levenshtein(&wanted, name)).into_iter().min()?;
    (distance <= limit).then_some(distance)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn similar_names_are_suggested_and_others_are_not() {
        let names = ["hubspot/get-deal", "hubspot/search-deals", "orders/get", "echo"];
        let suggest = |wanted: &str| did_you_mean(wanted, names);
        assert_eq!(suggest("hubspot/get-dael").as_deref(), Some("did you mean `hubspot/get-deal`?"));
        assert_eq!(suggest("get-deal").as_deref(), Some("did you mean `hubspot/get-deal`?"));
        assert_eq!(suggest("ECHO1").as_deref(), Some("did you mean `echo`?"));
        assert_eq!(suggest("calculator"), None);
        let hint = did_you_mean("ab1", ["ab2", "ab3", "ab4", "ab5"]);
        assert_eq!(hint.as_deref(), Some("did you mean `ab2`, `ab3` or `ab4`?"));
    }
}
