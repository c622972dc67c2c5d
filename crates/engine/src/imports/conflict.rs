//! Decides whether an imported tool may replace an existing tool.

use toolwright_tools::drift;
use toolwright_types::{DefinitionSource, Document, SchemaDifference, ToolDefinition, ToolProviderConfig};

/// What an import does with one definition.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum ImportAction {
    /// The definition is written.
    Write,
    /// An equal definition exists, so nothing is written.
    Unchanged,
    /// The definition is not written, for this reason.
    Skip(String),
}

/// Decides what an import does with a tool. An existing tool is replaced if `update` is set and the existing tool was
/// imported from the same kind of source for the same provider. A new tool must not replace a built-in tool.
pub(super) fn resolve(
    current: Option<&Document<ToolDefinition>>,
    proposed: &ToolDefinition,
    source: DefinitionSource,
    update: bool,
    replaces_builtin: bool,
) -> ImportAction {
    let name = &proposed.ref_name;
    let Some(current) = current else {
        return match replaces_builtin {
            true => ImportAction::Skip(format!("`{name}` is a built-in tool; choose another prefix")),
            false => ImportAction::Write,
        };
    };
    if current.meta.source != source {
        return ImportAction::Skip(format!(
            "tool `{name}` exists and was not imported from this kind of source; delete it or choose another prefix"
        ));
    }
    if current.body.provider_ref != proposed.provider_ref {
        let other = current.body.provider_ref.as_deref().unwrap_or("none");
        return ImportAction::Skip(format!("tool `{name}` was imported for provider `{other}`; choose another prefix"));
    }
    if current.body == *proposed {
        return ImportAction::Unchanged;
    }
    if update {
        ImportAction::Write
    } else {
        ImportAction::Skip(format!("tool `{name}` exists; use `update` to replace it"))
    }
}

/// Returns a warning if the existing provider has another base URL than the proposed provider.
pub(super) fn provider_warning(
    existing: &Document<ToolProviderConfig>,
    proposed: &ToolProviderConfig,
) -> Option<String> {
    let (current, new) = (existing.body.base_url.as_deref(), proposed.base_url.as_deref());
    (current != new).then(|| {
        let (name, current) = (&existing.meta.ref_name, current.unwrap_or("none"));
        format!("provider `{name}` is unchanged: its baseUrl is {current}, not {}", new.unwrap_or("none"))
    })
}

/// Returns the differences between two versions of a tool in their input and output schemas.
pub(super) fn differences(old: &ToolDefinition, new: &ToolDefinition) -> Vec<SchemaDifference> {
    let mut all = drift::compare_schemas("input", &old.effective_input_schema(), &new.effective_input_schema());
    all.extend(drift::compare_schemas("output", &old.effective_output_schema(), &new.effective_output_schema()));
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
    fn import_with_update_replaces_tools_from_the_same_source_and_skips_other_tools() {
        let stored = |source: DefinitionSource, body: ToolDefinition| {
            let mut document = Document::unsaved(body.ref_name.clone(), body);
            document.meta.source = source;
            document
        };
        let new = tool("shop", "new");
        let imported = DefinitionSource::OpenapiImported;
        let skipped = |text: &str| Err(text.to_owned());
        for (current, update, expected) in [
            (None, false, Ok(ImportAction::Write)),
            (Some(stored(imported, tool("shop", "old"))), true, Ok(ImportAction::Write)),
            (Some(stored(imported, tool("shop", "old"))), false, skipped("use `update`")),
            (Some(stored(imported, tool("shop", "new"))), false, Ok(ImportAction::Unchanged)),
            (Some(stored(imported, tool("shop", "new"))), true, Ok(ImportAction::Unchanged)),
            (Some(stored(DefinitionSource::Manual, tool("shop", "new"))), true, skipped("was not imported")),
            (Some(stored(DefinitionSource::GrpcImported, tool("shop", "new"))), true, skipped("was not imported")),
            (Some(stored(imported, tool("other", "new"))), true, skipped("provider `other`")),
        ] {
            match (resolve(current.as_ref(), &new, imported, update, false), expected) {
                (ImportAction::Skip(reason), Err(part)) => assert!(reason.contains(&part), "{reason}"),
                (found, expected) => assert_eq!(Ok(found), expected),
            }
        }
        assert!(matches!(resolve(None, &new, imported, true, true), ImportAction::Skip(_)));
    }
}
