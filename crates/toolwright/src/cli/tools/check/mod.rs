//! `tools check`: runs the compliance checklist against tools of the realm, through the public API.

mod calls;
mod report;

use serde_json::Value;
use toolwright_api::wire::PageView;

use crate::cli::Context;
use crate::cli::client::{TOOLS, parse_name, path};
use crate::cli::exit::Exit;
use crate::cli::failure::Failure;
use crate::cli::input::parse_json_argument;

use calls::Calls;
use report::{Check, Outcome, ToolReport};

/// A usage text must have more than this number of characters, because it must say more than a name.
const MIN_USAGE_CHARS: usize = 20;

/// Arguments of `tools check`.
#[derive(clap::Args)]
#[command(after_long_help = crate::cli::exit::HELP)]
pub(crate) struct CheckArgs {
    /// refName or ID of each tool, optionally with a version requirement: name@^1.2
    #[arg(value_name = "REF", value_parser = parse_name, required_unless_present = "all")]
    references: Vec<String>,
    /// Check all tools of the realm
    #[arg(long, conflicts_with = "references")]
    all: bool,
    /// Also call tools with the side effects `writes`
    #[arg(long)]
    writes: bool,
    /// Input for tools without examples: JSON, `@FILE` to read a file, or `-` to read standard input
    #[arg(long, value_name = "JSON")]
    input: Option<String>,
}

/// Checks tools.
pub(super) async fn run(cx: &Context, args: CheckArgs) -> Result<Exit, Failure> {
    let input = args.input.as_deref().map(|input| parse_json_argument("--input", input)).transpose()?;
    let references = if args.all { all_tools(cx).await? } else { args.references };
    let mut reports = Vec::new();
    for reference in &references {
        reports.push(check_tool(cx, reference, input.as_ref(), args.writes).await?);
    }
    report::show(cx, &reports)?;
    Ok(if reports.iter().any(ToolReport::failed) { Exit::Failed } else { Exit::Ok })
}

async fn all_tools(cx: &Context) -> Result<Vec<String>, Failure> {
    let (mut names, mut cursor) = (Vec::new(), None::<String>);
    loop {
        let mut query = vec![("limit", "100".to_owned())];
        query.extend(cursor.map(|cursor| ("cursor", cursor)));
        let page: PageView<Value> = cx.client.get(TOOLS, &query).await?.read()?;
        names.extend(page.items.iter().map(|tool| text(tool, "refName").to_owned()));
        cursor = page.next_cursor;
        if cursor.is_none() {
            return Ok(names);
        }
    }
}

/// Runs the nine checks, in the order of the checklist.
async fn check_tool(cx: &Context, reference: &str, input: Option<&Value>, writes: bool) -> Result<ToolReport, Failure> {
    let tool: Value = cx.client.get(&path(TOOLS, reference), &[]).await?.read()?;
    let name = text(&tool, "refName").to_owned();
    let exact = format!("{name}@{}", text(&tool, "version"));
    let calls = Calls::make(cx, &exact, &tool, input, writes).await?;
    let checks = vec![
        Check::new("definition", definition(cx, &exact).await?),
        Check::new("name", stable_name(cx, &tool).await?),
        Check::new("usage", usage(&tool)),
        Check::new("execution-mode", calls.execution_mode()),
        Check::new("invalid-input", calls.invalid_input()),
        Check::new("output", calls.output()),
        Check::new("ids", calls.ids()),
        Check::new("failures", calls.failures()),
        Check::new("run", calls.run()),
    ];
    Ok(ToolReport { tool: exact, checks })
}

/// Checks that the definition is valid, and that saving it would give no warnings.
async fn definition(cx: &Context, exact: &str) -> Result<Outcome, Failure> {
    let checked = match cx.client.get(&path(TOOLS, exact), &[("check", "true".to_owned())]).await {
        Ok(response) => response.read::<Value>()?,
        Err(Failure::Refused(refusal)) if refusal.problem.status == 422 => {
            let issues: Vec<String> =
                refusal.problem.errors.iter().map(crate::cli::failure::field_error_line).collect();
            return Ok(Outcome::Failed(format!("is not valid: {}", issues.join("; "))));
        }
        Err(failure) => return Err(failure),
    };
    let warnings = checked.get("warnings").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str);
    let warnings: Vec<&str> = warnings.collect();
    Ok(match warnings.is_empty() {
        true => Outcome::passed("valid, without warnings"),
        false => Outcome::Failed(format!("has warnings: {}", warnings.join("; "))),
    })
}

/// Checks that requests by name and by id return the same tool. A built-in tool has no id.
async fn stable_name(cx: &Context, tool: &Value) -> Result<Outcome, Failure> {
    let name = text(tool, "refName");
    let Some(id) = tool.get("id").and_then(Value::as_str) else {
        return Ok(Outcome::passed("the name of a built-in tool"));
    };
    let by_name: Value = cx.client.get(&path(TOOLS, name), &[]).await?.read()?;
    let by_id: Value = cx.client.get(&path(TOOLS, id), &[]).await?.read()?;
    let same =
        text(&by_name, "refName") == name && text(&by_id, "refName") == name && by_name.get("id") == by_id.get("id");
    Ok(match same {
        true => Outcome::passed(format!("`{name}` and `{id}` are the same tool")),
        false => Outcome::Failed(format!("`{name}` and `{id}` must be the same tool")),
    })
}

/// Checks that the tool has a text that tells a model when to use it.
fn usage(tool: &Value) -> Outcome {
    let texts = ["longDescription", "description"].map(|field| text(tool, field).trim());
    let usage = texts.into_iter().find(|text| !text.is_empty()).unwrap_or_default();
    let chars = usage.chars().count();
    if usage == text(tool, "name") || chars <= MIN_USAGE_CHARS {
        let rule = format!("`longDescription` or `description` must have more than {MIN_USAGE_CHARS} characters");
        return Outcome::Failed(format!("{rule} and say more than the name, got `{usage}`"));
    }
    Outcome::passed(format!("{chars} characters"))
}

/// Returns a field of a definition. It is empty if the field is absent or not a text.
fn text<'a>(tool: &'a Value, field: &str) -> &'a str {
    tool.get(field).and_then(Value::as_str).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn usage_check_fails_if_the_description_of_a_tool_is_short_or_equals_its_name() {
        for (tool, passes) in [
            (json!({ "name": "t", "description": "Reads one order by its id." }), true),
            (json!({ "name": "t", "description": "short", "longDescription": "Reads one order by its id." }), true),
            (json!({ "name": "t", "description": "Reads an order." }), false),
            (json!({ "name": "reads one order by its id", "description": "reads one order by its id" }), false),
            (json!({ "name": "t" }), false),
        ] {
            assert_eq!(matches!(usage(&tool), Outcome::Passed(_)), passes, "{tool}");
        }
    }
}
