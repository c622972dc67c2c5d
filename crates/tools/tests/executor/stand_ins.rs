//! Functions that do what a test needs.

use std::future::Future;
use std::sync::Arc;

use futures::future::BoxFuture;
use semver::Version;
use serde_json::{Value, json};
use toolwright_tools::{DynTool, Library, ToolCx, ToolFailure, ToolSpec};
use toolwright_types::SideEffects;

/// A tool made of an asynchronous closure over its input.
pub struct StandIn<F> {
    spec: ToolSpec,
    run: F,
}

/// A library of one function.
pub fn library<F, R>(name: &str, run: F) -> Library
where
    F: Fn(Value) -> R + Send + Sync + 'static,
    R: Future<Output = Result<Value, ToolFailure>> + Send + 'static,
{
    Library::new("tests").with_dyn(tool(name, run))
}

pub fn tool<F, R>(name: &str, run: F) -> Arc<dyn DynTool>
where
    F: Fn(Value) -> R + Send + Sync + 'static,
    R: Future<Output = Result<Value, ToolFailure>> + Send + 'static,
{
    let spec = ToolSpec {
        name: name.to_owned(),
        version: Version::new(1, 0, 0),
        description: format!("stands in for {name}"),
        input_schema: json!({}),
        output_schema: json!({}),
        side_effects: SideEffects::None,
    };
    Arc::new(StandIn { spec, run })
}

impl<F, R> DynTool for StandIn<F>
where
    F: Fn(Value) -> R + Send + Sync + 'static,
    R: Future<Output = Result<Value, ToolFailure>> + Send + 'static,
{
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn call<'a>(&'a self, _cx: &'a ToolCx<'a>, input: Value) -> BoxFuture<'a, Result<Value, ToolFailure>> {
        Box::pin((self.run)(input))
    }
}
