//! The methods of a provider: found once, kept until the provider is changed.

use std::sync::Arc;
use std::time::Duration;

use base64::Engine;
use prost_reflect::{DescriptorPool, MethodDescriptor};
use toolwright_tools::ToolFailure;
use toolwright_types::ErrorCode;

use crate::reflection::{self, Server};
use crate::status::failed;

/// How long what a server says of itself is believed.
const BELIEVED: Duration = Duration::from_secs(600);

/// Descriptors that cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("the descriptor set cannot be read: {0}")]
pub struct InvalidDescriptors(String);

/// The services of a descriptor set in base64, as `protoc --descriptor_set_out --include_imports` writes it.
pub fn pool(base64: &str) -> Result<DescriptorPool, InvalidDescriptors> {
    let compact: String = base64.chars().filter(|letter| !letter.is_ascii_whitespace()).collect();
    let bytes = base64::engine::general_purpose::STANDARD
        .decode(compact)
        .map_err(|error| InvalidDescriptors(format!("it is no base64: {error}")))?;
    DescriptorPool::decode(bytes.as_slice()).map_err(|error| InvalidDescriptors(error.to_string()))
}

/// What is known of servers, by the hash of their provider and the service.
pub(crate) struct Methods(moka::future::Cache<(String, String), DescriptorPool>);

impl Default for Methods {
    fn default() -> Self {
        Self(moka::future::Cache::builder().max_capacity(1_000).time_to_live(BELIEVED).build())
    }
}

impl Methods {
    /// The method of a service; its server is asked if its provider does not describe it.
    pub async fn find(
        &self,
        provider: &str,
        descriptors: Option<&str>,
        server: &Server,
        service: &str,
        method: &str,
    ) -> Result<MethodDescriptor, ToolFailure> {
        let key = (provider.to_owned(), service.to_owned());
        let known = async {
            match descriptors {
                Some(text) => pool(text).map_err(|error| unusable(error.to_string())),
                None => {
                    let files = reflection::describe(server, &[service.to_owned()]).await;
                    let files = files.map_err(|status| failed(&status))?;
                    DescriptorPool::from_file_descriptor_set(files).map_err(|error| unusable(error.to_string()))
                }
            }
        };
        let pool = self.0.try_get_with(key, known).await.map_err(|error: Arc<ToolFailure>| (*error).clone())?;
        let service = pool.get_service_by_name(service).ok_or_else(|| unknown(format!("no service `{service}`")))?;
        let found = service.methods().find(|known| known.name() == method);
        found.ok_or_else(|| {
            let all: Vec<String> = service.methods().map(|method| format!("`{}`", method.name())).collect();
            unknown(format!("service `{}` has no method `{method}`; it has {}", service.full_name(), all.join(", ")))
        })
    }
}

fn unusable(message: String) -> ToolFailure {
    ToolFailure::fatal(ErrorCode::ProviderError, message).reason("descriptors")
}

fn unknown(message: String) -> ToolFailure {
    ToolFailure::fatal(ErrorCode::PolicyDenied, message).reason("unknown_method")
}
