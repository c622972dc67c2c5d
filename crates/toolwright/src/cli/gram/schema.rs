//! `gram schema`: what tools take, as JSON Schema.

use std::path::PathBuf;

use serde_json::{Map, Value, json};
use toolwright_gram::{Pattern, Signature, SignatureParseError, ToolSpecView, is_tool};

use super::texts::{self, Parsed};
use crate::cli::Context;
use crate::cli::exit::Exit;
use crate::cli::failure::Failure;

/// Of which tools.
#[derive(clap::Args)]
pub struct SchemaArgs {
    /// Files or folders, or `-` for standard input
    #[arg(value_name = "PATH", required_unless_present = "signature")]
    files: Vec<PathBuf>,
    /// A type signature instead, such as '(personName::Text)==>(::String)'
    #[arg(long, value_name = "TEXT", conflicts_with = "files")]
    signature: Option<String>,
}

/// Prints the schema of a signature, or of each tool under its name.
pub fn run(cx: &Context, args: SchemaArgs) -> Result<Exit, Failure> {
    let schema = match args.signature {
        Some(text) => Signature::parse(&text)
            .map_err(|error| match error {
                SignatureParseError::Syntax(mistakes) => texts::argument("signature", &mistakes),
                SignatureParseError::Signature(error) => Failure::Gram(vec![format!("signature: {error}")]),
            })?
            .to_schema(),
        None => of_tools(&texts::parsed(&args.files)?)?,
    };
    let text = if cx.output.json { schema.to_string() } else { format!("{schema:#}") };
    cx.output.line(text)?;
    Ok(Exit::Ok)
}

fn of_tools(texts: &[Parsed]) -> Result<Value, Failure> {
    let (mut schemas, mut errors) = (Map::new(), Vec::new());
    for text in texts {
        visit(&text.pattern, &mut |tool| match ToolSpecView::new(tool).map(|view| view.schema()) {
            Ok(Ok(schema)) => drop(schemas.insert(tool.identity().to_owned(), schema)),
            Ok(Err(error)) => errors.push(format!("{}: {error}", text.file.display())),
            Err(problems) => {
                errors.extend(problems.iter().map(|problem| format!("{}: {problem}", text.file.display())));
            }
        });
    }
    if errors.is_empty() { Ok(json!(schemas)) } else { Err(Failure::Gram(errors)) }
}

fn visit(pattern: &Pattern, found: &mut dyn FnMut(&Pattern)) {
    if is_tool(pattern) {
        return found(pattern);
    }
    for element in &pattern.elements {
        visit(element, found);
    }
}
