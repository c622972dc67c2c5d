//! Performs long operations outside of the threads that serve requests.

use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock};

use serde_json::Value;
use tokio::sync::Semaphore;

use crate::meter::within_until;
use crate::{INLINE_NODES, INLINE_STEPS, MAX_STEPS, Stopped, within};

/// Limits the number of concurrent operations to the number of cores. More operations would slow down the threads that
/// serve requests, and each operation may hold a large document in memory.
static OPERATION_PERMITS: LazyLock<Semaphore> =
    LazyLock::new(|| Semaphore::new(std::thread::available_parallelism().map_or(2, NonZeroUsize::get).max(2)));

/// Performs `operation` on `input`, and returns the input and the result. The operation first runs on the current
/// thread. If it needs more than [`INLINE_STEPS`], it is started again on a thread for blocking work, with a limit of
/// [`MAX_STEPS`]. It stops soon after this future is dropped.
pub async fn run<I, T>(input: I, operation: impl Fn(&I) -> T + Send + 'static) -> Result<(I, T), Stopped>
where
    I: Send + 'static,
    T: Send + 'static,
{
    match within(INLINE_STEPS, || operation(&input)) {
        Ok(result) => Ok((input, result)),
        Err(_) => {
            offload(move || {
                let result = operation(&input);
                (input, result)
            })
            .await
        }
    }
}

/// Performs `operation`, whose work depends on the size of these documents. It runs on the current thread if the
/// documents together have at most [`INLINE_NODES`], otherwise on a thread for blocking work.
pub async fn run_sized<T: Send + 'static>(
    documents: &[&Value],
    operation: impl FnOnce() -> T + Send + 'static,
) -> Result<T, Stopped> {
    let mut left = INLINE_NODES;
    if documents.iter().all(|document| has_at_most(&mut left, document)) {
        return within(MAX_STEPS, operation);
    }
    offload(operation).await
}

/// Subtracts the number of nodes of a document from `left`. Returns false if the document has more than `left` nodes.
fn has_at_most(left: &mut usize, document: &Value) -> bool {
    let Some(rest) = left.checked_sub(1) else { return false };
    *left = rest;
    match document {
        Value::Array(items) => items.iter().all(|item| has_at_most(left, item)),
        Value::Object(fields) => fields.values().all(|field| has_at_most(left, field)),
        _ => true,
    }
}

/// Performs `operation` on a thread for blocking work. It stops soon after this future is dropped.
pub async fn offload<T: Send + 'static>(operation: impl FnOnce() -> T + Send + 'static) -> Result<T, Stopped> {
    let guard = CancelOnDrop(Arc::default());
    let cancelled = Arc::clone(&guard.0);
    let permit = OPERATION_PERMITS.acquire().await.map_err(|_| Stopped::Cancelled)?;
    let work = tokio::task::spawn_blocking(move || {
        // The thread holds the permit until the work ends, which may be after the future was dropped.
        let _permit = permit;
        within_until(MAX_STEPS, cancelled, operation)
    });
    match work.await {
        Ok(result) => result,
        Err(error) if error.is_panic() => std::panic::resume_unwind(error.into_panic()),
        // The runtime shuts down.
        Err(_) => Err(Stopped::Cancelled),
    }
}

struct CancelOnDrop(Arc<AtomicBool>);

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::thread::ThreadId;

    use super::*;
    use crate::charge;

    fn thread_after(steps: &u64) -> ThreadId {
        for _ in 0..*steps {
            if charge(1).is_err() {
                break;
            }
        }
        std::thread::current().id()
    }

    #[tokio::test]
    async fn only_long_operations_move_to_another_thread() {
        let here = std::thread::current().id();
        assert_eq!(run(INLINE_STEPS, thread_after).await, Ok((INLINE_STEPS, here)));
        let (_, other) = run(INLINE_STEPS + 1, thread_after).await.unwrap();
        assert_ne!(other, here);
        assert_eq!(run(u64::MAX, thread_after).await, Err(Stopped::Exhausted));
    }

    #[tokio::test]
    async fn only_operations_on_large_documents_move_to_another_thread() {
        let here = std::thread::current().id();
        let document = |nodes: usize| Value::from(vec![Value::Null; nodes - 1]);
        let (small, half) = (document(INLINE_NODES), document(INLINE_NODES / 2));
        let thread = || std::thread::current().id();
        assert_eq!(run_sized(&[&small], thread).await, Ok(here));
        assert_eq!(run_sized(&[&half, &half], thread).await, Ok(here));
        assert_ne!(run_sized(&[&small, &Value::Null], thread).await, Ok(here));
        assert_ne!(run_sized(&[&document(INLINE_NODES + 1)], thread).await, Ok(here));
    }

    #[tokio::test]
    async fn operation_stops_when_its_future_is_dropped() {
        let (started, starts) = mpsc::channel();
        let (ended, ends) = mpsc::channel();
        let operation = offload(move || {
            started.send(()).unwrap();
            while charge(0).is_ok() && charge(1).is_ok() {
                std::thread::yield_now();
            }
            ended.send(crate::is_stopped()).unwrap();
        });
        let mut operation = Box::pin(operation);
        assert!(std::future::poll_fn(|cx| std::task::Poll::Ready(operation.as_mut().poll(cx))).await.is_pending());
        starts.recv().unwrap();
        drop(operation);
        assert!(ends.recv().unwrap(), "the operation ended by itself");
    }
}
