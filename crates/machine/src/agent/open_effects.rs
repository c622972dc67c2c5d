//! The open effects of a run. They are derived from the state of the run and never stored.

use std::sync::Arc;

use toolwright_types::{CallId, RequestedCall};

use super::call::{Batch, Call, CallState};
use super::decide::is_captured;
use super::run::{AgentRun, Phase};
use super::{ApprovalRequest, CallToPrepare, CallToRun, ClientActionRequest, Effect, EffectId};

impl AgentRun {
    /// The calls that await a person's decision.
    pub fn pending_approvals(&self) -> Vec<ApprovalRequest> {
        self.batch().into_iter().flat_map(|batch| &batch.calls).filter_map(|call| self.approval_request(call)).collect()
    }

    /// The calls that await the client.
    pub fn pending_client_actions(&self) -> Vec<ClientActionRequest> {
        self.batch().into_iter().flat_map(|batch| &batch.calls).filter_map(|call| self.client_request(call)).collect()
    }

    /// The ids of the effects that no event has answered yet, in call order.
    pub(super) fn open_effects(&self) -> Vec<EffectId> {
        match &self.phase {
            Phase::Model => vec![EffectId::Model(self.resource_usage.iterations)],
            Phase::Preparing(_) => vec![EffectId::Prepare(self.resource_usage.iterations)],
            Phase::Calling(batch) => {
                let preparing = self.workflow.iter().flat_map(|state| state.preparing.keys());
                let preparing = preparing.map(|iteration| EffectId::Prepare(*iteration));
                preparing.chain(batch.calls.iter().filter_map(open_effect)).collect()
            }
            Phase::Ended(_) => vec![EffectId::Finish],
        }
    }

    /// Builds the effect with this id.
    pub(super) fn effect(&self, id: &EffectId) -> Option<Effect> {
        let call = |id: &CallId| self.batch().and_then(|batch| batch.find(id));
        match id {
            EffectId::Model(iteration) => Some(self.model_call_effect(*iteration)),
            EffectId::Prepare(iteration) => self.preparation_effect(*iteration),
            EffectId::PrepareAgain(id) => call(id).map(second_preparation_effect),
            EffectId::Call(id) => call(id).and_then(|call| self.call_to_run(call)).map(Effect::RunCall),
            EffectId::Verify(id) => call(id).and_then(|call| self.verification_effect(call)),
            EffectId::Approval(id) => call(id)
                .and_then(|call| self.approval_request(call))
                .map(|request| Effect::RequestApproval(Box::new(request))),
            EffectId::Client(id) => call(id)
                .and_then(|call| self.client_request(call))
                .map(|request| Effect::RequestClientAction(Box::new(request))),
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

    fn model_call_effect(&self, iteration: u32) -> Effect {
        let mut request = self.spec.request.clone();
        request.messages = Arc::clone(&self.messages);
        request.response_format = self.next_response_format();
        Effect::CallModel { iteration, request: Box::new(request) }
    }

    fn preparation_effect(&self, iteration: u32) -> Option<Effect> {
        let calls = match (&self.phase, &self.workflow) {
            (Phase::Preparing(requested), _) => requested.iter().map(call_to_prepare).collect(),
            (_, Some(state)) => {
                state.preparing.get(&iteration)?.iter().map(|call| call_to_prepare(&call.requested)).collect()
            }
            _ => return None,
        };
        Some(Effect::PrepareCalls { iteration, calls })
    }

    /// The iteration in which a call was prepared.
    fn iteration_of(&self, call: &Call) -> u32 {
        call.step.as_ref().map_or(self.resource_usage.iterations, |step| step.iteration)
    }

    fn call_to_run(&self, call: &Call) -> Option<Box<CallToRun>> {
        let facts = call.facts.clone()?;
        Some(Box::new(CallToRun {
            iteration: self.iteration_of(call),
            call_id: call.call_id.clone(),
            first_call: call.step.as_ref().and_then(|step| step.first.clone()),
            input: call.input.clone(),
            approved: self.decisions.iter().any(|record| record.approves(&call.call_id)),
            repeated: call.intended_at.is_some(),
            captured: is_captured(&self.spec.policy, &facts),
            facts,
        }))
    }

    fn verification_effect(&self, call: &Call) -> Option<Effect> {
        Some(Effect::VerifyCall { call: self.call_to_run(call)?, intended_at: call.intended_at? })
    }

    fn approval_request(&self, call: &Call) -> Option<ApprovalRequest> {
        let CallState::AwaitingApproval { triggers, at, expires_at } = &call.state else {
            return None;
        };
        let facts = call.facts.as_ref()?;
        Some(ApprovalRequest {
            iteration: self.iteration_of(call),
            call_id: call.call_id.clone(),
            tool: facts.name.clone(),
            version: facts.version.clone(),
            definition_hash: facts.definition_hash.clone(),
            effects: facts.effects,
            input: call.input.clone(),
            triggers: triggers.clone(),
            requested_at: *at,
            expires_at: *expires_at,
        })
    }

    fn client_request(&self, call: &Call) -> Option<ClientActionRequest> {
        let CallState::AwaitingClient { payload, schema, at, expires_at, .. } = &call.state else {
            return None;
        };
        Some(ClientActionRequest {
            iteration: self.iteration_of(call),
            call_id: call.call_id.clone(),
            tool: call.name.clone(),
            version: call.version.clone(),
            input: call.input.clone(),
            prepared_payload: payload.clone(),
            schema: schema.clone(),
            handed_over_at: *at,
            expires_at: *expires_at,
        })
    }
}

fn open_effect(call: &Call) -> Option<EffectId> {
    let id = call.call_id.clone();
    match call.state {
        CallState::Running => Some(EffectId::Call(id)),
        CallState::Interrupted => Some(EffectId::Verify(id)),
        CallState::AwaitingApproval { .. } => Some(EffectId::Approval(id)),
        CallState::Approved => Some(EffectId::PrepareAgain(id)),
        CallState::AwaitingClient { .. } => Some(EffectId::Client(id)),
        CallState::Queued | CallState::ChildSuspended { .. } | CallState::Done => None,
    }
}

fn call_to_prepare(requested: &RequestedCall) -> CallToPrepare {
    CallToPrepare { tool: requested.name.clone(), version: None, input: requested.arguments.to_value(), names: None }
}

fn second_preparation_effect(call: &Call) -> Effect {
    // The person approved the ids that were shown for the names, so these ids are kept. The names in an edited input
    // are looked up.
    let names = call.facts.as_ref().filter(|_| call.edited_from.is_none()).map(|facts| facts.resolved_inputs.clone());
    let (tool, version, input) = (call.name.clone(), Some(call.version.clone()), call.input.clone());
    Effect::PrepareAgain { call_id: call.call_id.clone(), call: CallToPrepare { tool, version, input, names } }
}
