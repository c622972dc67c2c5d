//! `tools import`: imports tools from OpenAPI documents, gRPC servers and MCP servers.

use base64::Engine;
use serde_json::{Map, Value, json};
use toolwright_api::wire::{ImportView, McpImportView};
use toolwright_types::McpTransport;

use crate::cli::Context;
use crate::cli::client::TOOLS;
use crate::cli::definitions::{STDIN, document_source, read_source};
use crate::cli::exit::Exit;
use crate::cli::failure::Failure;
use crate::cli::import_summary::{ImportSummary, WriteArgs, preview_remark};
use crate::cli::output::sanitize_line;

/// Subcommands of `tools import`.
#[derive(clap::Subcommand)]
pub(crate) enum ImportCommand {
    /// Import the operations of an OpenAPI 3 document
    Openapi(OpenapiArgs),
    /// Import the methods of a gRPC server
    Grpc(GrpcArgs),
    /// Import the tools of an MCP server
    Mcp(McpArgs),
}

/// Arguments of `tools import mcp`.
#[derive(clap::Args)]
pub(crate) struct McpArgs {
    /// URL of the MCP server
    #[arg(value_name = "URL", required_unless_present_any = ["command", "provider"], conflicts_with_all = ["command", "provider"])]
    server: Option<String>,
    /// Command that the toolwright server starts as an MCP server over stdio; only for administrators
    #[arg(long, value_name = "PROGRAM", conflicts_with = "provider")]
    command: Option<String>,
    /// Argument of the command; may be repeated
    #[arg(long = "arg", value_name = "TEXT", requires = "command", allow_hyphen_values = true)]
    arguments: Vec<String>,
    /// Environment variable of the command; may be repeated
    #[arg(long = "env", value_name = "NAME=VALUE", requires = "command", value_parser = parse_variable)]
    environment: Vec<(String, String)>,
    /// Existing provider of type MCP, for a server with credentials
    #[arg(long, value_name = "NAME")]
    provider: Option<String>,
    /// Transport of a URL [default: the server chooses it]
    #[arg(long, value_enum, requires = "server")]
    transport: Option<McpTransportArg>,
    /// Prefix of tool names [default: none]
    #[arg(long)]
    prefix: Option<String>,
    #[command(flatten)]
    write: WriteArgs,
}

/// The transports of an MCP server with a URL.
#[derive(Debug, Clone, Copy, clap::ValueEnum)]
enum McpTransportArg {
    StreamableHttp,
    Sse,
}

fn parse_variable(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once('=').filter(|(name, _)| !name.is_empty()).ok_or("expected NAME=VALUE")?;
    Ok((name.to_owned(), value.to_owned()))
}

/// Arguments of `tools import grpc`.
#[derive(clap::Args)]
pub(crate) struct GrpcArgs {
    /// URL of the gRPC server, for a provider that does not exist
    #[arg(value_name = "URL")]
    server: Option<String>,
    /// Provider; created if it does not exist
    #[arg(long, value_name = "NAME")]
    provider: String,
    /// File descriptor set written by protoc, for a server without reflection; `-` for standard input
    #[arg(long, value_name = "FILE")]
    descriptor_set: Option<String>,
    /// Private network that a created provider may reach; may be repeated
    #[arg(long = "egress-allow", value_name = "CIDR")]
    egress_allow: Vec<String>,
    /// Filter by full service name; may be repeated
    #[arg(long = "service", value_name = "NAME")]
    services: Vec<String>,
    /// Prefix of tool names; may be empty [default: the provider's name]
    #[arg(long)]
    prefix: Option<String>,
    /// Replace previously imported tools that have changed
    #[arg(long)]
    update: bool,
    #[command(flatten)]
    write: WriteArgs,
}

/// Arguments of `tools import openapi`.
#[derive(clap::Args)]
pub(crate) struct OpenapiArgs {
    /// File, `-` for standard input, or a URL that the server fetches
    #[arg(value_name = "FILE|URL")]
    source: String,
    /// Provider; created if it does not exist [default: named after the API]
    #[arg(long, value_name = "NAME")]
    provider: Option<String>,
    /// Prefix of tool names; may be empty [default: the provider's name]
    #[arg(long)]
    prefix: Option<String>,
    /// Base URL of the API, if the document does not specify it
    #[arg(long, value_name = "URL")]
    base_url: Option<String>,
    /// Filter by tag; may be repeated
    #[arg(long = "tag", value_name = "TAG")]
    tags: Vec<String>,
    /// Filter by path: `*` matches anything but `/`, `**` matches anything; may be repeated
    #[arg(long = "path", value_name = "PATTERN")]
    paths: Vec<String>,
    /// Filter by HTTP method; may be repeated
    #[arg(long = "method", value_name = "METHOD")]
    methods: Vec<String>,
    /// Filter by operation ID, with wildcards; may be repeated
    #[arg(long = "operation", value_name = "PATTERN")]
    operations: Vec<String>,
    /// Replace previously imported tools that have changed
    #[arg(long)]
    update: bool,
    #[command(flatten)]
    write: WriteArgs,
}

/// Runs a `tools import` subcommand.
pub(super) async fn run(cx: &Context, command: ImportCommand) -> Result<Exit, Failure> {
    let (kind, body) = match command {
        ImportCommand::Openapi(args) => ("openapi", args.body()?),
        ImportCommand::Grpc(args) => ("grpc", args.body()?),
        ImportCommand::Mcp(args) => ("mcp", args.body()),
    };
    // Uses the long timeout: importing a thousand operations takes seconds.
    let response = cx.client.call(&format!("{TOOLS}/import/{kind}"), &body).await?;
    if cx.output.json {
        cx.output.document(response.text.trim_end())?;
    } else if kind == "mcp" {
        show_mcp(cx, &response.read()?)?;
    } else {
        show(cx, &response.read()?)?;
    }
    Ok(Exit::Ok)
}

impl McpArgs {
    fn body(&self) -> Value {
        let transport = self.transport.map(|transport| match transport {
            McpTransportArg::StreamableHttp => McpTransport::StreamableHttp,
            McpTransportArg::Sse => McpTransport::Sse,
        });
        let environment: Map<String, Value> =
            self.environment.iter().map(|(name, value)| (name.clone(), json!(value))).collect();
        json!({
            "url": self.server,
            "command": self.command,
            "args": self.arguments,
            "env": environment,
            "transport": transport,
            "providerRef": self.provider,
            "prefix": self.prefix,
            "dryRun": self.write.is_preview(),
        })
    }
}

impl GrpcArgs {
    fn body(&self) -> Result<Value, Failure> {
        let descriptors = self.descriptor_set.as_deref().map(read_source).transpose()?;
        Ok(json!({
            "providerRef": self.provider,
            "baseUrl": self.server,
            "descriptorSet": descriptors.map(|bytes| base64::engine::general_purpose::STANDARD.encode(bytes)),
            "egressAllow": self.egress_allow,
            "services": self.services,
            "prefix": self.prefix,
            "update": self.update,
            "dryRun": self.write.is_preview(),
        }))
    }
}

impl OpenapiArgs {
    fn body(&self) -> Result<Value, Failure> {
        let mut body = Map::new();
        let (field, source) = document_source(&self.source)?;
        if field == "document" && self.source != STDIN {
            let name = std::path::Path::new(&self.source).file_name();
            body.insert("source".into(), json!(name.map(std::ffi::OsStr::to_string_lossy)));
        }
        body.insert(field.into(), json!(source));
        let texts = [("providerRef", &self.provider), ("prefix", &self.prefix), ("baseUrl", &self.base_url)];
        for (field, value) in texts {
            body.extend(value.as_ref().map(|value| (field.to_owned(), json!(value))));
        }
        let include =
            json!({ "tags": self.tags, "paths": self.paths, "methods": self.methods, "operationIds": self.operations });
        body.insert("include".into(), include);
        body.insert("update".into(), json!(self.update));
        body.insert("dryRun".into(), json!(self.write.is_preview()));
        Ok(Value::Object(body))
    }
}

fn show(cx: &Context, report: &ImportView) -> Result<(), Failure> {
    let provider = report.provider.get("refName").and_then(Value::as_str).unwrap_or_default();
    show_provider(cx, provider, report.provider_created)?;
    ImportSummary::from(report).show(cx, "", preview_remark(report.dry_run))
}

fn show_mcp(cx: &Context, report: &McpImportView) -> Result<(), Failure> {
    show_provider(cx, &report.provider_ref, report.provider_created)?;
    ImportSummary::from(report).show(cx, "", preview_remark(report.dry_run))
}

fn show_provider(cx: &Context, name: &str, created: bool) -> Result<(), Failure> {
    let paint = cx.output.out;
    let word = if created { paint.good("+ provider ") } else { paint.dim("= provider ") };
    Ok(cx.output.line(format!("{word}  provider {}", sanitize_line(name)))?)
}
