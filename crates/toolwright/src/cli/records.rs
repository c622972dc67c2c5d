//! `toolwright records …`: records of types, through the query gateway.

use std::io::Write;
use std::path::PathBuf;

use serde::Deserialize;
use serde_json::{Value, json};

use super::Context;
use super::client::{QUERY, innermost};
use super::definitions::bytes_of;
use super::exit::Exit;
use super::facts::text;
use super::failure::Failure;
use super::input::json_argument;
use super::output::plain;
use super::table::Table;

/// What can be done with records.
#[derive(clap::Subcommand)]
pub enum RecordsCommand {
    /// Find records by a query
    Find(FindArgs),
    /// Count records
    Count(QueryArgs),
    /// Write a record
    Save(SaveArgs),
    /// Delete a record by its id, or those that a query finds
    Delete(DeleteArgs),
    /// Write the rows of a CSV file as records
    Import(ImportArgs),
    /// Print records as CSV
    Export(ExportArgs),
}

/// Which records.
#[derive(clap::Args)]
pub struct QueryArgs {
    /// The type
    #[arg(value_name = "TYPE")]
    of: String,
    /// In the query language; all of them when absent
    query: Option<String>,
}

/// Which records, in which order.
#[derive(clap::Args)]
pub struct FindArgs {
    #[command(flatten)]
    which: QueryArgs,
    /// The order: `name, -created`
    #[arg(long, allow_hyphen_values = true)]
    sort: Option<String>,
    /// Parts of the records: `+name, -note`
    #[arg(long, allow_hyphen_values = true)]
    fields: Option<String>,
    /// How many
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=1000))]
    limit: u32,
    /// Where the page before ended
    #[arg(long)]
    cursor: Option<String>,
}

/// Which record, and what it says.
#[derive(clap::Args)]
pub struct SaveArgs {
    /// The type
    #[arg(value_name = "TYPE")]
    of: String,
    /// The record as JSON, `@FILE` to read it from there, or `-` for standard input
    #[arg(value_name = "JSON")]
    entity: String,
}

/// Which records go.
#[derive(clap::Args)]
pub struct DeleteArgs {
    /// The type
    #[arg(value_name = "TYPE")]
    of: String,
    /// The record's id
    #[arg(required_unless_present_any = ["query", "all"])]
    id: Option<String>,
    /// All that this query finds
    #[arg(long, conflicts_with = "id")]
    query: Option<String>,
    /// Every record of the type
    #[arg(long, conflicts_with_all = ["id", "query"])]
    all: bool,
}

/// Which file.
#[derive(clap::Args)]
pub struct ImportArgs {
    /// The type
    #[arg(value_name = "TYPE")]
    of: String,
    /// The CSV file, or `-` for standard input
    file: PathBuf,
}

/// Which records, and which columns.
#[derive(clap::Args)]
pub struct ExportArgs {
    #[command(flatten)]
    which: QueryArgs,
    /// The columns: `id, status, customer.name`; the properties of the type when absent
    #[arg(long)]
    columns: Option<String>,
}

/// Runs one of them.
pub async fn run(cx: &Context, command: RecordsCommand) -> Result<Exit, Failure> {
    match command {
        RecordsCommand::Find(args) => find(cx, args).await,
        RecordsCommand::Count(args) => count(cx, args).await,
        RecordsCommand::Save(args) => save(cx, args).await,
        RecordsCommand::Delete(args) => delete(cx, args).await,
        RecordsCommand::Import(args) => import(cx, args).await,
        RecordsCommand::Export(args) => export(cx, args).await,
    }
}

fn route(name: &str) -> String {
    format!("{QUERY}/{name}")
}

async fn find(cx: &Context, args: FindArgs) -> Result<Exit, Failure> {
    let keys = args.sort.as_deref().map(sort_keys).unwrap_or_default();
    let body = json!({
        "rootType": args.which.of, "query": args.which.query, "sort": keys, "fields": args.fields,
        "page": { "limit": args.limit, "cursor": args.cursor },
    });
    let answer = cx.client.post(&route("find"), &body).await?;
    if cx.output.json {
        cx.output.line(answer.text.trim_end())?;
        return Ok(Exit::Ok);
    }
    let found: Value = answer.read()?;
    let rows = found.get("rows").and_then(Value::as_array).cloned().unwrap_or_default();
    if rows.is_empty() {
        cx.output.note("nothing is found");
        return Ok(Exit::Ok);
    }
    cx.output.lines(table(&rows).lines(cx.output.out, cx.output.width))?;
    if let Some(cursor) = found.get("nextCursor").and_then(Value::as_str) {
        cx.output.note(cx.output.err.dim(format!("there are more: --cursor {cursor}")));
    }
    Ok(Exit::Ok)
}

/// `name, -created` as the gateway takes it.
fn sort_keys(text: &str) -> Vec<Value> {
    let key = |part: &str| match part.strip_prefix('-') {
        Some(field) => json!({ "field": field, "dir": "DESC" }),
        None => json!({ "field": part.trim_start_matches('+'), "dir": "ASC" }),
    };
    text.split(',').map(str::trim).map(key).collect()
}

/// The id, and every other field on one line.
fn table(rows: &[Value]) -> Table {
    let mut table = Table::new(["ID", "VERSION", "RECORD"]);
    for row in rows {
        let mut rest = row.as_object().cloned().unwrap_or_default();
        ["id", "version", "auditInfo", "dataDomain"].iter().for_each(|name| drop(rest.shift_remove(*name)));
        table.row([&text(row, "id"), &text(row, "version"), &plain(&Value::Object(rest).to_string())]);
    }
    table
}

async fn count(cx: &Context, args: QueryArgs) -> Result<Exit, Failure> {
    let answer = cx.client.post(&route("count"), &json!({ "rootType": args.of, "query": args.query })).await?;
    if cx.output.json {
        cx.output.line(answer.text.trim_end())?;
    } else {
        cx.output.line(text(&answer.read()?, "count"))?;
    }
    Ok(Exit::Ok)
}

async fn save(cx: &Context, args: SaveArgs) -> Result<Exit, Failure> {
    let entity = json_argument("the record", &args.entity)?;
    let answer = cx.client.post(&route("save"), &json!({ "rootType": args.of, "entity": entity })).await?;
    if cx.output.json {
        cx.output.line(answer.text.trim_end())?;
        return Ok(Exit::Ok);
    }
    let saved: Value = answer.read()?;
    let version = saved.pointer("/entity/version").and_then(Value::as_i64).unwrap_or_default();
    cx.output.line(format!("{} saved      {} (version {version})", cx.output.out.good('✓'), text(&saved, "id")))?;
    Ok(Exit::Ok)
}

async fn delete(cx: &Context, args: DeleteArgs) -> Result<Exit, Failure> {
    let (name, body) = match args.id {
        Some(id) => ("delete", json!({ "rootType": args.of, "id": id })),
        None => ("deleteMany", json!({ "rootType": args.of, "query": args.query, "all": args.all })),
    };
    let answer = cx.client.post(&route(name), &body).await?;
    if cx.output.json {
        cx.output.line(answer.text.trim_end())?;
    } else {
        let count = text(&answer.read()?, "deletedCount");
        cx.output.line(format!("{} deleted    {count} record(s)", cx.output.out.good('✓')))?;
    }
    Ok(Exit::Ok)
}

/// Rows that the server writes at once: so many may be written that nobody was told of.
const BATCH: usize = 500;

/// A line that the server writes while it imports: what all came to so far.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Progress {
    created: u64,
    updated: u64,
    /// Rows that were not written since the line before.
    failed: Vec<Failed>,
    failures: u64,
    done: bool,
    error: Option<String>,
}

/// A row that was not written.
#[derive(Deserialize)]
struct Failed {
    line: u64,
    message: String,
}

async fn import(cx: &Context, args: ImportArgs) -> Result<Exit, Failure> {
    let bytes =
        bytes_of(&args.file).map_err(|error| Failure::Usage(format!("read `{}`: {error}", args.file.display())))?;
    let query = [("rootType", args.of)];
    let mut response = cx.client.send_text(&route("import"), &query, "text/csv", bytes).await?;
    let url = response.url().to_string();
    let (mut text, mut last, mut cause) = (Vec::new(), Progress::default(), None);
    while cause.is_none() {
        match response.chunk().await {
            Ok(Some(chunk)) => text.extend_from_slice(&chunk),
            Ok(None) => break,
            Err(error) => cause = Some(innermost(&error)),
        }
        while let Some(end) = text.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = text.drain(..=end).collect();
            let unexpected =
                |error: serde_json::Error| Failure::Unexpected { url: url.clone(), cause: error.to_string() };
            let told: Progress = serde_json::from_slice(&line).map_err(unexpected)?;
            tell(cx, &line, &told)?;
            match told.error {
                Some(error) => cause = Some(error),
                None => last = told,
            }
        }
    }
    let Progress { created, updated, failures, done, .. } = last;
    if !done {
        let cause = cause.unwrap_or_else(|| "the connection was closed".to_owned());
        let known = format!("{created} created, {updated} updated, {failures} failed before that");
        return Err(Failure::BrokenOff { url, cause: format!("{cause}; {known}, and perhaps {BATCH} rows more") });
    }
    if !cx.output.json {
        cx.output.line(format!("{created} created, {updated} updated, {failures} failed"))?;
    }
    Ok(if failures == 0 { Exit::Ok } else { Exit::Invalid })
}

fn tell(cx: &Context, line: &[u8], progress: &Progress) -> Result<(), Failure> {
    if cx.output.json {
        return Ok(cx.output.part(&String::from_utf8_lossy(line))?);
    }
    for Failed { line, message } in &progress.failed {
        cx.output.note(format!("{} line {line}: {}", cx.output.err.bad('✗'), plain(message)));
    }
    Ok(())
}

async fn export(cx: &Context, args: ExportArgs) -> Result<Exit, Failure> {
    let body = json!({ "rootType": args.which.of, "query": args.which.query, "columns": args.columns });
    let mut response = cx.client.post_stream(&route("export"), &body).await?;
    let url = response.url().to_string();
    let broken = |error: reqwest::Error| Failure::BrokenOff { url: url.clone(), cause: innermost(&error) };
    while let Some(chunk) = response.chunk().await.map_err(broken)? {
        std::io::stdout().lock().write_all(&chunk)?;
    }
    Ok(Exit::Ok)
}
