//! Models behind one small trait: providers, streaming, retries, prices.
//!
//! Nothing here knows agents, tools or journals: a [`ModelRequest`](toolwright_types::ModelRequest) goes out, a
//! [`ModelReply`](toolwright_types::ModelReply) comes back, and what the model says meanwhile goes to a [`Sink`].
//!
//! | module | owns |
//! |---|---|
//! | `model` | the [`Model`] trait and the [`Sink`] for deltas |
//! | `config`, `endpoint`, `factory` | which provider, where, with whose key; [`Models`] builds from that |
//! | `remote` | every provider that the `genai` crate speaks to, and what had to be put right around it |
//! | `helix` | an external reasoner: its `LLMRequest` and `LLMResponse` as plain JSON over HTTP |
//! | `scripted` | not a model: answers by rules, for tests and demonstrations |
//! | `names`, `schema` | tool names and input schemas in the form that providers accept |
//! | `retry` | repeats what a repetition can help, then a fallback |
//! | `prices`, `tokens` | what a reply costs, and about how long a text is |

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
pub use endpoint::{Endpoint, UrlSource};
pub use error::{ErrorKind, ModelError};
pub use factory::Models;
pub use model::{Model, NoSink, Sink};
pub use prices::{InvalidPrices, Price, PriceList, Prices};
pub use retry::{RetryPolicy, Retrying};
pub use scripted::{InvalidScript, Script, Scripted};
pub use tokens::{estimate_request_tokens, estimate_tokens};
