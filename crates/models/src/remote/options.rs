//! The parameters of a request, in genai's words and in the provider's.
//!
//! Of `extra`, the names that the project itself knows (`topP`, `frequencyPenalty`, `presencePenalty`,
//! `stopSequences`, `seed`) are translated for each provider; everything else goes into the request's body as it is,
//! object into object, except what would change the conversation itself.

use genai::chat::{ChatOptions, ChatResponseFormat, JsonSpec, ReasoningEffort};
use serde_json::{Map, Value, json};
use toolwright_types::{ModelRequest, ResponseFormat};

use super::Target;
use super::family::{self, Family};
use crate::{ErrorKind, ModelError, schema};

/// The name that OpenAI wants a schema to have.
const SCHEMA_NAME: &str = "reply";
/// What a run decides and an extra parameter must not.
const OURS: [&str; 10] =
    ["model", "messages", "input", "contents", "system", "systemInstruction", "instructions", "tools", "stream", "n"];
/// What only other providers, or nobody, reads.
const NOT_SENT: [&str; 1] = ["script"];

pub(super) fn of(target: &Target, request: &ModelRequest) -> Result<ChatOptions, ModelError> {
    let mut options = ChatOptions::default()
        .with_capture_usage(true)
        .with_capture_tool_calls(true)
        .with_capture_reasoning_content(captures_reasoning(target))
        .with_stream_header_timeout(target.timeout)
        .with_stream_read_timeout(target.timeout);
    let known = Known::of(request)?;
    let mut body = Map::new();
    match target.family {
        Family::Gemini => gemini(target, request, &known, &mut body),
        _ => {
            options.temperature = request.temperature.filter(|_| takes_sampling(target, request));
            options.top_p = known.top_p.filter(|_| takes_top_p(target, request));
            options.max_tokens = request.max_output_tokens;
            // The Responses API has neither, Anthropic no seed.
            options.seed = known.seed.filter(|_| !matches!(target.family, Family::Anthropic | Family::Responses));
            if target.family != Family::Responses {
                options.stop_sequences.clone_from(&known.stop_sequences);
            }
            format(target, request, &mut options, &mut body);
            penalties(target, &known, &mut body);
        }
    }
    sequential(target, request, &mut body);
    if keeps_name(target) {
        // A budget is an effort that OpenAI's form has no word for: nothing is sent, and the name stays whole.
        options.reasoning_effort = Some(ReasoningEffort::Budget(0));
    }
    if target.family == Family::Responses && captures_reasoning(target) {
        // Summaries need a verified organisation; encrypted reasoning does not.
        body.insert("reasoning".into(), json!({ "summary": null }));
    }
    merge(&mut body, known.rest);
    if !body.is_empty() {
        options.extra_body = Some(Value::Object(body));
    }
    Ok(options)
}

/// Whether the provider itself will hold the model to the schema of `request`.
pub(super) fn holds_to_schema(target: &Target, request: &ModelRequest) -> bool {
    match target.family {
        Family::Anthropic => family::anthropic_fits_schema(&target.model),
        Family::Gemini => json_with_tools(target, request),
        Family::Chat | Family::Responses | Family::Other => true,
    }
}

/// The parameters that the project has words for.
#[derive(Default)]
struct Known {
    top_p: Option<f64>,
    frequency_penalty: Option<f64>,
    presence_penalty: Option<f64>,
    stop_sequences: Vec<String>,
    seed: Option<u64>,
    rest: Map<String, Value>,
}

impl Known {
    fn of(request: &ModelRequest) -> Result<Self, ModelError> {
        let mut known = Known::default();
        for (name, value) in &request.extra {
            let wrong = |why: &str| ModelError::new(ErrorKind::InvalidRequest, format!("parameter `{name}` {why}"));
            let number = || value.as_f64().ok_or_else(|| wrong("is not a number"));
            match name.as_str() {
                _ if value.is_null() || NOT_SENT.contains(&name.as_str()) => {}
                "topP" => known.top_p = Some(number()?),
                "frequencyPenalty" => known.frequency_penalty = Some(number()?),
                "presencePenalty" => known.presence_penalty = Some(number()?),
                "seed" => known.seed = Some(value.as_u64().ok_or_else(|| wrong("is not a whole number from 0 up"))?),
                "stopSequences" => {
                    let texts = serde_json::from_value(value.clone());
                    known.stop_sequences = texts.map_err(|_| wrong("is not a list of texts"))?;
                }
                ours if OURS.contains(&ours) => return Err(wrong("is decided by the run")),
                _ => {
                    known.rest.insert(name.clone(), value.clone());
                }
            }
        }
        Ok(known)
    }
}

/// genai's word for Google would also demand thoughts, which older models refuse; their signatures come anyway. For
/// the Responses API it asks for encrypted reasoning, which only the models that think have.
fn captures_reasoning(target: &Target) -> bool {
    match target.family {
        Family::Gemini => false,
        Family::Responses => family::openai_reasons(&target.model),
        Family::Anthropic | Family::Chat | Family::Other => true,
    }
}

/// Models that think refuse a temperature.
fn takes_sampling(target: &Target, request: &ModelRequest) -> bool {
    let thinks = || request.extra.get("thinking").is_some_and(|thinking| thinking["type"] != "disabled");
    match target.family {
        Family::Anthropic => !family::anthropic_without_sampling(&target.model) && !thinks(),
        Family::Chat | Family::Responses => !family::openai_reasons(&target.model),
        Family::Gemini | Family::Other => true,
    }
}

/// Anthropic takes one of the two only, and temperature is what configurations have by default.
fn takes_top_p(target: &Target, request: &ModelRequest) -> bool {
    let alone = target.family != Family::Anthropic || request.temperature.is_none();
    alone && takes_sampling(target, request)
}

/// Whether genai would take the end of the model's name for a parameter.
fn keeps_name(target: &Target) -> bool {
    let last = target.model.rsplit('-').next().unwrap_or_default();
    let effort = ReasoningEffort::from_keyword(last).is_some() && last != target.model;
    effort && matches!(target.family, Family::Chat | Family::Responses)
}

fn format(target: &Target, request: &ModelRequest, options: &mut ChatOptions, body: &mut Map<String, Value>) {
    match (target.family, &request.response_format) {
        (_, ResponseFormat::Text) | (Family::Anthropic, ResponseFormat::Json) | (Family::Gemini, _) => {}
        (Family::Chat | Family::Responses | Family::Other, ResponseFormat::Json) => {
            options.response_format = Some(ChatResponseFormat::JsonMode);
        }
        (Family::Chat, ResponseFormat::Structured(schema)) => {
            let named = json!({"name": SCHEMA_NAME, "schema": schema, "strict": schema::is_strict(schema)});
            body.insert("response_format".into(), json!({"type": "json_schema", "json_schema": named}));
        }
        (Family::Responses, ResponseFormat::Structured(schema)) => {
            let strict = schema::is_strict(schema);
            let format = json!({"type": "json_schema", "name": SCHEMA_NAME, "schema": schema, "strict": strict});
            body.insert("text".into(), json!({ "format": format }));
        }
        (Family::Anthropic | Family::Other, ResponseFormat::Structured(schema)) => {
            if holds_to_schema(target, request) {
                options.response_format = Some(JsonSpec::new(SCHEMA_NAME, schema.clone()).into());
            }
        }
    }
}

/// The whole `generationConfig`, because genai would let an extra parameter replace it.
fn gemini(target: &Target, request: &ModelRequest, known: &Known, body: &mut Map<String, Value>) {
    let mut config = Map::new();
    let mut put = |name: &str, value: Option<Value>| {
        if let Some(value) = value {
            config.insert(name.to_owned(), value);
        }
    };
    put("temperature", request.temperature.map(Value::from));
    put("maxOutputTokens", request.max_output_tokens.map(Value::from));
    put("topP", known.top_p.map(Value::from));
    put("frequencyPenalty", known.frequency_penalty.map(Value::from));
    put("presencePenalty", known.presence_penalty.map(Value::from));
    put("seed", known.seed.map(Value::from));
    put("stopSequences", Some(json!(known.stop_sequences)).filter(|_| !known.stop_sequences.is_empty()));
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

fn json_with_tools(target: &Target, request: &ModelRequest) -> bool {
    request.tools.is_empty() || family::gemini_mixes_tools_and_json(&target.model)
}

fn penalties(target: &Target, known: &Known, body: &mut Map<String, Value>) {
    if target.family != Family::Chat {
        return;
    }
    for (name, value) in [("frequency_penalty", known.frequency_penalty), ("presence_penalty", known.presence_penalty)]
    {
        if let Some(value) = value {
            body.insert(name.into(), json!(value));
        }
    }
}

/// One call at a time, where the provider can be told so. Google cannot.
fn sequential(target: &Target, request: &ModelRequest, body: &mut Map<String, Value>) {
    if request.parallel_tool_calls || request.tools.is_empty() {
        return;
    }
    match target.family {
        Family::Anthropic => {
            body.insert("tool_choice".into(), json!({"type": "auto", "disable_parallel_tool_use": true}));
        }
        Family::Chat | Family::Responses => {
            body.insert("parallel_tool_calls".into(), json!(false));
        }
        Family::Gemini | Family::Other => {}
    }
}

/// Puts `more` into `body`, object into object.
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
