//! The budget for foreign data: data that a client, an upstream, an imported server or sandboxed code wrote.
//!
//! Foreign data can be small and expensive at the same time: a compressed list of empty lists, a schema whose branches
//! double at each level, a selector that visits every pair of nodes. So each operation on foreign data has a limit for
//! bytes, for JSON nodes and for work:
//!
//! - [`from_slice`] and [`parse`] decode JSON within the limits for bytes and nodes. [`check`] and [`NodeCounter`] are
//!   for documents that another crate decodes and for documents that are still arriving.
//! - [`charge`] counts the work of the current thread. Operations whose work depends on foreign data call it, and stop
//!   when it returns [`Stopped`].
//! - [`run`] performs an operation that calls [`charge`]: on the current thread if the operation is short, otherwise on
//!   a thread for blocking work. The work stops when its future is dropped. [`run_sized`] is for operations that do not
//!   count their work.
//! - [`Shares`] limits how much of a resource, such as the workers that run code, one owner holds at once.

mod json;
mod meter;
mod offload;
mod shares;

pub use json::{JsonError, LimitExceeded, NodeCounter, check, from_slice, parse};
pub use meter::{Stopped, charge, charge_nested, is_stopped, within};
pub use offload::{offload, run, run_sized};
pub use shares::{Share, Shares};

/// The maximum size of a foreign document, in bytes.
pub const MAX_BYTES: usize = 64 << 20;

/// The maximum number of JSON nodes of a foreign document: values and the names of fields. A node takes about 100 bytes
/// of memory.
pub const MAX_NODES: usize = 1_000_000;

/// The maximum work of one operation. One step is about one visited node and takes 10 to 50 nanoseconds.
pub const MAX_STEPS: u64 = 20_000_000;

/// The work that an operation may do on a thread of the runtime, before it moves to a thread for blocking work.
pub const INLINE_STEPS: u64 = 20_000;

/// The maximum number of JSON nodes of a document that is compiled on a thread of the runtime. Compiling one node takes
/// microseconds.
pub const INLINE_NODES: usize = 1_000;

/// The maximum size of a document that is decoded on a thread of the runtime, in bytes.
pub const INLINE_BYTES: usize = 64 << 10;
