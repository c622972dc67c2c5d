//! A definition made ready to run: schemas, templates and limits compiled once, so that a call compiles nothing.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use semver::Version;
use serde::Serialize;
use serde_json::Value;
use toolwright_expr::{Mapping, Template, ValueTemplate};
use toolwright_types::{
    BodyTemplate, CachePolicy, Document, ErrorAction, ProviderType, RefName, SideEffects, Source, Status,
    ToolDefinition, ToolType,
};

use crate::http::{CompiledProvider, HttpPlan};
use crate::{Library, Schema, Violation};

const ATTEMPT_TIMEOUT: Duration = Duration::from_secs(30);
const LONGEST_TIMEOUT_MS: u64 = 24 * 60 * 60 * 1000;
const MOST_RETRIES: u32 = 20;

/// What `invocation.path` of a tool with code can be.
pub const LANGUAGES: [&str; 4] = ["python", "javascript", "wasm", "cpython"];
/// Modules of WASM are the largest, in base64.
const LONGEST_CODE: usize = 4 << 20;
/// Names that mean something in every language.
const OF_THE_CODE: [&str; 2] = ["inputs", "result"];

/// A tool that can be called.
#[derive(Debug)]
pub struct CompiledTool {
    /// The definition's id.
    pub id: String,
    /// The hash of exactly this definition.
    pub content_hash: String,
    /// How it came to be.
    pub source: Source,
    /// The definition.
    pub definition: ToolDefinition,
    /// What it does to the world.
    pub effects: SideEffects,
    /// What it accepts.
    pub input: Schema,
    /// What it returns.
    pub output: Schema,
    /// The provider it lives in.
    pub provider: Option<Arc<CompiledProvider>>,
    /// How often and how long it is tried.
    pub limits: Limits,
    pub(crate) mapping: Option<Mapping>,
    pub(crate) resource_key: Option<Template>,
    /// The body template of a function or client tool: what it is called with.
    pub(crate) arguments: Option<ValueTemplate>,
    pub(crate) http: Option<HttpPlan>,
    /// Whether exports wrap its input; found out when an export is first called.
    pub(crate) wrapped: OnceLock<bool>,
    warnings: Vec<String>,
}

/// How often and how long a tool is tried.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// One attempt.
    pub attempt: Duration,
    /// All attempts and the pauses between them.
    pub total: Duration,
    /// Attempts after the first.
    pub retries: u32,
}

/// What is wrong with a definition, and where.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct DefinitionIssue {
    /// A JSON pointer into the definition.
    pub path: String,
    /// What is wrong, and what would be right.
    pub message: String,
}

/// Everything that is wrong with a definition.
#[derive(Debug, Clone, PartialEq, Eq, Default, thiserror::Error)]
#[error("{}", .0.iter().map(|issue| format!("{}: {}", issue.path, issue.message)).collect::<Vec<_>>().join("; "))]
pub struct Issues(pub Vec<DefinitionIssue>);

impl Issues {
    pub(crate) fn add(&mut self, path: impl Into<String>, message: impl Into<String>) {
        self.0.push(DefinitionIssue { path: path.into(), message: message.into() });
    }

    /// The value, or the issue that there is none.
    pub(crate) fn take<T, E: std::fmt::Display>(&mut self, path: &str, result: Result<T, E>) -> Option<T> {
        result.map_err(|error| self.add(path, error.to_string())).ok()
    }
}

impl CompiledTool {
    /// Compiles a definition, or says everything that is wrong with it. The provider and the library are those of the
    /// moment; what they lack is a warning, because both are bound late.
    pub fn compile(
        document: Document<ToolDefinition>,
        provider: Option<Arc<CompiledProvider>>,
        library: &Library,
    ) -> Result<Self, Issues> {
        let Document { meta, body: definition } = document;
        let mut issues = Issues::default();
        let mut warnings = Vec::new();
        check_fields(&definition, &mut issues, &mut warnings);
        let (input, output) = schemas(&definition, library, &mut issues, &mut warnings);
        let parsed = |text: &Option<String>| text.as_deref().map(Template::parse).transpose();
        let resource_key = issues.take("/resourceKey", parsed(&definition.resource_key)).flatten();
        let mapping = definition.invocation.response_mapping.as_deref().map(Mapping::parse).transpose();
        let mapping = issues.take("/invocation/responseMapping", mapping).flatten();
        let grpc = speaks_grpc(&definition, provider.as_deref());
        let http =
            definition.tool_type.makes_requests().then(|| HttpPlan::compile(&definition, grpc, &mut issues)).flatten();
        let shaped_for_client = !definition.is_tool_fully_executed_on_server;
        let arguments = if http.is_none() || shaped_for_client { arguments(&definition, &mut issues) } else { None };
        // For a function that was bound after the definition was saved.
        let silently = writes_silently(&definition, library);
        let effects = if silently { SideEffects::Writes } else { definition.effects() };
        if let (Some(wanted), None) = (&definition.provider_ref, &provider) {
            warnings.push(format!("no provider `{wanted}` exists yet"));
        }
        if let Some(provider) = &provider {
            let unknown = definition.resolve.values().filter(|name| provider.config.reference_source(name).is_none());
            warnings.extend(unknown.map(|name| format!("the provider has no reference data `{name}` yet")));
        }
        let (Some(input), Some(output), true) = (input, output, issues.0.is_empty()) else {
            return Err(issues);
        };
        Ok(Self {
            id: meta.id,
            content_hash: meta.content_hash,
            source: meta.source,
            effects,
            limits: limits(&definition, provider.as_deref()),
            definition,
            input,
            output,
            provider,
            mapping,
            resource_key,
            arguments,
            http,
            wrapped: OnceLock::new(),
            warnings,
        })
    }

    /// What the author should know although the definition can be saved.
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// The input with its defaults, if that fits the schema; else where it does not.
    pub fn admit(&self, input: Value) -> Result<Value, Vec<Violation>> {
        let input = self.input.with_defaults(&input).unwrap_or(input);
        self.input.check(&input)?;
        Ok(input)
    }

    /// The secrets a call needs, by name.
    pub fn secret_names(&self) -> impl Iterator<Item = &str> {
        self.provider.as_deref().map(|provider| &provider.config).into_iter().flat_map(|config| {
            let auth = [config.auth.secret_ref.as_deref(), config.auth.cert_ref.as_deref()];
            auth.into_iter().flatten().chain(config.env_secret_refs.values().map(String::as_str))
        })
    }

    /// What a caller should know about the version it called.
    pub(crate) fn lifecycle_warnings(&self) -> Vec<String> {
        match self.definition.status {
            Status::Deprecated => {
                vec![format!("`{}@{}` is deprecated", self.definition.ref_name, self.definition.version)]
            }
            _ => Vec::new(),
        }
    }

    #[cfg(test)]
    pub(crate) fn for_tests(body: Value) -> Self {
        let definition: ToolDefinition = serde_json::from_value(body).unwrap();
        Self::compile(built_in(definition), None, &crate::builtin::library()).unwrap()
    }
}

/// Whether a tool is a method of a gRPC service. A control plane may be reached either way, and its provider says which.
fn speaks_grpc(definition: &ToolDefinition, provider: Option<&CompiledProvider>) -> bool {
    let provider = provider.map(|provider| provider.config.provider_type);
    match definition.tool_type {
        ToolType::Grpc => true,
        ToolType::Helix => provider == Some(ProviderType::Grpc),
        _ => false,
    }
}

/// The document of a definition that is part of the binary.
pub(crate) fn built_in(definition: ToolDefinition) -> Document<ToolDefinition> {
    let body = serde_json::to_value(&definition).unwrap_or_default();
    let mut document = Document::unsaved(definition.ref_name.clone(), definition);
    document.meta.id = format!("builtin/{}", document.meta.ref_name);
    document.meta.source = Source::BuiltIn;
    document.meta.content_hash = toolwright_types::json::hex_digest(&body);
    document
}

fn check_fields(definition: &ToolDefinition, issues: &mut Issues, warnings: &mut Vec<String>) {
    if definition.display_name().is_empty() || definition.display_name().chars().count() > 128 {
        issues.add("/name", "a name has 1 to 128 characters");
    }
    if definition.description_or_name() == definition.display_name() {
        warnings.push("without a description a model cannot tell when to use this tool".into());
    }
    if let Some(limit) = definition.rate_limit
        && !(limit.per_second.is_finite() && limit.per_second > 0.0 && limit.burst > 0)
    {
        issues.add("/rateLimit", "perSecond must be above 0 and burst at least 1");
    }
    if definition.timeout_ms.is_some_and(|ms| ms == 0 || ms > LONGEST_TIMEOUT_MS) {
        issues.add("/timeoutMs", format!("must be between 1 and {LONGEST_TIMEOUT_MS}"));
    }
    if definition.max_output_bytes.is_some_and(|bytes| !(64..=64_000_000).contains(&bytes)) {
        issues.add("/maxOutputBytes", "must be between 64 and 64000000");
    }
    if definition.default_retry_count.is_some_and(|count| count > MOST_RETRIES) {
        issues.add("/defaultRetryCount", format!("must be at most {MOST_RETRIES}"));
    }
    if definition.cache_ttl_seconds == Some(0) {
        issues.add("/cacheTtlSeconds", "must be at least 1; to switch caching off use `cache: none`");
    }
    if definition.cache != CachePolicy::None && definition.effects() == SideEffects::Writes {
        warnings.push("results of a tool that writes are never cached".into());
    }
    for (status, semantics) in &definition.error_handling {
        if !(100..600).contains(status) {
            issues.add(format!("/errorHandling/{status}"), "the key is an HTTP status from 100 to 599");
        }
        if semantics.action == ErrorAction::Retry && definition.default_retry_count == Some(0) {
            warnings.push(format!("errorHandling asks to retry on {status}, but defaultRetryCount is 0"));
        }
        if semantics.action == ErrorAction::Fallback && semantics.fallback_tool_ref.is_none() {
            issues.add(format!("/errorHandling/{status}/fallbackToolRef"), "`fallback` needs the tool to fall back to");
        }
    }
    if !definition.resolve.is_empty() && definition.provider_ref.is_none() {
        issues.add("/resolve", "names are looked up in the reference data of a provider; give a providerRef");
    }
    check_code(definition, issues);
}

fn check_code(definition: &ToolDefinition, issues: &mut Issues) {
    let invocation = &definition.invocation;
    let Some(code) = &invocation.code else {
        if !invocation.functions.is_empty() {
            issues.add("/invocation/functions", "only code calls functions; give it as `code`");
        }
        return;
    };
    if definition.tool_type != ToolType::Function {
        issues.add("/invocation/code", format!("only a FUNCTION has code ({} bytes given)", code.len()));
    }
    if code.len() > LONGEST_CODE {
        issues.add("/invocation/code", format!("has at most {LONGEST_CODE} bytes"));
    }
    if !LANGUAGES.contains(&invocation.path.as_deref().unwrap_or_default()) {
        issues.add("/invocation/path", format!("says what the code is written in: {}", LANGUAGES.join(", ")));
    }
    for name in invocation.functions.keys() {
        let letters = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
        let begins = name.starts_with(|letter: char| letter.is_ascii_alphabetic() || letter == '_');
        if !begins || !name.chars().all(letters) || name.len() > 64 || OF_THE_CODE.contains(&name.as_str()) {
            let place = format!("/invocation/functions/{}", name.replace('~', "~0").replace('/', "~1"));
            issues.add(
                place,
                "the name of a function has up to 64 letters, digits and `_`, and is not `inputs` or `result`",
            );
        }
    }
}

/// The schemas of the definition; where a function's definition has none, those of its implementation.
fn schemas(
    definition: &ToolDefinition,
    library: &Library,
    issues: &mut Issues,
    warnings: &mut Vec<String>,
) -> (Option<Schema>, Option<Schema>) {
    let mut input = definition.effective_input_schema();
    let mut output = definition.effective_output_schema();
    let bound = definition.tool_type == ToolType::Function && definition.invocation.code.is_none();
    if bound && definition.is_tool_fully_executed_on_server {
        let has_input = definition.input_json_schema.is_some() || definition.input_schema.is_some();
        let path = definition.invocation.path.as_deref().unwrap_or_default();
        let shaped = definition.invocation.body_template.is_some();
        let bound = if has_input && !shaped { library.bind(path, &input) } else { library.lookup(path) };
        match bound {
            Ok(tool) => {
                if !has_input && !shaped {
                    input = tool.spec().input_schema.clone();
                }
                if definition.output_json_schema.is_none()
                    && definition.output_schema.is_none()
                    && definition.invocation.response_mapping.is_none()
                {
                    output = tool.spec().output_schema.clone();
                }
            }
            Err(error) => warnings.push(error.to_string()),
        }
    }
    let input = Schema::compile(input)
        .map_err(|violation| issues.add(format!("/inputJsonSchema{}", violation.path), violation.message));
    let output = Schema::compile(output)
        .map_err(|violation| issues.add(format!("/outputJsonSchema{}", violation.path), violation.message));
    (input.ok(), output.ok())
}

/// Whether the definition is silent about its effects and its function writes: silence does not make it harmless.
pub fn writes_silently(definition: &ToolDefinition, library: &Library) -> bool {
    let silent = definition.side_effects.is_none() && definition.has_side_effects.is_none();
    let path = definition.invocation.path.as_deref().unwrap_or_default();
    let writes = || library.lookup(path).is_ok_and(|tool| tool.spec().side_effects == SideEffects::Writes);
    let bound = definition.tool_type == ToolType::Function && definition.invocation.code.is_none();
    silent && bound && writes()
}

fn arguments(definition: &ToolDefinition, issues: &mut Issues) -> Option<ValueTemplate> {
    let template = match definition.invocation.body_template.as_ref()? {
        BodyTemplate::Json(value) => value.clone(),
        BodyTemplate::Text(text) => Value::String(text.clone()),
    };
    issues.take("/invocation/bodyTemplate", ValueTemplate::compile(&template))
}

fn limits(definition: &ToolDefinition, provider: Option<&CompiledProvider>) -> Limits {
    let config = provider.map(|provider| &provider.config);
    let retries =
        definition.default_retry_count.or(config.and_then(|config| config.max_retries)).unwrap_or(0).min(MOST_RETRIES);
    let attempt = config.and_then(|config| config.timeout_ms).map(Duration::from_millis);
    match definition.timeout_ms.map(Duration::from_millis) {
        Some(total) => Limits { attempt: attempt.unwrap_or(total).min(total), total, retries },
        // Without a deadline of its own, each attempt may take its time and pauses are bounded by the attempts.
        None => {
            let attempt = attempt.unwrap_or(ATTEMPT_TIMEOUT);
            let pauses = Duration::from_secs(30 * u64::from(retries));
            Limits { attempt, total: attempt.saturating_mul(retries + 1).saturating_add(pauses), retries }
        }
    }
}

/// The definition of a built-in function, as if someone had written it.
pub fn definition_of(spec: &crate::tool::ToolSpec) -> Option<(RefName, ToolDefinition)> {
    let name: RefName = spec.name.parse().ok()?;
    let mut definition = ToolDefinition::new(name.clone(), ToolType::Function);
    definition.version = Version::clone(&spec.version);
    definition.description = Some(spec.description.clone());
    definition.category = Some("builtin".into());
    definition.side_effects = Some(spec.side_effects);
    definition.invocation.path = Some(spec.name.clone());
    definition.input_json_schema = Some(toolwright_types::JsonSchema(spec.input_schema.clone()));
    definition.output_json_schema = Some(toolwright_types::JsonSchema(spec.output_schema.clone()));
    Some((name, definition))
}
