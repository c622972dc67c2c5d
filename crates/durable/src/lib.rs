//! Uses Restate as the external scheduler of durable runs.
//!
//! A run is a virtual object in Restate. Its key is the run id. Restate delivers one event at a time to the run. For
//! each event, the run's machine advances, the journal is committed to the store, and the next tasks are returned. Each
//! task is a model call or a tool call. It is a separate invocation in Restate, so that tasks run in parallel.
//!
//! Restate receives only ids; inputs, outcomes and decisions stay in the store. The logic of runs is in the crate
//! `toolwright-runs`.
//!
//! | type | purpose |
//! |---|---|
//! | [`Ingress`] | How this server calls Restate: wakes runs and delivers commands. |
//! | [`Callback`] | How Restate calls this server: serves and registers the two services. |

mod callback;
mod ingress;
mod retry;
mod serve;
mod services;

pub use callback::{Callback, CallbackError, CallbackOptions};
pub use ingress::{Address, AddressError, Ingress};
pub use serve::serve_endpoint;
