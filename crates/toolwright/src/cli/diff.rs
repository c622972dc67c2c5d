//! Implements `toolwright diff`, which compares definition files with the server.

use serde_json::{Map, Value, json};
use similar::{ChangeTag, TextDiff};
use toolwright_machine::journal::diff::differences;

use super::Context;
use super::apply::{self, SourceArgs};
use super::client::parse_name;
use super::definitions::{self, FileDefinition};
use super::exit::Exit;
use super::failure::Failure;
use super::output::sanitize_line;

/// The number of equal lines that are shown around a change.
const CONTEXT_LINES: usize = 3;
/// The maximum number of changed fields per definition with `--json`.
const MAX_CHANGES: usize = 1_000;

/// Arguments of `diff`.
#[derive(clap::Args)]
#[command(after_help = "Exit codes:\n  0  no differences\n  1  differences\n  2  an error")]
pub(crate) struct DiffArgs {
    #[command(flatten)]
    source: SourceArgs,
    /// Also show the definitions that `apply --set NAME --prune` would delete
    #[arg(long, value_name = "NAME", value_parser = parse_name)]
    set: Option<String>,
}

/// The counts of the summary.
#[derive(Default)]
struct Counts {
    create: usize,
    update: usize,
    delete: usize,
    unchanged: usize,
}

/// Prints the differences. The exit code is 0 without differences, 1 with differences and 2 for every error, like the
/// program `diff`.
pub(super) async fn run(cx: &Context, args: &DiffArgs) -> Result<Exit, Failure> {
    match compare_all(cx, args).await {
        Err(failure @ (Failure::Interrupted | Failure::Output(_))) => Err(failure),
        Err(failure) => {
            failure.report(&cx.output);
            Ok(Exit::Usage)
        }
        ended => ended,
    }
}

async fn compare_all(cx: &Context, args: &DiffArgs) -> Result<Exit, Failure> {
    let (definitions, _) = definitions::read(&args.source.files, args.source.format, None)?;
    let (mut counts, mut items) = (Counts::default(), Vec::new());
    for definition in &definitions {
        let stored = apply::fetch_existing(cx, definition).await?;
        match &stored {
            Some(view) if definition.kind.is_unchanged(&definition.body, view) => {
                counts.unchanged += 1;
                continue;
            }
            Some(_) => counts.update += 1,
            None => counts.create += 1,
        }
        items.push(show(cx, definition, stored.as_ref())?);
    }
    if let Some(set) = &args.set {
        for apply::Unlisted { kind, name, .. } in apply::unlisted(cx, set, &definitions).await? {
            counts.delete += 1;
            items.push(json!({ "kind": kind, "refName": name, "change": "delete" }));
            if !cx.output.json {
                let head = format!("- {} {}", kind.noun(), sanitize_line(&name));
                cx.output.line(format!("{}  only on the server", cx.output.out.bad(head)))?;
            }
        }
    }
    let Counts { create, update, delete, unchanged } = counts;
    if cx.output.json {
        cx.output.document(json!({ "items": items }))?;
    } else {
        cx.output.line(format!("{create} to create, {update} to update, {delete} to delete, {unchanged} unchanged"))?;
    }
    Ok(if items.is_empty() { Exit::Ok } else { Exit::Failed })
}

/// Prints the difference of one definition and returns it as JSON.
fn show(cx: &Context, definition: &FileDefinition, stored: Option<&Value>) -> Result<Value, Failure> {
    let (kind, name) = (definition.kind, sanitize_line(&definition.name));
    let before = stored.map(|view| kind.normalized(view)).unwrap_or_default();
    let mut after = kind.normalized(&definition.body);
    align(&mut after, &before);
    if cx.output.json {
        let (change, before) = match stored {
            Some(_) => ("update", before),
            None => ("create", Value::Object(Map::new())),
        };
        let changes: Vec<Value> = differences(&before, &after)
            .into_iter()
            .take(MAX_CHANGES)
            .map(|one| json!({ "path": one.field, "before": one.expected, "after": one.got }))
            .collect();
        return Ok(json!({ "kind": kind, "refName": definition.name, "change": change, "changes": changes }));
    }
    let (paint, location) = (cx.output.out, sanitize_line(&definition.location.to_string()));
    let head = match stored {
        Some(_) => format!("{}  {location}", paint.warn(format!("~ {} {name}", kind.noun()))),
        None => format!("{}  only in {location}", paint.good(format!("+ {} {name}", kind.noun()))),
    };
    cx.output.line(head)?;
    let (before, after) = (stored.map(|_| yaml(&before)).unwrap_or_default(), yaml(&after));
    let diff = TextDiff::from_lines(&before, &after);
    for (index, group) in diff.grouped_ops(CONTEXT_LINES).iter().enumerate() {
        if index > 0 {
            cx.output.line(paint.dim("    …"))?;
        }
        for change in group.iter().flat_map(|operation| diff.iter_changes(operation)) {
            let line = sanitize_line(change.value().trim_end_matches('\n'));
            cx.output.line(match change.tag() {
                ChangeTag::Equal => paint.dim(format!("    {line}")),
                ChangeTag::Delete => paint.bad(format!("  - {line}")),
                ChangeTag::Insert => paint.good(format!("  + {line}")),
            })?;
        }
    }
    cx.output.line("")?;
    Ok(Value::Null)
}

fn yaml(definition: &Value) -> String {
    serde_norway::to_string(definition).unwrap_or_default()
}

/// Puts the fields of `value` in the order of `model`, because a different order of fields is not a difference.
fn align(value: &mut Value, model: &Value) {
    match (value, model) {
        (Value::Object(fields), Value::Object(model)) => {
            let mut aligned = Map::new();
            for (name, model) in model {
                if let Some(mut field) = fields.shift_remove(name) {
                    align(&mut field, model);
                    aligned.insert(name.clone(), field);
                }
            }
            aligned.append(fields);
            *fields = aligned;
        }
        (Value::Array(items), Value::Array(model)) => {
            items.iter_mut().zip(model).for_each(|(item, model)| align(item, model));
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn order_of_fields_is_not_a_difference() {
        let server = json!({ "a": 1, "b": { "x": [ { "k": 1, "l": 2 } ], "y": 2 } });
        let mut file = json!({ "new": 0, "b": { "y": 2, "x": [ { "l": 2, "k": 1 } ] }, "a": 1 });
        align(&mut file, &server);
        assert_eq!(file.to_string(), r#"{"a":1,"b":{"x":[{"k":1,"l":2}],"y":2},"new":0}"#);
    }
}
