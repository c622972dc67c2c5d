//! `gram query`: finds matches of a pattern in files or in the definitions of the realm.

use std::path::PathBuf;

use serde_json::json;
use toolwright_api::wire::MatchesView;
use toolwright_gram::{Graph, Pattern, Query, print_line};
use toolwright_notation::reference_relations;

use super::sources;
use crate::cli::Context;
use crate::cli::exit::Exit;
use crate::cli::failure::Failure;
use crate::cli::output::sanitize_line;

/// Arguments of `gram query`.
#[derive(clap::Args)]
pub(crate) struct QueryArgs {
    /// Pattern with variables, such as '(a:Agent)==>(t:Tool {sideEffects: "writes"})'
    query: String,
    /// Files or directories, or `-` for standard input [default: the definitions of the realm]
    #[arg(value_name = "PATH")]
    files: Vec<PathBuf>,
}

/// Prints the matches of a query. A query without matches is not an error.
pub(super) async fn run(cx: &Context, args: QueryArgs) -> Result<Exit, Failure> {
    let query = Query::parse(&args.query).map_err(|diagnostics| sources::argument_error("query", &diagnostics))?;
    let found = match args.files.as_slice() {
        [] => cx.client.post("/api/v1/ai/gram/query", &json!({ "query": args.query })).await?.read()?,
        files => query_files(&query, files)?,
    };
    if cx.output.json {
        cx.output.document(json!(found))?;
        return Ok(Exit::Ok);
    }
    for found_match in &found.matches {
        let bound: Vec<String> = query
            .variables()
            .filter_map(|variable| Some(format!("{variable}={}", pattern_label(found_match.get(variable)?))))
            .collect();
        cx.output.line(bound.join("  "))?;
    }
    let more = if found.truncated { " shown, more available" } else { "" };
    let count = match found.matches.len() {
        1 => "1 match".to_owned(),
        count => format!("{count} matches"),
    };
    cx.output.note(cx.output.err.dim(format!("{count}{more}")));
    Ok(Exit::Ok)
}

fn query_files(query: &Query, files: &[PathBuf]) -> Result<MatchesView, Failure> {
    let sources = sources::read_parsed(files)?;
    let linked = reference_relations(sources.iter().map(|text| &text.pattern));
    let graph = Graph::from_patterns(sources.iter().map(|text| &text.pattern).chain(&linked));
    let matches = query.run(&graph).map_err(|error| Failure::InvalidGram(vec![format!("query: {error}")]))?;
    let bound = matches
        .iter()
        .map(|found_match| found_match.bindings().map(|(name, pattern)| (name.to_owned(), pattern.clone())));
    Ok(MatchesView { matches: bound.map(Iterator::collect).collect(), truncated: false })
}

/// Returns the identity of a pattern, or the pattern's text if it has no identity.
fn pattern_label(pattern: &Pattern) -> String {
    sanitize_line(&if pattern.identity().is_empty() { print_line(pattern) } else { pattern.identity().to_owned() })
}
