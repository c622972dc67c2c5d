//! Runs FUNCTION tools, whose implementations a library binds at run time.

use std::sync::{Arc, Mutex, PoisonError};

use futures::future::BoxFuture;
use serde_json::Value;
use toolwright_types::{DefinitionSource, ErrorCode, SideEffects};

use crate::executor::{Attempt, Backend, BackendReply};
use crate::http_client::HttpClient;
use crate::tool::ToolCx;
use crate::{CompiledTool, Library, ToolFailure};

/// The backend of FUNCTION tools. It calls the functions of one library.
pub struct FunctionBackend {
    library: Arc<Library>,
    http: HttpClient,
}

impl FunctionBackend {
    /// Creates a backend for the functions of `library`. Functions send HTTP requests through `http`.
    pub fn new(library: Arc<Library>, http: HttpClient) -> Self {
        Self { library, http }
    }

    async fn call(&self, attempt: Attempt<'_>) -> Result<BackendReply, ToolFailure> {
        let path = attempt.tool.definition.invocation.path.as_deref().unwrap_or_default();
        let deny = |error: crate::FunctionBindError| {
            ToolFailure::fatal(ErrorCode::PolicyDenied, error.to_string()).reason("unbound_function")
        };
        if attempt.tool.arguments.is_none() {
            // The schemas are compared on every call, because the library may have changed since the definition was
            // saved. Usually they are equal, and a single equality check is enough.
            self.library.bind(path, attempt.tool.input.source()).map_err(deny)?;
        }
        let arguments = attempt.arguments()?;
        let tool = self.library.lookup(path).map_err(deny)?;
        let reply = Mutex::new(BackendReply::default());
        let cx = ToolCx {
            executor: attempt.executor,
            call: attempt.cx,
            auth: attempt.secrets,
            idempotency_key: attempt.idempotency_key,
            http: &self.http,
            clock: attempt.clock,
            queue: attempt.queue,
            messages: attempt.messages,
            reply: &reply,
        };
        let output = tool.call(&cx, arguments).await?;
        Ok(BackendReply { output, ..reply.into_inner().unwrap_or_else(PoisonError::into_inner) })
    }
}

impl Backend for FunctionBackend {
    fn attempt<'a>(&'a self, attempt: Attempt<'a>) -> BoxFuture<'a, Result<BackendReply, ToolFailure>> {
        Box::pin(self.call(attempt))
    }

    fn effects(&self, tool: &CompiledTool, input: &Value) -> SideEffects {
        // Only the side effects of built-in functions depend on the input. For a stored definition, the side effects
        // that its author declared apply to every call.
        if tool.effects != SideEffects::Writes || tool.source != DefinitionSource::BuiltIn {
            return tool.effects;
        }
        let path = tool.definition.invocation.path.as_deref().unwrap_or_default();
        self.library.lookup(path).map_or(tool.effects, |function| function.effects(input))
    }

    fn deletes(&self, tool: &CompiledTool, input: &Value) -> bool {
        let path = tool.definition.invocation.path.as_deref().unwrap_or_default();
        self.library.lookup(path).is_ok_and(|function| function.deletes(input))
    }

    fn implementation(&self, tool: &CompiledTool) -> String {
        let path = tool.definition.invocation.path.as_deref().unwrap_or_default();
        let version = self.library.lookup(path).map(|tool| tool.spec().version.to_string()).unwrap_or_default();
        format!("{}/{path}@{version}", self.library.name())
    }
}
