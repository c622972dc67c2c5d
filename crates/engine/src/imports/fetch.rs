//! Fetches API documents over HTTP. The egress policy decides which servers may be reached.

use std::time::Duration;

use ipnet::IpNet;
use toolwright_tools::http::{HttpClient, HttpRequest, NetworkAccess};
use toolwright_types::{ErrorCode, ToolError};
use url::Url;

const FETCH_TIMEOUT: Duration = Duration::from_secs(60);

/// Fetches the text at a URL.
pub(super) async fn fetch_text(http: &HttpClient, url: Url, allow: &[IpNet]) -> Result<String, ToolError> {
    let request = HttpRequest::get(url);
    let access = NetworkAccess { allow, certificate: None };
    let response = tokio::time::timeout(FETCH_TIMEOUT, http.send(request, &access)).await;
    let timed_out = |_| ToolError::new(ErrorCode::Timeout, format!("no response within {} s", FETCH_TIMEOUT.as_secs()));
    let response = response.map_err(timed_out)?.map_err(|failure| failure.error)?;
    if !response.status.is_success() {
        return Err(ToolError::new(ErrorCode::ProviderError, format!("the server responded with {}", response.status)));
    }
    String::from_utf8(response.body.into())
        .map_err(|_| ToolError::new(ErrorCode::ProviderError, "the response must be UTF-8 text"))
}
