//! Builds the parameters of a request for `genai` and for the provider.
//!
//! In `extra`, the parameters `topP`, `frequencyPenalty`, `presencePenalty`, `stopSequences` and `seed` are translated
//! for each provider. All other parameters are merged into the body of the request unchanged, except those that would
//! change the conversation itself.

use genai::chat::{ChatOptions, ChatResponseFormat, JsonSpec, ReasoningEffort};
use serde_json::{Map, Value, json};
use toolwright_types::{ModelRequest, ResponseFormat};

use super::Target;
use super::protocol::{self, Protocol};
use crate::{ErrorKind, ModelError, schema};

/// The name of the response schema, which OpenAI requires.
const SCHEMA_NAME: &str = "reply";
/// Body fields that the run controls. Extra parameters must not override them.
const RESERVED: [&str; 10] =
    ["model", "messages", "input", "contents", "system", "systemInstruction", "instructions", "tools", "stream", "n"];
/// Extra parameters that are not sent. `script` is for scripted models.
const NOT_SENT: [&str; 1] = ["script"];

/// Builds the options for a request.
pub(super) fn build_options(target: &Target, request: &ModelRequest) -> Result<ChatOptions, ModelError> {
    let mut options = ChatOptions::default()
        .with_capture_usage(true)
        .with_capture_tool_calls(true)
        .with_capture_reasoning_content(captures_reasoning(target))
        .with_stream_header_timeout(target.timeout)
        .with_stream_read_timeout(target.timeout);
    let parameters = ExtraParameters::parse(request)?;
    let mut body = Map::new();
    match target.protocol {
        Protocol::Gemini => gemini_generation_config(target, request, &parameters, &mut body),
        _ => {
            options.temperature = request.temperature.filter(|_| accepts_sampling(target, request));
            options.top_p = parameters.top_p.filter(|_| accepts_top_p(target, request));
            options.max_tokens = request.max_output_tokens;
            // The Responses API supports neither a seed nor stop sequences. Anthropic supports no seed.
            let has_seed = !matches!(target.protocol, Protocol::Anthropic | Protocol::Responses);
            options.seed = parameters.seed.filter(|_| has_seed);
            if target.protocol != Protocol::Responses {
                options.stop_sequences.clone_from(&parameters.stop_sequences);
            }
            set_response_format(target, request, &mut options, &mut body);
            add_penalties(target, &parameters, &mut body);
        }
    }
    disable_parallel_calls(target, request, &mut body);
    if has_effort_suffix(target) {
        // `genai` keeps the suffix of the model's name if an effort is set explicitly. This effort is a token budget,
        // which `genai` does not send, because OpenAI's format has no token budget for reasoning.
        options.reasoning_effort = Some(ReasoningEffort::Budget(0));
    }
    if target.protocol == Protocol::Responses && captures_reasoning(target) {
        // Turns off summaries, which require a verified organization. Encrypted reasoning does not require a verified
        // organization.
        body.insert("reasoning".into(), json!({ "summary": null }));
    }
    merge(&mut body, parameters.other);
    if !body.is_empty() {
        options.extra_body = Some(Value::Object(body));
    }
    Ok(options)
}

/// Returns whether the provider enforces the response schema of `request`.
pub(super) fn enforces_schema(target: &Target, request: &ModelRequest) -> bool {
    match target.protocol {
        Protocol::Anthropic => protocol::anthropic_supports_schema(&target.model),
        Protocol::Gemini => json_with_tools(target, request),
        Protocol::Chat | Protocol::Responses | Protocol::Other => true,
    }
}

/// The extra parameters of a request.
#[derive(Default)]
struct ExtraParameters {
    top_p: Option<f64>,
    frequency_penalty: Option<f64>,
    presence_penalty: Option<f64>,
    stop_sequences: Vec<String>,
    seed: Option<u64>,
    /// The parameters that are merged into the body unchanged.
    other: Map<String, Value>,
}

impl ExtraParameters {
    fn parse(request: &ModelRequest) -> Result<Self, ModelError> {
        let mut parameters = ExtraParameters::default();
        for (name, value) in &request.extra {
            let invalid = |rule: &str| ModelError::new(ErrorKind::InvalidRequest, format!("parameter `{name}` {rule}"));
            let number = || value.as_f64().ok_or_else(|| invalid("must be a number"));
            match name.as_str() {
                _ if value.is_null() || NOT_SENT.contains(&name.as_str()) => {}
                "topP" => parameters.top_p = Some(number()?),
                "frequencyPenalty" => parameters.frequency_penalty = Some(number()?),
                "presencePenalty" => parameters.presence_penalty = Some(number()?),
                "seed" => {
                    let seed = value.as_u64().ok_or_else(|| invalid("must be an integer of at least 0"))?;
                    parameters.seed = Some(seed);
                }
                "stopSequences" => {
                    let sequences = serde_json::from_value(value.clone());
                    parameters.stop_sequences = sequences.map_err(|_| invalid("must be a list of strings"))?;
                }
                reserved if RESERVED.contains(&reserved) => {
                    return Err(invalid("must not be set: the run controls it"));
                }
                _ => {
                    parameters.other.insert(name.clone(), value.clone());
                }
            }
        }
        Ok(parameters)
    }
}

/// Returns whether `genai` is asked to return the model's reasoning. For Google, it is not asked: `genai` would also
/// request thoughts, which older models reject, and Google sends the signatures anyway. For the Responses API, it is
/// asked only if the model is a reasoning model: `genai` requests encrypted reasoning, which other models do not
/// support.
fn captures_reasoning(target: &Target) -> bool {
    match target.protocol {
        Protocol::Gemini => false,
        Protocol::Responses => protocol::is_openai_reasoning_model(&target.model),
        Protocol::Anthropic | Protocol::Chat | Protocol::Other => true,
    }
}

/// Returns whether the model accepts sampling parameters. Reasoning models reject a temperature.
fn accepts_sampling(target: &Target, request: &ModelRequest) -> bool {
    let thinking_enabled = || request.extra.get("thinking").is_some_and(|thinking| thinking["type"] != "disabled");
    match target.protocol {
        Protocol::Anthropic => !protocol::anthropic_rejects_sampling(&target.model) && !thinking_enabled(),
        Protocol::Chat | Protocol::Responses => !protocol::is_openai_reasoning_model(&target.model),
        Protocol::Gemini | Protocol::Other => true,
    }
}

/// Returns whether `top_p` is sent. Anthropic rejects a request with both `top_p` and a temperature, and configurations
/// have a temperature by default.
fn accepts_top_p(target: &Target, request: &ModelRequest) -> bool {
    let allowed = target.protocol != Protocol::Anthropic || request.temperature.is_none();
    allowed && accepts_sampling(target, request)
}

/// Returns whether the model's name ends in a reasoning effort such as `-max`, which `genai` would interpret as a
/// parameter.
fn has_effort_suffix(target: &Target) -> bool {
    let last = target.model.rsplit('-').next().unwrap_or_default();
    let is_suffix = ReasoningEffort::from_keyword(last).is_some() && last != target.model;
    is_suffix && matches!(target.protocol, Protocol::Chat | Protocol::Responses)
}

fn set_response_format(
    target: &Target,
    request: &ModelRequest,
    options: &mut ChatOptions,
    body: &mut Map<String, Value>,
) {
    match (target.protocol, &request.response_format) {
        (_, ResponseFormat::Text) | (Protocol::Anthropic, ResponseFormat::Json) | (Protocol::Gemini, _) => {}
        (Protocol::Chat | Protocol::Responses | Protocol::Other, ResponseFormat::Json) => {
            options.response_format = Some(ChatResponseFormat::JsonMode);
        }
        (Protocol::Chat, ResponseFormat::Structured(schema)) => {
            let named = json!({"name": SCHEMA_NAME, "schema": schema, "strict": schema::supports_strict_mode(schema)});
            body.insert("response_format".into(), json!({"type": "json_schema", "json_schema": named}));
        }
        (Protocol::Responses, ResponseFormat::Structured(schema)) => {
            let strict = schema::supports_strict_mode(schema);
            let format = json!({"type": "json_schema", "name": SCHEMA_NAME, "schema": schema, "strict": strict});
            body.insert("text".into(), json!({ "format": format }));
        }
        (Protocol::Anthropic | Protocol::Other, ResponseFormat::Structured(schema)) => {
            if enforces_schema(target, request) {
                options.response_format = Some(JsonSpec::new(SCHEMA_NAME, schema.clone()).into());
            }
        }
    }
}

/// Builds the whole `generationConfig`. If `genai` built it, an extra parameter of this name would replace the whole
/// object.
fn gemini_generation_config(
    target: &Target,
    request: &ModelRequest,
    parameters: &ExtraParameters,
    body: &mut Map<String, Value>,
) {
    let mut config = Map::new();
    let mut put = |name: &str, value: Option<Value>| {
        if let Some(value) = value {
            config.insert(name.to_owned(), value);
        }
    };
    put("temperature", request.temperature.map(Value::from));
    put("maxOutputTokens", request.max_output_tokens.map(Value::from));
    put("topP", parameters.top_p.map(Value::from));
    put("frequencyPenalty", parameters.frequency_penalty.map(Value::from));
    put("presencePenalty", parameters.presence_penalty.map(Value::from));
    put("seed", parameters.seed.map(Value::from));
    let stop_sequences = Some(json!(parameters.stop_sequences));
    put("stopSequences", stop_sequences.filter(|_| !parameters.stop_sequences.is_empty()));
    if request.response_format != ResponseFormat::Text && json_with_tools(target, request) {
        put("responseMimeType", Some(json!("application/json")));
        if let ResponseFormat::Structured(schema) = &request.response_format {
            put("responseJsonSchema", Some(schema::lower_output(schema)));
        }
    }
    if !config.is_empty() {
        body.insert("generationConfig".into(), Value::Object(config));
    }
}

/// Returns whether the model supports a JSON response format together with the tools of the request.
fn json_with_tools(target: &Target, request: &ModelRequest) -> bool {
    request.tools.is_empty() || protocol::gemini_supports_json_with_tools(&target.model)
}

fn add_penalties(target: &Target, parameters: &ExtraParameters, body: &mut Map<String, Value>) {
    if target.protocol != Protocol::Chat {
        return;
    }
    let penalties =
        [("frequency_penalty", parameters.frequency_penalty), ("presence_penalty", parameters.presence_penalty)];
    for (name, value) in penalties {
        if let Some(value) = value {
            body.insert(name.into(), json!(value));
        }
    }
}

/// Limits the reply to one tool call, if the provider has such a parameter. Google has none.
fn disable_parallel_calls(target: &Target, request: &ModelRequest, body: &mut Map<String, Value>) {
    if request.parallel_tool_calls || request.tools.is_empty() {
        return;
    }
    match target.protocol {
        Protocol::Anthropic => {
            body.insert("tool_choice".into(), json!({"type": "auto", "disable_parallel_tool_use": true}));
        }
        Protocol::Chat | Protocol::Responses => {
            body.insert("parallel_tool_calls".into(), json!(false));
        }
        Protocol::Gemini | Protocol::Other => {}
    }
}

/// Merges `more` into `body` recursively.
fn merge(body: &mut Map<String, Value>, more: Map<String, Value>) {
    for (name, value) in more {
        match (body.get_mut(&name), value) {
            (Some(Value::Object(known)), Value::Object(value)) => merge(known, value),
            (_, value) => {
                body.insert(name, value);
            }
        }
    }
}
