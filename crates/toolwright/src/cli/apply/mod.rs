//! The `apply` commands: create or update the server's definitions from files.

mod compare;
mod prune;

pub(super) use compare::authored_fields;
pub(super) use prune::{Unlisted, unlisted};

use std::path::PathBuf;

use serde_json::{Value, json};

use super::Context;
use super::client::{encode_segment, parse_name, path};
use super::definitions::{self, FileDefinition, Format, ResourceKind};
use super::exit::Exit;
use super::failure::{Failure, Refusal};
use super::output::sanitize_line;

/// The files of `apply` and `diff`.
#[derive(clap::Args)]
pub(super) struct SourceArgs {
    /// Files or directories, or `-` for standard input; directories are searched for *.json, *.yaml, *.yml and *.gram
    #[arg(short, long = "file", value_name = "PATH", required = true, num_args = 1..)]
    pub files: Vec<PathBuf>,
    /// Format of standard input [default: detected]
    #[arg(long, value_name = "FORMAT")]
    pub format: Option<Format>,
}

/// Arguments of the `apply` commands.
#[derive(clap::Args)]
pub(crate) struct ApplyArgs {
    #[command(flatten)]
    source: SourceArgs,
    /// Let *.gram files also change tools that other agents use
    #[arg(long)]
    overwrite: bool,
    /// Name of the set that new definitions belong to
    #[arg(long, value_name = "NAME", value_parser = parse_name)]
    set: Option<String>,
    /// Delete the definitions that the set created and that no file contains
    #[arg(long, requires = "set")]
    prune: bool,
    /// Show what would change, and write nothing
    #[arg(long)]
    dry_run: bool,
}

/// The outcome of applying a definition.
#[derive(Clone, Copy, serde::Serialize)]
#[serde(rename_all = "lowercase")]
enum Outcome {
    Created,
    Updated,
    Unchanged,
    Deleted,
}

/// The result of applying a definition.
struct ApplyResult {
    outcome: Outcome,
    warnings: Vec<String>,
}

/// Applies all definitions in dependency order. If the server rejects a definition, the others are still applied.
/// `default_kind` is the kind of documents that do not indicate their kind.
pub(super) async fn run(cx: &Context, args: ApplyArgs, default_kind: Option<ResourceKind>) -> Result<Exit, Failure> {
    let (definitions, gram_text) = definitions::read(&args.source.files, args.source.format, default_kind)?;
    if !gram_text.is_empty() && !args.overwrite {
        check_tools_in_use(cx, &gram_text).await?;
    }
    if definitions.is_empty() {
        cx.output.note(cx.output.err.warn("! no definitions found"));
    }
    let mut exit = Exit::Ok;
    let (mut results, mut warned) = (Vec::new(), Vec::new());
    for definition in &definitions {
        let (kind, name) = (definition.kind, &*definition.name);
        match apply(cx, definition, &args).await {
            Ok(applied) => {
                results.push(result_item(definition, json!({ "outcome": applied.outcome })));
                show(cx, kind, name, applied.outcome)?;
                if !applied.warnings.is_empty() {
                    warned.push((definition, applied.warnings));
                }
            }
            // A 401 response would be the same for all definitions, so it stops the command.
            Err(Failure::Refused(mut refusal)) if refusal.problem.status != 401 => {
                refusal.source = Some((definition.location.file.display().to_string(), definition.lines.clone()));
                results.push(result_item(definition, json!({ "outcome": "failed", "problem": refusal.document() })));
                let subject = format!("{} {}  {}", kind.noun(), sanitize_line(name), definition.location);
                exit = exit.or(show_failure(cx, &subject, &Failure::Refused(refusal)));
            }
            Err(other) => return Err(other),
        }
    }
    show_warnings(cx, warned).await;
    if let (Some(set), true) = (&args.set, args.prune) {
        if exit == Exit::Ok {
            exit = prune::run(cx, set, &definitions, args.dry_run, &mut results).await?;
        } else {
            cx.output.note(cx.output.err.warn("! nothing was deleted, because a definition failed"));
        }
    }
    if args.dry_run {
        cx.output.note(cx.output.err.dim("dry run: nothing was written"));
    }
    if cx.output.json {
        cx.output.document(json!({ "dryRun": args.dry_run, "items": results }))?;
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
async fn apply(cx: &Context, definition: &FileDefinition, args: &ApplyArgs) -> Result<ApplyResult, Failure> {
    let result = |outcome| Ok(ApplyResult { outcome, warnings: Vec::new() });
    let existing = fetch_existing(cx, definition).await?;
    if existing.as_ref().is_some_and(|view| definition.kind.is_unchanged(&definition.body, view)) {
        return result(Outcome::Unchanged);
    }
    if args.dry_run {
        let view = match existing {
            Some(view) => Some(view),
            // The definition may exist in other versions.
            None => fetch(cx, definition, &[]).await?,
        };
        let Some(view) = view else { return result(Outcome::Created) };
        return refuse_other_set(definition, &view, args.set.as_deref()).and_then(|()| result(Outcome::Updated));
    }
    let parameter = args.set.as_ref().map(|set| format!("?applySet={}", encode_segment(set))).unwrap_or_default();
    let collection = format!("{}{parameter}", definition.kind.collection());
    let address = format!("{}{parameter}", path(definition.kind.collection(), &definition.name));
    let (outcome, response) = match existing {
        Some(view) => {
            let revision = view.get("revision").and_then(Value::as_i64);
            (Outcome::Updated, cx.client.put(&address, &definition.body, revision).await?)
        }
        None => match cx.client.post(&collection, &definition.body).await {
            Ok(response) => (Outcome::Created, response),
            // The tool or agent exists, but not in this version. A PUT request adds the version.
            Err(Failure::Refused(refusal)) if refusal.problem.status == 409 => {
                (Outcome::Updated, cx.client.put(&address, &definition.body, None).await?)
            }
            Err(other) => return Err(other),
        },
    };
    Ok(ApplyResult { outcome, warnings: warnings(&response.read()?) })
}

/// Returns the same error as the server if the definition belongs to another apply set.
fn refuse_other_set(definition: &FileDefinition, view: &Value, set: Option<&str>) -> Result<(), Failure> {
    match (view.get("applySet").and_then(Value::as_str), set) {
        (Some(owner), Some(set)) if owner != set => {
            let detail = format!("`{}` belongs to the apply set `{owner}`", definition.name);
            Err(Failure::Refused(Box::new(Refusal::new(409, "other-apply-set", detail))))
        }
        _ => Ok(()),
    }
}

/// Fetches the stored definition with the same name and version.
pub(super) async fn fetch_existing(cx: &Context, definition: &FileDefinition) -> Result<Option<Value>, Failure> {
    fetch(cx, definition, &version_query(definition)).await
}

/// Returns the query parameter that selects the version of a definition.
fn version_query(definition: &FileDefinition) -> Vec<(&'static str, String)> {
    let version = definition.body.get("version").and_then(Value::as_str).unwrap_or("1.0.0");
    match definition.kind {
        ResourceKind::Tool | ResourceKind::Agent | ResourceKind::Workflow => vec![("version", version.to_owned())],
        ResourceKind::Provider
        | ResourceKind::Fragment
        | ResourceKind::Type
        | ResourceKind::StepRegistration
        | ResourceKind::ConditionBinding
        | ResourceKind::Trigger
        | ResourceKind::Webhook => Vec::new(),
    }
}

async fn fetch(cx: &Context, definition: &FileDefinition, query: &[(&str, String)]) -> Result<Option<Value>, Failure> {
    match cx.client.get(&path(definition.kind.collection(), &definition.name), query).await {
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

fn show(cx: &Context, kind: ResourceKind, name: &str, outcome: Outcome) -> Result<(), Failure> {
    let (paint, name) = (cx.output.out, sanitize_line(name));
    let word = match outcome {
        Outcome::Created => paint.good("✓ created  "),
        Outcome::Updated => paint.good("✓ updated  "),
        Outcome::Unchanged => paint.dim("= unchanged"),
        Outcome::Deleted => paint.warn("- deleted  "),
    };
    if !cx.output.json {
        cx.output.line(format!("{word}  {} {name}", kind.noun()))?;
    }
    Ok(())
}

/// Prints the warnings about applied definitions. A definition that a later one completed, such as a tool that refers to
/// another tool, has no warning any more, so the server checks the definitions again. If a check fails, the warnings of
/// the write are printed.
async fn show_warnings(cx: &Context, warned: Vec<(&FileDefinition, Vec<String>)>) {
    for (definition, first) in warned {
        let mut query = version_query(definition);
        query.push(("check", "true".to_owned()));
        let checked = cx.client.get(&path(definition.kind.collection(), &definition.name), &query).await;
        let found = match checked.and_then(|response| response.read::<Value>()) {
            Ok(view) => warnings(&view),
            Err(_) => first,
        };
        print_warnings(cx, &definition.name, &found);
    }
}

fn print_warnings(cx: &Context, name: &str, warnings: &[String]) {
    for warning in warnings {
        let warning = sanitize_line(&format!("! {name}: {warning}"));
        cx.output.note(cx.output.err.warn(warning));
    }
}

fn show_failure(cx: &Context, subject: &str, failure: &Failure) -> Exit {
    cx.output.note(format!("{}  {subject}", cx.output.err.bad("✗ failed   ")));
    failure.print(&cx.output)
}
