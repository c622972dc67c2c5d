//! The `apply` subcommands: create or update the server's definitions from files.

use std::path::PathBuf;

use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use toolwright_types::{
    AgentDefinition, PromptFragment, SideEffects, ToolDefinition, ToolProviderConfig, TypeDefinition,
};

use super::Context;
use super::client::path;
use super::definitions::{self, FileDefinition, Format, ResourceKind};
use super::exit::Exit;
use super::failure::Failure;
use super::output::sanitize_line;

/// Arguments of the `apply` subcommands.
#[derive(clap::Args)]
pub(crate) struct ApplyArgs {
    /// Files or directories to apply, or `-` for standard input; directories are searched for *.json, *.yaml, *.yml and
    /// *.gram
    #[arg(short, long = "file", value_name = "PATH", required = true, num_args = 1..)]
    files: Vec<PathBuf>,
    /// Format of standard input [default: detected]
    #[arg(long, value_name = "FORMAT")]
    format: Option<Format>,
    /// Let *.gram files also change tools that other agents use
    #[arg(long)]
    overwrite: bool,
}

/// The outcome of applying a definition.
#[derive(Clone, Copy, serde::Serialize)]
#[serde(rename_all = "lowercase")]
enum Outcome {
    Created,
    Updated,
    Unchanged,
}

/// The result of applying a definition.
struct ApplyResult {
    outcome: Outcome,
    warnings: Vec<String>,
}

/// Applies all definitions in dependency order. If the server rejects a definition, the others are still applied.
/// `default_kind` is the kind of documents that do not indicate their kind.
pub(super) async fn run(cx: &Context, args: ApplyArgs, default_kind: Option<ResourceKind>) -> Result<Exit, Failure> {
    let (definitions, gram_text) = definitions::read(&args.files, args.format, default_kind)?;
    if !gram_text.is_empty() && !args.overwrite {
        check_tools_in_use(cx, &gram_text).await?;
    }
    if definitions.is_empty() {
        cx.output.note(cx.output.err.warn("! no definitions found"));
    }
    let mut exit = Exit::Ok;
    let mut results = Vec::new();
    for definition in &definitions {
        match apply(cx, definition).await {
            Ok(applied) => {
                results.push(result_item(definition, json!({ "outcome": applied.outcome })));
                show(cx, definition, &applied)?;
            }
            // A 401 response would be the same for all definitions, so it stops the command.
            Err(Failure::Refused(refusal)) if refusal.problem.status != 401 => {
                results.push(result_item(definition, json!({ "outcome": "failed", "problem": refusal.document() })));
                exit = exit.or(show_failure(cx, definition, &Failure::Refused(refusal)));
            }
            Err(other) => return Err(other),
        }
    }
    if cx.output.json {
        cx.output.line(json!({ "items": results }))?;
    }
    Ok(exit)
}

/// Fails if a gram text would change a tool that agents outside of the text use. Other errors are reported when the
/// definitions are written.
async fn check_tools_in_use(cx: &Context, gram_text: &str) -> Result<(), Failure> {
    match cx.client.post("/api/v1/ai/gram/apply", &json!({ "gram": gram_text, "dryRun": true })).await {
        Err(Failure::Refused(refusal)) if refusal.problem.status == 409 => Err(Failure::Refused(refusal)),
        Err(other @ Failure::Unreachable { .. }) => Err(other),
        _ => Ok(()),
    }
}

/// Creates or updates a definition. Reads the stored definition first, so that an unchanged definition is not written
/// and a concurrent change is not overwritten.
async fn apply(cx: &Context, definition: &FileDefinition) -> Result<ApplyResult, Failure> {
    let address = path(definition.kind.collection(), &definition.name);
    match fetch_existing(cx, definition, &address).await? {
        Some(view) if definition.kind.is_unchanged(&definition.body, &view) => {
            Ok(ApplyResult { outcome: Outcome::Unchanged, warnings: Vec::new() })
        }
        Some(view) => {
            let revision = view.get("revision").and_then(Value::as_i64);
            let response = cx.client.put(&address, &definition.body, revision).await?;
            Ok(ApplyResult { outcome: Outcome::Updated, warnings: warnings(&response.read()?) })
        }
        None => match cx.client.post(definition.kind.collection(), &definition.body).await {
            Ok(response) => Ok(ApplyResult { outcome: Outcome::Created, warnings: warnings(&response.read()?) }),
            // The tool or agent exists, but not in this version. A PUT request adds the version.
            Err(Failure::Refused(refusal)) if refusal.problem.status == 409 => {
                let response = cx.client.put(&address, &definition.body, None).await?;
                Ok(ApplyResult { outcome: Outcome::Updated, warnings: warnings(&response.read()?) })
            }
            Err(other) => Err(other),
        },
    }
}

/// Fetches the stored definition with the same name and version.
async fn fetch_existing(cx: &Context, definition: &FileDefinition, address: &str) -> Result<Option<Value>, Failure> {
    let version = definition.body.get("version").and_then(Value::as_str).unwrap_or("1.0.0");
    let query = match definition.kind {
        ResourceKind::Tool | ResourceKind::Agent => vec![("version", version.to_owned())],
        ResourceKind::Provider | ResourceKind::Fragment | ResourceKind::Type => Vec::new(),
    };
    match cx.client.get(address, &query).await {
        Ok(response) => response.read::<Value>().map(|view| Some(view).filter(is_stored)),
        Err(Failure::Refused(refusal)) if refusal.problem.status == 404 => Ok(None),
        Err(other) => Err(other),
    }
}

/// Returns whether the definition is stored. A built-in definition is not stored: it can only be overridden by creating
/// a definition with the same name.
fn is_stored(view: &Value) -> bool {
    view.get("source").is_none_or(|source| source != "built-in")
}

impl ResourceKind {
    /// Returns whether writing `sent` would leave the definition in `view` unchanged. An absent field is compared by
    /// its default, so removing a field from a file can be a change.
    fn is_unchanged(self, sent: &Value, view: &Value) -> bool {
        match self {
            ResourceKind::Tool => equal_when_parsed(normalized_tool, sent, view),
            ResourceKind::Provider => equal_when_parsed(parse_authored::<ToolProviderConfig>, sent, view),
            ResourceKind::Fragment => equal_when_parsed(parse_authored::<PromptFragment>, sent, view),
            ResourceKind::Type => equal_when_parsed(normalized_type, sent, view),
            ResourceKind::Agent => equal_when_parsed(parse_authored::<AgentDefinition>, sent, view),
        }
    }
}

fn equal_when_parsed<T: PartialEq>(read: impl Fn(&Value) -> Option<T>, sent: &Value, view: &Value) -> bool {
    read(sent).is_some_and(|sent| read(view) == Some(sent))
}

/// Parses a tool and fills in derived fields, as the server does in its views.
fn normalized_tool(body: &Value) -> Option<ToolDefinition> {
    let mut tool: ToolDefinition = parse_authored(body)?;
    let effects = tool.effects();
    tool.name.get_or_insert_with(|| tool.ref_name.to_string());
    tool.side_effects = Some(effects);
    tool.has_side_effects = Some(effects == SideEffects::Writes);
    Some(tool)
}

/// Parses an entity type and fills in its name, as the server does in its views.
fn normalized_type(body: &Value) -> Option<TypeDefinition> {
    let mut definition: TypeDefinition = parse_authored(body)?;
    definition.name.get_or_insert_with(|| definition.ref_name.to_string());
    Some(definition)
}

/// Parses the fields of a definition that its author writes.
fn parse_authored<T: DeserializeOwned>(body: &Value) -> Option<T> {
    serde_json::from_value(authored_fields(body)?).ok()
}

/// Returns the fields that authors write, without those that the server manages.
pub(super) fn authored_fields(body: &Value) -> Option<Value> {
    let mut fields = body.as_object()?.clone();
    fields.retain(|name, value| !toolwright_types::MANAGED_FIELDS.contains(&name.as_str()) && !value.is_null());
    if let (None, Some(name)) = (fields.get("refName"), fields.get("name").cloned()) {
        fields.insert("refName".into(), name);
    }
    Some(Value::Object(fields))
}

fn warnings(view: &Value) -> Vec<String> {
    let warnings = view.get("warnings").and_then(Value::as_array);
    warnings.into_iter().flatten().filter_map(Value::as_str).map(sanitize_line).collect()
}

fn result_item(definition: &FileDefinition, mut outcome: Value) -> Value {
    let location = json!({
        "file": definition.location.file, "document": definition.location.document,
        "kind": definition.kind, "refName": definition.name,
    });
    if let (Some(all), Value::Object(location)) = (outcome.as_object_mut(), location) {
        all.extend(location);
    }
    outcome
}

fn show(cx: &Context, definition: &FileDefinition, applied: &ApplyResult) -> Result<(), Failure> {
    let paint = cx.output.out;
    let word = match applied.outcome {
        Outcome::Created => paint.good("✓ created  "),
        Outcome::Updated => paint.good("✓ updated  "),
        Outcome::Unchanged => paint.dim("= unchanged"),
    };
    if !cx.output.json {
        cx.output.line(format!("{word}  {} {}", definition.kind.noun(), sanitize_line(&definition.name)))?;
    }
    for warning in &applied.warnings {
        cx.output.note(cx.output.err.warn(format!("! {}: {warning}", sanitize_line(&definition.name))));
    }
    Ok(())
}

fn show_failure(cx: &Context, definition: &FileDefinition, failure: &Failure) -> Exit {
    let (noun, name) = (definition.kind.noun(), sanitize_line(&definition.name));
    cx.output.note(format!("{}  {noun} {name}  {}", cx.output.err.bad("✗ failed   "), definition.location));
    failure.print(&cx.output)
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
    fn tool_that_differs_only_in_defaults_and_field_order_counts_as_unchanged() {
        assert!(normalized_tool(&view()).is_some(), "the view must parse");
        assert!(ResourceKind::Tool.is_unchanged(&sent(), &view()));
    }

    #[test]
    fn tool_with_a_different_or_removed_field_is_changed() {
        for (pointer, value) in [
            ("/description", json!("other")),
            ("/description", Value::Null),
            ("/inputJsonSchema", json!({ "type": "object", "properties": { "a": { "type": "string" } } })),
            ("/invocation", json!({ "path": "sayHello" })),
            ("/toolType", json!("NONSENSE")),
        ] {
            let mut body = sent();
            *body.pointer_mut(pointer).unwrap() = value.clone();
            assert!(!ResourceKind::Tool.is_unchanged(&body, &view()), "{pointer} = {value}");
        }
    }

    #[test]
    fn provider_with_defaults_filled_in_is_unchanged() {
        let view = json!({ "id": "p", "refName": "p", "providerType": "REST", "baseUrl": "http://h", "auth": { "authType": "none" },
            "enabled": true, "autoDiscoverTools": false });
        assert!(parse_authored::<ToolProviderConfig>(&view).is_some(), "the view must parse");
        assert!(ResourceKind::Provider.is_unchanged(&json!({ "refName": "p", "baseUrl": "http://h" }), &view));
        assert!(
            !ResourceKind::Provider
                .is_unchanged(&json!({ "refName": "p", "baseUrl": "http://h", "maxRetries": 1 }), &view)
        );
    }

    #[test]
    fn agent_or_type_or_fragment_with_defaults_filled_in_is_unchanged() {
        let view = json!({ "id": "agt_1", "source": "manual", "revision": 1, "refName": "a", "systemPrompt": "help",
            "llmConfig": {}, "responseFormat": "text", "requiresApproval": false, "enabled": true });
        assert!(ResourceKind::Agent.is_unchanged(&json!({ "refName": "a", "systemPrompt": "help" }), &view));
        assert!(
            !ResourceKind::Agent
                .is_unchanged(&json!({ "refName": "a", "systemPrompt": "help", "requiresApproval": true }), &view)
        );
        let view =
            json!({ "id": "type_1", "refName": "T", "name": "T", "excludeOperations": ["delete"], "jsonSchema": {} });
        assert!(
            ResourceKind::Type
                .is_unchanged(&json!({ "name": "T", "excludeOperations": ["DELETE"], "jsonSchema": "{}" }), &view)
        );
        assert!(!ResourceKind::Type.is_unchanged(&json!({ "name": "T", "jsonSchema": {} }), &view));
        let view = json!({ "id": "frg_1", "refName": "f", "content": "text" });
        assert!(ResourceKind::Fragment.is_unchanged(&json!({ "refName": "f", "content": "text" }), &view));
        assert!(!ResourceKind::Fragment.is_unchanged(&json!({ "refName": "f", "content": "other" }), &view));
    }
}
