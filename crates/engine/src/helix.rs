//! The backend of tools of type HELIX, which are operations of a control plane. The provider's type decides whether a
//! tool is called over HTTP or gRPC.

use std::sync::Arc;

use futures::future::BoxFuture;
use toolwright_tools::ToolFailure;
use toolwright_tools::executor::{Attempt, Backend, BackendReply};
use toolwright_types::ProviderType;

/// Dispatches a call to the HTTP or the gRPC backend.
pub(crate) struct HelixBackend {
    pub http: Arc<dyn Backend>,
    pub grpc: Arc<dyn Backend>,
}

impl Backend for HelixBackend {
    fn attempt<'a>(&'a self, attempt: Attempt<'a>) -> BoxFuture<'a, Result<BackendReply, ToolFailure>> {
        match attempt.tool.provider.as_deref().map(|provider| provider.config.provider_type) {
            Some(ProviderType::Grpc) => self.grpc.attempt(attempt),
            _ => self.http.attempt(attempt),
        }
    }
}
