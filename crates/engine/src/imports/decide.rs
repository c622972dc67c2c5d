//! What an import may do to what is there. Rules only.

use toolwright_tools::drift;
use toolwright_types::{Difference, Document, Source, ToolDefinition, ToolProviderConfig};

/// What becomes of one tool.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Decision {
    /// It is written.
    Write,
    /// It is there already, word for word.
    Keep,
    /// It stays as it is.
    Skip(String),
}

/// Only what was imported the same way is ever replaced, only when that was asked for, and never by another provider's import.
pub(super) fn decide(
    current: Option<&Document<ToolDefinition>>,
    planned: &ToolDefinition,
    source: Source,
    update: bool,
) -> Decision {
    let Some(current) = current else { return Decision::Write };
    let name = &planned.ref_name;
    if current.meta.source != source {
        return Decision::Skip(format!(
            "tool `{name}` exists and was not imported so; delete it or choose another prefix"
        ));
    }
    if current.body.provider_ref != planned.provider_ref {
        let other = current.body.provider_ref.as_deref().unwrap_or("none");
        return Decision::Skip(format!("tool `{name}` was imported for provider `{other}`; choose another prefix"));
    }
    if current.body == *planned {
        return Decision::Keep;
    }
    if update { Decision::Write } else { Decision::Skip(format!("tool `{name}` exists; use `update` to replace it")) }
}

/// What to say about a provider that is left as it is.
pub(super) fn kept(existing: &Document<ToolProviderConfig>, proposed: &ToolProviderConfig) -> Option<String> {
    let (own, other) = (existing.body.base_url.as_deref(), proposed.base_url.as_deref());
    (own != other).then(|| {
        let (name, own) = (&existing.meta.ref_name, own.unwrap_or("none"));
        format!("provider `{name}` is left as it is: its baseUrl is {own}, not {}", other.unwrap_or("none"))
    })
}

/// How a tool that is replaced differs, in what it takes and returns.
pub(super) fn differences(old: &ToolDefinition, new: &ToolDefinition) -> Vec<Difference> {
    let mut all = drift::of_schemas("input", &old.effective_input_schema(), &new.effective_input_schema());
    all.extend(drift::of_schemas("output", &old.effective_output_schema(), &new.effective_output_schema()));
    all
}

#[cfg(test)]
mod tests {
    use toolwright_types::{RefName, ToolType};

    use super::*;

    fn tool(provider: &str, description: &str) -> ToolDefinition {
        let name: RefName = "shop/list".parse().unwrap();
        let mut tool = ToolDefinition::new(name, ToolType::ExternalRest);
        tool.provider_ref = Some(provider.into());
        tool.description = Some(description.into());
        tool
    }

    #[test]
    fn only_what_was_imported_is_replaced_and_only_when_asked() {
        let stored = |source: Source, body: ToolDefinition| {
            let mut document = Document::unsaved(body.ref_name.clone(), body);
            document.meta.source = source;
            document
        };
        let new = tool("shop", "new");
        let imported = Source::OpenapiImported;
        let skipped = |text: &str| Err(text.to_owned());
        for (current, update, expected) in [
            (None, false, Ok(Decision::Write)),
            (Some(stored(imported, tool("shop", "old"))), true, Ok(Decision::Write)),
            (Some(stored(imported, tool("shop", "old"))), false, skipped("use `update`")),
            (Some(stored(imported, tool("shop", "new"))), false, Ok(Decision::Keep)),
            (Some(stored(imported, tool("shop", "new"))), true, Ok(Decision::Keep)),
            (Some(stored(Source::Manual, tool("shop", "new"))), true, skipped("was not imported")),
            (Some(stored(Source::GrpcImported, tool("shop", "new"))), true, skipped("was not imported")),
            (Some(stored(imported, tool("other", "new"))), true, skipped("provider `other`")),
        ] {
            match (decide(current.as_ref(), &new, imported, update), expected) {
                (Decision::Skip(reason), Err(part)) => assert!(reason.contains(&part), "{reason}"),
                (found, expected) => assert_eq!(Ok(found), expected),
            }
        }
    }
}
