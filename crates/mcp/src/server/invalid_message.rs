//! Creates JSON-RPC errors for messages that rmcp cannot parse.

use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::{HeaderMap, Response, StatusCode};
use http_body_util::{BodyExt, Full};
use rmcp::ErrorData;
use rmcp::model::{
    CallToolRequestParams, CompleteRequestParams, CustomRequest, ErrorCode, GetPromptRequestParams,
    InitializeRequestParams, PaginatedRequestParams, ReadResourceRequestParams,
};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::McpResponse;

pub(super) const JSON: &str = "application/json";
const PARAMS_RULE: &str = "`params` must be an object";

/// Whether the content type is JSON.
pub(super) fn is_json(headers: &HeaderMap) -> bool {
    headers.get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).is_some_and(|kind| kind.starts_with(JSON))
}

/// If rmcp rejected a message and did not return a JSON-RPC error, returns a precise JSON-RPC error.
pub(super) fn replacement(answer: &McpResponse, body: &Bytes) -> Option<McpResponse> {
    if is_json(answer.headers()) {
        return None;
    }
    match answer.status() {
        StatusCode::UNSUPPORTED_MEDIA_TYPE => Some(bad_request(&message_error(&serde_json::from_slice(body)))),
        // If the parameters of `initialize` are invalid, rmcp reports a missing session, which is misleading.
        StatusCode::BAD_REQUEST => {
            let message: Value = serde_json::from_slice(body).ok()?;
            let method = message.get("method")?.as_str().filter(|method| *method == "initialize")?;
            let request = CustomRequest::new(method, message.get("params").cloned());
            let why = params_error::<InitializeRequestParams>(&request);
            Some(bad_request(&error_message(invalid_params_error(&request, &why), message.get("id"))))
        }
        _ => None,
    }
}

/// The error for a body that is not a JSON-RPC message.
pub(super) fn message_error(message: &Result<Value, serde_json::Error>) -> Value {
    match message {
        Err(error) => error_message(ErrorData::parse_error(format!("the body is not valid JSON: {error}"), None), None),
        Ok(message) => match violated_rule(message) {
            PARAMS_RULE => error_message(ErrorData::invalid_params(PARAMS_RULE, None), message.get("id")),
            violated_rule => error_message(ErrorData::invalid_request(violated_rule, None), message.get("id")),
        },
    }
}

/// The error for a request that rmcp does not recognize. Either the method is unknown, or the parameters of a known
/// method are invalid.
pub(super) fn unknown_request_error(request: &CustomRequest) -> ErrorData {
    let why = match request.method.as_str() {
        "tools/call" => params_error::<CallToolRequestParams>(request),
        "prompts/get" => params_error::<GetPromptRequestParams>(request),
        "resources/read" => params_error::<ReadResourceRequestParams>(request),
        "completion/complete" => params_error::<CompleteRequestParams>(request),
        "tools/list" | "prompts/list" | "resources/list" | "resources/templates/list" => {
            params_error::<PaginatedRequestParams>(request)
        }
        // Unknown methods include methods that exist only in other protocol revisions. For them, "method not found" is
        // more helpful than an error about the parameters.
        _ => return ErrorData::new(ErrorCode::METHOD_NOT_FOUND, request.method.clone(), None),
    };
    invalid_params_error(request, &why)
}

fn invalid_params_error(request: &CustomRequest, why: &str) -> ErrorData {
    ErrorData::invalid_params(format!("the parameters of `{}` are invalid: {why}", request.method), None)
}

fn params_error<T: DeserializeOwned>(request: &CustomRequest) -> String {
    match request.params_as::<T>() {
        Ok(Some(_)) => "`_meta` has an invalid structure".to_owned(),
        Ok(None) => "`params` is required".to_owned(),
        Err(error) => error.to_string(),
    }
}

/// Returns the first rule for JSON-RPC messages that the message violates.
fn violated_rule(message: &Value) -> &'static str {
    let Some(fields) = message.as_object() else { return "a message must be a JSON object" };
    if fields.get("jsonrpc").is_none_or(|version| version != "2.0") {
        return "`jsonrpc` must be \"2.0\"";
    }
    if fields.get("id").is_some_and(|id| !is_id(id)) {
        return "`id` must be a string or an integer";
    }
    match fields.get("method") {
        Some(method) if method.is_string() && fields.get("params").is_some_and(|params| !params.is_object()) => {
            PARAMS_RULE
        }
        Some(method) if method.is_string() => "the message is not part of the protocol",
        Some(_) => "`method` must be a string",
        None => "a message must have a `method`, or a `result` or `error` if it is a response",
    }
}

fn is_id(id: &Value) -> bool {
    id.is_string() || id.is_i64() || id.is_u64()
}

/// Converts an error to a JSON-RPC message. The id is null if the request has no valid id.
pub(super) fn error_message(error: ErrorData, id: Option<&Value>) -> Value {
    let id = id.filter(|id| is_id(id));
    json!({ "jsonrpc": "2.0", "id": id, "error": error })
}

/// Creates an HTTP response with status 400 and the message as its body.
pub(super) fn bad_request(message: &Value) -> McpResponse {
    let mut response = Response::new(Full::new(Bytes::from(message.to_string())).boxed());
    *response.status_mut() = StatusCode::BAD_REQUEST;
    response.headers_mut().insert(CONTENT_TYPE, http::HeaderValue::from_static(JSON));
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invalid_message_is_rejected_with_the_violated_rule() {
        for (body, code, id, part) in [
            ("{", -32700, Value::Null, "not valid JSON"),
            ("", -32700, Value::Null, "not valid JSON"),
            ("7", -32600, Value::Null, "a JSON object"),
            (r#"{"id":1,"method":"ping"}"#, -32600, json!(1), "jsonrpc"),
            (r#"{"jsonrpc":"2.0","id":1.5,"method":"ping"}"#, -32600, Value::Null, "`id`"),
            (r#"{"jsonrpc":"2.0","id":"a","method":7}"#, -32600, json!("a"), "`method`"),
            (r#"{"jsonrpc":"2.0","id":9,"method":"tools/call","params":[]}"#, -32602, json!(9), "`params`"),
            (r#"{"jsonrpc":"2.0","id":"a"}"#, -32600, json!("a"), "`result`"),
        ] {
            let error = message_error(&serde_json::from_str(body));
            assert_eq!((&error["error"]["code"], &error["id"]), (&json!(code), &id), "{body}");
            assert!(error["error"]["message"].as_str().unwrap().contains(part), "{body}: {error}");
        }
    }

    #[test]
    fn invalid_parameters_and_unknown_methods_have_different_errors() {
        for (method, params, code, part) in [
            ("tools/call", Some(json!({})), -32602, "`name`"),
            ("tools/call", None, -32602, "`params` is required"),
            ("tools/call", Some(json!({ "name": "t", "arguments": 7 })), -32602, "expected"),
            ("tools/list", Some(json!({ "cursor": 7 })), -32602, "string"),
            ("prompts/get", Some(json!({})), -32602, "`name`"),
            ("tools/cull", Some(json!({})), -32601, "tools/cull"),
            ("initialize", Some(json!({})), -32601, "initialize"),
        ] {
            let error = unknown_request_error(&CustomRequest::new(method, params));
            assert_eq!(error.code.0, code, "{method}: {}", error.message);
            assert!(error.message.contains(part), "{method}: {}", error.message);
        }
    }
}
