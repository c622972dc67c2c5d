//! `tools import`: descriptions of APIs become tools.

use base64::Engine;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::cli::Context;
use crate::cli::client::TOOLS;
use crate::cli::definitions::{bytes_at, document_at};
use crate::cli::exit::Exit;
use crate::cli::failure::Failure;
use crate::cli::imported::Imported;
use crate::cli::output::plain;

/// What can be imported.
#[derive(clap::Subcommand)]
pub enum ImportCommand {
    /// Import the operations of an OpenAPI 3 document
    Openapi(OpenapiArgs),
    /// Import the methods of a gRPC server
    Grpc(GrpcArgs),
}

/// Which server, and what of it.
#[derive(clap::Args)]
pub struct GrpcArgs {
    /// Where the server is, for a provider that does not exist yet
    #[arg(value_name = "URL")]
    server: Option<String>,
    /// The provider, made when there is none of this name
    #[arg(long, value_name = "NAME")]
    provider: String,
    /// A descriptor set as protoc writes it, for a server without reflection; `-` for standard input
    #[arg(long, value_name = "FILE")]
    descriptor_set: Option<String>,
    /// A private network that a provider that is made may be in; may be repeated
    #[arg(long = "egress-allow", value_name = "CIDR")]
    egress_allow: Vec<String>,
    /// Only this service, by its full name; may be repeated
    #[arg(long = "service", value_name = "NAME")]
    services: Vec<String>,
    /// What stands before the names of tools; the provider's name when absent, nothing when empty
    #[arg(long)]
    prefix: Option<String>,
    /// Replace tools that were imported before and have changed
    #[arg(long)]
    update: bool,
    /// Show what would be done, and do nothing
    #[arg(long)]
    dry_run: bool,
}

/// Which document, and what of it.
#[derive(clap::Args)]
pub struct OpenapiArgs {
    /// A file, `-` for standard input, or a URL that the server fetches
    #[arg(value_name = "FILE|URL")]
    source: String,
    /// The provider, made when there is none of this name; named after the API when absent
    #[arg(long, value_name = "NAME")]
    provider: Option<String>,
    /// What stands before the names of tools; the provider's name when absent, nothing when empty
    #[arg(long)]
    prefix: Option<String>,
    /// Where the API lives, when the document does not say
    #[arg(long, value_name = "URL")]
    base_url: Option<String>,
    /// Only operations with this tag; may be repeated
    #[arg(long = "tag")]
    tags: Vec<String>,
    /// Only operations at such a path: `*` is anything but `/`, `**` anything; may be repeated
    #[arg(long = "path", value_name = "PATTERN")]
    paths: Vec<String>,
    /// Only operations of this method; may be repeated
    #[arg(long = "method")]
    methods: Vec<String>,
    /// Only operations with such an id; may be repeated
    #[arg(long = "operation", value_name = "PATTERN")]
    operations: Vec<String>,
    /// Replace tools that were imported before and have changed
    #[arg(long)]
    update: bool,
    /// Show what would be done, and do nothing
    #[arg(long)]
    dry_run: bool,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Report {
    dry_run: bool,
    provider: Value,
    provider_created: bool,
    #[serde(flatten)]
    imported: Imported,
}

/// Runs one of them.
pub async fn run(cx: &Context, command: ImportCommand) -> Result<Exit, Failure> {
    let (kind, body) = match command {
        ImportCommand::Openapi(args) => ("openapi", args.body()?),
        ImportCommand::Grpc(args) => ("grpc", args.body()?),
    };
    // Reading and checking a thousand operations takes seconds.
    let answer = cx.client.call(&format!("{TOOLS}/import/{kind}"), &body).await?;
    if cx.output.json {
        cx.output.line(answer.text.trim_end())?;
    } else {
        show(cx, &answer.read()?)?;
    }
    Ok(Exit::Ok)
}

impl GrpcArgs {
    fn body(&self) -> Result<Value, Failure> {
        let descriptors = self.descriptor_set.as_deref().map(bytes_at).transpose()?;
        Ok(json!({
            "providerRef": self.provider,
            "baseUrl": self.server,
            "descriptorSet": descriptors.map(|bytes| base64::engine::general_purpose::STANDARD.encode(bytes)),
            "egressAllow": self.egress_allow,
            "services": self.services,
            "prefix": self.prefix,
            "update": self.update,
            "dryRun": self.dry_run,
        }))
    }
}

impl OpenapiArgs {
    fn body(&self) -> Result<Value, Failure> {
        let mut body = Map::new();
        let (field, source) = document_at(&self.source)?;
        body.insert(field.into(), json!(source));
        let texts = [("providerRef", &self.provider), ("prefix", &self.prefix), ("baseUrl", &self.base_url)];
        for (field, value) in texts {
            body.extend(value.as_ref().map(|value| (field.to_owned(), json!(value))));
        }
        let include =
            json!({ "tags": self.tags, "paths": self.paths, "methods": self.methods, "operationIds": self.operations });
        body.insert("include".into(), include);
        body.insert("update".into(), json!(self.update));
        body.insert("dryRun".into(), json!(self.dry_run));
        Ok(Value::Object(body))
    }
}

fn show(cx: &Context, report: &Report) -> Result<(), Failure> {
    let paint = cx.output.out;
    let provider = plain(report.provider.get("refName").and_then(Value::as_str).unwrap_or_default());
    match report.provider_created {
        true => cx.output.line(format!("{}  provider {provider}", paint.good("+ provider ")))?,
        false => cx.output.line(format!("{}  provider {provider}", paint.dim("= provider ")))?,
    }
    report.imported.show(cx, "", if report.dry_run { " (nothing was written)" } else { "" })
}
