//! HELIX tools: operations of a control plane, over HTTP or gRPC as its provider says.

use std::sync::Arc;

use futures::future::BoxFuture;
use toolwright_tools::ToolFailure;
use toolwright_tools::executor::{Attempt, Backend, Reply};
use toolwright_types::ProviderType;

/// Both ways to a control plane.
pub(crate) struct ControlPlane {
    pub http: Arc<dyn Backend>,
    pub grpc: Arc<dyn Backend>,
}

impl Backend for ControlPlane {
    fn attempt<'a>(&'a self, attempt: Attempt<'a>) -> BoxFuture<'a, Result<Reply, ToolFailure>> {
        match attempt.tool.provider.as_deref().map(|provider| provider.config.provider_type) {
            Some(ProviderType::Grpc) => self.grpc.attempt(attempt),
            _ => self.http.attempt(attempt),
        }
    }
}
