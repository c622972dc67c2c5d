//! Deletes the definitions that an apply set created and that its files no longer contain.

use std::collections::BTreeSet;

use serde_json::{Value, json};
use toolwright_api::wire::{DeletionView, PageView};

use super::{Outcome, print_warnings, show, show_failure};
use crate::cli::Context;
use crate::cli::client::path;
use crate::cli::definitions::{FileDefinition, ResourceKind};
use crate::cli::exit::Exit;
use crate::cli::failure::Failure;
use crate::cli::fields::text;
use crate::cli::output::sanitize_line;

/// A definition that belongs to the set and that no file contains.
pub(in crate::cli) struct Unlisted {
    pub kind: ResourceKind,
    pub name: String,
    id: String,
}

/// Returns the definitions that belong to the set and that no file contains. A definition comes before the definitions
/// that it refers to.
pub(in crate::cli) async fn unlisted(
    cx: &Context,
    set: &str,
    definitions: &[FileDefinition],
) -> Result<Vec<Unlisted>, Failure> {
    // Names are compared in lower case, because they are case-insensitive.
    let listed: BTreeSet<(ResourceKind, String)> =
        definitions.iter().map(|definition| (definition.kind, definition.name.to_lowercase())).collect();
    let mut found = Vec::new();
    for kind in ResourceKind::ALL.into_iter().rev() {
        let mut query = vec![("applySet", set.to_owned()), ("limit", "100".to_owned())];
        loop {
            let page: PageView<Value> = cx.client.get(kind.collection(), &query).await?.read()?;
            let views =
                page.items.iter().map(|view| Unlisted { kind, name: text(view, "refName"), id: text(view, "id") });
            found.extend(views.filter(|view| !listed.contains(&(kind, view.name.to_lowercase()))));
            let Some(cursor) = page.next_cursor else { break };
            query.truncate(2);
            query.push(("cursor", cursor));
        }
    }
    Ok(found)
}

/// Deletes the definitions that belong to the set and that no file contains. If one deletion fails, the others are
/// still attempted.
pub(super) async fn run(
    cx: &Context,
    set: &str,
    definitions: &[FileDefinition],
    dry_run: bool,
    results: &mut Vec<Value>,
) -> Result<Exit, Failure> {
    let mut exit = Exit::Ok;
    for Unlisted { kind, name, id } in unlisted(cx, set, definitions).await? {
        let mut warnings = Vec::new();
        // Deletes by id and not by name, because the name may meanwhile belong to another definition.
        let response = if dry_run { None } else { Some(cx.client.delete(&path(kind.collection(), &id), &[]).await) };
        match response {
            Some(Err(Failure::Refused(refusal))) => {
                let outcome =
                    json!({ "kind": kind, "refName": name, "outcome": "failed", "problem": refusal.document() });
                results.push(outcome);
                let subject = format!("{} {}", kind.noun(), sanitize_line(&name));
                exit = exit.or(show_failure(cx, &subject, &Failure::Refused(refusal)));
                continue;
            }
            Some(Err(other)) => return Err(other),
            Some(Ok(response)) if response.status == 200 => warnings = response.read::<DeletionView>()?.warnings,
            Some(Ok(_)) | None => {}
        }
        results.push(json!({ "kind": kind, "refName": name, "outcome": Outcome::Deleted }));
        show(cx, kind, &name, Outcome::Deleted)?;
        print_warnings(cx, &name, &warnings);
    }
    Ok(exit)
}
