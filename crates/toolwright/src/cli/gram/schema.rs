//! Implements `gram schema`, which prints the input schemas of tools as JSON Schema.

use std::path::PathBuf;

use serde_json::{Map, Value, json};
use toolwright_gram::{Pattern, Signature, SignatureParseError, ToolSpecView, is_tool};

use super::sources::{self, ParsedFile};
use crate::cli::Context;
use crate::cli::exit::Exit;
use crate::cli::failure::Failure;

/// Arguments of `gram schema`.
#[derive(clap::Args)]
pub(crate) struct SchemaArgs {
    /// Files or directories, or `-` for standard input
    #[arg(value_name = "PATH", required_unless_present = "signature")]
    files: Vec<PathBuf>,
    /// Use a type signature instead of files, such as '(personName::Text)==>(::String)'
    #[arg(long, value_name = "TEXT", conflicts_with = "files")]
    signature: Option<String>,
}

/// Prints the schema of a signature, or the schemas of all tools by name.
pub(super) fn run(cx: &Context, args: SchemaArgs) -> Result<Exit, Failure> {
    let schema = match args.signature {
        Some(text) => Signature::parse(&text)
            .map_err(|error| match error {
                SignatureParseError::Syntax(diagnostics) => sources::argument_error("signature", &diagnostics),
                SignatureParseError::Signature(error) => Failure::InvalidGram(vec![format!("signature: {error}")]),
            })?
            .to_schema(),
        None => tool_schemas(&sources::read_parsed(&args.files)?)?,
    };
    let text = if cx.output.json { schema.to_string() } else { format!("{schema:#}") };
    cx.output.document(text)?;
    Ok(Exit::Ok)
}

fn tool_schemas(sources: &[ParsedFile]) -> Result<Value, Failure> {
    let (mut schemas, mut errors) = (Map::new(), Vec::new());
    for text in sources {
        visit_tools(&text.pattern, &mut |tool| match ToolSpecView::new(tool).map(|view| view.schema()) {
            Ok(Ok(schema)) => drop(schemas.insert(tool.identity().to_owned(), schema)),
            Ok(Err(error)) => errors.push(format!("{}: {error}", text.file.display())),
            Err(problems) => {
                errors.extend(problems.iter().map(|problem| format!("{}: {problem}", text.file.display())));
            }
        });
    }
    if errors.is_empty() { Ok(json!(schemas)) } else { Err(Failure::InvalidGram(errors)) }
}

fn visit_tools(pattern: &Pattern, found: &mut dyn FnMut(&Pattern)) {
    if is_tool(pattern) {
        return found(pattern);
    }
    for element in &pattern.elements {
        visit_tools(element, found);
    }
}
