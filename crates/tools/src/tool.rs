//! A tool as a Rust author writes it, and the erased form the library keeps.

use std::collections::BTreeMap;
use std::future::Future;
use std::marker::PhantomData;
use std::sync::Arc;

use futures::future::BoxFuture;
use schemars::generate::SchemaSettings;
use secrecy::SecretString;
use semver::Version;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use toolwright_types::{Clock, ErrorCode, SideEffects};

use crate::executor::IdempotencyKey;
use crate::executor::Queue;
use crate::http::HttpClient;
use crate::{CallContext, Executor, ToolFailure};

/// A tool written in Rust: a struct that holds its arguments, a doc comment that says what it does, and one function.
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
    /// The name under which the library registers it.
    const NAME: &'static str;
    /// The version of this implementation.
    const VERSION: Version = Version::new(1, 0, 0);
    /// What it does to the world.
    const SIDE_EFFECTS: SideEffects = SideEffects::None;
    /// What it returns.
    type Output: Serialize + schemars::JsonSchema;

    /// Performs the call.
    fn call(self, cx: &ToolCx<'_>) -> impl Future<Output = Result<Self::Output, ToolFailure>> + Send;
}

/// What a tool is given beside its arguments.
pub struct ToolCx<'a> {
    /// Who makes the call, for a tool that calls tools.
    pub executor: &'a Executor,
    /// The call's realm, principal, run and caller.
    pub call: &'a CallContext,
    /// The secrets resolved for this call, by name.
    pub auth: &'a BTreeMap<String, SecretString>,
    /// The same for all attempts of the call, different in every run.
    pub idempotency_key: &'a IdempotencyKey<'a>,
    /// HTTP under the server's egress rules.
    pub http: &'a HttpClient,
    /// The time.
    pub clock: &'a dyn Clock,
    /// Where it notes that the call waits for its turn.
    pub queue: &'a Queue,
}

/// A tool without its types: JSON in, JSON out.
pub trait DynTool: Send + Sync {
    /// What the tool says about itself.
    fn spec(&self) -> &ToolSpec;

    /// Performs the call.
    fn call<'a>(&'a self, cx: &'a ToolCx<'a>, input: Value) -> BoxFuture<'a, Result<Value, ToolFailure>>;
}

/// What an implementation says about itself.
#[derive(Debug, Clone)]
pub struct ToolSpec {
    /// Its name.
    pub name: String,
    /// Its version.
    pub version: Version,
    /// What it does, for a model.
    pub description: String,
    /// What it accepts.
    pub input_schema: Value,
    /// What it returns.
    pub output_schema: Value,
    /// What it does to the world.
    pub side_effects: SideEffects,
}

/// A [`Tool`] behind the erased interface: the only place where its types meet JSON.
pub struct Typed<T: Tool> {
    spec: ToolSpec,
    tool: PhantomData<fn() -> T>,
}

impl<T: Tool> Typed<T> {
    /// The erased form of `T`.
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
        };
        Arc::new(Self { spec, tool: PhantomData })
    }
}

impl<T: Tool> DynTool for Typed<T> {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn call<'a>(&'a self, cx: &'a ToolCx<'a>, input: Value) -> BoxFuture<'a, Result<Value, ToolFailure>> {
        Box::pin(async move {
            // The executor has validated the input; what the schema could not say is still checked here.
            let arguments: T =
                serde_json::from_value(input).map_err(|error| ToolFailure::invalid(error.to_string()))?;
            let output = arguments.call(cx).await?;
            serde_json::to_value(output).map_err(|error| {
                ToolFailure::fatal(ErrorCode::Unknown, format!("the output cannot be written as JSON: {error}"))
            })
        })
    }
}

/// A tool made of a closure from JSON to JSON, for libraries that are put together at run time.
pub struct FunctionTool<F> {
    spec: ToolSpec,
    function: F,
}

impl<F> FunctionTool<F>
where
    F: Fn(Value) -> Result<Value, ToolFailure> + Send + Sync + 'static,
{
    /// A tool that calls `function`.
    pub fn erase(name: &str, description: &str, input_schema: Value, function: F) -> Arc<dyn DynTool> {
        let spec = ToolSpec {
            name: name.to_owned(),
            version: Version::new(1, 0, 0),
            description: description.to_owned(),
            input_schema,
            output_schema: json!({}),
            side_effects: SideEffects::None,
        };
        Arc::new(Self { spec, function })
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
        // The dialect is our default, and the Rust name of a struct says nothing to a caller.
        fields.remove("$schema");
        fields.remove("title");
    }
    value
}
