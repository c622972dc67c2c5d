//! An external reasoner behind an interface of its own, `LLMRequest` in, `LLMResponse` out, as JSON by POST.
//!
//! It does not stream, so the sink hears the whole text at once. Names and schemas go as they are: the interface is
//! ours, and the interface has it match `ToolDefinition.name`.

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
/// More than this is not read from an answer.
const LARGEST_BODY: usize = 16 << 20;

/// An external reasoner.
pub(crate) struct Helix {
    client: reqwest::Client,
    url: Url,
    key: SecretString,
    model: String,
    timeout: Duration,
    price: Option<Price>,
}

impl Helix {
    pub fn new(
        client: reqwest::Client,
        config: &ModelConfig,
        mut url: Url,
        key: SecretString,
        price: Option<Price>,
    ) -> Self {
        // The address is that of the interface itself, so a slash that was only added is taken off again.
        let path = url.path().trim_end_matches('/').to_owned();
        url.set_path(&path);
        Self { client, url, key, model: config.model.clone(), timeout: config.timeout, price }
    }

    async fn ask(&self, request: &ModelRequest, sink: &mut dyn Sink) -> Result<ModelReply, ModelError> {
        let exchange = async {
            let sent = self.client.post(self.url.clone()).bearer_auth(self.key.expose_secret());
            let answer = sent.json(&LlmRequest::of(&self.model, request)).send().await;
            let answer = answer.map_err(|error| ModelError::from_transport(PROVIDER, &error.without_url()))?;
            let (status, headers) = (answer.status(), answer.headers().clone());
            let body = read(answer).await?.replace(self.key.expose_secret(), "[redacted]");
            if status.is_success() {
                Ok(body)
            } else {
                Err(ModelError::from_status(PROVIDER, status.as_u16(), &headers, &body))
            }
        };
        let silent = |_| ModelError::new(ErrorKind::Timeout, "helix was silent for too long");
        let body = tokio::time::timeout(self.timeout, exchange).await.map_err(silent)??;
        let response: LlmResponse = serde_json::from_str(&body)
            .map_err(|error| ModelError::new(ErrorKind::Malformed, format!("helix gave no LLMResponse: {error}")))?;
        let mut reply = response.into_reply()?;
        if !reply.content.is_empty() {
            sink.text(&reply.content);
        }
        reply.cost_usd = self.price.map(|price| price.cost(reply.usage));
        Ok(reply)
    }
}

async fn read(answer: reqwest::Response) -> Result<String, ModelError> {
    let mut body = Vec::new();
    let mut pieces = answer.bytes_stream();
    while let Some(piece) = pieces.next().await {
        let piece = piece.map_err(|error| ModelError::from_transport(PROVIDER, &error.without_url()))?;
        if body.len() + piece.len() > LARGEST_BODY {
            return Err(ModelError::new(ErrorKind::Malformed, "helix gave more than 16 MB"));
        }
        body.extend_from_slice(&piece);
    }
    String::from_utf8(body).map_err(|_| ModelError::new(ErrorKind::Malformed, "helix sent what is not text"))
}

impl Model for Helix {
    fn complete<'a>(
        &'a self,
        request: &'a ModelRequest,
        sink: &'a mut dyn Sink,
    ) -> BoxFuture<'a, Result<ModelReply, ModelError>> {
        Box::pin(self.ask(request, sink))
    }
}

impl fmt::Debug for Helix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Helix({})", self.model)
    }
}

/// The interface's class of this name.
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
    fn of(model: &'a str, request: &ModelRequest) -> Self {
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
            messages: request.messages.iter().map(message).collect(),
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

fn message(message: &Message) -> Value {
    match message {
        Message::System { content } => json!({"role": "system", "content": content}),
        Message::User { content } => json!({"role": "user", "content": content}),
        Message::Tool { id, name, content, is_error, .. } => {
            json!({"role": "tool", "toolCallId": id, "toolName": name, "content": content, "isError": is_error})
        }
        Message::Assistant { content, tool_calls, .. } => {
            let calls = tool_calls.iter().map(|call| {
                let arguments = match &call.arguments {
                    Arguments::Json(value) => value.clone(),
                    Arguments::Malformed(text) => json!(text),
                };
                json!({"id": call.id, "toolName": call.name, "arguments": arguments})
            });
            json!({"role": "assistant", "content": content, "toolCalls": calls.collect::<Vec<_>>()})
        }
    }
}

/// The interface's class of this name. Fields that it does not name are passed over.
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

/// The interface leaves the names of the counts open; these are the ones in use.
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
                arguments: arguments(call.arguments),
            })
            .collect();
        let stop = match self.stop_reason.as_deref() {
            Some("max_tokens") => StopReason::MaxTokens,
            Some("refusal" | "content_filter") => StopReason::Refusal,
            Some("end_turn" | "tool_use") | None if !tool_calls.is_empty() => StopReason::ToolUse,
            Some("end_turn" | "tool_use") | None => StopReason::EndTurn,
            Some(other) => {
                let message = format!("helix stopped with `{other}`, which is none of end_turn, tool_use, max_tokens");
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

/// The interface has parsed arguments; a reasoner that passes on a text means the JSON in it.
fn arguments(given: Option<Value>) -> Arguments {
    match given {
        None | Some(Value::Null) => Arguments::Json(json!({})),
        Some(Value::String(text)) => match serde_json::from_str(&text) {
            Ok(parsed) => Arguments::Json(parsed),
            Err(_) => Arguments::Malformed(text),
        },
        Some(other) => Arguments::Json(other),
    }
}
