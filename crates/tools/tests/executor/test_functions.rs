//! Functions for tests, implemented as closures.

use std::future::Future;
use std::sync::Arc;

use futures::future::BoxFuture;
use serde_json::Value;
use toolwright_tools::{DynTool, Library, ToolCx, ToolFailure, ToolSpec};

/// A tool that calls an async closure with its input.
pub(crate) struct TestFunction<F> {
    spec: ToolSpec,
    run: F,
}

/// Returns a library with one function.
pub(crate) fn library<F, R>(name: &str, run: F) -> Library
where
    F: Fn(Value) -> R + Send + Sync + 'static,
    R: Future<Output = Result<Value, ToolFailure>> + Send + 'static,
{
    Library::new("tests").with_dyn(tool(name, run))
}

pub(crate) fn tool<F, R>(name: &str, run: F) -> Arc<dyn DynTool>
where
    F: Fn(Value) -> R + Send + Sync + 'static,
    R: Future<Output = Result<Value, ToolFailure>> + Send + 'static,
{
    let spec = ToolSpec::new(name, format!("test function {name}"));
    Arc::new(TestFunction { spec, run })
}

impl<F, R> DynTool for TestFunction<F>
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
