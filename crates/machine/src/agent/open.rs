//! What the run waits for, as effects: derived from its state, never stored.

use std::sync::Arc;

use toolwright_types::{CallId, RequestedCall};

use super::call::{Batch, Call, CallState, input_of};
use super::decide::captured;
use super::run::{AgentRun, Phase};
use super::{ApprovalRequest, CallToPrepare, CallToRun, ClientRequest, Effect, EffectId};

impl AgentRun {
    /// The calls that a person has to decide on.
    pub fn approvals(&self) -> Vec<ApprovalRequest> {
        self.batch().into_iter().flat_map(|batch| &batch.calls).filter_map(|call| self.approval(call)).collect()
    }

    /// The calls whose final step is the client's.
    pub fn client_actions(&self) -> Vec<ClientRequest> {
        self.batch().into_iter().flat_map(|batch| &batch.calls).filter_map(|call| self.client_request(call)).collect()
    }

    /// The effects that no event has answered, in the order of the calls they belong to.
    pub(super) fn open(&self) -> Vec<EffectId> {
        match &self.phase {
            Phase::Model => vec![EffectId::Model(self.spent.iterations)],
            Phase::Preparing(_) => vec![EffectId::Prepare(self.spent.iterations)],
            Phase::Calling(batch) => batch.calls.iter().filter_map(open_effect).collect(),
            Phase::Ended(_) => vec![EffectId::Finish],
        }
    }

    /// The effect behind an id, in full.
    pub(super) fn effect(&self, id: &EffectId) -> Option<Effect> {
        let call = |id: &CallId| self.batch().and_then(|batch| batch.find(id));
        match id {
            EffectId::Model(step) => Some(self.model_call(*step)),
            EffectId::Prepare(step) => self.preparation(*step),
            EffectId::PrepareAgain(id) => call(id).map(prepare_again),
            EffectId::Call(id) => call(id).and_then(|call| self.call_to_run(call)).map(Effect::RunCall),
            EffectId::Verify(id) => call(id).and_then(|call| self.verification(call)),
            EffectId::Approval(id) => {
                call(id).and_then(|call| self.approval(call)).map(|request| Effect::AskApproval(Box::new(request)))
            }
            EffectId::Client(id) => call(id)
                .and_then(|call| self.client_request(call))
                .map(|request| Effect::HandToClient(Box::new(request))),
            EffectId::Finish => {
                self.ending().map(|ending| Effect::Finish { ending: ending.clone(), response: self.response.clone() })
            }
        }
    }

    pub(super) fn batch(&self) -> Option<&Batch> {
        match &self.phase {
            Phase::Calling(batch) => Some(batch),
            _ => None,
        }
    }

    fn model_call(&self, step: u32) -> Effect {
        let mut request = self.spec.request.clone();
        request.messages = Arc::clone(&self.messages);
        Effect::CallModel { step, request: Box::new(request) }
    }

    fn preparation(&self, step: u32) -> Option<Effect> {
        let Phase::Preparing(requested) = &self.phase else {
            return None;
        };
        Some(Effect::PrepareCalls { step, calls: requested.iter().map(to_prepare).collect() })
    }

    fn call_to_run(&self, call: &Call) -> Option<Box<CallToRun>> {
        let facts = call.facts.clone()?;
        Some(Box::new(CallToRun {
            step: self.spent.iterations,
            call_id: call.call_id.clone(),
            input: call.input.clone(),
            again: call.intended.is_some(),
            captured: captured(&self.spec.policy, &facts),
            facts,
        }))
    }

    fn verification(&self, call: &Call) -> Option<Effect> {
        Some(Effect::VerifyCall { call: self.call_to_run(call)?, intended_at: call.intended? })
    }

    fn approval(&self, call: &Call) -> Option<ApprovalRequest> {
        let CallState::Asked { because, at, expires_at } = &call.state else {
            return None;
        };
        let facts = call.facts.as_ref()?;
        Some(ApprovalRequest {
            step: self.spent.iterations,
            call_id: call.call_id.clone(),
            tool: facts.name.clone(),
            version: facts.version.clone(),
            definition_hash: facts.definition_hash.clone(),
            effects: facts.effects,
            input: call.input.clone(),
            because: because.clone(),
            asked_at: *at,
            expires_at: *expires_at,
        })
    }

    fn client_request(&self, call: &Call) -> Option<ClientRequest> {
        let CallState::Handed { payload, schema, at, expires_at, .. } = &call.state else {
            return None;
        };
        Some(ClientRequest {
            step: self.spent.iterations,
            call_id: call.call_id.clone(),
            tool: call.name.clone(),
            version: call.version.clone(),
            input: call.input.clone(),
            prepared_payload: payload.clone(),
            schema: schema.clone(),
            handed_at: *at,
            expires_at: *expires_at,
        })
    }
}

fn open_effect(call: &Call) -> Option<EffectId> {
    let id = call.call_id.clone();
    match call.state {
        CallState::Running => Some(EffectId::Call(id)),
        CallState::InDoubt => Some(EffectId::Verify(id)),
        CallState::Asked { .. } => Some(EffectId::Approval(id)),
        CallState::Agreed => Some(EffectId::PrepareAgain(id)),
        CallState::Handed { .. } => Some(EffectId::Client(id)),
        CallState::Queued | CallState::Paused { .. } | CallState::Done => None,
    }
}

fn to_prepare(requested: &RequestedCall) -> CallToPrepare {
    CallToPrepare { tool: requested.name.clone(), version: None, input: input_of(&requested.arguments), names: None }
}

fn prepare_again(call: &Call) -> Effect {
    // Whoever agreed agreed to what the names meant. An input that was edited has names that nobody has looked up.
    let names = call.facts.as_ref().filter(|_| call.edited_from.is_none()).map(|facts| facts.resolved_inputs.clone());
    let (tool, version, input) = (call.name.clone(), Some(call.version.clone()), call.input.clone());
    Effect::PrepareAgain { call_id: call.call_id.clone(), call: CallToPrepare { tool, version, input, names } }
}
