//! Runs that end while a step of their plan is in progress: the result lists which calls were sent.

use serde_json::{Value, json};
use toolwright_machine::agent::{EventKind, PreparedCall, RunSpec};
use toolwright_machine::{Limits, RunStatus};
use toolwright_types::{ErrorCode, ToolError};

use crate::harness::{Harness, call, envelope_of, facts, spec};
use crate::plans::{plan, planned};

/// Starts a run that saves these items, four at a time.
fn saving(items: usize, limits: Limits) -> Harness {
    let spec = planned(|_| {});
    let mut harness = Harness::new(RunSpec { limits, max_parallel_calls: 4, ..spec });
    let items: Vec<Value> = (0..items).map(|id| json!({ "id": id })).collect();
    let list = format!("${{{}}}", json!(items));
    harness.reply(plan(json!([{ "step": 2, "forEach": list, "parameters": { "id": "${item.id}" } }])));
    harness
}

impl Harness {
    /// Prepares the open calls. Each of them has this price.
    fn prepare_with_price(&mut self, price_usd: f64) {
        self.prepare_as(|call| {
            let mut facts = facts(&call.tool);
            facts.price_usd = Some(price_usd);
            PreparedCall::Ready(Box::new(facts))
        });
    }

    /// Ends the first running call with this cost.
    fn end_first(&mut self, cost_usd: f64) {
        let call = self.running().remove(0);
        let mut envelope = envelope_of(&call, Ok(json!("saved")));
        envelope.metadata.cost_usd = Some(cost_usd);
        self.apply(EventKind::call_ended(envelope));
    }

    fn report(&self) -> Value {
        serde_json::from_str(&self.outputs().response).unwrap()
    }
}

fn indexes(items: &Value) -> Vec<u64> {
    items.as_array().unwrap().iter().map(|item| item["index"].as_u64().unwrap()).collect()
}

#[test]
fn result_of_a_run_that_ended_early_lists_which_items_were_processed() {
    let cancelled = EventKind::Cancelled { message: None };
    for (end, status) in [(EventKind::TimerFired, RunStatus::Timeout), (cancelled, RunStatus::Cancelled)] {
        let mut harness = saving(60, Limits { timeout_ms: Some(1_000), ..Limits::default() });
        harness.prepare();
        for result in [Ok(json!("a")), Err(ToolError::new(ErrorCode::ProviderError, "no")), Ok(json!("c"))] {
            let call = harness.running().remove(0);
            harness.end_call(&call, result);
        }
        if end == EventKind::TimerFired {
            harness.millis = 1_000;
        }
        harness.apply(end);
        assert_eq!(harness.run.status(), status);
        let report = harness.report();
        let summary = "Executed 0 of 1 steps: save interrupted (calls: 2 succeeded, 1 failed, 4 with unknown outcome, \
                       53 not started).";
        assert_eq!(report["summary"], summary);
        assert_eq!(report["operations_executed"], json!(["save"]));
        let step = &report["step_in_progress"];
        assert_eq!((&step["step"], &step["tool"]), (&json!(2), &json!("save")));
        let counts = ["succeeded", "failed", "unknown", "not_started"].map(|name| step[name].as_u64().unwrap());
        assert_eq!(counts, [2, 1, 4, 53]);
        assert_eq!(indexes(&step["unknown_items"]), [3, 4, 5, 6]);
        assert_eq!(step["unknown_items"][0]["item"], json!({ "id": 3 }));
        assert_eq!(indexes(&step["not_started_items"])[..2], [7, 8]);
        assert_eq!(step["not_started_items"].as_array().unwrap().len(), 50, "the list is bounded");
        assert_eq!(indexes(&report["errors"]), [1, 3, 4, 5, 6]);
        assert_eq!(
            (&report["errors"][0]["outcome"], &report["errors"][1]["outcome"]),
            (&Value::Null, &json!("unknown"))
        );
    }
}

#[test]
fn run_that_ends_while_it_prepares_its_first_calls_reports_that_nothing_was_executed() {
    let mut harness = saving(2, Limits::default());
    harness.apply(EventKind::Cancelled { message: None });
    let report = harness.report();
    assert_eq!(report["summary"], "Executed 0 of 1 steps: save interrupted (calls: 2 not started).");
    assert_eq!(report["operations_executed"], json!([]));
    assert_eq!(indexes(&report["step_in_progress"]["not_started_items"]), [0, 1]);
}

#[test]
fn items_after_the_cost_limit_are_not_started_and_not_reported_as_failed() {
    let limits = Limits { max_cost_usd: Some(0.51), ..Limits::default() };
    let mut harness = saving(13, limits);
    harness.prepare_with_price(0.1);
    for _ in 0..5 {
        harness.end_first(0.1);
    }
    assert_eq!(harness.ending().reason.as_deref(), Some("MAX_COST_EXCEEDED"));
    assert_eq!(harness.run.resource_usage().cost_usd, 0.51, "the plan cost 0.01");
    let report = harness.report();
    let step = &report["step_in_progress"];
    assert_eq!((&step["succeeded"], &step["failed"], &step["not_started"]), (&json!(5), &json!(0), &json!(8)));
    assert_eq!(report["errors"], Value::Null);
}

#[test]
fn call_whose_price_exceeds_the_cost_limit_is_refused_before_it_starts() {
    let limits = Limits { max_cost_usd: Some(0.49), ..Limits::default() };
    let mut harness = Harness::new(RunSpec { limits, ..spec() });
    harness.reply(crate::harness::calls(vec![call("a", "save", json!(1))]));
    harness.prepare_with_price(0.5);
    assert_eq!(harness.ending().reason.as_deref(), Some("MAX_COST_EXCEEDED"));
    let message = "a call for 0.5 USD would exceed the cost limit of 0.49 USD; 0.01 USD are spent";
    assert_eq!(harness.ending().message.as_deref(), Some(message));
    assert_eq!(harness.run.resource_usage().tool_calls, 0);
}

#[test]
fn call_waits_for_the_costs_of_calls_in_progress_if_their_prices_could_exceed_the_limit() {
    let mut harness = saving(4, Limits { max_cost_usd: Some(0.25), ..Limits::default() });
    harness.prepare_with_price(0.1);
    assert_eq!(harness.running().len(), 2);
    // The first two calls turn out to be free, because their results were cached.
    harness.end_first(0.0);
    harness.end_first(0.0);
    assert_eq!(harness.running().len(), 2);
    harness.end_first(0.1);
    harness.end_first(0.1);
    assert!(harness.asks_model());
}
