//! A client for HELIX, an external service that runs a model. The service accepts an `LLMRequest` and returns an
//! `LLMResponse`, as JSON over HTTP POST.
//!
//! The interface does not stream, so the sink receives the whole text as one delta. Tool names and schemas are sent
//! unchanged, because the interface imposes no restrictions on them.

use std::fmt;
use std::time::Duration;

use futures::StreamExt as _;
use futures::future::BoxFuture;
use secrecy::{ExposeSecret, SecretString};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use toolwright_types::{
    Arguments, Message, ModelReply, ModelRequest, RequestedCall, ResponseFormat, StopReason, Usage,
};
use url::Url;

use crate::{ErrorKind, Model, ModelConfig, ModelError, Price, Sink};

const PROVIDER: &str = "helix";
/// The maximum size of a response body, in bytes.
const MAX_BODY_BYTES: usize = 16 << 20;

/// A model that an external service runs.
pub(crate) struct HelixModel {
    client: reqwest::Client,
    url: Url,
    key: SecretString,
    model: String,
    timeout: Duration,
    price: Option<Price>,
}

impl HelixModel {
    pub(crate) fn new(
        client: reqwest::Client,
        config: &ModelConfig,
        mut url: Url,
        key: SecretString,
        price: Option<Price>,
    ) -> Self {
        // No path is joined to this URL, so the slash that `endpoint` appends is removed again.
        let path = url.path().trim_end_matches('/').to_owned();
        url.set_path(&path);
        Self { client, url, key, model: config.model.clone(), timeout: config.timeout, price }
    }

    async fn send(&self, request: &ModelRequest, sink: &mut dyn Sink) -> Result<ModelReply, ModelError> {
        let exchange = async {
            let post = self.client.post(self.url.clone()).bearer_auth(self.key.expose_secret());
            let response = post.json(&LlmRequest::new(&self.model, request)).send().await;
            let response = response.map_err(|error| ModelError::from_transport(PROVIDER, &error.without_url()))?;
            let (status, headers) = (response.status(), response.headers().clone());
            let body = read_body(response).await?.replace(self.key.expose_secret(), "[redacted]");
            if status.is_success() {
                Ok(body)
            } else {
                Err(ModelError::from_status(PROVIDER, status.as_u16(), &headers, &body))
            }
        };
        let timed_out = |_| ModelError::new(ErrorKind::Timeout, "helix did not respond in time");
        let body = tokio::time::timeout(self.timeout, exchange).await.map_err(timed_out)??;
        let response: LlmResponse = toolwright_budget::from_slice(body.as_bytes()).map_err(|error| {
            ModelError::new(ErrorKind::Malformed, format!("helix did not return an `LLMResponse`: {error}"))
        })?;
        let mut reply = response.into_reply()?;
        if !reply.content.is_empty() {
            sink.text(&reply.content);
        }
        reply.cost_usd = self.price.map(|price| price.cost(reply.usage));
        Ok(reply)
    }
}

async fn read_body(response: reqwest::Response) -> Result<String, ModelError> {
    let mut body = Vec::new();
    let mut chunks = response.bytes_stream();
    while let Some(chunk) = chunks.next().await {
        let chunk = chunk.map_err(|error| ModelError::from_transport(PROVIDER, &error.without_url()))?;
        if body.len() + chunk.len() > MAX_BODY_BYTES {
            return Err(ModelError::new(ErrorKind::Malformed, "the response of helix must not exceed 16 MiB"));
        }
        body.extend_from_slice(&chunk);
    }
    String::from_utf8(body)
        .map_err(|_| ModelError::new(ErrorKind::Malformed, "the response of helix is not valid UTF-8"))
}

impl Model for HelixModel {
    fn complete<'a>(
        &'a self,
        request: &'a ModelRequest,
        sink: &'a mut dyn Sink,
    ) -> BoxFuture<'a, Result<ModelReply, ModelError>> {
        Box::pin(self.send(request, sink))
    }
}

impl fmt::Debug for HelixModel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "HelixModel({})", self.model)
    }
}

/// The `LLMRequest` of the interface.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct LlmRequest<'a> {
    model: &'a str,
    messages: Vec<Value>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tools: Vec<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    temperature: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_tokens: Option<u32>,
    response_format: &'static str,
    #[serde(skip_serializing_if = "Map::is_empty")]
    extra_params: Map<String, Value>,
}

impl<'a> LlmRequest<'a> {
    fn new(model: &'a str, request: &ModelRequest) -> Self {
        let mut extra_params = request.extra.clone();
        if let ResponseFormat::Structured(schema) = &request.response_format {
            extra_params.insert("responseSchema".into(), schema.clone());
        }
        if !request.parallel_tool_calls {
            extra_params.insert("parallelToolCalls".into(), json!(false));
        }
        let tools = request.tools.iter();
        Self {
            model,
            messages: request.messages.iter().map(message_json).collect(),
            tools: tools
                .map(|tool| json!({"name": tool.name, "description": tool.description, "inputSchema": tool.input_schema}))
                .collect(),
            temperature: request.temperature,
            max_tokens: request.max_output_tokens,
            response_format: if request.response_format == ResponseFormat::Text { "text" } else { "json_object" },
            extra_params,
        }
    }
}

fn message_json(message: &Message) -> Value {
    match message {
        Message::System { content } => json!({"role": "system", "content": content}),
        Message::User { content } => json!({"role": "user", "content": content}),
        Message::Tool { id, name, content, is_error, .. } => {
            json!({"role": "tool", "toolCallId": id, "toolName": name, "content": content, "isError": is_error})
        }
        Message::Assistant { content, tool_calls, .. } => {
            let calls = tool_calls
                .iter()
                .map(|call| json!({"id": call.id, "toolName": call.name, "arguments": call.arguments.to_value()}));
            json!({"role": "assistant", "content": content, "toolCalls": calls.collect::<Vec<_>>()})
        }
    }
}

/// The `LLMResponse` of the interface. Unknown fields are ignored.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct LlmResponse {
    content: Option<String>,
    tool_calls: Option<Vec<LlmToolCall>>,
    usage: Option<LlmUsage>,
    stop_reason: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct LlmToolCall {
    id: Option<String>,
    tool_name: String,
    arguments: Option<Value>,
}

/// The token counts. The interface does not define the field names. These are the names that existing services use.
#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct LlmUsage {
    #[serde(alias = "promptTokens", alias = "input_tokens")]
    input_tokens: u64,
    #[serde(alias = "completionTokens", alias = "output_tokens")]
    output_tokens: u64,
    #[serde(alias = "cachedTokens")]
    cached_input_tokens: u64,
}

impl LlmResponse {
    fn into_reply(self) -> Result<ModelReply, ModelError> {
        let calls = self.tool_calls.unwrap_or_default().into_iter().enumerate();
        let tool_calls: Vec<RequestedCall> = calls
            .map(|(index, call)| RequestedCall {
                id: call.id.filter(|id| !id.is_empty()).unwrap_or_else(|| format!("call_{index}")),
                name: call.tool_name,
                arguments: parse_arguments(call.arguments),
            })
            .collect();
        let stop = match self.stop_reason.as_deref() {
            Some("max_tokens") => StopReason::MaxTokens,
            Some("refusal" | "content_filter") => StopReason::Refusal,
            Some("end_turn" | "tool_use") | None if !tool_calls.is_empty() => StopReason::ToolUse,
            Some("end_turn" | "tool_use") | None => StopReason::EndTurn,
            Some(other) => {
                let message = format!(
                    "the stop reason of helix must be end_turn, tool_use, max_tokens, refusal or content_filter, got `{other}`"
                );
                return Err(ModelError::new(ErrorKind::Malformed, message));
            }
        };
        let usage = self.usage.unwrap_or_default();
        Ok(ModelReply {
            content: self.content.unwrap_or_default(),
            tool_calls,
            thinking: Vec::new(),
            usage: Usage {
                input_tokens: usage.input_tokens,
                output_tokens: usage.output_tokens,
                cached_input_tokens: usage.cached_input_tokens,
            },
            stop,
            cost_usd: None,
        })
    }
}

/// Converts the arguments of a call. The interface defines them as JSON, but some services send JSON as a string.
fn parse_arguments(given: Option<Value>) -> Arguments {
    match given {
        None | Some(Value::Null) => Arguments::Json(json!({})),
        Some(Value::String(text)) => match serde_json::from_str(&text) {
            Ok(parsed) => Arguments::Json(parsed),
            Err(_) => Arguments::Malformed(text),
        },
        Some(other) => Arguments::Json(other),
    }
}
