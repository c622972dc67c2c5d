//! `… apply`: makes the server's definitions equal to those in files.

use std::path::PathBuf;

use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use toolwright_types::{
    AgentDefinition, PromptFragment, SideEffects, ToolDefinition, ToolProviderConfig, TypeDefinition,
};

use super::Context;
use super::client::path;
use super::definitions::{self, Definition, Format, Kind};
use super::exit::Exit;
use super::failure::{Failure, Problem};
use super::output::plain;

/// Which files.
#[derive(clap::Args)]
pub struct ApplyArgs {
    /// Files or folders, or `-` for standard input; folders are searched through for *.json, *.yaml, *.yml and *.gram
    #[arg(short, long = "file", value_name = "PATH", required = true, num_args = 1..)]
    files: Vec<PathBuf>,
    /// What standard input is; without this, gram if it begins as gram does, else YAML or JSON
    #[arg(long, value_name = "LANGUAGE")]
    format: Option<Format>,
}

/// What became of a definition.
#[derive(Clone, Copy, serde::Serialize)]
#[serde(rename_all = "lowercase")]
enum Outcome {
    Created,
    Updated,
    Unchanged,
}

/// What the server has, and what its answer says about it.
struct Applied {
    outcome: Outcome,
    warnings: Vec<String>,
}

/// Applies every definition, what others refer to first. One that is refused does not stop the others. `assumed` is what
/// a document defines that does not say it.
pub async fn run(cx: &Context, args: ApplyArgs, assumed: Option<Kind>) -> Result<Exit, Failure> {
    let definitions = definitions::read(&args.files, args.format, assumed)?;
    if definitions.is_empty() {
        cx.output.note(cx.output.err.warn("! nothing is defined there"));
    }
    let mut exit = Exit::Ok;
    let mut results = Vec::new();
    for definition in &definitions {
        match apply(cx, definition).await {
            Ok(applied) => {
                results.push(result(definition, json!({ "outcome": applied.outcome })));
                show(cx, definition, &applied)?;
            }
            // Without a key none of the others would fare better.
            Err(Failure::Refused(problem)) if problem.status != 401 => {
                results.push(result(definition, json!({ "outcome": "failed", "problem": problem.document() })));
                show_refused(cx, definition, &problem);
                exit = exit.or(Failure::Refused(problem).exit());
            }
            Err(other) => return Err(other),
        }
    }
    if cx.output.json {
        cx.output.line(json!({ "items": results }))?;
    }
    Ok(exit)
}

/// Reads before it writes, so that applying the same files twice changes nothing, and a change that someone made in
/// between is not lost.
async fn apply(cx: &Context, definition: &Definition) -> Result<Applied, Failure> {
    let address = path(definition.kind.collection(), &definition.name);
    match present(cx, definition, &address).await? {
        Some(view) if definition.kind.same(&definition.body, &view) => {
            Ok(Applied { outcome: Outcome::Unchanged, warnings: Vec::new() })
        }
        Some(view) => {
            let revision = view.get("revision").and_then(Value::as_i64);
            let answer = cx.client.put(&address, &definition.body, revision).await?;
            Ok(Applied { outcome: Outcome::Updated, warnings: warnings(&answer.read()?) })
        }
        None => match cx.client.post(definition.kind.collection(), &definition.body).await {
            Ok(answer) => Ok(Applied { outcome: Outcome::Created, warnings: warnings(&answer.read()?) }),
            // It exists in other versions; this one is added.
            Err(Failure::Refused(problem)) if problem.status == 409 => {
                let answer = cx.client.put(&address, &definition.body, None).await?;
                Ok(Applied { outcome: Outcome::Updated, warnings: warnings(&answer.read()?) })
            }
            Err(other) => Err(other),
        },
    }
}

/// What the server has under this name, in this version.
async fn present(cx: &Context, definition: &Definition, address: &str) -> Result<Option<Value>, Failure> {
    let version = definition.body.get("version").and_then(Value::as_str).unwrap_or("1.0.0");
    let query = match definition.kind {
        Kind::Tool => vec![("version", version.to_owned())],
        Kind::Provider | Kind::Fragment | Kind::Type | Kind::Agent => Vec::new(),
    };
    match cx.client.get(address, &query).await {
        Ok(answer) => answer.read::<Value>().map(|view| Some(view).filter(is_stored)),
        Err(Failure::Refused(problem)) if problem.status == 404 => Ok(None),
        Err(other) => Err(other),
    }
}

/// What is part of the server can be covered by a definition, but not replaced.
fn is_stored(view: &Value) -> bool {
    view.get("source").is_none_or(|source| source != "built-in")
}

impl Kind {
    /// Whether writing `sent` would leave the definition in `view` as it is. Fields that are absent count with their
    /// defaults, so that removing a line from a file is a change too.
    fn same(self, sent: &Value, view: &Value) -> bool {
        match self {
            Kind::Tool => equal(tool, sent, view),
            Kind::Provider => equal(written::<ToolProviderConfig>, sent, view),
            Kind::Fragment => equal(written::<PromptFragment>, sent, view),
            Kind::Type => equal(entity_type, sent, view),
            Kind::Agent => equal(written::<AgentDefinition>, sent, view),
        }
    }
}

fn equal<T: PartialEq>(read: impl Fn(&Value) -> Option<T>, sent: &Value, view: &Value) -> bool {
    read(sent).is_some_and(|sent| read(view) == Some(sent))
}

/// A tool with everything that takes effect written out, as the server shows it.
fn tool(body: &Value) -> Option<ToolDefinition> {
    let mut tool: ToolDefinition = written(body)?;
    let effects = tool.effects();
    tool.name.get_or_insert_with(|| tool.ref_name.to_string());
    tool.side_effects = Some(effects);
    tool.has_side_effects = Some(effects == SideEffects::Writes);
    Some(tool)
}

/// A type with its name written out, as the server shows it.
fn entity_type(body: &Value) -> Option<TypeDefinition> {
    let mut of: TypeDefinition = written(body)?;
    of.name.get_or_insert_with(|| of.ref_name.to_string());
    Some(of)
}

/// A definition as its author wrote it.
fn written<T: DeserializeOwned>(body: &Value) -> Option<T> {
    serde_json::from_value(authored(body)?).ok()
}

/// The fields that the author writes; the others are the server's.
pub fn authored(body: &Value) -> Option<Value> {
    let mut fields = body.as_object()?.clone();
    fields.retain(|name, value| !toolwright_types::MANAGED_FIELDS.contains(&name.as_str()) && !value.is_null());
    if let (None, Some(name)) = (fields.get("refName"), fields.get("name").cloned()) {
        fields.insert("refName".into(), name);
    }
    Some(Value::Object(fields))
}

fn warnings(view: &Value) -> Vec<String> {
    let warnings = view.get("warnings").and_then(Value::as_array);
    warnings.into_iter().flatten().filter_map(Value::as_str).map(plain).collect()
}

fn result(definition: &Definition, mut outcome: Value) -> Value {
    let place = json!({
        "file": definition.place.file, "document": definition.place.document,
        "kind": definition.kind, "refName": definition.name,
    });
    if let (Some(all), Value::Object(place)) = (outcome.as_object_mut(), place) {
        all.extend(place);
    }
    outcome
}

fn show(cx: &Context, definition: &Definition, applied: &Applied) -> Result<(), Failure> {
    let paint = cx.output.out;
    let word = match applied.outcome {
        Outcome::Created => paint.good("✓ created  "),
        Outcome::Updated => paint.good("✓ updated  "),
        Outcome::Unchanged => paint.dim("= unchanged"),
    };
    if !cx.output.json {
        cx.output.line(format!("{word}  {} {}", definition.kind.noun(), plain(&definition.name)))?;
    }
    for warning in &applied.warnings {
        cx.output.note(cx.output.err.warn(format!("! {}: {warning}", plain(&definition.name))));
    }
    Ok(())
}

fn show_refused(cx: &Context, definition: &Definition, problem: &Problem) {
    let (noun, name) = (definition.kind.noun(), plain(&definition.name));
    cx.output.note(format!("{}  {noun} {name}  {}", cx.output.err.bad("✗ failed   "), definition.place));
    Failure::Refused(Box::new(problem.clone())).tell(&cx.output);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn view() -> Value {
        json!({
            "id": "tool_01", "source": "manual", "revision": 3, "contentHash": "h", "createdBy": "admin", "updatedBy": "admin",
            "refName": "t", "name": "t", "description": "d", "version": "1.0.0", "status": "active",
            "inputJsonSchema": { "type": "object", "properties": { "a": { "type": "string", "minLength": 1 } } },
            "toolType": "FUNCTION", "invocation": { "path": "echo" }, "hasSideEffects": false, "sideEffects": "reads",
            "idempotent": false, "enabled": true,
        })
    }

    fn sent() -> Value {
        json!({
            "refName": "t", "description": "d", "toolType": "FUNCTION", "invocation": { "path": "echo" }, "category": null,
            "inputJsonSchema": "{\"type\":\"object\",\"properties\":{\"a\":{\"minLength\":1,\"type\":\"string\"}}}",
        })
    }

    #[test]
    fn defaults_and_the_order_of_fields_are_no_change() {
        assert!(tool(&view()).is_some(), "the view must be readable");
        assert!(Kind::Tool.same(&sent(), &view()));
    }

    #[test]
    fn every_difference_is_a_change_also_a_line_that_is_gone() {
        for (pointer, value) in [
            ("/description", json!("other")),
            ("/description", Value::Null),
            ("/inputJsonSchema", json!({ "type": "object", "properties": { "a": { "type": "string" } } })),
            ("/invocation", json!({ "path": "sayHello" })),
            ("/toolType", json!("NONSENSE")),
        ] {
            let mut body = sent();
            *body.pointer_mut(pointer).unwrap() = value.clone();
            assert!(!Kind::Tool.same(&body, &view()), "{pointer} = {value}");
        }
    }

    #[test]
    fn providers_compare_with_their_defaults() {
        let view = json!({ "id": "p", "refName": "p", "providerType": "REST", "baseUrl": "http://h", "auth": { "authType": "none" },
            "enabled": true, "autoDiscoverTools": false });
        assert!(written::<ToolProviderConfig>(&view).is_some(), "the view must be readable");
        assert!(Kind::Provider.same(&json!({ "refName": "p", "baseUrl": "http://h" }), &view));
        assert!(!Kind::Provider.same(&json!({ "refName": "p", "baseUrl": "http://h", "maxRetries": 1 }), &view));
    }

    #[test]
    fn agents_and_fragments_compare_with_their_defaults() {
        let view = json!({ "id": "agt_1", "source": "manual", "revision": 1, "refName": "a", "systemPrompt": "help",
            "llmConfig": {}, "responseFormat": "text", "requiresApproval": false, "enabled": true });
        assert!(Kind::Agent.same(&json!({ "refName": "a", "systemPrompt": "help" }), &view));
        assert!(!Kind::Agent.same(&json!({ "refName": "a", "systemPrompt": "help", "requiresApproval": true }), &view));
        let view =
            json!({ "id": "type_1", "refName": "T", "name": "T", "excludeOperations": ["delete"], "jsonSchema": {} });
        assert!(Kind::Type.same(&json!({ "name": "T", "excludeOperations": ["DELETE"], "jsonSchema": "{}" }), &view));
        assert!(!Kind::Type.same(&json!({ "name": "T", "jsonSchema": {} }), &view));
        let view = json!({ "id": "frg_1", "refName": "f", "content": "text" });
        assert!(Kind::Fragment.same(&json!({ "refName": "f", "content": "text" }), &view));
        assert!(!Kind::Fragment.same(&json!({ "refName": "f", "content": "other" }), &view));
    }
}
