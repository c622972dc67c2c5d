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

/// Returns a map from `RefName::key` to a tool, with one tool for each function of `library`. These tools need no
/// stored definition.
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
    definition.category = Some(spec.category.clone());
    definition.cache = spec.cache;
    definition.cache_ttl_seconds = spec.cache_ttl_seconds;
    definition.side_effects = Some(spec.side_effects);
    definition.requires_confirmation = spec.requires_confirmation;
    definition.invocation.path = Some(spec.name.clone());
    definition.input_json_schema = Some(toolwright_types::JsonSchema(spec.input_schema.clone()));
    definition.output_json_schema = Some(toolwright_types::JsonSchema(spec.output_schema.clone()));
    Some((name, definition))
}

/// Wraps the definition of a built-in tool in a document that is not stored.
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

#[cfg(test)]
mod tests {
    use schemars::JsonSchema;
    use serde::Deserialize;
    use toolwright_types::{CachePolicy, SideEffects};

    use super::*;
    use crate::{Tool, ToolCx, ToolFailure};

    /// Returns the population of a city.
    #[derive(Deserialize, JsonSchema)]
    struct Population {}

    impl Tool for Population {
        const NAME: &'static str = "population";
        const CATEGORY: &'static str = "geography";
        const CACHE: CachePolicy = CachePolicy::Ttl;
        const CACHE_TTL_SECONDS: Option<u64> = Some(600);
        type Output = u64;

        async fn call(self, _cx: &ToolCx<'_>) -> Result<u64, ToolFailure> {
            Ok(3_700_000)
        }
    }

    #[test]
    fn rust_tool_declares_its_category_and_cache_policy() {
        let tools = tools(&Library::new("l").with::<Population>());
        let definition = &tools["population"].definition;
        assert_eq!(definition.category.as_deref(), Some("geography"));
        assert_eq!((definition.cache, definition.cache_ttl_seconds), (CachePolicy::Ttl, Some(600)));
    }

    #[test]
    fn http_request_is_a_write_unless_its_method_only_reads() {
        let library = library();
        let function = library.lookup("http_request").unwrap();
        for (method, effects) in [
            (None, SideEffects::Reads),
            (Some("GET"), SideEffects::Reads),
            (Some("head"), SideEffects::Reads),
            (Some("OPTIONS"), SideEffects::Reads),
            (Some("POST"), SideEffects::Writes),
            (Some("PURGE"), SideEffects::Writes),
        ] {
            let input = serde_json::json!({ "url": "https://example.com/", "method": method });
            assert_eq!(function.effects(&input), effects, "{method:?}");
        }
    }
}
