//! `gram query`: what fits a pattern, in files or in the definitions of the realm.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use serde_json::json;
use toolwright_gram::{Graph, Pattern, Query, print_line};
use toolwright_notation::links;

use super::texts;
use crate::cli::Context;
use crate::cli::exit::Exit;
use crate::cli::failure::Failure;
use crate::cli::output::plain;

/// What to find, and where.
#[derive(clap::Args)]
pub struct QueryArgs {
    /// A pattern with variables, such as '(a:Agent)==>(t:Tool {sideEffects: "writes"})'
    query: String,
    /// Files or folders, or `-` for standard input; the definitions of the realm when absent
    #[arg(value_name = "PATH")]
    files: Vec<PathBuf>,
}

/// What was found, as the API says it.
#[derive(Serialize, Deserialize)]
struct Found {
    matches: Vec<BTreeMap<String, Pattern>>,
    truncated: bool,
}

/// Shows what a query finds. That it finds nothing is no failure.
pub async fn run(cx: &Context, args: QueryArgs) -> Result<Exit, Failure> {
    let query = Query::parse(&args.query).map_err(|mistakes| texts::argument("query", &mistakes))?;
    let found = match args.files.as_slice() {
        [] => cx.client.post("/api/v1/ai/gram/query", &json!({ "query": args.query })).await?.read()?,
        files => in_files(&query, files)?,
    };
    if cx.output.json {
        cx.output.line(json!(found))?;
        return Ok(Exit::Ok);
    }
    for one in &found.matches {
        let bound: Vec<String> = query
            .variables()
            .filter_map(|variable| Some(format!("{variable}={}", shown(one.get(variable)?))))
            .collect();
        cx.output.line(bound.join("  "))?;
    }
    let more = if found.truncated { ", and there are more" } else { "" };
    let count = match found.matches.len() {
        1 => "1 match".to_owned(),
        count => format!("{count} matches"),
    };
    cx.output.note(cx.output.err.dim(format!("{count}{more}")));
    Ok(Exit::Ok)
}

fn in_files(query: &Query, files: &[PathBuf]) -> Result<Found, Failure> {
    let texts = texts::parsed(files)?;
    let linked = links(texts.iter().map(|text| &text.pattern));
    let graph = Graph::of(texts.iter().map(|text| &text.pattern).chain(&linked));
    let matches = query.run(&graph).map_err(|error| Failure::Gram(vec![format!("query: {error}")]))?;
    let bound = matches.iter().map(|one| one.bindings().map(|(name, pattern)| (name.to_owned(), pattern.clone())));
    Ok(Found { matches: bound.map(Iterator::collect).collect(), truncated: false })
}

/// Its name, or what it is if it has none.
fn shown(pattern: &Pattern) -> String {
    plain(&if pattern.identity().is_empty() { print_line(pattern) } else { pattern.identity().to_owned() })
}
