//! Calls that a call makes, through the same path.

use toolwright_types::ToolError;

use super::run::Attempt;
use super::{CallRequest, CallSequence, Executor, Outcome, Prepared, ReadyCall};

/// A call within a call within a call within a call is a loop in the definitions.
pub(super) const DEEPEST: u8 = 3;

impl Executor {
    /// Makes a call on behalf of another, for whoever made that one. What it writes is told apart by the other's key, which
    /// is the same for each attempt. `permit` may still refuse it.
    pub async fn call_within(
        &self,
        call: Attempt<'_>,
        request: CallRequest,
        sequence: &mut CallSequence,
        permit: impl FnOnce(&ReadyCall) -> Result<(), ToolError>,
    ) -> Outcome {
        let cx = call.cx.deeper();
        let prepared = self.prepare(&cx, request, sequence).await;
        match self.guard(&cx, prepared) {
            Prepared::Refused(envelope) => Outcome::Done(envelope),
            Prepared::Ready(mut ready) => match permit(&ready) {
                Err(error) => Outcome::Done(Box::new(self.refuse(*ready, error))),
                Ok(()) => {
                    ready.instead_of = Some(call.idempotency_key.to_owned());
                    self.call(&cx, *ready).await
                }
            },
        }
    }
}

impl Attempt<'_> {
    /// Whether a call that this one makes would be one too deep.
    pub fn is_deepest(&self) -> bool {
        self.cx.depth >= DEEPEST
    }
}
