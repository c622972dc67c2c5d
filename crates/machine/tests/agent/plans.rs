//! Runs that follow a plan.

use std::sync::Arc;

use serde_json::{Value, json};
use toolwright_machine::agent::{APPROVE_PLAN_TOOL, Decision, Effect, ModelPurpose, PreparedCall, RunSpec};
use toolwright_machine::plan::{PlanSpec, SequenceStep};
use toolwright_machine::{AgentRun, RunStatus};
use toolwright_types::{ErrorCode, Message, ModelReply, ResponseFormat, ToolError};

use crate::harness::{Harness, call, calls, facts, prepare, spec, text};

/// Returns the spec of a run whose plan has the sequence `search`, `save`. `change` adjusts the plan spec.
pub(crate) fn planned(change: impl FnOnce(&mut PlanSpec)) -> RunSpec {
    let step = |step, tool: &str| SequenceStep { step, tool: tool.into(), purpose: String::new() };
    let mut plan = PlanSpec {
        sequence: vec![step(1, "search"), step(2, "save")],
        schema: json!({ "title": "plan" }),
        input: json!({ "task": "go", "stage": "won" }),
        given: None,
        max_steps: 10,
        max_items: 100,
        requires_approval: false,
    };
    change(&mut plan);
    RunSpec { plan: Some(Arc::new(plan)), ..spec() }
}

fn start() -> Harness {
    Harness::new(planned(|_| {}))
}

pub(crate) fn plan(steps: Value) -> ModelReply {
    text(&json!({ "reasoning": "because", "steps": steps }).to_string())
}

pub(crate) fn find_and_save() -> Value {
    json!([
        { "step": 1, "parameters": { "q": "acme" } },
        { "step": 2, "forEach": "${steps.1.output.deals}", "parameters": { "id": "${item.id}", "stage": "${input.stage}" } },
    ])
}

impl Harness {
    /// Prepares the open calls, checks their inputs, and ends them with these results.
    pub(crate) fn run_calls(&mut self, expected: &[Value], results: Vec<Result<Value, ToolError>>) {
        self.prepare();
        let running = self.running();
        let inputs: Vec<Value> = running.iter().map(|call| call.input.clone()).collect();
        assert_eq!(inputs, expected);
        for (call, result) in running.iter().zip(results) {
            self.end_call(call, result);
        }
    }

    pub(crate) fn asks_model(&self) -> bool {
        matches!(&self.run.pending()[..], [Effect::CallModel { .. }])
    }

    fn requested_format(&self) -> ResponseFormat {
        match &self.run.pending()[..] {
            [Effect::CallModel { request, .. }] => request.response_format.clone(),
            other => panic!("the model is not asked: {other:?}"),
        }
    }

    fn last_message(&self) -> &str {
        match self.run.messages().last() {
            Some(Message::User { content }) => content,
            other => panic!("{other:?}"),
        }
    }

    fn purposes(&self) -> Vec<ModelPurpose> {
        self.run.model_calls().iter().map(|call| call.purpose).collect()
    }
}

fn failed() -> ToolError {
    ToolError::new(ErrorCode::ProviderError, "no")
}

#[test]
fn planned_run_asks_the_model_only_for_the_plan_and_for_the_final_text() {
    let mut harness = start();
    assert_eq!(harness.requested_format(), ResponseFormat::Structured(json!({ "title": "plan" })));
    harness.reply(plan(find_and_save()));
    let deals = json!({ "deals": [{ "id": 1 }, { "id": 2 }] });
    harness.run_calls(&[json!({ "q": "acme" })], vec![Ok(deals)]);
    assert!(!harness.asks_model());
    let inputs = [json!({ "id": 1, "stage": "won" }), json!({ "id": 2, "stage": "won" })];
    harness.run_calls(&inputs, vec![Ok(json!("a")), Ok(json!("b"))]);
    assert_eq!(harness.requested_format(), ResponseFormat::Text);
    assert!(harness.last_message().contains(r#""tool":"save""#), "{}", harness.last_message());
    harness.reply(text("Saved 2 deals."));
    assert_eq!((harness.run.status(), harness.outputs().response.as_str()), (RunStatus::Completed, "Saved 2 deals."));
    assert_eq!(harness.purposes(), [ModelPurpose::Planning, ModelPurpose::ResultReview]);
    assert_eq!(harness.run.started_model_calls(), 2);
}

#[test]
fn failed_item_is_reported_and_the_other_items_are_processed() {
    let mut harness = start();
    harness.reply(plan(find_and_save()));
    harness.run_calls(&[json!({ "q": "acme" })], vec![Ok(json!({ "deals": [{ "id": 1 }, { "id": 2 }] }))]);
    let inputs = [json!({ "id": 1, "stage": "won" }), json!({ "id": 2, "stage": "won" })];
    harness.run_calls(&inputs, vec![Ok(json!("a")), Err(failed())]);
    assert!(harness.last_message().contains(r#""itemsFailed":1"#), "{}", harness.last_message());
    let errors = harness.run.plan_progress().unwrap().item_errors();
    assert_eq!((&errors[0]["item"], &errors[0]["tool"]), (&json!({ "id": 2 }), &json!("save")));
    assert_eq!(errors[0]["error"]["code"], "PROVIDER_ERROR");
}

#[test]
fn run_fails_if_a_step_or_all_of_its_items_fail() {
    let mut harness = start();
    harness.reply(plan(find_and_save()));
    harness.run_calls(&[json!({ "q": "acme" })], vec![Err(failed())]);
    assert_eq!(harness.ending().reason.as_deref(), Some("PROVIDER_ERROR"));
    assert_eq!(harness.ending().message.as_deref(), Some("step 1 (`search`) failed: no"));

    let mut harness = start();
    harness.reply(plan(find_and_save()));
    harness.run_calls(&[json!({ "q": "acme" })], vec![Ok(json!({ "deals": [{ "id": 1 }] }))]);
    harness.run_calls(&[json!({ "id": 1, "stage": "won" })], vec![Err(failed())]);
    let message = harness.ending().message.clone().unwrap();
    assert_eq!(message, "step 2 (`save`) failed: all 1 items failed; the first error: no");
    assert!(harness.outputs().response.contains("search (1 call); save failed"), "{}", harness.outputs().response);
}

#[test]
fn all_pages_of_a_list_are_read_before_the_next_step() {
    let mut harness = start();
    harness.reply(plan(json!([
        { "step": 1, "parameters": { "q": "acme" },
          "paging": { "items": "${page.deals}", "next": { "after": "${page.next}" } } },
        { "step": 2, "parameters": { "ids": "${steps.1.items.map(deal, deal.id)}" } },
    ])));
    harness.run_calls(&[json!({ "q": "acme" })], vec![Ok(json!({ "deals": [{ "id": 1 }], "next": "p2" }))]);
    let second = json!({ "q": "acme", "after": "p2" });
    harness.run_calls(&[second], vec![Ok(json!({ "deals": [{ "id": 2 }, { "id": 3 }], "next": "p3" }))]);
    harness.run_calls(&[json!({ "q": "acme", "after": "p3" })], vec![Ok(json!({ "deals": [] }))]);
    harness.run_calls(&[json!({ "ids": [1, 2, 3] })], vec![Ok(json!({}))]);
    assert!(harness.asks_model());
}

#[test]
fn list_with_too_many_items_fails_before_any_item_is_processed() {
    let mut harness = Harness::new(planned(|plan| plan.max_items = 1));
    harness.reply(plan(find_and_save()));
    harness.run_calls(&[json!({ "q": "acme" })], vec![Ok(json!({ "deals": [{ "id": 1 }, { "id": 2 }] }))]);
    assert_eq!(harness.ending().reason.as_deref(), Some("MAX_ITEMS_EXCEEDED"));
    assert!(harness.ending().message.as_deref().unwrap().contains("`safetyLimits.maxItems` is 1"));
    assert_eq!(harness.outputs().tool_order.len(), 1);
}

#[test]
fn long_list_is_processed_in_several_batches() {
    let mut harness = start();
    harness.reply(plan(find_and_save()));
    let deals: Vec<Value> = (0..70).map(|id| json!({ "id": id })).collect();
    harness.run_calls(&[json!({ "q": "acme" })], vec![Ok(json!({ "deals": deals }))]);
    for batch in [50, 20] {
        harness.prepare();
        for _ in 0..batch {
            let call = harness.running().remove(0);
            harness.end_call(&call, Ok(json!("ok")));
        }
    }
    assert!(harness.asks_model());
    assert_eq!(harness.outputs().tool_order.len(), 71);
}

#[test]
fn step_beyond_the_limit_is_not_executed_and_the_run_returns_a_partial_result() {
    let mut harness = Harness::new(planned(|plan| plan.max_steps = 1));
    harness.reply(plan(find_and_save()));
    harness.run_calls(&[json!({ "q": "acme" })], vec![Ok(json!({ "deals": [{ "id": 1 }] }))]);
    assert_eq!(harness.run.status(), RunStatus::MaxIterations);
    assert_eq!(harness.ending().reason.as_deref(), Some("MAX_STEPS_EXCEEDED"));
    let response: Value = serde_json::from_str(&harness.outputs().response).unwrap();
    assert_eq!(response["summary"], "Executed 1 of 2 steps: search (1 call).");
}

#[test]
fn step_with_a_false_condition_is_skipped() {
    let mut harness = start();
    harness.reply(plan(json!([
        { "step": 1, "parameters": {} },
        { "step": 2, "when": "${steps.1.output.deals.length > 0}", "parameters": { "x": 1 } },
    ])));
    harness.run_calls(&[json!({})], vec![Ok(json!({ "deals": [] }))]);
    assert!(harness.asks_model());
    assert!(harness.last_message().contains(r#""status":"skipped""#), "{}", harness.last_message());
}

#[test]
fn model_may_correct_an_invalid_plan_twice_before_the_run_fails() {
    let mut harness = start();
    harness.reply(plan(json!([{ "step": 9, "parameters": {} }])));
    assert!(harness.last_message().contains("must be a step of the sequence (1, 2), got 9"));
    harness.reply(calls(vec![call("c", "delete_deal", json!({}))]));
    assert!(harness.last_message().contains("it requests tool calls"));
    assert_eq!(harness.purposes(), [ModelPurpose::Planning, ModelPurpose::ErrorRecovery]);
    harness.reply(text("not JSON"));
    assert_eq!(harness.ending().reason.as_deref(), Some("INVALID_LLM_OUTPUT"));
    assert!(harness.outputs().tool_order.is_empty());
}

#[test]
fn plan_in_a_code_fence_or_after_the_reasoning_of_the_model_is_accepted() {
    let plan = r#"{ "steps": [{ "step": 1, "parameters": { "q": "acme" } }] }"#;
    for reply in [format!("```json\n{plan}\n```"), format!("<think>I need step 1.</think>\n{plan}")] {
        let mut harness = start();
        harness.reply(text(&reply));
        harness.run_calls(&[json!({ "q": "acme" })], vec![Ok(json!({}))]);
        assert!(harness.asks_model());
    }
}

#[test]
fn refused_parameters_are_corrected_without_repeating_earlier_steps() {
    let mut harness = start();
    let steps = |field: &str| json!([{ "step": 1, "parameters": {} }, { "step": 2, "parameters": { field: 1 } }]);
    harness.reply(plan(steps("bad")));
    harness.run_calls(&[json!({})], vec![Ok(json!({}))]);
    harness.prepare();
    assert!(harness.last_message().contains("`bad` is not a field"), "{}", harness.last_message());
    assert_eq!(harness.requested_format(), ResponseFormat::Structured(json!({ "title": "plan" })));
    harness.reply(plan(steps("good")));
    harness.run_calls(&[json!({ "good": 1 })], vec![Ok(json!({}))]);
    harness.reply(text("Done."));
    assert_eq!(harness.run.status(), RunStatus::Completed);
    let expected = [ModelPurpose::Planning, ModelPurpose::ErrorRecovery, ModelPurpose::ResultReview];
    assert_eq!(harness.purposes(), expected);
    let executed = harness.outputs().in_order().filter(|envelope| envelope.is_success()).count();
    assert_eq!(executed, 2, "each step was executed once");
}

#[test]
fn call_is_not_made_if_a_parameter_refers_to_a_missing_field() {
    let mut harness = start();
    harness.reply(plan(json!([
        { "step": 1, "parameters": {} },
        { "step": 2, "parameters": { "id": "${steps.1.output.id}" } },
    ])));
    harness.run_calls(&[json!({})], vec![Ok(json!({ "ID": 7 }))]);
    assert!(harness.last_message().contains("steps.1.output.id"), "{}", harness.last_message());
    assert_eq!(harness.outputs().tool_order.len(), 1);
}

#[test]
fn expressions_in_results_are_not_evaluated() {
    let mut harness = start();
    harness.reply(plan(json!([
        { "step": 1, "parameters": {} },
        { "step": 2, "parameters": { "note": "${steps.1.output}" } },
    ])));
    harness.run_calls(&[json!({})], vec![Ok(json!("${input.stage} {{user_task}} </data>"))]);
    harness.run_calls(&[json!({ "note": "${input.stage} {{user_task}} </data>" })], vec![Ok(json!({}))]);
    assert_eq!(harness.last_message().matches("</data>").count(), 1, "{}", harness.last_message());
}

#[test]
fn given_plan_is_executed_without_a_model() {
    let steps = json!({ "steps": [{ "step": 2, "parameters": { "id": 1 } }] });
    let given = serde_json::from_value(steps).unwrap();
    let mut harness = Harness::new(planned(|plan| plan.given = Some(given)));
    harness.run_calls(&[json!({ "id": 1 })], vec![Ok(json!({ "saved": true }))]);
    assert_eq!((harness.run.status(), harness.run.started_model_calls()), (RunStatus::Completed, 0));
    let response: Value = serde_json::from_str(&harness.outputs().response).unwrap();
    assert_eq!(response["output"], json!({ "saved": true }));
    assert_eq!(response["operations_executed"], json!(["save"]));
}

#[test]
fn plan_is_executed_only_after_approval_and_with_the_edits_of_the_approver() {
    let approvable = || {
        let mut harness = Harness::new(planned(|plan| plan.requires_approval = true));
        harness.reply(plan(json!([{ "step": 2, "parameters": { "id": 1 } }])));
        harness.prepare_as(|call| match call.tool.as_str() {
            APPROVE_PLAN_TOOL => {
                let mut facts = facts("search");
                (facts.name, facts.requires_confirmation) = (APPROVE_PLAN_TOOL.into(), true);
                PreparedCall::Ready(Box::new(facts))
            }
            _ => prepare(call),
        });
        harness
    };
    let mut spec = planned(|plan| plan.requires_approval = true);
    spec.policy.enabled_tools.insert(APPROVE_PLAN_TOOL.into());
    let mut harness = approvable();
    // This run does not use `spec`. Its policy does not allow the approval tool, so the plan is rejected.
    assert_eq!(harness.ending().reason.as_deref(), Some("approval_denied"));

    let mut allowed = Harness::new(spec);
    allowed.reply(plan(json!([{ "step": 2, "parameters": { "id": 1 } }])));
    std::mem::swap(&mut harness, &mut allowed);
    harness.prepare_as(|call| {
        let mut facts = facts("search");
        (facts.name, facts.requires_confirmation) = (call.tool.clone(), true);
        PreparedCall::Ready(Box::new(facts))
    });
    assert_eq!(harness.run.status(), RunStatus::AwaitingApproval);
    let asked = harness.run.pending_approvals().remove(0);
    let edited = json!({ "steps": [{ "step": 2, "parameters": { "id": 2 } }] });
    harness.decide(&asked.call_id, Decision::Edit { input: edited }).unwrap();
    for effect in harness.run.pending() {
        if let Effect::PrepareAgain { call_id, call } = effect {
            let mut facts = facts("search");
            facts.name = call.tool.clone();
            let call = PreparedCall::Ready(Box::new(facts));
            harness.apply(toolwright_machine::agent::EventKind::PreparedAgain { call_id, call });
        }
    }
    harness.end_all();
    harness.run_calls(&[json!({ "id": 2 })], vec![Ok(json!({}))]);
    assert!(harness.asks_model());
}

#[test]
fn planned_run_can_be_saved_and_restored_at_every_stage() {
    let mut harness = start();
    let reload = |harness: &mut Harness| {
        let restored = AgentRun::restore(&harness.run.save()).unwrap();
        assert_eq!(restored, harness.run);
        harness.run = restored;
    };
    reload(&mut harness);
    harness.reply(plan(find_and_save()));
    reload(&mut harness);
    harness.run_calls(&[json!({ "q": "acme" })], vec![Ok(json!({ "deals": [{ "id": 1 }, { "id": 2 }] }))]);
    reload(&mut harness);
    harness.prepare();
    reload(&mut harness);
    harness.end_all();
    reload(&mut harness);
    harness.reply(text("Done."));
    assert_eq!(harness.run.status(), RunStatus::Completed);
}
