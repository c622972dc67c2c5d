//! The agent loop: ask the model, prepare its calls, decide, run them, tell it, until it answers.
//!
//! ```text
//!            ┌──────────────────────────────────────────────┐
//!            ▼                                              │ results, in call order
//!  Model ─ reply ─▶ Preparing ─ facts ─▶ Calling ─ all done ┘
//!    │                  │          (run, approve, client)
//!    └── answer ────────┴── limit, cancel, failure ──▶ Ended
//! ```
//!
//! A driver performs [`AgentRun::next`]'s effects, each on its own, and feeds [`AgentRun::apply`] one event for each,
//! in whatever order they come. Not here: retries, streaming, memory strategies, child runs; those are the driver's.
//!
//! ```
//! # use toolwright_machine::agent::{AgentRun, Effect, Event, Happened, Spec};
//! # use toolwright_types::{ModelReply, Timestamp};
//! # fn model(_: &toolwright_types::ModelRequest) -> ModelReply {
//! #     serde_json::from_str(r#"{ "content": "Hello.", "stop": "end_turn" }"#).unwrap()
//! # }
//! # fn now() -> Timestamp { Timestamp::from_micros(0) }
//! # fn answer(spec: Spec) -> String {
//! let mut run = AgentRun::new(spec, now());
//! loop {
//!     for effect in run.next() {
//!         let what = match effect {
//!             Effect::CallModel { step, request } => Happened::replied(step, model(&request)),
//!             Effect::Finish { response, .. } => return response,
//!             // This agent has no tools; with some, calls are prepared and run, people and clients asked.
//!             other => panic!("unexpected effect `{}`", other.id()),
//!         };
//!         // A driver journals the event here.
//!         run.apply(Event { at: now(), what }).expect("the event answers an open effect");
//!     }
//! }
//! # }
//! # let spec = serde_json::json!({
//! #     "run": "run_00000000000000000000000007", "max_parallel_calls": 8,
//! #     "request": { "model": "m", "messages": [{ "role": "user", "content": "Hi" }] },
//! #     "limits": { "max_iterations": 10, "max_tool_calls": 25 },
//! #     "policy": { "enabled_tools": [], "side_effects": "reads", "requires_approval": false, "realm": "default",
//! #                 "guardrails": [] },
//! # });
//! # assert_eq!(answer(serde_json::from_value(spec).unwrap()), "Hello.");
//! ```

mod approval;
mod call;
mod check;
mod client;
mod decide;
mod depth;
mod desk;
mod doubt;
mod effect;
mod end;
mod event;
mod facts;
mod flat;
mod ledger;
mod open;
mod plan;
mod prepared;
mod reply;
mod run;
mod saved;
mod show;
mod spec;
mod start;

pub use approval::{ApprovalRecord, Verdict};
pub use depth::{MAX_DEPTH, is_shallow};
pub use doubt::unknown as outcome_unknown;
pub use effect::{ApprovalRequest, CallToPrepare, CallToRun, ClientRequest, Effect, EffectId};
pub use event::{Applied, ClientResult, ClientResultProblem, Decision, Event, EventError, Happened};
pub use facts::{Facts, MODEL_OUTPUT_BYTES, Prepared};
pub use run::AgentRun;
pub use saved::RestoreError;
pub use spec::{PlannedCall, Spec};
