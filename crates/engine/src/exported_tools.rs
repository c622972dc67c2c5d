//! Tools under their exported names: finds the tools that a session can export, and the tool that a name refers to.

use std::collections::BTreeMap;
use std::sync::Arc;

use toolwright_catalog::{Session, Unavailable, in_categories};
use toolwright_tools::CompiledTool;
use toolwright_tools::export::{mangle, unmangle};
use toolwright_types::{Surface, ToolKind};

use crate::Calls;

/// Selects tools for an export. A condition that is `None` matches every tool.
#[derive(Debug, Clone, Default)]
pub struct ExportSelection {
    /// The kind of the tools.
    pub kind: Option<ToolKind>,
    /// The category of the tools. Subcategories match too.
    pub category: Option<String>,
    /// A tag that the tools must have.
    pub tag: Option<String>,
}

/// The tools of an export. No two of them have the same exported name.
#[derive(Debug, Clone)]
pub struct ExportedTools {
    /// The tools.
    pub tools: Vec<Arc<CompiledTool>>,
    /// Each warning names tools that are not in the export because they have the same exported name.
    pub warnings: Vec<String>,
}

/// The reason why the tool with an exported name cannot be determined.
#[derive(Debug, thiserror::Error)]
pub enum ExportedNameError {
    /// Several tools have this name.
    #[error("`{name}` refers to {}; use the id of one of them", .tools.join(" and "))]
    Ambiguous {
        /// The name.
        name: String,
        /// The tools with this name, each with its reference name and id.
        tools: Vec<String>,
    },
    /// The tools could not be read.
    #[error(transparent)]
    Unavailable(#[from] Unavailable),
}

impl Calls {
    /// Returns the tools that a session can call on a surface and export.
    pub async fn exported(
        &self,
        session: &Session,
        surface: Surface,
        selection: &ExportSelection,
    ) -> Result<ExportedTools, Unavailable> {
        let offered = self.offered(session, surface).await?;
        // An MCP client cannot perform the last part of a client tool, so MCP clients get no client tools.
        let performable =
            |tool: &CompiledTool| surface != Surface::McpTool || tool.definition.is_tool_fully_executed_on_server;
        let mut by_name: BTreeMap<&str, Vec<&Arc<CompiledTool>>> = BTreeMap::new();
        for tool in offered.iter().filter(|tool| !tool.is_run_only() && performable(tool)) {
            by_name.entry(tool.exported_name()).or_default().push(tool);
        }
        let mut exported = ExportedTools { tools: Vec::new(), warnings: Vec::new() };
        for (name, tools) in by_name {
            match tools.as_slice() {
                [tool] if selection.matches(tool) => exported.tools.push(Arc::clone(tool)),
                [] | [_] => {}
                several if several.iter().any(|tool| selection.matches(tool)) => {
                    let tools = several.iter().map(|tool| format!("`{}`", tool.definition.ref_name));
                    let tools = tools.collect::<Vec<_>>().join(" and ");
                    exported
                        .warnings
                        .push(format!("{tools} are left out, because all have the exported name `{name}`"));
                }
                _ => {}
            }
        }
        Ok(exported)
    }

    /// Returns the tool with this id, name or exported name. If several tools match, only those that the session may
    /// execute are considered.
    pub async fn find_exported(
        &self,
        session: &Session,
        name: &str,
    ) -> Result<Option<Arc<CompiledTool>>, ExportedNameError> {
        let named = self.find(&session.realm, name, None).await?;
        let by_id = named.as_ref().filter(|tool| tool.id.eq_ignore_ascii_case(name)).cloned();
        if by_id.is_some() {
            return Ok(by_id);
        }
        let mut found: Vec<Arc<CompiledTool>> = Vec::new();
        let mut add = |tool: &Arc<CompiledTool>| {
            let known = |found: &Arc<CompiledTool>| found.definition.ref_name.key() == tool.definition.ref_name.key();
            if self.may_execute(session, tool).is_ok() && !found.iter().any(known) {
                found.push(Arc::clone(tool));
            }
        };
        named.iter().for_each(&mut add);
        if let Some(decoded) = unmangle(name).filter(|decoded| decoded.as_str() != name) {
            self.find(&session.realm, decoded.as_str(), None).await?.iter().for_each(&mut add);
        }
        // The exported form of a long name contains a hash and cannot be decoded. So the exported form of every tool is
        // compared with the given name.
        let is_hashed = name.starts_with('_') && name.contains("-x");
        for tool in self.all(session).await?.iter() {
            if tool.exported_name() == name || is_hashed && mangle(&tool.definition.ref_name) == name {
                add(tool);
            }
        }
        match found.as_slice() {
            // If the session may not execute the tool with this name, the executor reports the reason.
            [] => Ok(named),
            [tool] => Ok(Some(Arc::clone(tool))),
            several => {
                let described = several.iter().map(|tool| format!("`{}` (`{}`)", tool.definition.ref_name, tool.id));
                Err(ExportedNameError::Ambiguous { name: name.to_owned(), tools: described.collect() })
            }
        }
    }
}

impl ExportSelection {
    fn matches(&self, tool: &CompiledTool) -> bool {
        let definition = &tool.definition;
        self.kind.is_none_or(|kind| definition.tool_type.kind() == kind)
            && self.category.as_ref().is_none_or(|category| in_categories(std::slice::from_ref(category), definition))
            && self.tag.as_ref().is_none_or(|tag| definition.tags.contains(tag))
    }
}
