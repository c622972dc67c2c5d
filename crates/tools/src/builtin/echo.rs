//! The `echo` function, which returns its input. It is implemented as a closure, because it has no typed arguments.

use std::sync::Arc;

use serde_json::json;

use crate::tool::{DynTool, FunctionTool};

pub(super) fn tool() -> Arc<dyn DynTool> {
    FunctionTool::erase("echo", "Returns its input unchanged.", json!({}), Ok)
}
