//! Libraries bind functions at run time: they map `name@requirement` to an implementation and check that it is
//! compatible with the definition.

use std::collections::HashMap;
use std::sync::Arc;

use semver::{Version, VersionReq};
use serde_json::Value;

use crate::subsumption::{SchemaMismatch, check_accepts};
use crate::tool::{DynTool, Tool, TypedTool};

/// Implementations of functions, by name and version. Two libraries may bind one name to different implementations.
#[derive(Clone, Default)]
pub struct Library {
    /// The library's name. It is part of each cache key, so that libraries do not share cached results.
    name: String,
    tools: HashMap<String, Versions>,
}

/// The implementations of one name, highest version first.
type Versions = Vec<(Version, Arc<dyn DynTool>)>;

/// The reason why a definition cannot be bound to a function.
#[derive(Debug, thiserror::Error)]
pub enum FunctionBindError {
    /// No function is registered under this name.
    #[error("no function `{0}` is registered")]
    UnknownFunction(String),
    /// The text after `@` is not a version requirement.
    #[error("`{0}` must be `name` or `name@requirement` with a semantic version requirement")]
    InvalidRequirement(String),
    /// No registered version matches the requirement.
    #[error("function `{name}` has no version that matches `{wanted}`; registered: {available}")]
    NoMatchingVersion {
        /// The name of the function.
        name: String,
        /// The version requirement of the definition.
        wanted: VersionReq,
        /// The registered versions, separated by commas.
        available: String,
    },
    /// The implementation's input schema is incompatible with that of the definition.
    #[error("function `{name}@{version}` does not match the definition: {mismatch}")]
    Incompatible {
        /// The name of the function.
        name: String,
        /// The version of the implementation.
        version: Version,
        /// The first incompatibility of the schemas.
        mismatch: SchemaMismatch,
    },
}

impl Library {
    /// Creates an empty library. The name distinguishes libraries in caches and journals.
    pub fn new(name: impl Into<String>) -> Self {
        Self { name: name.into(), tools: HashMap::new() }
    }

    /// The library's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Registers `T` under its name and version.
    pub fn with<T: Tool>(self) -> Self {
        self.with_dyn(TypedTool::<T>::erase())
    }

    /// Registers `tool`. Replaces an implementation of the same name and version.
    pub fn with_dyn(mut self, tool: Arc<dyn DynTool>) -> Self {
        let spec = tool.spec();
        let versions = self.tools.entry(spec.name.clone()).or_default();
        versions.retain(|(version, _)| *version != spec.version);
        versions.push((spec.version.clone(), tool));
        versions.sort_by(|(a, _), (b, _)| b.cmp(a));
        self
    }

    /// Returns the implementation that `reference` (`name` or `name@requirement`) selects: the highest version that
    /// matches.
    pub fn lookup(&self, reference: &str) -> Result<&Arc<dyn DynTool>, FunctionBindError> {
        let (name, requirement) = match reference.split_once('@') {
            Some((name, text)) => {
                let requirement =
                    text.parse().map_err(|_| FunctionBindError::InvalidRequirement(reference.to_owned()))?;
                (name, requirement)
            }
            None => (reference, VersionReq::STAR),
        };
        let versions = self.tools.get(name).ok_or_else(|| FunctionBindError::UnknownFunction(name.to_owned()))?;
        let found = versions.iter().find(|(version, _)| requirement.matches(version));
        found.map(|(_, tool)| tool).ok_or_else(|| FunctionBindError::NoMatchingVersion {
            name: name.to_owned(),
            wanted: requirement.clone(),
            available: versions.iter().map(|(version, _)| version.to_string()).collect::<Vec<_>>().join(", "),
        })
    }

    /// Like [`Library::lookup`]. Also checks that the implementation accepts every value that `input_schema` accepts.
    pub fn bind(&self, reference: &str, input_schema: &Value) -> Result<&Arc<dyn DynTool>, FunctionBindError> {
        let tool = self.lookup(reference)?;
        let spec = tool.spec();
        check_accepts(&spec.input_schema, input_schema).map_err(|mismatch| FunctionBindError::Incompatible {
            name: spec.name.clone(),
            version: spec.version.clone(),
            mismatch,
        })?;
        Ok(tool)
    }

    /// Returns the highest version of every function, sorted by name.
    pub fn newest(&self) -> Vec<&Arc<dyn DynTool>> {
        let mut tools: Vec<_> =
            self.tools.values().filter_map(|versions| versions.first()).map(|(_, tool)| tool).collect();
        tools.sort_by(|a, b| a.spec().name.cmp(&b.spec().name));
        tools
    }
}

impl std::fmt::Debug for Library {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Library").field("name", &self.name).field("tools", &self.tools.keys()).finish()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::tool::FunctionTool;

    fn constant(name: &str, schema: Value, answer: i64) -> Arc<dyn DynTool> {
        FunctionTool::erase(name, "answers", schema, move |_| Ok(json!(answer)))
    }

    #[test]
    fn same_name_can_be_bound_to_different_implementations_in_two_libraries() {
        let a = Library::new("a").with_dyn(constant("answer", json!({}), 1));
        let b = Library::new("b").with_dyn(constant("answer", json!({}), 2));
        assert!(!Arc::ptr_eq(a.lookup("answer").unwrap(), b.lookup("answer@^1").unwrap()));
    }

    #[test]
    fn binding_an_unknown_or_incompatible_function_fails_with_the_cause() {
        let wants_text = json!({ "type": "object", "properties": { "q": { "type": "string" } }, "required": ["q"] });
        let library = Library::new("l").with_dyn(constant("find", wants_text, 0));
        for (reference, schema, because) in [
            ("lost", json!({}), "no function `lost`"),
            ("find@2", json!({}), "registered: 1.0.0"),
            ("find@x.y.z!", json!({}), "requirement"),
            (
                "find",
                json!({ "type": "object", "properties": { "q": { "type": "number" } }, "required": ["q"] }),
                "/properties/q",
            ),
        ] {
            let error = library.bind(reference, &schema).err().map(|e| e.to_string()).unwrap_or_default();
            assert!(error.contains(because), "{reference}: {error}");
        }
        assert!(library.bind("find", &json!({ "type": "object", "properties": { "q": { "type": "string", "maxLength": 9 } }, "required": ["q"] })).is_ok());
    }

    #[test]
    fn registering_the_same_version_again_replaces_the_implementation() {
        let library = Library::new("l").with_dyn(constant("x", json!({}), 1)).with_dyn(constant(
            "x",
            json!({ "type": "object" }),
            2,
        ));
        assert_eq!(library.lookup("x").unwrap().spec().input_schema, json!({ "type": "object" }));
    }
}
