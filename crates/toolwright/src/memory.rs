//! Returns memory that the server no longer uses to the operating system.

use std::hint::black_box;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

const INTERVAL: Duration = Duration::from_secs(15);

/// The size of the block whose release makes mimalloc return memory.
const BLOCK_BYTES: usize = 4 << 20;

/// Returns unused memory periodically until the shutdown. mimalloc returns freed memory with a delay, when the program
/// later frees a large block. An idle server frees none, so it would keep the memory that it needed during its start or
/// under load.
pub(crate) async fn release_unused_periodically(shutdown: CancellationToken) {
    let mut ticks = tokio::time::interval(INTERVAL);
    while shutdown.run_until_cancelled(ticks.tick()).await.is_some() {
        drop(black_box(Vec::<u8>::with_capacity(BLOCK_BYTES)));
    }
}
