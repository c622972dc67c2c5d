//! Messages that the library cannot read: what is wrong with them, as JSON-RPC says it.

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

use super::Answer;

pub(super) const JSON: &str = "application/json";
const PARAMS: &str = "`params` of a message is an object";

/// Whether something says that it is JSON.
pub(super) fn is_json(headers: &HeaderMap) -> bool {
    headers.get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).is_some_and(|kind| kind.starts_with(JSON))
}

/// The answer to a message that the library gave up on, if it said no more than that.
pub(super) fn instead_of(answer: &Answer, body: &Bytes) -> Option<Answer> {
    if is_json(answer.headers()) {
        return None;
    }
    match answer.status() {
        StatusCode::UNSUPPORTED_MEDIA_TYPE => Some(written(&error(&serde_json::from_slice(body)))),
        // Whoever begins wrongly is told that a session is missing.
        StatusCode::BAD_REQUEST => {
            let message: Value = serde_json::from_slice(body).ok()?;
            let method = message.get("method")?.as_str().filter(|method| *method == "initialize")?;
            let request = CustomRequest::new(method, message.get("params").cloned());
            let why = misfit::<InitializeRequestParams>(&request);
            Some(written(&error_of(unreadable(&request, &why), message.get("id"))))
        }
        _ => None,
    }
}

/// What is wrong with what is no message.
pub(super) fn error(message: &Result<Value, serde_json::Error>) -> Value {
    match message {
        Err(error) => error_of(ErrorData::parse_error(format!("the body is no JSON: {error}"), None), None),
        Ok(message) => match wrong(message) {
            PARAMS => error_of(ErrorData::invalid_params(PARAMS, None), message.get("id")),
            wrong => error_of(ErrorData::invalid_request(wrong, None), message.get("id")),
        },
    }
}

/// Why a request is none that the library knows: its method is not there, or its parameters are not those of its method.
pub(super) fn misread(request: &CustomRequest) -> ErrorData {
    let why = match request.method.as_str() {
        "tools/call" => misfit::<CallToolRequestParams>(request),
        "prompts/get" => misfit::<GetPromptRequestParams>(request),
        "resources/read" => misfit::<ReadResourceRequestParams>(request),
        "completion/complete" => misfit::<CompleteRequestParams>(request),
        "tools/list" | "prompts/list" | "resources/list" | "resources/templates/list" => {
            misfit::<PaginatedRequestParams>(request)
        }
        // Also what one revision has and another has not: that it is missing says more than what is wrong with it.
        _ => return ErrorData::new(ErrorCode::METHOD_NOT_FOUND, request.method.clone(), None),
    };
    unreadable(request, &why)
}

fn unreadable(request: &CustomRequest, why: &str) -> ErrorData {
    ErrorData::invalid_params(format!("the parameters of `{}` cannot be read: {why}", request.method), None)
}

fn misfit<T: DeserializeOwned>(request: &CustomRequest) -> String {
    match request.params_as::<T>() {
        Ok(Some(_)) => "`_meta` is of another shape".to_owned(),
        Ok(None) => "there are none".to_owned(),
        Err(error) => error.to_string(),
    }
}

/// The first thing that keeps JSON from being a message.
fn wrong(message: &Value) -> &'static str {
    let Some(fields) = message.as_object() else { return "a message is an object" };
    if fields.get("jsonrpc").is_none_or(|version| version != "2.0") {
        return "`jsonrpc` of a message is \"2.0\"";
    }
    if fields.get("id").is_some_and(|id| !is_id(id)) {
        return "`id` of a message is a text or a whole number";
    }
    match fields.get("method") {
        Some(method) if method.is_string() && fields.get("params").is_some_and(|params| !params.is_object()) => PARAMS,
        Some(method) if method.is_string() => "the message is none that the protocol knows",
        Some(_) => "`method` of a message is a text",
        None => "a message has a `method`, or answers one with `result` or `error`",
    }
}

fn is_id(id: &Value) -> bool {
    id.is_string() || id.is_i64() || id.is_u64()
}

/// An error as a message. A request whose id cannot be read is answered without one.
pub(super) fn error_of(error: ErrorData, id: Option<&Value>) -> Value {
    let id = id.filter(|id| is_id(id));
    json!({ "jsonrpc": "2.0", "id": id, "error": error })
}

/// A message as the answer to a request that is none.
pub(super) fn written(message: &Value) -> Answer {
    let mut response = Response::new(Full::new(Bytes::from(message.to_string())).boxed());
    *response.status_mut() = StatusCode::BAD_REQUEST;
    response.headers_mut().insert(CONTENT_TYPE, http::HeaderValue::from_static(JSON));
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_message_is_told_with_its_place() {
        for (body, code, id, part) in [
            ("{", -32700, Value::Null, "no JSON"),
            ("", -32700, Value::Null, "no JSON"),
            ("7", -32600, Value::Null, "an object"),
            (r#"{"id":1,"method":"ping"}"#, -32600, json!(1), "jsonrpc"),
            (r#"{"jsonrpc":"2.0","id":1.5,"method":"ping"}"#, -32600, Value::Null, "`id`"),
            (r#"{"jsonrpc":"2.0","id":"a","method":7}"#, -32600, json!("a"), "`method`"),
            (r#"{"jsonrpc":"2.0","id":9,"method":"tools/call","params":[]}"#, -32602, json!(9), "`params`"),
            (r#"{"jsonrpc":"2.0","id":"a"}"#, -32600, json!("a"), "`result`"),
        ] {
            let error = error(&serde_json::from_str(body));
            assert_eq!((&error["error"]["code"], &error["id"]), (&json!(code), &id), "{body}");
            assert!(error["error"]["message"].as_str().unwrap().contains(part), "{body}: {error}");
        }
    }

    #[test]
    fn parameters_that_do_not_fit_are_told_from_methods_that_are_not_there() {
        for (method, params, code, part) in [
            ("tools/call", Some(json!({})), -32602, "`name`"),
            ("tools/call", None, -32602, "there are none"),
            ("tools/call", Some(json!({ "name": "t", "arguments": 7 })), -32602, "expected"),
            ("tools/list", Some(json!({ "cursor": 7 })), -32602, "string"),
            ("prompts/get", Some(json!({})), -32602, "`name`"),
            ("tools/cull", Some(json!({})), -32601, "tools/cull"),
            ("initialize", Some(json!({})), -32601, "initialize"),
        ] {
            let error = misread(&CustomRequest::new(method, params));
            assert_eq!(error.code.0, code, "{method}: {}", error.message);
            assert!(error.message.contains(part), "{method}: {}", error.message);
        }
    }
}
