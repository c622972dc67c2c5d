//! Implements `toolwright records`, which uses the routes under `/api/query`.

use std::io::Write;
use std::path::PathBuf;

use serde_json::{Value, json};
use toolwright_api::wire::{
    DeletedManyView, DeletedView, FailedLine, ImportLine, RecordCount, RecordPageView, SavedView,
};

use super::Context;
use super::client::{QUERY, TYPES, root_cause};
use super::definitions::read_bytes;
use super::exit::Exit;
use super::failure::Failure;
use super::fields::text;
use super::follow::pluralize;
use super::input::parse_json_argument;
use super::output::sanitize_line;
use super::table::Table;

/// Subcommands of `records`.
#[derive(clap::Subcommand)]
pub(crate) enum RecordsCommand {
    /// Find records
    Find(FindArgs),
    /// Count records
    Count(QueryArgs),
    /// Create or update a record
    Save(SaveArgs),
    /// Delete a record by ID, or all records that match a query
    Delete(DeleteArgs),
    /// Import records from a CSV file
    Import(ImportArgs),
    /// Export records as CSV
    Export(ExportArgs),
}

/// The records to select.
#[derive(clap::Args)]
pub(crate) struct QueryArgs {
    /// Entity type
    #[arg(value_name = "TYPE")]
    type_name: String,
    /// Query in the query language [default: all records]
    query: Option<String>,
}

/// Arguments of `records find`.
#[derive(clap::Args)]
pub(crate) struct FindArgs {
    #[command(flatten)]
    selection: QueryArgs,
    /// Sort order, such as `name, -created`
    #[arg(long, allow_hyphen_values = true)]
    sort: Option<String>,
    /// Fields to include or exclude, such as `+name, -note`
    #[arg(long, allow_hyphen_values = true)]
    fields: Option<String>,
    /// Maximum number of records
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=1000))]
    limit: u32,
    /// Cursor of the previous page
    #[arg(long)]
    cursor: Option<String>,
}

/// Arguments of `records save`.
#[derive(clap::Args)]
pub(crate) struct SaveArgs {
    /// Entity type
    #[arg(value_name = "TYPE")]
    type_name: String,
    /// Record as JSON, `@FILE` to read a file, or `-` to read standard input
    #[arg(value_name = "JSON")]
    entity: String,
}

/// Arguments of `records delete`.
#[derive(clap::Args)]
pub(crate) struct DeleteArgs {
    /// Entity type
    #[arg(value_name = "TYPE")]
    type_name: String,
    /// Record ID
    #[arg(required_unless_present_any = ["query", "all"])]
    id: Option<String>,
    /// Delete all records that match this query
    #[arg(long, conflicts_with = "id")]
    query: Option<String>,
    /// Delete all records of the type
    #[arg(long, conflicts_with_all = ["id", "query"])]
    all: bool,
}

/// Arguments of `records import`.
#[derive(clap::Args)]
pub(crate) struct ImportArgs {
    /// Entity type
    #[arg(value_name = "TYPE")]
    type_name: String,
    /// CSV file, or `-` for standard input
    file: PathBuf,
}

/// Arguments of `records export`.
#[derive(clap::Args)]
pub(crate) struct ExportArgs {
    #[command(flatten)]
    selection: QueryArgs,
    /// Columns, such as `id, status, customer.name` [default: the properties of the type]
    #[arg(long)]
    columns: Option<String>,
}

/// Runs a `records` subcommand.
pub(super) async fn run(cx: &Context, command: RecordsCommand) -> Result<Exit, Failure> {
    let type_name = command.type_name().to_owned();
    let ended = match command {
        RecordsCommand::Find(args) => find(cx, args).await,
        RecordsCommand::Count(args) => count(cx, args).await,
        RecordsCommand::Save(args) => save(cx, args).await,
        RecordsCommand::Delete(args) => delete(cx, args).await,
        RecordsCommand::Import(args) => import(cx, args).await,
        RecordsCommand::Export(args) => export(cx, args).await,
    };
    ended.map_err(|failure| suggest_type(failure, type_name))
}

impl RecordsCommand {
    fn type_name(&self) -> &str {
        match self {
            RecordsCommand::Find(args) => &args.selection.type_name,
            RecordsCommand::Count(args) => &args.type_name,
            RecordsCommand::Save(args) => &args.type_name,
            RecordsCommand::Delete(args) => &args.type_name,
            RecordsCommand::Import(args) => &args.type_name,
            RecordsCommand::Export(args) => &args.selection.type_name,
        }
    }
}

/// If the type does not exist, names the command that lists the types in place of the route, and requests a suggestion
/// of a similar type.
fn suggest_type(mut failure: Failure, type_name: String) -> Failure {
    const ROUTE: &str = "`rootTypes` lists the types";
    if let Failure::Refused(refusal) = &mut failure
        && refusal.problem.detail.contains(ROUTE)
    {
        refusal.problem.detail = refusal.problem.detail.replace(ROUTE, "`toolwright types list` lists the types");
        refusal.requested = Some((TYPES, type_name));
    }
    failure
}

fn query_path(name: &str) -> String {
    format!("{QUERY}/{name}")
}

async fn find(cx: &Context, args: FindArgs) -> Result<Exit, Failure> {
    let keys = args.sort.as_deref().map(sort_keys).unwrap_or_default();
    let body = json!({
        "rootType": args.selection.type_name, "query": args.selection.query, "sort": keys, "fields": args.fields,
        "page": { "limit": args.limit, "cursor": args.cursor },
    });
    let response = cx.client.post(&query_path("find"), &body).await?;
    if cx.output.json {
        cx.output.document(response.text.trim_end())?;
        return Ok(Exit::Ok);
    }
    let found: RecordPageView = response.read()?;
    if found.rows.is_empty() {
        cx.output.note("no records found");
        return Ok(Exit::Ok);
    }
    cx.output.lines(table(&found.rows).lines(cx.output.out, cx.output.width))?;
    if let Some(cursor) = found.next_cursor {
        cx.output.note(cx.output.err.dim(format!("more results available; use --cursor {cursor}")));
    }
    Ok(Exit::Ok)
}

/// Parses a text such as `name, -created` into the sort keys of the REST API.
fn sort_keys(text: &str) -> Vec<Value> {
    let key = |part: &str| match part.strip_prefix('-') {
        Some(field) => json!({ "field": field, "dir": "DESC" }),
        None => json!({ "field": part.trim_start_matches('+'), "dir": "ASC" }),
    };
    text.split(',').map(str::trim).map(key).collect()
}

/// Builds a table with one line for each record: the id, the version, and the other fields except those that the server
/// manages.
fn table(rows: &[Value]) -> Table {
    let mut table = Table::new(["ID", "VERSION", "RECORD"]);
    for row in rows {
        let mut rest = row.as_object().cloned().unwrap_or_default();
        ["id", "version", "auditInfo", "dataDomain"].iter().for_each(|name| drop(rest.shift_remove(*name)));
        table.row([&text(row, "id"), &text(row, "version"), &sanitize_line(&Value::Object(rest).to_string())]);
    }
    table
}

async fn count(cx: &Context, args: QueryArgs) -> Result<Exit, Failure> {
    let response =
        cx.client.post(&query_path("count"), &json!({ "rootType": args.type_name, "query": args.query })).await?;
    if cx.output.json {
        cx.output.document(response.text.trim_end())?;
    } else {
        cx.output.line(response.read::<RecordCount>()?.count)?;
    }
    Ok(Exit::Ok)
}

async fn save(cx: &Context, args: SaveArgs) -> Result<Exit, Failure> {
    let entity = parse_json_argument("the record", &args.entity)?;
    let response =
        cx.client.post(&query_path("save"), &json!({ "rootType": args.type_name, "entity": entity })).await?;
    if cx.output.json {
        cx.output.document(response.text.trim_end())?;
        return Ok(Exit::Ok);
    }
    let saved: SavedView = response.read()?;
    let version = saved.entity.get("version").and_then(Value::as_i64).unwrap_or_default();
    cx.output.line(format!(
        "{} saved      {} (version {version})",
        cx.output.out.good('✓'),
        sanitize_line(&saved.id)
    ))?;
    Ok(Exit::Ok)
}

async fn delete(cx: &Context, args: DeleteArgs) -> Result<Exit, Failure> {
    let by_id = args.id.is_some();
    let (name, body) = match args.id {
        Some(id) => ("delete", json!({ "rootType": args.type_name, "id": id })),
        None => ("deleteMany", json!({ "rootType": args.type_name, "query": args.query, "all": args.all })),
    };
    let response = cx.client.post(&query_path(name), &body).await?;
    if cx.output.json {
        cx.output.document(response.text.trim_end())?;
    } else {
        let count = match by_id {
            true => response.read::<DeletedView>()?.deleted_count,
            false => response.read::<DeletedManyView>()?.deleted_count,
        };
        cx.output.line(format!("{} deleted    {}", cx.output.out.good('✓'), pluralize(count, "record")))?;
    }
    Ok(Exit::Ok)
}

/// The number of rows that the server writes per batch. If the connection breaks, one more batch than reported may have
/// been written.
const IMPORT_BATCH_ROWS: usize = 500;

async fn import(cx: &Context, args: ImportArgs) -> Result<Exit, Failure> {
    let bytes = read_bytes(&args.file)
        .map_err(|error| Failure::Usage(format!("cannot read `{}`: {error}", args.file.display())))?;
    let query = [("rootType", args.type_name)];
    let mut response = cx.client.post_body(&query_path("import"), &query, "text/csv", bytes).await?;
    let url = response.url().to_string();
    let (mut text, mut last_progress, mut cause) = (Vec::new(), ImportLine::default(), None);
    while cause.is_none() {
        match response.chunk().await {
            Ok(Some(chunk)) => text.extend_from_slice(&chunk),
            Ok(None) => break,
            Err(error) => cause = Some(root_cause(&error)),
        }
        while let Some(end) = text.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = text.drain(..=end).collect();
            let unexpected =
                |error: serde_json::Error| Failure::Unexpected { url: url.clone(), cause: error.to_string() };
            let progress: ImportLine = serde_json::from_slice(&line).map_err(unexpected)?;
            report_progress(cx, &line, &progress)?;
            match progress.error {
                Some(error) => cause = Some(error),
                None => last_progress = progress,
            }
        }
    }
    let ImportLine { created, updated, failures, done, .. } = last_progress;
    if !done {
        let cause = cause.unwrap_or_else(|| "connection closed".to_owned());
        let so_far = format!("{created} created, {updated} updated, {failures} failed so far");
        return Err(Failure::ConnectionLost {
            url,
            cause: format!("{cause}; {so_far}; up to {IMPORT_BATCH_ROWS} more rows may have been written"),
        });
    }
    if !cx.output.json {
        cx.output.line(format!("{created} created, {updated} updated, {failures} failed"))?;
    }
    Ok(if failures == 0 { Exit::Ok } else { Exit::Invalid })
}

fn report_progress(cx: &Context, line: &[u8], progress: &ImportLine) -> Result<(), Failure> {
    if cx.output.json {
        return Ok(cx.output.stream_item(&String::from_utf8_lossy(line))?);
    }
    for FailedLine { line, message } in &progress.failed {
        cx.output.note(format!("{} line {line}: {}", cx.output.err.bad('✗'), sanitize_line(message)));
    }
    Ok(())
}

async fn export(cx: &Context, args: ExportArgs) -> Result<Exit, Failure> {
    let body = json!({ "rootType": args.selection.type_name, "query": args.selection.query, "columns": args.columns });
    let mut response = cx.client.post_stream(&query_path("export"), &body).await?;
    let url = response.url().to_string();
    let connection_lost =
        |error: reqwest::Error| Failure::ConnectionLost { url: url.clone(), cause: root_cause(&error) };
    while let Some(chunk) = response.chunk().await.map_err(connection_lost)? {
        std::io::stdout().lock().write_all(&chunk)?;
    }
    Ok(Exit::Ok)
}
