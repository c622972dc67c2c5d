//! Parses and caches descriptors, which define services, methods and messages. The cache key contains the hash of the
//! provider, so the descriptors of a changed provider are loaded again.

use std::sync::Arc;
use std::time::Duration;

use base64::Engine;
use prost_reflect::{DescriptorPool, MethodDescriptor};
use toolwright_tools::ToolFailure;
use toolwright_types::ErrorCode;

use crate::reflection::{self, Server};
use crate::status::to_failure;

/// How long descriptors are cached.
const TIME_TO_LIVE: Duration = Duration::from_secs(600);

/// The error for an invalid descriptor set.
#[derive(Debug, thiserror::Error)]
#[error("the descriptor set is invalid: {0}")]
pub struct InvalidDescriptorSet(String);

/// Parses a base64-encoded descriptor set, as `protoc --descriptor_set_out --include_imports` writes it.
pub fn parse_descriptor_set(base64: &str) -> Result<DescriptorPool, InvalidDescriptorSet> {
    let compact: String = base64.chars().filter(|c| !c.is_ascii_whitespace()).collect();
    let bytes = base64::engine::general_purpose::STANDARD
        .decode(compact)
        .map_err(|error| InvalidDescriptorSet(format!("it must be base64: {error}")))?;
    DescriptorPool::decode(bytes.as_slice()).map_err(|error| InvalidDescriptorSet(error.to_string()))
}

/// The descriptors of services, keyed by the provider's hash and the service name.
pub(crate) struct DescriptorCache(moka::future::Cache<(String, String), DescriptorPool>);

impl Default for DescriptorCache {
    fn default() -> Self {
        Self(moka::future::Cache::builder().max_capacity(1_000).time_to_live(TIME_TO_LIVE).build())
    }
}

impl DescriptorCache {
    /// Returns a method of a service. Requests the descriptors from the server if the provider has no descriptor set.
    pub(crate) async fn find_method(
        &self,
        provider: &str,
        descriptor_set: Option<&str>,
        server: &Server,
        service: &str,
        method: &str,
    ) -> Result<MethodDescriptor, ToolFailure> {
        let key = (provider.to_owned(), service.to_owned());
        let load = async {
            match descriptor_set {
                Some(text) => parse_descriptor_set(text).map_err(|error| invalid_descriptors(error.to_string())),
                None => {
                    let files = reflection::fetch_descriptors(server, &[service.to_owned()]).await;
                    let files = files.map_err(|status| to_failure(&status))?;
                    let pool = DescriptorPool::from_file_descriptor_set(files);
                    pool.map_err(|error| invalid_descriptors(error.to_string()))
                }
            }
        };
        let pool = self.0.try_get_with(key, load).await.map_err(|error: Arc<ToolFailure>| (*error).clone())?;
        let unknown_service = || unknown_method(format!("service `{service}` does not exist"));
        let service = pool.get_service_by_name(service).ok_or_else(unknown_service)?;
        let found = service.methods().find(|candidate| candidate.name() == method);
        found.ok_or_else(|| {
            let names: Vec<String> = service.methods().map(|method| format!("`{}`", method.name())).collect();
            let names = names.join(", ");
            unknown_method(format!("service `{}` has no method `{method}`; it has {names}", service.full_name()))
        })
    }
}

fn invalid_descriptors(message: String) -> ToolFailure {
    ToolFailure::fatal(ErrorCode::ProviderError, message).reason("descriptors")
}

fn unknown_method(message: String) -> ToolFailure {
    ToolFailure::fatal(ErrorCode::PolicyDenied, message).reason("unknown_method")
}
