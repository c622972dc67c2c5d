//! Runs a batch of calls the way a driver does: in parallel, except for calls that share an order key.

use std::collections::HashMap;
use std::sync::Arc;

use futures::future::join_all;
use tokio::sync::{Mutex, Semaphore};
use toolwright_tools::{CallOutcome, CallRequest, CallSequence, Preparation};

use crate::world::World;

type KeyLock = Arc<Mutex<()>>;

/// Executes `requests`, at most `parallel` at a time, and returns their outcomes in the order of the requests.
/// Dropping the future cancels the calls that are still running.
pub(crate) async fn execute_many(world: &World, requests: Vec<CallRequest>, parallel: usize) -> Vec<CallOutcome> {
    let (executor, cx) = (&world.executor, &world.cx);
    let mut sequence = CallSequence::default();
    let mut locks = HashMap::new();
    let mut calls = Vec::with_capacity(requests.len());
    for request in requests {
        let prepared = executor.prepare(cx, request, &mut sequence).await;
        let prepared = executor.check_surface(cx, prepared);
        let key_locks = key_locks(&prepared, &mut locks);
        calls.push((prepared, key_locks));
    }
    let permits = Semaphore::new(parallel.max(1));
    // INVARIANT: each call requests all of its locks on its first poll, `join_all` polls in order and the mutex is
    // fair. So calls that share a key acquire it in the order of the requests, and no two calls wait for each other.
    // The semaphore permit is acquired after the locks, so that a call that waits for a key does not occupy a slot.
    let running = calls.into_iter().map(|(prepared, key_locks)| {
        let permits = &permits;
        async move {
            let _guards = join_all(key_locks.into_iter().map(Mutex::lock_owned)).await;
            let _permit = permits.acquire().await;
            match prepared {
                Preparation::Ready(ready) => executor.call(cx, *ready).await,
                Preparation::Refused(envelope) => CallOutcome::Done(envelope),
            }
        }
    });
    join_all(running).await
}

fn key_locks(prepared: &Preparation, locks: &mut HashMap<String, KeyLock>) -> Vec<KeyLock> {
    let Preparation::Ready(ready) = prepared else {
        return Vec::new();
    };
    ready.order_keys().into_iter().map(|key| locks.entry(key).or_default().clone()).collect()
}
