//! Late binding: a library maps `name@requirement` to an implementation, and checks that it fits.

use std::collections::HashMap;
use std::sync::Arc;

use semver::{Version, VersionReq};
use serde_json::Value;

use crate::subsume::{Mismatch, accepts};
use crate::tool::{DynTool, Tool, Typed};

/// Implementations by name and version. Two libraries may bind one name to different implementations.
#[derive(Clone, Default)]
pub struct Library {
    /// Distinguishes this library's results from another's in the cache.
    name: String,
    tools: HashMap<String, Versions>,
}

/// The implementations of one name, the highest version first.
type Versions = Vec<(Version, Arc<dyn DynTool>)>;

/// Why a definition cannot be bound.
#[derive(Debug, thiserror::Error)]
pub enum BindError {
    /// Nothing is registered under this name.
    #[error("no function `{0}` is registered")]
    Unknown(String),
    /// The reference after `@` is not a version requirement.
    #[error("`{0}` does not name a version requirement")]
    BadRequirement(String),
    /// Implementations exist, but none of the asked versions.
    #[error("function `{name}` has no version that fits `{wanted}`; registered: {available}")]
    NoVersion { name: String, wanted: VersionReq, available: String },
    /// The implementation takes or returns something else.
    #[error("function `{name}@{version}` does not fit the definition: {mismatch}")]
    Incompatible { name: String, version: Version, mismatch: Mismatch },
}

impl Library {
    /// An empty library. The name tells two libraries apart in caches and journals.
    pub fn new(name: impl Into<String>) -> Self {
        Self { name: name.into(), tools: HashMap::new() }
    }

    /// The library's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The library with `T` registered under its name and version.
    pub fn with<T: Tool>(self) -> Self {
        self.with_dyn(Typed::<T>::erase())
    }

    /// The library with `tool` registered; the last of one name and version wins.
    pub fn with_dyn(mut self, tool: Arc<dyn DynTool>) -> Self {
        let spec = tool.spec();
        let versions = self.tools.entry(spec.name.clone()).or_default();
        versions.retain(|(version, _)| *version != spec.version);
        versions.push((spec.version.clone(), tool));
        versions.sort_by(|(a, _), (b, _)| b.cmp(a));
        self
    }

    /// The implementation that `reference` (`name` or `name@requirement`) means: the highest version that fits.
    pub fn lookup(&self, reference: &str) -> Result<&Arc<dyn DynTool>, BindError> {
        let (name, requirement) = match reference.split_once('@') {
            Some((name, text)) => {
                let requirement = text.parse().map_err(|_| BindError::BadRequirement(reference.to_owned()))?;
                (name, requirement)
            }
            None => (reference, VersionReq::STAR),
        };
        let versions = self.tools.get(name).ok_or_else(|| BindError::Unknown(name.to_owned()))?;
        let found = versions.iter().find(|(version, _)| requirement.matches(version));
        found.map(|(_, tool)| tool).ok_or_else(|| BindError::NoVersion {
            name: name.to_owned(),
            wanted: requirement.clone(),
            available: versions.iter().map(|(version, _)| version.to_string()).collect::<Vec<_>>().join(", "),
        })
    }

    /// [`Library::lookup`], and the implementation accepts whatever `input_schema` lets through.
    pub fn bind(&self, reference: &str, input_schema: &Value) -> Result<&Arc<dyn DynTool>, BindError> {
        let tool = self.lookup(reference)?;
        let spec = tool.spec();
        accepts(&spec.input_schema, input_schema).map_err(|mismatch| BindError::Incompatible {
            name: spec.name.clone(),
            version: spec.version.clone(),
            mismatch,
        })?;
        Ok(tool)
    }

    /// The highest version of every function, by name.
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
    fn two_libraries_bind_one_name_to_different_implementations() {
        let a = Library::new("a").with_dyn(constant("answer", json!({}), 1));
        let b = Library::new("b").with_dyn(constant("answer", json!({}), 2));
        assert!(!Arc::ptr_eq(a.lookup("answer").unwrap(), b.lookup("answer@^1").unwrap()));
    }

    #[test]
    fn what_cannot_be_bound_says_why() {
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
    fn the_last_registration_of_a_version_wins() {
        let library = Library::new("l").with_dyn(constant("x", json!({}), 1)).with_dyn(constant(
            "x",
            json!({ "type": "object" }),
            2,
        ));
        assert_eq!(library.lookup("x").unwrap().spec().input_schema, json!({ "type": "object" }));
    }
}
