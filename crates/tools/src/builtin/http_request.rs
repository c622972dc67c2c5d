use std::collections::BTreeMap;

use reqwest::Method;
use reqwest::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use toolwright_types::SideEffects;
use url::Url;

use crate::executor::Redactor;
use crate::http::interpret;
use crate::http_client::{HttpRequest, NetworkAccess};
use crate::{Tool, ToolCx, ToolFailure};

/// Makes an HTTP request to a public address and returns the response. GET, HEAD and OPTIONS are reads; every other
/// method is a write.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct HttpRequestTool {
    /// The absolute URL.
    url: String,
    /// The method; GET when absent.
    #[serde(default)]
    method: Option<String>,
    /// Headers to send.
    #[serde(default)]
    headers: BTreeMap<String, String>,
    /// The body. A string is sent unchanged, any other value as JSON.
    #[serde(default)]
    body: Option<Value>,
}

#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct Answer {
    /// The HTTP status.
    status: u16,
    /// Selected headers of the response.
    headers: BTreeMap<String, String>,
    /// The body: parsed JSON, or text. For images and other binary data an object with `contentType` and `bytes`; the
    /// data itself is an attachment of the call.
    body: Value,
}

impl Tool for HttpRequestTool {
    const NAME: &'static str = "http_request";
    const SIDE_EFFECTS: SideEffects = SideEffects::Writes;
    type Output = Answer;

    fn effects(input: &Value) -> SideEffects {
        match input.get("method") {
            None | Some(Value::Null) => SideEffects::Reads,
            Some(method) => match method.as_str().map(str::to_ascii_uppercase).as_deref() {
                Some("GET" | "HEAD" | "OPTIONS") => SideEffects::Reads,
                _ => SideEffects::Writes,
            },
        }
    }

    fn deletes(input: &Value) -> bool {
        input.get("method").and_then(Value::as_str).is_some_and(|method| method.eq_ignore_ascii_case("DELETE"))
    }

    async fn call(self, cx: &ToolCx<'_>) -> Result<Answer, ToolFailure> {
        let url = Url::parse(&self.url).map_err(|error| ToolFailure::invalid(format!("`url`: {error}")))?;
        let method = self.method.as_deref().unwrap_or("GET").to_ascii_uppercase();
        let method = Method::from_bytes(method.as_bytes())
            .map_err(|_| ToolFailure::invalid(format!("`{method}` is not an HTTP method")))?;
        let mut headers = HeaderMap::new();
        for (name, value) in &self.headers {
            let name: HeaderName =
                name.parse().map_err(|_| ToolFailure::invalid(format!("`{name}` is not a valid header name")))?;
            let value = HeaderValue::from_str(value).map_err(|_| {
                ToolFailure::invalid(format!(
                    "the value of header `{name}` contains characters that are not allowed in a header"
                ))
            })?;
            headers.insert(name, value);
        }
        let correlation = cx.call.caller.correlation_id.as_ref().map(|id| HeaderValue::from_str(id.as_str()));
        if let Some(Ok(id)) = correlation {
            headers.entry("x-correlation-id").or_insert(id);
        }
        let body = match self.body {
            None => None,
            Some(Value::String(text)) => Some(text.into()),
            Some(json) => {
                headers.entry(CONTENT_TYPE).or_insert(HeaderValue::from_static("application/json"));
                Some(json.to_string().into())
            }
        };
        // The caller's headers are for the host in the URL, not for the target of a redirect.
        let request = HttpRequest { method, url, headers: HeaderMap::new(), origin_headers: headers, body };
        let response = cx.http.send(request, &NetworkAccess::default()).await?;
        let reply = interpret(response, cx.clock, &Redactor::new(cx.auth.values())).await?;
        reply.payloads.into_iter().for_each(|payload| cx.attach(payload));
        reply.warnings.into_iter().for_each(|warning| cx.warn(warning));
        Ok(Answer { status: reply.http_status.unwrap_or_default(), headers: reply.headers, body: reply.output })
    }
}
