//! The closure of a tool: all definitions that decide what a call to the tool does.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::Arc;

use toolwright_types::json::Hasher;
use toolwright_types::{RealmScope, ToolDefinition, ToolError};

use super::nested::MAX_DEPTH;
use super::{Executor, Ports};
use crate::http_client::CompiledProvider;
use crate::{CompiledTool, ToolReference};

/// A tool, the tools that its code may call, the tools of its operations, its fallbacks and its verify operation, and the
/// same for each of these tools. The provider of each tool is part of its [`CompiledTool`].
#[derive(Debug)]
pub struct Closure(BTreeMap<String, Option<Arc<CompiledTool>>>);

impl Executor {
    /// Returns the closure of a tool according to the current definitions. `tool` itself is not looked up again.
    pub async fn closure(&self, realm: &RealmScope, tool: &Arc<CompiledTool>) -> Result<Closure, ToolError> {
        Closure::of(&self.ports, realm, tool).await
    }

    /// Returns the fingerprint of the closure of a tool that was just prepared, or `None` if the tool refers to no
    /// other definition. The fingerprint is computed once for each compiled tool. Every change of a definition causes
    /// the tool to be compiled again, so a prepared tool has the current fingerprint.
    pub async fn closure_fingerprint(
        &self,
        realm: &RealmScope,
        tool: &Arc<CompiledTool>,
    ) -> Result<Option<String>, ToolError> {
        if tool.provider.is_none() && referenced_tools(&tool.definition).next().is_none() {
            return Ok(None);
        }
        if let Some(known) = tool.closure_fingerprint.get() {
            return Ok(Some(known.clone()));
        }
        let fingerprint = self.closure(realm, tool).await?.fingerprint();
        Ok(Some(tool.closure_fingerprint.get_or_init(|| fingerprint).clone()))
    }
}

impl Closure {
    pub(super) async fn of(ports: &Ports, realm: &RealmScope, tool: &Arc<CompiledTool>) -> Result<Self, ToolError> {
        let mut tools = BTreeMap::from([(tool.definition.ref_name.key().to_owned(), Some(Arc::clone(tool)))]);
        let mut callers = vec![Arc::clone(tool)];
        // The executor refuses calls that are nested deeper than `MAX_DEPTH`, so deeper definitions have no effect.
        for _ in 0..=MAX_DEPTH {
            let mut called = Vec::new();
            for reference in callers.iter().flat_map(|caller| referenced_tools(&caller.definition)) {
                if let Entry::Vacant(vacant) = tools.entry(reference.to_ascii_lowercase()) {
                    let Some(ToolReference { name, version }) = ToolReference::parse(reference) else { continue };
                    let found = ports.catalog.resolve(realm, &name, version.as_ref()).await;
                    let found = found.map_err(|error| super::secrets::port_error(&error))?;
                    called.extend(found.clone());
                    vacant.insert(found);
                }
            }
            callers = called;
        }
        Ok(Self(tools))
    }

    /// Returns a hash of all definitions in the closure. As long as the fingerprint does not change, the tool behaves
    /// the same.
    pub fn fingerprint(&self) -> String {
        let mut hasher = Hasher::default();
        for (name, tool) in &self.0 {
            hasher.sequence(|items| {
                items.string(name);
                if let Some(tool) = tool {
                    items.string(&tool.definition.version.to_string());
                    items.string(&tool.content_hash);
                    items.string(&tool.provider.as_deref().map(CompiledProvider::call_fingerprint).unwrap_or_default());
                }
            });
        }
        hasher.finish_hex()
    }

    /// Returns the names of all secrets that the tools of the closure need. A name can occur several times.
    pub(super) fn secret_names(&self) -> impl Iterator<Item = &str> {
        self.0.values().flatten().flat_map(|tool| tool.secret_names())
    }
}

/// Returns the names of the tools that the definition refers to: granted functions, fallbacks and the verify operation.
fn referenced_tools(definition: &ToolDefinition) -> impl Iterator<Item = &str> {
    let fallbacks = definition.error_handling.values().filter_map(|semantics| semantics.fallback_tool_ref.as_deref());
    let granted = definition.invocation.functions.values().map(String::as_str);
    let operations = definition.composite.iter().flat_map(|composite| &composite.operations);
    let operations = operations.filter_map(|operation| operation.tool());
    granted.chain(fallbacks).chain(definition.verify_tool_ref.as_deref()).chain(operations)
}
