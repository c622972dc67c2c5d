//! Implements `agentic-tools test` and `agentic-tools prompt`.

use serde_json::json;
use toolwright_api::wire::{PromptReplyView, PromptTestView, PromptVersionView, RegeneratedPromptView};

use crate::cli::Context;
use crate::cli::client::{AGENTIC_TOOLS, parse_name, path};
use crate::cli::definitions::read_source;
use crate::cli::exit::Exit;
use crate::cli::failure::Failure;
use crate::cli::fields::text;
use crate::cli::follow::{format_input, format_usd, pluralize};
use crate::cli::output::{Output, sanitize, sanitize_line, wrap};
use crate::cli::pages::{List, PageArgs};
use crate::cli::table::Table;
use crate::cli::time::format_minute;

use super::ReferenceArgs;
use super::input::TaskArgs;

/// Arguments of `agentic-tools test`.
#[derive(clap::Args)]
pub(crate) struct TestArgs {
    /// refName or ID of the agentic tool
    #[arg(value_name = "REF", value_parser = parse_name)]
    reference: String,
    #[command(flatten)]
    task: TaskArgs,
    /// Also call the model once; its reply is shown, and no tool is called
    #[arg(long)]
    model_call: bool,
    /// File with a prompt to test instead of the saved one, or `-` for standard input
    #[arg(long, value_name = "FILE")]
    prompt: Option<String>,
}

/// Subcommands of `agentic-tools prompt`.
#[derive(clap::Subcommand)]
pub(crate) enum PromptCommand {
    /// List the versions of the system prompt, newest first
    Versions(VersionsArgs),
    /// Restore the system prompt of an earlier revision
    Restore(RestoreArgs),
    /// Generate the system prompt again from the purpose, the mode and the tools
    Regenerate(RegenerateArgs),
}

/// Arguments of `agentic-tools prompt versions`.
#[derive(clap::Args)]
pub(crate) struct VersionsArgs {
    #[command(flatten)]
    target: ReferenceArgs,
    #[command(flatten)]
    page: PageArgs,
    /// Print the changes of each version
    #[arg(long)]
    diff: bool,
}

/// Arguments of `agentic-tools prompt restore`.
#[derive(clap::Args)]
pub(crate) struct RestoreArgs {
    #[command(flatten)]
    target: ReferenceArgs,
    /// Number of the revision, from `agentic-tools prompt versions`
    #[arg(value_name = "REVISION", value_parser = clap::value_parser!(i64).range(1..))]
    revision: i64,
}

/// Arguments of `agentic-tools prompt regenerate`.
#[derive(clap::Args)]
pub(crate) struct RegenerateArgs {
    #[command(flatten)]
    target: ReferenceArgs,
    /// Let the model of the tool improve the generated prompt
    #[arg(long)]
    use_model: bool,
    /// Show the changes, and write nothing
    #[arg(long)]
    dry_run: bool,
}

/// Shows the first request to the model.
pub(super) async fn test(cx: &Context, args: TestArgs) -> Result<Exit, Failure> {
    let params = args.task.params(cx, &args.reference).await?;
    let prompt = args.prompt.as_deref().map(read_text).transpose()?;
    let body = json!({ "params": params, "systemPrompt": prompt, "callModel": args.model_call });
    let response = cx.client.call(&format!("{}/test-prompt", path(AGENTIC_TOOLS, &args.reference)), &body).await?;
    if cx.output.json {
        cx.output.document(response.text.trim_end())?;
    } else {
        show_test(&cx.output, &response.read()?)?;
    }
    Ok(Exit::Ok)
}

fn read_text(file: &str) -> Result<String, Failure> {
    let text = String::from_utf8(read_source(file)?);
    text.map_err(|_| Failure::Usage(format!("cannot read `{file}`: not valid UTF-8")))
}

/// Prints the prompt, the message and the reply of a test.
fn show_test(out: &Output, test: &PromptTestView) -> Result<(), Failure> {
    for warning in &test.warnings {
        out.note(out.err.warn(format!("! {}", sanitize_line(warning))));
    }
    show_text(out, "system prompt", &test.system_prompt)?;
    show_text(out, "\nmessage", &test.user_message)?;
    out.line(out.out.dim(format!("\nabout {}", pluralize(test.estimated_tokens, "input token"))))?;
    let Some(PromptReplyView { text, tool_calls, run_id, tokens, cost }) = &test.reply else { return Ok(()) };
    show_text(out, "\nreply", text)?;
    let calls = tool_calls.iter();
    out.lines(calls.map(|call| {
        let line = format!("→ {}  {}", sanitize_line(&call.action_slug), format_input(&call.parameters));
        wrap(&line, out.width, 2)
    }))?;
    let cost = if *cost > 0.0 { format!(" · {}", format_usd(*cost)) } else { String::new() };
    out.line(out.out.dim(format!("\n{}{cost}\n  {}", pluralize(*tokens, "token"), sanitize_line(run_id))))?;
    Ok(())
}

/// Prints a text below its title.
pub(super) fn show_text(out: &Output, title: &str, text: &str) -> Result<(), Failure> {
    out.line(out.out.dim(title))?;
    let text = sanitize(text);
    let text = text.trim_end();
    if !text.is_empty() {
        out.line(wrap(text, out.width, 0))?;
    }
    Ok(())
}

/// Runs an `agentic-tools prompt` subcommand.
pub(super) async fn run(cx: &Context, command: PromptCommand) -> Result<Exit, Failure> {
    match command {
        PromptCommand::Versions(args) => versions(cx, &args).await,
        PromptCommand::Restore(args) => restore(cx, &args).await,
        PromptCommand::Regenerate(args) => regenerate(cx, &args).await,
    }
}

async fn versions(cx: &Context, args: &VersionsArgs) -> Result<Exit, Failure> {
    let collection = format!("{}/prompt-versions", path(AGENTIC_TOOLS, &args.target.reference));
    let list = List { collection: &collection, query: Vec::new(), empty_message: "no versions found" };
    if !args.diff {
        list.show(cx, &args.page, table).await?;
        return Ok(Exit::Ok);
    }
    let lines = |versions: &[PromptVersionView]| {
        versions.iter().flat_map(|version| version_lines(version, &cx.output)).collect()
    };
    list.show_lines(cx, &args.page, lines).await?;
    Ok(Exit::Ok)
}

/// Formats a version with its changes.
fn version_lines(version: &PromptVersionView, out: &Output) -> Vec<String> {
    let author = format!("{} by {}", format_minute(version.updated_at), sanitize_line(&version.updated_by));
    let head = format!("{}  {author}", out.out.good(format!("revision {}", version.revision)));
    let changes = match &version.diff {
        Some(diff) => diff_lines(diff, out),
        None => vec![out.out.dim("    first version")],
    };
    std::iter::once(head).chain(changes).collect()
}

fn table(versions: &[PromptVersionView]) -> Table {
    let mut table = Table::new(["REVISION", "CHANGED", "BY", "ORIGIN", "CHANGES", "PROMPT"]);
    for version in versions {
        let count = |sign: char| {
            let lines = version.diff.as_deref().unwrap_or_default().lines();
            lines.filter(|line| line.starts_with(sign)).count()
        };
        let changes = version.diff.as_ref().map(|_| format!("+{} -{}", count('+'), count('-')));
        table.row([
            &version.revision.to_string(),
            &format_minute(version.updated_at),
            &version.updated_by,
            if version.generated { "generated" } else { "written" },
            changes.as_deref().unwrap_or("-"),
            version.system_prompt.trim(),
        ]);
    }
    table
}

async fn restore(cx: &Context, args: &RestoreArgs) -> Result<Exit, Failure> {
    let (tool, revision) = (path(AGENTIC_TOOLS, &args.target.reference), args.revision);
    let response = cx.client.call(&format!("{tool}/prompt-versions/{revision}/restore"), &json!({})).await?;
    if cx.output.json {
        cx.output.document(response.text.trim_end())?;
    } else {
        let view = response.read()?;
        let (name, now) = (text(&view, "slug"), text(&view, "revision"));
        cx.output.line(format!(
            "{} restored   prompt of revision {revision}; {name} has revision {now}",
            cx.output.out.good('✓')
        ))?;
    }
    Ok(Exit::Ok)
}

async fn regenerate(cx: &Context, args: &RegenerateArgs) -> Result<Exit, Failure> {
    let body = json!({ "useModel": args.use_model, "save": !args.dry_run });
    let tool = path(AGENTIC_TOOLS, &args.target.reference);
    let response = cx.client.call(&format!("{tool}/regenerate-prompt"), &body).await?;
    let out = &cx.output;
    if out.json {
        out.document(response.text.trim_end())?;
        return Ok(Exit::Ok);
    }
    let prompt: RegeneratedPromptView = response.read()?;
    let is_same = prompt.system_prompt == prompt.previous_prompt;
    out.lines(diff_lines(&prompt.diff, out))?;
    match (is_same, prompt.saved) {
        (true, _) => out.line("= unchanged  the generated prompt is the current one")?,
        (false, true) => out.line(format!("{} saved      revision {}", out.out.good('✓'), prompt.revision))?,
        (false, false) => out.note(out.err.dim("dry run: nothing was written")),
    }
    Ok(Exit::Ok)
}

/// Formats a unified diff in the layout of `toolwright diff`.
fn diff_lines(diff: &str, out: &Output) -> Vec<String> {
    let (paint, mut lines) = (out.out, Vec::new());
    for line in diff.lines() {
        let mut characters = line.chars();
        let sign = characters.next();
        let text = sanitize_line(characters.as_str());
        match sign {
            // The header of a group of changes.
            Some('@') if lines.is_empty() => {}
            Some('@') => lines.push(paint.dim("    …")),
            Some('+') => lines.push(wrap(&paint.good(format!("  + {text}")), out.width, 2)),
            Some('-') => lines.push(wrap(&paint.bad(format!("  - {text}")), out.width, 2)),
            // The remark that the last line has no line break.
            Some('\\') => {}
            _ => lines.push(wrap(&paint.dim(format!("    {text}")), out.width, 2)),
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unified_diff_is_formatted_like_the_output_of_the_diff_command() {
        let diff = "@@ -1,2 +1,2 @@\n same\n-@old\n+new\n@@ -9,1 +9,1 @@\n--- list\n\\ No newline at end of file\n";
        let out = Output::for_tests();
        assert_eq!(diff_lines(diff, &out), ["    same", "  - @old", "  + new", "    …", "  - -- list"]);
        assert_eq!(diff_lines("", &out), Vec::<String>::new());
    }
}
