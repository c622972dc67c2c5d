//! The agent loop: call the model, prepare its calls, decide on them, run them, show the results to the model, and
//! repeat until the model answers.
//!
//! ```text
//!            ┌──────────────────────────────────────────────┐
//!            ▼                                              │ results, in call order
//!  Model ─ reply ─▶ Preparing ─ facts ─▶ Calling ─ all done ┘
//!    │                  │          (run, approve, client)
//!    └── answer ────────┴── limit, cancel, failure ──▶ Ended
//! ```
//!
//! A driver performs the effects of [`AgentRun::next`] concurrently. When an effect completes, the driver passes its
//! event to [`AgentRun::apply`]. Not here: retries, streaming, memory strategies and child runs. The driver is
//! responsible for them.
//!
//! ```
//! # use toolwright_machine::agent::{AgentRun, Effect, Event, EventKind, RunSpec};
//! # use toolwright_types::{ModelReply, Timestamp};
//! # fn model(_: &toolwright_types::ModelRequest) -> ModelReply {
//! #     serde_json::from_str(r#"{ "content": "Hello.", "stop": "end_turn" }"#).unwrap()
//! # }
//! # fn now() -> Timestamp { Timestamp::from_micros(0) }
//! # fn answer(spec: RunSpec) -> String {
//! let mut run = AgentRun::new(spec, now());
//! loop {
//!     for effect in run.next() {
//!         let kind = match effect {
//!             Effect::CallModel { iteration, request } => EventKind::model_replied(iteration, model(&request)),
//!             Effect::Finish { response, .. } => return response,
//!             // This agent has no tools, so no other effects occur.
//!             other => panic!("unexpected effect `{}`", other.id()),
//!         };
//!         // A driver journals the event here.
//!         run.apply(Event { at: now(), kind }).expect("the event answers an open effect");
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
mod closer;
mod decide;
mod depth;

mod effect;
mod end;
mod event;
mod event_depth;
mod external_writes;
mod facts;
mod fork_state;
mod inspect;
mod interrupted_calls;
mod json_answer;
mod ledger;
mod model_calls;
mod open_effects;
mod planned;
mod predefined;
mod preparation;
mod reply;
mod run;
mod saved;
mod scheduling;
mod spec;
mod tool_messages;
mod workflow;

pub use approval::{ApprovalOutcome, ApprovalRecord};
pub use call::SuspendedChild;
pub use depth::{MAX_DEPTH, within_max_depth};
pub use effect::{ApprovalRequest, CallToPrepare, CallToRun, ClientActionRequest, Effect, EffectId};
pub use event::{ApplyOutcome, ClientResult, ClientResultError, Decision, Event, EventError, EventKind};
pub use external_writes::{ExternalWrite, WriteOutcome, may_have_changed};
pub use facts::{CallFacts, MODEL_OUTPUT_BYTES, PreparedCall};
pub use fork_state::{ForkState, UnknownForkState};
pub use inspect::OpenCall;
pub use interrupted_calls::outcome_unknown;
pub use json_answer::json_answer;
pub use model_calls::{ModelCall, ModelDecision, ModelPurpose};
pub use planned::{APPROVE_PLAN_TOOL, fenced};
pub use run::AgentRun;
pub use saved::RestoreError;
pub use spec::{PredefinedCall, RunSpec};
pub use workflow::{MAX_BUFFERED_SIGNALS, STEP_TIMEOUT};
