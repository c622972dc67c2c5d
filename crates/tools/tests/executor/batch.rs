//! Batches of calls: calls run in parallel, but calls with a common order key run in order.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use tokio::sync::Barrier;
use toolwright_tools::{CallOutcome, Library};

use crate::batch_runner::execute_many;
use crate::test_functions;
use crate::world::{World, done, request};

/// A log of calls: `+x` when call x starts, `-x` when it ends.
#[derive(Clone, Default)]
struct CallLog(Arc<Mutex<Vec<String>>>);

impl CallLog {
    fn write(&self, sign: char, input: &Value) {
        self.0.lock().unwrap().push(format!("{sign}{}", input["id"].as_str().unwrap()));
    }

    fn read(&self) -> String {
        self.0.lock().unwrap().join(" ")
    }
}

/// A library with a function that logs its start and end and yields `turns` times in between.
fn logging_library(log: &CallLog) -> Library {
    let log = log.clone();
    test_functions::library("work", move |input| {
        let log = log.clone();
        async move {
            log.write('+', &input);
            for _ in 0..input["turns"].as_u64().unwrap_or(20) {
                tokio::task::yield_now().await;
            }
            log.write('-', &input);
            Ok(input)
        }
    })
}

async fn outputs(world: &World, requests: Vec<(&str, Value)>, parallel: usize) -> Vec<Value> {
    let requests = requests.into_iter().map(|(tool, input)| request(tool, input)).collect();
    let outcomes = execute_many(world, requests, parallel).await;
    outcomes.into_iter().map(|outcome| done(outcome).output).collect()
}

#[tokio::test]
async fn calls_of_a_batch_run_in_parallel() {
    let barrier = Arc::new(Barrier::new(5));
    let world = World::with_functions(test_functions::library("meet", move |input| {
        let barrier = Arc::clone(&barrier);
        async move {
            barrier.wait().await;
            Ok(input)
        }
    }))
    .await;
    world.function("t", "meet", json!({ "timeoutMs": 10_000 }));
    let asked: Vec<Value> = (0..5).map(|n| json!(n)).collect();
    assert_eq!(outputs(&world, asked.iter().map(|n| ("t", n.clone())).collect(), 5).await, asked);
}

#[tokio::test]
async fn number_of_parallel_calls_reaches_but_does_not_exceed_the_limit() {
    let (now, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let (running, peak) = (Arc::clone(&now), Arc::clone(&most));
    let world = World::with_functions(test_functions::library("count", move |input| {
        let (running, peak) = (Arc::clone(&running), Arc::clone(&peak));
        async move {
            peak.fetch_max(running.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
            for _ in 0..10 {
                tokio::task::yield_now().await;
            }
            running.fetch_sub(1, Ordering::SeqCst);
            Ok(input)
        }
    }))
    .await;
    world.function("t", "count", json!({}));
    for (limit, expected) in [(1, 1), (3, 3), (0, 1), (100, 20)] {
        most.store(0, Ordering::SeqCst);
        outputs(&world, (0..20).map(|n| ("t", json!(n))).collect(), limit).await;
        assert_eq!(most.load(Ordering::SeqCst), expected, "limit {limit}");
    }
}

/// The first call waits for the last one. The last call can only run if finished calls free their slots while the first
/// call is still running.
#[tokio::test]
async fn slow_first_call_does_not_block_later_calls() {
    let gate = Arc::new(tokio::sync::Semaphore::new(0));
    let world = World::with_functions(test_functions::library("gated", move |input| {
        let gate = Arc::clone(&gate);
        async move {
            match input.as_u64() {
                Some(0) => drop(gate.acquire().await),
                Some(9) => gate.add_permits(1),
                _ => {}
            }
            Ok(input)
        }
    }))
    .await;
    world.function("t", "gated", json!({ "timeoutMs": 5_000 }));
    let asked: Vec<Value> = (0..10).map(|n| json!(n)).collect();
    assert_eq!(outputs(&world, asked.iter().map(|n| ("t", n.clone())).collect(), 2).await, asked);
}

#[tokio::test]
async fn results_are_in_the_order_of_the_requests() {
    let log = CallLog::default();
    let world = World::with_functions(logging_library(&log)).await;
    world.function("t", "work", json!({}));
    let calls = [("a", 50), ("b", 1), ("c", 20)].map(|(id, turns)| ("t", json!({ "id": id, "turns": turns })));
    let ids: Vec<Value> =
        outputs(&world, calls.to_vec(), 8).await.into_iter().map(|output| output["id"].clone()).collect();
    assert_eq!(ids, ["a", "b", "c"]);
    assert_eq!(log.read(), "+a +b +c -b -c -a");
}

#[tokio::test]
async fn writes_with_the_same_resource_key_run_in_order() {
    let log = CallLog::default();
    let world = World::with_functions(logging_library(&log)).await;
    let writes = json!({ "sideEffects": "writes", "resourceKey": "deal/${param.deal}" });
    world.function("update", "work", writes.clone());
    world.function("delete", "work", writes);
    let call = |tool, id: &str, deal, turns| (tool, json!({ "id": id, "deal": deal, "turns": turns }));
    outputs(&world, vec![call("update", "a1", 1, 30), call("delete", "a2", 1, 1), call("update", "a3", 1, 1)], 8).await;
    assert_eq!(log.read(), "+a1 -a1 +a2 -a2 +a3 -a3");
    log.0.lock().unwrap().clear();
    outputs(&world, vec![call("update", "a", 1, 30), call("update", "b", 2, 1)], 8).await;
    assert_eq!(log.read(), "+a +b -b -a");
}

#[tokio::test]
async fn reads_do_not_wait_for_writes() {
    let log = CallLog::default();
    let world = World::with_functions(logging_library(&log)).await;
    world.function("write", "work", json!({ "sideEffects": "writes", "resourceKey": "x" }));
    world.function("read", "work", json!({ "sideEffects": "reads", "resourceKey": "x" }));
    outputs(&world, vec![("write", json!({ "id": "w", "turns": 30 })), ("read", json!({ "id": "r", "turns": 1 }))], 8)
        .await;
    assert_eq!(log.read(), "+w +r -r -w");
}

#[tokio::test]
async fn writes_with_uncomputable_resource_keys_run_one_at_a_time() {
    let log = CallLog::default();
    let world = World::with_functions(logging_library(&log)).await;
    world.function("t", "work", json!({ "sideEffects": "writes", "resourceKey": "${1 / param.zero}" }));
    outputs(
        &world,
        vec![("t", json!({ "id": "a", "zero": 0 })), ("t", json!({ "id": "b", "zero": 0, "turns": 1 }))],
        8,
    )
    .await;
    assert_eq!(log.read(), "+a -a +b -b");
}

#[tokio::test]
async fn sequential_tool_runs_one_call_at_a_time() {
    let log = CallLog::default();
    let world = World::with_functions(logging_library(&log)).await;
    world.function("single", "work", json!({ "sequential": true }));
    world.function("other", "work", json!({}));
    let call = |tool, id: &str, turns| (tool, json!({ "id": id, "turns": turns }));
    outputs(&world, vec![call("single", "a", 10), call("single", "b", 10), call("other", "o", 1)], 8).await;
    assert_eq!(log.read(), "+a +o -o -a +b -b");
}

/// `s1` must wait for `w`. `s2` must not start before `s1` ends, although no earlier call uses the resource of `s2`.
#[tokio::test]
async fn calls_with_two_order_keys_run_in_the_order_of_the_requests() {
    let log = CallLog::default();
    let world = World::with_functions(logging_library(&log)).await;
    let key = json!({ "sideEffects": "writes", "resourceKey": "${param.on}" });
    world.function("write", "work", key.clone());
    world.function("single", "work", crate::world::merged(key, json!({ "sequential": true })));
    let call = |tool, id: &str, on: &str, turns| (tool, json!({ "id": id, "on": on, "turns": turns }));
    outputs(
        &world,
        vec![
            call("write", "w", "x", 30),
            call("single", "s1", "x", 1),
            call("single", "s2", "y", 1),
            call("write", "v", "y", 1),
        ],
        8,
    )
    .await;
    assert_eq!(log.read(), "+w -w +s1 -s1 +s2 -s2 +v -v");
}

#[tokio::test]
async fn call_that_waits_for_an_order_key_does_not_occupy_a_slot() {
    let log = CallLog::default();
    let world = World::with_functions(logging_library(&log)).await;
    world.function("write", "work", json!({ "sideEffects": "writes", "resourceKey": "x" }));
    world.function("read", "work", json!({}));
    let call = |tool, id: &str, turns| (tool, json!({ "id": id, "turns": turns }));
    outputs(
        &world,
        vec![call("write", "w1", 30), call("write", "w2", 1), call("write", "w3", 1), call("read", "r", 1)],
        2,
    )
    .await;
    assert_eq!(log.read(), "+w1 +r -r -w1 +w2 -w2 +w3 -w3");
}

#[tokio::test]
async fn refused_call_does_not_affect_the_other_calls() {
    let world = World::start().await;
    world.function("t", "echo", json!({}));
    let requests = vec![request("t", json!(1)), request("nobody", json!(2)), request("t", json!(3))];
    let outcomes = execute_many(&world, requests, 2).await;
    let success: Vec<bool> = outcomes
        .iter()
        .map(|outcome| matches!(outcome, CallOutcome::Done(envelope) if envelope.is_success()))
        .collect();
    assert_eq!(success, [true, false, true]);
    assert!(execute_many(&world, Vec::new(), 2).await.is_empty());
}

#[tokio::test]
async fn panic_in_one_call_does_not_affect_other_calls() {
    let world = World::with_functions(test_functions::library("fragile", |input| async move {
        assert_ne!(input, json!(1), "panics on 1");
        Ok(input)
    }))
    .await;
    world.function("t", "fragile", json!({ "sequential": true }));
    assert_eq!(outputs(&world, (0..3).map(|n| ("t", json!(n))).collect(), 3).await, [json!(0), Value::Null, json!(2)]);
}

#[tokio::test]
async fn dropping_a_batch_drops_its_calls() {
    struct Guard(Arc<AtomicUsize>);
    impl Drop for Guard {
        fn drop(&mut self) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }
    let (begun, dropped) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let (begin, end) = (Arc::clone(&begun), Arc::clone(&dropped));
    let world = World::with_functions(test_functions::library("forever", move |_| {
        let (guard, begin) = (Guard(Arc::clone(&end)), Arc::clone(&begin));
        async move {
            begin.fetch_add(1, Ordering::SeqCst);
            std::future::pending::<()>().await;
            drop(guard);
            Ok(Value::Null)
        }
    }))
    .await;
    world.function("t", "forever", json!({}));
    let requests = (0..3).map(|n| request("t", json!(n))).collect();
    let all_begun = async {
        while begun.load(Ordering::SeqCst) < 3 {
            tokio::task::yield_now().await;
        }
    };
    tokio::select! {
        outcomes = execute_many(&world, requests, 3) => panic!("{outcomes:?}"),
        () = all_begun => {}
    }
    assert_eq!(dropped.load(Ordering::SeqCst), 3);
}
