//! Compares the requests and responses of all REST tests with `openapi.json`. A response must have a documented status,
//! content type and body. A request that the server accepts must have a documented body.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock, Mutex};

use jsonschema::Validator;
use reqwest::Request;
use serde_json::{Value, json};

use crate::event_stream::SseEvent;
use crate::harness::{Response, Server};

static DOCUMENT: LazyLock<Value> = LazyLock::new(|| serde_json::from_str(&toolwright_api::openapi_json()).unwrap());

/// A request, and the operation of `openapi.json` that describes it.
pub(crate) struct Exchange {
    operation: &'static Value,
    /// The JSON pointer of the operation in the document.
    pointer: String,
    title: String,
    body: Option<Vec<u8>>,
}

impl Exchange {
    /// Returns `None` for a path that the document does not contain, such as `/mcp`.
    pub(crate) fn new(request: &Request) -> Option<Self> {
        let (path, operation) = find_operation(request.method().as_str(), request.url().path())?;
        let method = request.method().as_str().to_lowercase();
        let body = request.body().and_then(|body| body.as_bytes()).map(<[u8]>::to_vec);
        let pointer = format!("/paths/{}/{method}", escape(path));
        Some(Self { operation, pointer, title: format!("{method} {path}"), body })
    }

    pub(crate) fn check(&self, response: &Response) {
        let status = response.status.as_u16();
        let class = format!("{}XX", status / 100);
        let responses = &self.operation["responses"];
        let key = [status.to_string(), class].into_iter().find(|key| responses.get(key).is_some());
        let key = key.unwrap_or_else(|| panic!("{} returned the undocumented status {status}", self.title));
        self.check_body(&key, response);
        if status < 400 {
            self.check_request();
        }
    }

    fn check_body(&self, key: &str, response: &Response) {
        let Some(content) = self.operation["responses"][key].get("content").and_then(Value::as_object) else {
            assert_eq!(response.text, "", "{} has an undocumented body with status {key}", self.title);
            return;
        };
        let content_type = response.headers.get("content-type").map_or("", |value| value.to_str().unwrap());
        let media_type = content_type.split(';').next().unwrap();
        if content.contains_key("*/*") {
            return;
        }
        assert!(content.contains_key(media_type), "{}: undocumented content type {media_type}", self.title);
        let pointer = format!("{}/responses/{key}/content/{}/schema", self.pointer, escape(media_type));
        match media_type {
            "application/json" | "application/problem+json" => {
                self.assert_valid(&pointer, &response.json(), "response");
            }
            "application/x-ndjson" => {
                let lines = response.text.lines().map(|line| serde_json::from_str(line).unwrap());
                lines.for_each(|line: Value| self.assert_valid(&pointer, &line, "line"));
            }
            "text/event-stream" => {
                let pointer = format!("{pointer}/properties/data/contentSchema");
                let events = SseEvent::all(&response.text);
                events.iter().for_each(|event| self.assert_valid(&pointer, &event.data, "event"));
            }
            _ => {}
        }
    }

    fn check_request(&self) {
        let pointer = format!("{}/requestBody/content/application~1json/schema", self.pointer);
        let sent = self.body.as_deref().and_then(|body| serde_json::from_slice(body).ok());
        if let Some(mut body) = sent
            && DOCUMENT.pointer(&pointer).is_some()
        {
            replace_aliases(&mut body);
            self.assert_valid(&pointer, &body, "accepted request");
        }
    }

    fn assert_valid(&self, pointer: &str, value: &Value, what: &str) {
        if let Err(error) = validator(pointer).validate(value) {
            let at = error.instance_path();
            panic!("{}: {what} does not match openapi.json: `{at}`: {error}\n{value:#}", self.title);
        }
    }
}

/// Replaces the aliases of `callId` by `callId`. The server accepts the aliases from clients that follow other
/// conventions, but the document has only `callId`.
fn replace_aliases(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            for alias in ["toolCallId", "tool_call_id"] {
                if let Some(id) = fields.shift_remove(alias) {
                    fields.insert("callId".to_owned(), id);
                }
            }
            fields.values_mut().for_each(replace_aliases);
        }
        Value::Array(items) => items.iter_mut().for_each(replace_aliases),
        _ => {}
    }
}

/// Returns the operation that matches, with its path. If several operations match, returns the operation with the most
/// literal path segments.
fn find_operation(method: &str, path: &str) -> Option<(&'static str, &'static Value)> {
    let segments: Vec<&str> = path.split('/').collect();
    let matches = |template: &str| {
        let parts: Vec<&str> = template.split('/').collect();
        let fits = parts.len() == segments.len()
            && parts.iter().zip(&segments).all(|(part, segment)| part.starts_with('{') || part == segment);
        fits.then(|| parts.iter().filter(|part| !part.starts_with('{')).count())
    };
    let paths = DOCUMENT["paths"].as_object().unwrap().iter();
    let found = paths.filter_map(|(template, item)| {
        let operation = item.get(method.to_lowercase())?;
        Some((matches(template)?, template.as_str(), operation))
    });
    found.max_by_key(|(literals, ..)| *literals).map(|(_, template, operation)| (template, operation))
}

/// Compiles the schema at a pointer of the document once per process.
fn validator(pointer: &str) -> Arc<Validator> {
    static COMPILED: LazyLock<Mutex<HashMap<String, Arc<Validator>>>> = LazyLock::new(Mutex::default);
    let mut compiled = COMPILED.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let compile = || {
        let schema = DOCUMENT.pointer(pointer).unwrap_or_else(|| panic!("the document has nothing at {pointer}"));
        let whole = json!({ "allOf": [schema], "components": DOCUMENT["components"] });
        Arc::new(jsonschema::draft202012::new(&whole).unwrap_or_else(|error| panic!("{pointer}: {error}")))
    };
    Arc::clone(compiled.entry(pointer.to_owned()).or_insert_with(compile))
}

fn escape(segment: &str) -> String {
    segment.replace('~', "~0").replace('/', "~1")
}

crate::on_sqlite!(null_means_absent_in_every_optional_field_of_a_request);

/// Sends each optional field of each request body as null, on its own. The server rejects most of these bodies because
/// required fields are missing, but never because of the null.
async fn null_means_absent_in_every_optional_field_of_a_request(server: Server) {
    let (mut fields, mut rejected) = (0, Vec::new());
    for (path, item) in DOCUMENT["paths"].as_object().unwrap() {
        for (method, operation) in item.as_object().unwrap() {
            let Some(schema) = operation.pointer("/requestBody/content/application~1json/schema") else { continue };
            let url = path.split('/').map(|part| if part.starts_with('{') { "unknown" } else { part });
            let url = url.collect::<Vec<_>>().join("/");
            for body in bodies_with_null(schema, 3) {
                let method = method.to_uppercase().parse().unwrap();
                let response = server.send(server.request(method, &url).json(&body)).await;
                fields += 1;
                if !response.status.is_success() && response.text.contains("null") {
                    rejected.push(format!("{path} {body}: {}", response.text));
                }
            }
        }
    }
    assert!(rejected.is_empty(), "{}", rejected.join("\n"));
    assert!(fields > 300, "{fields}");
}

/// Returns one body per optional field, with null as its value. Includes fields that are nested up to `depth` levels.
fn bodies_with_null(schema: &Value, depth: usize) -> Vec<Value> {
    let target = schema.get("$ref").and_then(|reference| DOCUMENT.pointer(reference.as_str()?.trim_start_matches('#')));
    let schema = target.unwrap_or(schema);
    let alternatives = schema.get("oneOf").and_then(Value::as_array).into_iter().flatten();
    let mut bodies: Vec<Value> = alternatives.flat_map(|schema| bodies_with_null(schema, depth)).collect();
    let required = schema.get("required").and_then(Value::as_array);
    for (name, property) in schema.get("properties").and_then(Value::as_object).into_iter().flatten() {
        if required.is_none_or(|names| !names.contains(&json!(name))) {
            bodies.push(json!({ name: null }));
        }
        if depth > 0 {
            bodies.extend(bodies_with_null(property, depth - 1).into_iter().map(|nested| json!({ name: nested })));
        }
    }
    bodies
}
