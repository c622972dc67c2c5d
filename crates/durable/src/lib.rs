//! Durable runs conducted by Restate.
//!
//! A run is an object of Restate's, keyed by its id: whatever happens to the run is told to that object, one thing at a
//! time, and each time the engine advances the run's machine, writes its journal to the store, and says which steps come
//! next. Each step, a model call or a tool call, is an invocation of its own, so that steps go on side by side.
//!
//! Restate is told ids and nothing else: inputs, outcomes and decisions stay in the store. What is *not* here: any
//! decision about a run, and anything that the engine does not also do without Restate.
//!
//! | module | what it is |
//! |---|---|
//! | [`Ingress`] | how this server reaches Restate: wakes runs, and lets them hear what was said |
//! | [`Callback`] | where Restate reaches this server: the two services, served and registered |

mod callback;
mod ingress;
mod services;

pub use callback::{Callback, CallbackError, CallbackOptions};
pub use ingress::{Address, AddressError, Ingress};
