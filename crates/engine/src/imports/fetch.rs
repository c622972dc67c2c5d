//! Documents that are elsewhere, under the rules for everything that goes out.

use std::time::Duration;

use ipnet::IpNet;
use toolwright_tools::http::{Access, HttpClient, HttpRequest};
use toolwright_types::{ErrorCode, ToolError};
use url::Url;

/// How long a document may take to arrive.
const PATIENCE: Duration = Duration::from_secs(60);

/// The text at a URL.
pub(super) async fn text(http: &HttpClient, url: Url, allow: &[IpNet]) -> Result<String, ToolError> {
    let request = HttpRequest::get(url);
    let access = Access { allow, certificate: None };
    let answer = tokio::time::timeout(PATIENCE, http.send(request, &access)).await;
    let late = |_| ToolError::new(ErrorCode::Timeout, format!("it did not arrive within {} s", PATIENCE.as_secs()));
    let answer = answer.map_err(late)?.map_err(|failure| failure.error)?;
    if !answer.status.is_success() {
        return Err(ToolError::new(ErrorCode::ProviderError, format!("the server there answered {}", answer.status)));
    }
    String::from_utf8(answer.body.into()).map_err(|_| ToolError::new(ErrorCode::ProviderError, "it is no UTF-8 text"))
}
