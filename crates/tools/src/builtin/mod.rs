//! The built-in functions: a library of tools that every server provides.

mod calculator;
mod current_time;
mod echo;
mod http_request;
mod json_query;
mod say_hello;
pub mod search_tools;

use std::collections::BTreeMap;
use std::sync::Arc;

use toolwright_types::{DefinitionSource, Document, RefName, ToolDefinition, ToolType};

use crate::executor::BUILTIN_LIBRARY;
use crate::{CompiledTool, Library, ToolSpec};

/// Returns the library of all built-in functions.
pub fn library() -> Library {
    Library::new(BUILTIN_LIBRARY)
        .with_dyn(echo::tool())
        .with::<say_hello::SayHello>()
        .with::<calculator::Calculator>()
        .with::<http_request::HttpRequestTool>()
        .with::<current_time::CurrentTime>()
        .with::<json_query::JsonQuery>()
        .with::<search_tools::SearchTools>()
}

/// Returns a tool for each function of `library`, in a map by `RefName::key`. These tools need no stored definition.
pub fn tools(library: &Library) -> BTreeMap<String, Arc<CompiledTool>> {
    library
        .newest()
        .into_iter()
        .filter_map(|function| builtin_definition(function.spec()))
        .filter_map(|(name, definition)| {
            let compiled = CompiledTool::compile(builtin_document(definition), None, library).ok()?;
            Some((name.key(), Arc::new(compiled)))
        })
        .collect()
}

/// Returns the definition of a built-in function.
fn builtin_definition(spec: &ToolSpec) -> Option<(RefName, ToolDefinition)> {
    let name: RefName = spec.name.parse().ok()?;
    let mut definition = ToolDefinition::new(name.clone(), ToolType::Function);
    definition.version = spec.version.clone();
    definition.description = Some(spec.description.clone());
    definition.category = Some("builtin".into());
    definition.side_effects = Some(spec.side_effects);
    definition.invocation.path = Some(spec.name.clone());
    definition.input_json_schema = Some(toolwright_types::JsonSchema(spec.input_schema.clone()));
    definition.output_json_schema = Some(toolwright_types::JsonSchema(spec.output_schema.clone()));
    Some((name, definition))
}

/// Wraps the definition of a built-in tool in a document, which is not stored.
fn builtin_document(definition: ToolDefinition) -> Document<ToolDefinition> {
    let body = serde_json::to_value(&definition).unwrap_or_default();
    let mut document = Document::unsaved(definition.ref_name.clone(), definition);
    document.meta.id = format!("builtin/{}", document.meta.ref_name);
    document.meta.source = DefinitionSource::BuiltIn;
    document.meta.content_hash = toolwright_types::json::hex_digest(&body);
    document
}

#[cfg(test)]
impl CompiledTool {
    pub(crate) fn for_tests(body: serde_json::Value) -> Self {
        let definition: ToolDefinition = serde_json::from_value(body).unwrap();
        Self::compile(builtin_document(definition), None, &library()).unwrap()
    }
}
