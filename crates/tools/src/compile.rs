//! Compiles the definition of a tool, and checks it.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use serde_json::Value;
use toolwright_expr::{Mapping, Template, ValueTemplate};
use toolwright_types::{
    BodyTemplate, CachePolicy, Document, ErrorAction, ParameterDefinition, ProviderType, RefName, SideEffects,
    ToolDefinition, ToolType,
};

use crate::compiled::CallLimits;
use crate::export::agentic_description;
use crate::http_client::{CompiledProvider, RequestTemplate};
use crate::price::CompiledPrice;
use crate::run_function::RunFunction;
use crate::{CompiledTool, Issues, Library, Schema, Violation, agentic, composite};

const ATTEMPT_TIMEOUT: Duration = Duration::from_secs(30);
const MAX_TIMEOUT_MS: u64 = 24 * 60 * 60 * 1000;
const MAX_RETRIES: u32 = 20;

/// The languages that `invocation.path` may name if the definition contains code.
pub const CODE_LANGUAGES: [&str; 4] = ["python", "javascript", "wasm", "cpython"];
/// The maximum size of the code in a definition. Large enough for WASM modules in base64.
const MAX_CODE_BYTES: usize = 4 << 20;
/// Variable names that are reserved in the code of every language. A host function must not have one of these names.
const RESERVED_NAMES: [&str; 2] = ["inputs", "result"];

impl CompiledTool {
    /// Compiles a definition, or returns all its problems. A missing provider, function or reference data type causes
    /// only a warning, because it may be added later.
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
        let resource_key = issues.check("/resourceKey", parsed(&definition.resource_key)).flatten();
        let price = definition.price.as_ref().and_then(|price| CompiledPrice::compile(price, &mut issues));
        let composite = composite::compile(&definition, &mut issues, &mut warnings);
        let mapping = definition.invocation.response_mapping.as_deref().map(Mapping::parse).transpose();
        let mapping = issues.check("/invocation/responseMapping", mapping).flatten();
        let message_mapping = definition.invocation.message_mapping.as_deref().map(Mapping::parse).transpose();
        let message_mapping = issues.check("/invocation/messageMapping", message_mapping).flatten();
        let grpc = uses_grpc(&definition, provider.as_deref());
        let http = definition
            .tool_type
            .makes_requests()
            .then(|| RequestTemplate::compile(&definition, grpc, &mut issues))
            .flatten();
        let runs_on_client = !definition.is_tool_fully_executed_on_server;
        let arguments = if http.is_none() || runs_on_client { arguments(&definition, &mut issues) } else { None };
        let has_preflight = runs_on_client && has_preflight(&definition, library, &mut issues, &mut warnings);
        // When a definition with undeclared writes is saved, the server declares the writes. The check is repeated
        // here, because the function may have been registered after the definition was saved.
        let undeclared_writes = has_undeclared_writes(&definition, library);
        let effects = if undeclared_writes { SideEffects::Writes } else { definition.effects() };
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
        let agentic_description = agentic_description(&definition, input.source(), output.source());
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
            message_mapping,
            resource_key,
            price,
            composite,
            arguments,
            has_preflight,
            http,
            wraps_input: OnceLock::new(),
            agentic_description,
            exported_name: OnceLock::new(),
            closure_fingerprint: OnceLock::new(),
            warnings,
        })
    }
}

/// Whether a client tool has a function or code that prepares the payload on the server.
fn has_preflight(
    definition: &ToolDefinition,
    library: &Library,
    issues: &mut Issues,
    warnings: &mut Vec<String>,
) -> bool {
    if definition.tool_type != ToolType::Function {
        return false;
    }
    if definition.invocation.code.is_some() {
        return true;
    }
    let Some(path) = definition.invocation.path.as_deref() else { return false };
    if RunFunction::of(definition).is_some() {
        let message = format!("must name a function that prepares a payload, got `{path}`, which starts a run");
        issues.add("/invocation/path", message);
        return false;
    }
    match library.lookup(path) {
        Ok(function) if function.spec().side_effects == SideEffects::Writes => {
            let message =
                format!("must name a function that does not write, got `{path}`: the client performs the action");
            issues.add("/invocation/path", message);
            false
        }
        Ok(_) => true,
        Err(error) => {
            warnings.push(format!("{error}; the payload is prepared without it"));
            false
        }
    }
}

/// Whether calls to a tool use gRPC. Calls to a HELIX tool use gRPC if its provider does.
fn uses_grpc(definition: &ToolDefinition, provider: Option<&CompiledProvider>) -> bool {
    let provider = provider.map(|provider| provider.config.provider_type);
    match definition.tool_type {
        ToolType::Grpc => true,
        ToolType::Helix => provider == Some(ProviderType::Grpc),
        _ => false,
    }
}

fn check_fields(definition: &ToolDefinition, issues: &mut Issues, warnings: &mut Vec<String>) {
    if definition.display_name().is_empty() || definition.display_name().chars().count() > 128 {
        issues.add("/name", "must have 1 to 128 characters");
    }
    if definition.description_or_name() == definition.display_name() {
        warnings.push("has no description, so a model cannot tell when to use this tool".into());
    }
    if let Some(limit) = definition.rate_limit
        && !(limit.per_second.is_finite() && limit.per_second > 0.0 && limit.burst > 0)
    {
        issues.add("/rateLimit", "perSecond must be above 0 and burst at least 1");
    }
    if definition.timeout_ms.is_some_and(|ms| ms == 0 || ms > MAX_TIMEOUT_MS) {
        issues.add("/timeoutMs", format!("must be between 1 and {MAX_TIMEOUT_MS}"));
    }
    if definition.max_output_bytes.is_some_and(|bytes| !(64..=64_000_000).contains(&bytes)) {
        issues.add("/maxOutputBytes", "must be between 64 and 64000000");
    }
    if definition.default_retry_count.is_some_and(|count| count > MAX_RETRIES) {
        issues.add("/defaultRetryCount", format!("must be at most {MAX_RETRIES}"));
    }
    if definition.cache_ttl_seconds == Some(0) {
        issues.add("/cacheTtlSeconds", "must be at least 1; to switch caching off use `cache: none`");
    }
    if definition.price.is_some() && !definition.is_tool_fully_executed_on_server {
        warnings.push("the price of a client tool is not counted, because the client performs the call".into());
    }
    if definition.cache != CachePolicy::None && definition.effects() == SideEffects::Writes {
        warnings.push("results of a tool that writes are never cached".into());
    }
    for (status, semantics) in &definition.error_handling {
        if !(100..600).contains(status) {
            issues.add(format!("/errorHandling/{status}"), "must be an HTTP status between 100 and 599");
        }
        if semantics.action == ErrorAction::Retry && definition.default_retry_count == Some(0) {
            warnings.push(format!("errorHandling retries on {status}, but defaultRetryCount is 0"));
        }
        if semantics.action == ErrorAction::Fallback && semantics.fallback_tool_ref.is_none() {
            issues.add(format!("/errorHandling/{status}/fallbackToolRef"), "is required for action `fallback`");
        }
    }
    if !definition.resolve.is_empty() && definition.provider_ref.is_none() {
        issues.add("/resolve", "requires a providerRef, because names are resolved in the provider's reference data");
    }
    for (field, parameters) in [("inputSchema", &definition.input_schema), ("outputSchema", &definition.output_schema)]
    {
        let checked = parameters.iter().flatten().map(|(name, parameter)| (name, check_type_reference(parameter)));
        if let Some((name, Err(message))) = checked.into_iter().find(|(_, checked)| checked.is_err()) {
            let path = format!("/{field}/{}/jsonSchemaRef", name.replace('~', "~0").replace('/', "~1"));
            issues.add(path, message);
        }
    }
    check_code(definition, issues);
    agentic::check(definition, issues, warnings);
}

/// Checks the `jsonSchemaRef` of a parameter.
pub(crate) fn check_type_reference(parameter: &ParameterDefinition) -> Result<(), &'static str> {
    match parameter.json_schema_ref.as_deref() {
        Some(text) if !text.starts_with('#') && text.parse::<RefName>().is_err() => {
            Err("must be the name of an entity type, or a pointer such as `#/$defs/address`")
        }
        _ => Ok(()),
    }
}

fn check_code(definition: &ToolDefinition, issues: &mut Issues) {
    let invocation = &definition.invocation;
    let Some(code) = &invocation.code else {
        if !invocation.functions.is_empty() {
            issues.add("/invocation/functions", "requires `code`");
        }
        return;
    };
    if definition.tool_type != ToolType::Function {
        issues.add("/invocation/code", format!("is allowed for FUNCTION tools only, got {} bytes", code.len()));
    }
    if code.len() > MAX_CODE_BYTES {
        issues.add("/invocation/code", format!("must have at most {MAX_CODE_BYTES} bytes, got {}", code.len()));
    }
    if !CODE_LANGUAGES.contains(&invocation.path.as_deref().unwrap_or_default()) {
        issues.add("/invocation/path", format!("must name the language of the code: {}", CODE_LANGUAGES.join(", ")));
    }
    for name in invocation.functions.keys() {
        let letters = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
        let begins = name.starts_with(|letter: char| letter.is_ascii_alphabetic() || letter == '_');
        if !begins || !name.chars().all(letters) || name.len() > 64 || RESERVED_NAMES.contains(&name.as_str()) {
            let path = format!("/invocation/functions/{}", name.replace('~', "~0").replace('/', "~1"));
            issues.add(
                path,
                "must have up to 64 letters, digits and `_`, must not start with a digit, and must not be `inputs` or \
                 `result`",
            );
        }
    }
}

/// Compiles the schemas of the definition. A FUNCTION tool whose definition has no schemas uses the schemas of its
/// implementation.
fn schemas(
    definition: &ToolDefinition,
    library: &Library,
    issues: &mut Issues,
    warnings: &mut Vec<String>,
) -> (Option<Schema>, Option<Schema>) {
    let mut input = definition.effective_input_schema();
    let mut output = definition.effective_output_schema();
    let has_input = definition.input_json_schema.is_some() || definition.input_schema.is_some();
    if definition.tool_type == ToolType::Agentic && !has_input {
        input = agentic::default_agentic_input();
    }
    let run_function = RunFunction::of(definition);
    let shaped = definition.invocation.body_template.is_some();
    if let Some(function) = run_function.filter(|_| !has_input && !shaped) {
        input = function.input_schema();
    }
    let bound = definition.tool_type == ToolType::Function && definition.invocation.code.is_none();
    if bound && run_function.is_none() && definition.is_tool_fully_executed_on_server {
        let path = definition.invocation.path.as_deref().unwrap_or_default();
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
    // If the definition has only the short form (`inputSchema`, `outputSchema`), the schema is expanded from it. A
    // violation in the expanded schema is then reported at the path of the whole short form.
    let input_path = definition.input_json_schema.is_none().then_some("/inputSchema");
    let output_path = definition.output_json_schema.is_none().then_some("/outputSchema");
    let mut compile = |schema: Value, short: Option<&str>, full: &str| {
        let path = |violation: &Violation| short.map_or_else(|| format!("{full}{}", violation.path), str::to_owned);
        Schema::compile(schema).map_err(|violation| issues.add(path(&violation), violation.message)).ok()
    };
    (compile(input, input_path, "/inputJsonSchema"), compile(output, output_path, "/outputJsonSchema"))
}

/// Whether the definition names a function that writes, and declares no side effects. Such a tool is treated as a
/// write.
pub fn has_undeclared_writes(definition: &ToolDefinition, library: &Library) -> bool {
    let undeclared = definition.side_effects.is_none() && definition.has_side_effects.is_none();
    let path = definition.invocation.path.as_deref().unwrap_or_default();
    let writes = || library.lookup(path).is_ok_and(|tool| tool.spec().side_effects == SideEffects::Writes);
    let bound = definition.tool_type == ToolType::Function && definition.invocation.code.is_none();
    undeclared && bound && writes()
}

fn arguments(definition: &ToolDefinition, issues: &mut Issues) -> Option<ValueTemplate> {
    let template = match definition.invocation.body_template.as_ref()? {
        BodyTemplate::Json(value) => value.clone(),
        BodyTemplate::Text(text) => Value::String(text.clone()),
    };
    issues.check("/invocation/bodyTemplate", ValueTemplate::compile(&template))
}

fn limits(definition: &ToolDefinition, provider: Option<&CompiledProvider>) -> CallLimits {
    let starts_run = matches!(definition.tool_type, ToolType::Agentic | ToolType::Composite | ToolType::Workflow);
    if starts_run || RunFunction::of(definition).is_some() {
        // A call to such a tool may wait for an approval, so it has the longest timeout. The run that
        // the call starts enforces the limits of the tool.
        let long = Duration::from_millis(MAX_TIMEOUT_MS);
        return CallLimits { attempt: long, total: long, retries: 0 };
    }
    let config = provider.map(|provider| &provider.config);
    let retries =
        definition.default_retry_count.or(config.and_then(|config| config.max_retries)).unwrap_or(0).min(MAX_RETRIES);
    let attempt = config.and_then(|config| config.timeout_ms).map(Duration::from_millis);
    match definition.timeout_ms.map(Duration::from_millis) {
        Some(total) => CallLimits { attempt: attempt.unwrap_or(total).min(total), total, retries },
        // If the tool has no timeout, `total` is the sum of the timeouts of all attempts, plus 30 seconds for each
        // delay between two attempts.
        None => {
            let attempt = attempt.unwrap_or(ATTEMPT_TIMEOUT);
            let pauses = Duration::from_secs(30 * u64::from(retries));
            CallLimits { attempt, total: attempt.saturating_mul(retries + 1).saturating_add(pauses), retries }
        }
    }
}
