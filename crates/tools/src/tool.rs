//! The trait for tools written in Rust, and the type-erased form that a library stores.

use std::collections::BTreeMap;
use std::future::Future;
use std::marker::PhantomData;
use std::sync::{Arc, Mutex, PoisonError};

use futures::future::BoxFuture;
use schemars::generate::SchemaSettings;
use secrecy::SecretString;
use semver::Version;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use toolwright_types::{CachePolicy, Clock, ErrorCode, SideEffects};

use crate::executor::{BackendReply, CallMessages, IdempotencyKey, QueueTimer};
use crate::http_client::HttpClient;
use crate::ports::Payload;
use crate::{CallContext, Executor, ToolFailure};

/// A tool written in Rust: a struct with its arguments, a doc comment that describes it, and one function.
///
/// ```
/// use schemars::JsonSchema;
/// use serde::Deserialize;
/// use toolwright_tools::{Tool, ToolCx, ToolFailure};
///
/// /// Counts the words of a text.
/// #[derive(Deserialize, JsonSchema)]
/// struct CountWords {
///     /// The text to count in.
///     text: String,
/// }
///
/// impl Tool for CountWords {
///     const NAME: &'static str = "count_words";
///     type Output = usize;
///
///     async fn call(self, _cx: &ToolCx<'_>) -> Result<usize, ToolFailure> {
///         Ok(self.text.split_whitespace().count())
///     }
/// }
/// ```
///
/// The input schema is derived from the struct, the output schema from `Output`, the description from the doc comment.
pub trait Tool: DeserializeOwned + schemars::JsonSchema + Send + 'static {
    /// The name under which a library registers the tool.
    const NAME: &'static str;
    /// The version of the implementation.
    const VERSION: Version = Version::new(1, 0, 0);
    /// The greatest side effects that a call to the tool can have.
    const SIDE_EFFECTS: SideEffects = SideEffects::None;
    /// The category of the tool. Permissions and agents select tools by category.
    const CATEGORY: &'static str = "builtin";
    /// Whether results are cached. Caching is only correct for tools whose output depends on nothing but the arguments.
    const CACHE: CachePolicy = CachePolicy::None;
    /// The lifetime of a cached result under [`CachePolicy::Ttl`], in seconds.
    const CACHE_TTL_SECONDS: Option<u64> = None;
    /// The output.
    type Output: Serialize + schemars::JsonSchema;

    /// Returns the side effects of a call with this input, at most [`Tool::SIDE_EFFECTS`].
    fn effects(_input: &Value) -> SideEffects {
        Self::SIDE_EFFECTS
    }

    /// Whether a call with this input deletes something. Guardrails can forbid such calls.
    fn deletes(_input: &Value) -> bool {
        false
    }

    /// Performs the call.
    fn call(self, cx: &ToolCx<'_>) -> impl Future<Output = Result<Self::Output, ToolFailure>> + Send;
}

/// The context of a call. The tool receives it in addition to its arguments.
pub struct ToolCx<'a> {
    /// The executor, for tools that call other tools.
    pub executor: &'a Executor,
    /// The call's realm, principal, run and caller.
    pub call: &'a CallContext,
    /// The secrets resolved for this call, by name.
    pub auth: &'a BTreeMap<String, SecretString>,
    /// The idempotency key: the same for all attempts of the call, different in every run.
    pub idempotency_key: &'a IdempotencyKey<'a>,
    /// The HTTP client, which enforces the server's egress rules.
    pub http: &'a HttpClient,
    /// The clock.
    pub clock: &'a dyn Clock,
    /// Records the time that the call spends in a queue.
    pub queue: &'a QueueTimer,
    /// Collects messages for the caller and the model. They are reported whether the call succeeds or fails.
    pub messages: &'a CallMessages,
    /// The reply so far, without its output.
    pub(crate) reply: &'a Mutex<BackendReply>,
}

impl ToolCx<'_> {
    /// Adds a payload that cannot be represented as JSON. It becomes an attachment of the envelope.
    pub fn attach(&self, payload: Payload) {
        self.reply.lock().unwrap_or_else(PoisonError::into_inner).payloads.push(payload);
    }

    /// Adds a warning for the caller.
    pub fn warn(&self, warning: impl Into<String>) {
        self.reply.lock().unwrap_or_else(PoisonError::into_inner).warnings.push(warning.into());
    }
}

/// A type-erased tool: JSON in, JSON out.
pub trait DynTool: Send + Sync {
    /// Returns the specification of the tool.
    fn spec(&self) -> &ToolSpec;

    /// Performs the call.
    fn call<'a>(&'a self, cx: &'a ToolCx<'a>, input: Value) -> BoxFuture<'a, Result<Value, ToolFailure>>;

    /// Returns the side effects of a call with this input, at most [`ToolSpec::side_effects`].
    fn effects(&self, _input: &Value) -> SideEffects {
        self.spec().side_effects
    }

    /// Whether a call with this input deletes something.
    fn deletes(&self, _input: &Value) -> bool {
        false
    }
}

/// The specification of an implementation.
#[derive(Debug, Clone)]
pub struct ToolSpec {
    /// The name.
    pub name: String,
    /// The version.
    pub version: Version,
    /// The description for a model.
    pub description: String,
    /// The input schema.
    pub input_schema: Value,
    /// The output schema.
    pub output_schema: Value,
    /// The side effects of the tool.
    pub side_effects: SideEffects,
    /// Whether a person must confirm each call.
    pub requires_confirmation: bool,
    /// The category.
    pub category: String,
    /// Whether results are cached.
    pub cache: CachePolicy,
    /// The lifetime of a cached result under [`CachePolicy::Ttl`], in seconds.
    pub cache_ttl_seconds: Option<u64>,
}

impl ToolSpec {
    /// Creates the specification of version 1.0.0 of a tool that has no side effects, accepts every input and returns
    /// any output.
    pub fn new(name: impl Into<String>, description: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            version: Version::new(1, 0, 0),
            description: description.into(),
            input_schema: json!({}),
            output_schema: json!({}),
            side_effects: SideEffects::None,
            requires_confirmation: false,
            category: "builtin".to_owned(),
            cache: CachePolicy::None,
            cache_ttl_seconds: None,
        }
    }
}

/// Adapts a [`Tool`] to [`DynTool`]. Only this type converts between JSON and the tool's own types.
pub struct TypedTool<T: Tool> {
    spec: ToolSpec,
    tool: PhantomData<fn() -> T>,
}

impl<T: Tool> TypedTool<T> {
    /// Returns the type-erased form of `T`.
    pub fn erase() -> Arc<dyn DynTool> {
        let mut input_schema = derived_schema::<T>();
        let description = input_schema
            .as_object_mut()
            .and_then(|schema| schema.remove("description"))
            .and_then(|text| text.as_str().map(str::to_owned))
            .unwrap_or_else(|| T::NAME.to_owned());
        let spec = ToolSpec {
            name: T::NAME.to_owned(),
            version: T::VERSION,
            description,
            input_schema,
            output_schema: derived_schema::<T::Output>(),
            side_effects: T::SIDE_EFFECTS,
            requires_confirmation: false,
            category: T::CATEGORY.to_owned(),
            cache: T::CACHE,
            cache_ttl_seconds: T::CACHE_TTL_SECONDS,
        };
        Arc::new(Self { spec, tool: PhantomData })
    }
}

impl<T: Tool> DynTool for TypedTool<T> {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn call<'a>(&'a self, cx: &'a ToolCx<'a>, input: Value) -> BoxFuture<'a, Result<Value, ToolFailure>> {
        Box::pin(async move {
            // The executor has validated the input against the schema. Decoding also checks rules that the schema
            // cannot express.
            let arguments: T =
                serde_json::from_value(input).map_err(|error| ToolFailure::invalid(error.to_string()))?;
            let output = arguments.call(cx).await?;
            serde_json::to_value(output).map_err(|error| {
                ToolFailure::fatal(ErrorCode::Unknown, format!("the output cannot be serialized as JSON: {error}"))
            })
        })
    }

    fn effects(&self, input: &Value) -> SideEffects {
        T::effects(input)
    }

    fn deletes(&self, input: &Value) -> bool {
        T::deletes(input)
    }
}

/// A tool whose implementation is a closure from JSON to JSON, for libraries that are assembled at run time.
pub struct FunctionTool<F> {
    spec: ToolSpec,
    function: F,
}

impl<F> FunctionTool<F>
where
    F: Fn(Value) -> Result<Value, ToolFailure> + Send + Sync + 'static,
{
    /// Creates a tool that calls `function`.
    pub fn erase(name: &str, description: &str, input_schema: Value, function: F) -> Arc<dyn DynTool> {
        Arc::new(Self { spec: ToolSpec { input_schema, ..ToolSpec::new(name, description) }, function })
    }
}

impl<F> DynTool for FunctionTool<F>
where
    F: Fn(Value) -> Result<Value, ToolFailure> + Send + Sync + 'static,
{
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn call<'a>(&'a self, _cx: &'a ToolCx<'a>, input: Value) -> BoxFuture<'a, Result<Value, ToolFailure>> {
        Box::pin(async move { (self.function)(input) })
    }
}

pub(crate) fn derived_schema<T: schemars::JsonSchema>() -> Value {
    let schema = SchemaSettings::draft2020_12().into_generator().into_root_schema_for::<T>();
    let mut value = schema.to_value();
    if let Some(fields) = value.as_object_mut() {
        // Callers need neither keyword: `$schema` names the default dialect, and `title` is the Rust name of the
        // struct.
        fields.remove("$schema");
        fields.remove("title");
    }
    value
}
