//! Several calls at once: in parallel, except where two writes touch the same thing or a tool asks for order.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use futures::future::join_all;
use tokio::sync::{Mutex, Semaphore};
use toolwright_expr::Scope;
use toolwright_types::SideEffects;

use super::{CallRequest, CallSequence, Executor, Outcome, Prepared, ReadyCall};
use crate::CallContext;

type Turnstile = Arc<Mutex<()>>;

impl Executor {
    /// Makes the calls of one batch, at most `parallel` at a time. Results come in the order of the requests;
    /// dropping the future cancels what is still running.
    pub async fn execute_many(&self, cx: &CallContext, requests: Vec<CallRequest>, parallel: usize) -> Vec<Outcome> {
        let mut sequence = CallSequence::default();
        let mut turnstiles = HashMap::new();
        let mut calls = Vec::with_capacity(requests.len());
        for request in requests {
            let prepared = self.prepare(cx, request, &mut sequence).await;
            let prepared = self.guard(cx, prepared);
            let waits_for = turnstiles_of(&prepared, &mut turnstiles);
            calls.push((prepared, waits_for));
        }
        let places = Semaphore::new(parallel.max(1));
        // INVARIANT: every call asks for all its turnstiles on its first poll, `join_all` polls in order and a mutex is
        // fair, so calls that share one go through it in the order of the requests, and no two wait for each other.
        // A place is taken after that: who waits for a turn keeps nobody from running.
        let running = calls.into_iter().map(|(prepared, waits_for)| async {
            let _turns = join_all(waits_for.into_iter().map(Mutex::lock_owned)).await;
            let _place = places.acquire().await;
            match prepared {
                Prepared::Ready(ready) => self.call(cx, *ready).await,
                Prepared::Refused(envelope) => Outcome::Done(envelope),
            }
        });
        join_all(running).await
    }
}

fn turnstiles_of(prepared: &Prepared, all: &mut HashMap<String, Turnstile>) -> Vec<Turnstile> {
    let Prepared::Ready(ready) = prepared else {
        return Vec::new();
    };
    ready.order_keys().into_iter().map(|key| all.entry(key).or_default().clone()).collect()
}

impl ReadyCall {
    /// Calls of one batch that share a key must not run at the same time.
    pub fn order_keys(&self) -> BTreeSet<String> {
        let tool = &self.tool;
        let mut keys = BTreeSet::new();
        if tool.definition.sequential {
            keys.insert(format!("tool/{}", tool.id));
        }
        if let (SideEffects::Writes, Some(template)) = (tool.effects, &tool.resource_key) {
            // A key that cannot be computed for this input protects all the tool's writes.
            let rendered = template.render(&Scope::new(&self.input), toolwright_expr::escape::text);
            keys.insert(match rendered {
                Ok(text) => format!("resource/{}", text.text),
                Err(_) => format!("tool/{}", tool.id),
            });
        }
        keys
    }
}
