//! Counts the work of the current thread.

use std::cell::{Cell, RefCell};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::MAX_STEPS;

/// How much work is done between two checks of the cancellation flag.
const STEPS_PER_CHECK: u64 = 4_096;

/// The maximum stack of an operation, in bytes. It is half of the stack of a thread.
const MAX_STACK: usize = 1 << 20;

/// The reason why an operation on foreign data stopped before its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Stopped {
    /// The operation needs more work than allowed.
    #[error("the operation must take at most {MAX_STEPS} steps; use less data or a simpler definition")]
    Exhausted,
    /// The operation nests too deep for the stack of its thread.
    #[error("the operation nests too deep; use less nested data or a simpler definition")]
    TooDeep,
    /// The caller no longer waits for the result.
    #[error("the operation was cancelled")]
    Cancelled,
}

thread_local! {
    static METER: Meter = const {
        Meter {
            slice: Cell::new(0), rest: Cell::new(0), is_open: Cell::new(false), stack: Cell::new(0), stopped: Cell::new(None),
            cancelled: RefCell::new(None),
        }
    };
}

/// The work that the current operation may still do.
struct Meter {
    /// The remaining steps until the next check.
    slice: Cell<u64>,
    /// The remaining steps after the next check.
    rest: Cell<u64>,
    /// Whether an operation is running.
    is_open: Cell<bool>,
    /// The address of the stack where the operation began.
    stack: Cell<usize>,
    stopped: Cell<Option<Stopped>>,
    cancelled: RefCell<Option<Arc<AtomicBool>>>,
}

/// Counts `steps` of the current operation. After an error, the operation must end soon: every further call returns the
/// same error.
#[inline]
pub fn charge(steps: u64) -> Result<(), Stopped> {
    METER.with(|meter| match meter.slice.get().checked_sub(steps) {
        Some(slice) => {
            meter.slice.set(slice);
            Ok(())
        }
        None => meter.next_slice(steps),
    })
}

/// Like [`charge`], for a recursive operation whose depth depends on foreign data. The operation also stops before it
/// exhausts the stack of the thread.
#[inline]
pub fn charge_nested(steps: u64) -> Result<(), Stopped> {
    METER.with(|meter| {
        if meter.is_open.get() && stack_address().abs_diff(meter.stack.get()) > MAX_STACK {
            return meter.stop(Stopped::TooDeep);
        }
        charge(steps)
    })
}

#[inline(never)]
fn stack_address() -> usize {
    let here = 0_u8;
    std::ptr::from_ref(std::hint::black_box(&here)).addr()
}

/// Whether the current operation has stopped.
pub fn is_stopped() -> bool {
    METER.with(|meter| meter.stopped.get().is_some())
}

/// Performs an operation that calls [`charge`]. The operation may use at most `steps`. If it runs inside of another
/// operation, it may also use no more steps than the outer operation has left.
pub fn within<T>(steps: u64, operation: impl FnOnce() -> T) -> Result<T, Stopped> {
    METER.with(|meter| meter.perform(steps, None, operation))
}

/// Like [`within`], for an operation that also stops when `cancelled` is set.
pub(crate) fn within_until<T>(
    steps: u64,
    cancelled: Arc<AtomicBool>,
    operation: impl FnOnce() -> T,
) -> Result<T, Stopped> {
    METER.with(|meter| meter.perform(steps, Some(cancelled), operation))
}

impl Meter {
    fn perform<T>(
        &self,
        steps: u64,
        cancelled: Option<Arc<AtomicBool>>,
        operation: impl FnOnce() -> T,
    ) -> Result<T, Stopped> {
        let outer = self.is_open.get().then(|| self.slice.get() + self.rest.get());
        let allowed = outer.map_or(steps, |outer| outer.min(steps));
        if outer.is_none() {
            self.stopped.set(None);
            self.cancelled.replace(cancelled);
            self.stack.set(stack_address());
        }
        self.is_open.set(true);
        self.set_remaining(allowed);
        let guard = Restore { meter: self, outer, allowed };
        let result = operation();
        let stopped = self.stopped.get();
        drop(guard);
        stopped.map_or(Ok(result), Err)
    }

    fn set_remaining(&self, steps: u64) {
        let slice = steps.min(STEPS_PER_CHECK);
        self.slice.set(slice);
        self.rest.set(steps - slice);
    }

    #[cold]
    fn next_slice(&self, steps: u64) -> Result<(), Stopped> {
        if let Some(stopped) = self.stopped.get() {
            return Err(stopped);
        }
        if !self.is_open.get() {
            // Work outside of an operation is not limited. A function whose work must be limited opens an operation
            // with `within`.
            return Ok(());
        }
        if self.cancelled.borrow().as_ref().is_some_and(|flag| flag.load(Ordering::Relaxed)) {
            return self.stop(Stopped::Cancelled);
        }
        match (self.slice.get() + self.rest.get()).checked_sub(steps) {
            Some(remaining) => {
                self.set_remaining(remaining);
                Ok(())
            }
            None => self.stop(Stopped::Exhausted),
        }
    }

    #[cold]
    fn stop(&self, reason: Stopped) -> Result<(), Stopped> {
        let reason = self.stopped.get().unwrap_or(reason);
        self.stopped.set(Some(reason));
        self.set_remaining(0);
        Err(reason)
    }
}

/// Restores the meter of the outer operation when the inner operation ends, even if the inner operation panics.
struct Restore<'a> {
    meter: &'a Meter,
    outer: Option<u64>,
    allowed: u64,
}

impl Drop for Restore<'_> {
    fn drop(&mut self) {
        let meter = self.meter;
        match self.outer {
            Some(outer) => {
                let used = self.allowed - (meter.slice.get() + meter.rest.get());
                let remaining = outer - used;
                // Only the inner operation has reached its limit. The outer operation continues with its remaining
                // steps.
                if meter.stopped.get() == Some(Stopped::Exhausted) && remaining > 0 {
                    meter.stopped.set(None);
                }
                meter.set_remaining(if meter.stopped.get().is_some() { 0 } else { remaining });
            }
            None => {
                meter.set_remaining(0);
                meter.is_open.set(false);
                meter.stopped.set(None);
                meter.cancelled.replace(None);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn charge_each(steps: u64) -> u64 {
        (0..steps).take_while(|_| charge(1).is_ok()).count() as u64
    }

    #[test]
    fn operation_stops_when_its_steps_are_used_up() {
        assert_eq!(within(10_000, || charge_each(10_000)), Ok(10_000));
        assert_eq!(within(10_000, || charge_each(10_001)), Err(Stopped::Exhausted));
        assert_eq!(within(10, || charge(11)), Err(Stopped::Exhausted));
        let after = within(10, || (charge(11), charge(1), is_stopped()));
        assert_eq!(after, Err(Stopped::Exhausted));
        assert!(!is_stopped());
    }

    #[test]
    fn inner_operation_spends_the_steps_of_the_outer_operation() {
        let outer = within(10_000, || {
            let inner = within(u64::MAX, || charge_each(9_000));
            (inner, charge_each(1_000))
        });
        assert_eq!(outer, Ok((Ok(9_000), 1_000)));
        let both = within(10_000, || (within(u64::MAX, || charge_each(u64::MAX)), charge(1)));
        assert_eq!(both, Err(Stopped::Exhausted));
    }

    #[test]
    fn outer_operation_continues_after_an_inner_operation_reached_its_limit() {
        let outer = within(10_000, || (within(100, || charge_each(u64::MAX)), charge_each(9_900)));
        assert_eq!(outer, Ok((Err(Stopped::Exhausted), 9_900)));
    }

    #[test]
    fn cancelled_operation_stops_at_the_next_check() {
        let flag = Arc::new(AtomicBool::new(false));
        let mut done = 0;
        let result = within_until(u64::MAX, Arc::clone(&flag), || {
            while charge(1).is_ok() {
                done += 1;
                if done == 50_000 {
                    flag.store(true, Ordering::Relaxed);
                }
            }
        });
        assert_eq!(result, Err(Stopped::Cancelled));
        assert!((50_000..=50_000 + STEPS_PER_CHECK).contains(&done), "{done}");
    }

    #[test]
    fn operation_stops_before_the_stack_is_used_up() {
        fn nest(levels: u64) -> u64 {
            if levels == 0 || charge_nested(1).is_err() { 0 } else { 1 + std::hint::black_box(nest(levels - 1)) }
        }
        assert_eq!(within(MAX_STEPS, || nest(100)), Ok(100));
        assert_eq!(within(MAX_STEPS, || nest(10_000_000)), Err(Stopped::TooDeep));
        assert_eq!(within(10, || nest(100)), Err(Stopped::Exhausted));
    }

    #[test]
    fn next_operation_has_its_full_limit_after_a_panic() {
        let panicked = std::panic::catch_unwind(|| within(10, || std::panic::resume_unwind(Box::new(()))));
        assert!(panicked.is_err());
        assert_eq!(within(10_000, || charge_each(10_000)), Ok(10_000));
    }
}
