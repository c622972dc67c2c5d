//! Language models behind one trait: providers, streaming, retries and prices.
//!
//! A [`Model`] takes a [`ModelRequest`](toolwright_types::ModelRequest), streams deltas to a [`Sink`] and returns a
//! [`ModelReply`](toolwright_types::ModelReply). Agents, tool execution and journals are not part of this crate.
//!
//! | module | content |
//! |---|---|
//! | `model` | the [`Model`] trait and the [`Sink`] for deltas |
//! | `config`, `endpoint`, `factory` | the provider, its URL and the API key; [`ModelFactory`] builds models from them |
//! | `remote` | the providers that the `genai` crate supports, with workarounds for its defects |
//! | `helix` | a client for an external service that exchanges `LLMRequest` and `LLMResponse` as JSON over HTTP |
//! | `scripted` | a rule-based replacement for a model, for tests and demonstrations |
//! | `names`, `schema` | the conversion of tool names and schemas to the forms that providers accept |
//! | `retry` | retries after transient errors, and a fallback model |
//! | `prices`, `tokens` | the cost of replies, and estimates of token counts |

mod config;
mod endpoint;
mod error;
mod factory;
mod helix;
mod model;
mod names;
mod prices;
mod remote;
mod retry;
mod schema;
mod scripted;
mod tokens;

pub use config::{InvalidModelRef, ModelConfig, ModelRef, OtherProvider, Provider};
pub use endpoint::{ModelEndpoint, UrlSource};
pub use error::{ErrorKind, ModelError};
pub use factory::ModelFactory;
pub use model::{Model, NoSink, Sink};
pub use prices::{InvalidPrices, KnownModel, Price, PriceList, PriceSource, Prices};
pub use retry::{RetryPolicy, RetryingModel};
pub use scripted::{InvalidScript, Script, ScriptedModel};
pub use tokens::{estimate_request_tokens, estimate_tokens};
