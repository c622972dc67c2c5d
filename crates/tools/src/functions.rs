//! Runs FUNCTION tools: implementations that a library binds at run time.

use std::sync::Arc;

use futures::future::BoxFuture;
use toolwright_types::ErrorCode;

use crate::executor::{Attempt, Backend, Reply};
use crate::http::HttpClient;
use crate::tool::ToolCx;
use crate::{CompiledTool, Library, ToolFailure};

/// The backend of FUNCTION tools over one library.
pub struct Functions {
    library: Arc<Library>,
    http: HttpClient,
}

impl Functions {
    /// Functions of `library`, with `http` for those that need it.
    pub fn new(library: Arc<Library>, http: HttpClient) -> Self {
        Self { library, http }
    }

    async fn call(&self, attempt: Attempt<'_>) -> Result<Reply, ToolFailure> {
        let path = attempt.tool.definition.invocation.path.as_deref().unwrap_or_default();
        let deny = |error: crate::BindError| {
            ToolFailure::fatal(ErrorCode::PolicyDenied, error.to_string()).reason("unbound_function")
        };
        if attempt.tool.arguments.is_none() {
            // Compared on every call, because another library may have been bound since the definition was saved;
            // equal schemas, the usual case, cost one comparison.
            self.library.bind(path, attempt.tool.input.source()).map_err(deny)?;
        }
        let arguments = attempt.arguments()?;
        let tool = self.library.lookup(path).map_err(deny)?;
        let cx = ToolCx {
            executor: attempt.executor,
            call: attempt.cx,
            auth: attempt.secrets,
            idempotency_key: attempt.idempotency_key,
            http: &self.http,
            clock: attempt.clock,
            queue: attempt.queue,
        };
        tool.call(&cx, arguments).await.map(Reply::of)
    }
}

impl Backend for Functions {
    fn attempt<'a>(&'a self, attempt: Attempt<'a>) -> BoxFuture<'a, Result<Reply, ToolFailure>> {
        Box::pin(self.call(attempt))
    }

    fn implementation(&self, tool: &CompiledTool) -> String {
        let path = tool.definition.invocation.path.as_deref().unwrap_or_default();
        let version = self.library.lookup(path).map(|tool| tool.spec().version.to_string()).unwrap_or_default();
        format!("{}/{path}@{version}", self.library.name())
    }
}
