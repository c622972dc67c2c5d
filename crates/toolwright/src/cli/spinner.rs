//! A spinner on stderr while a request takes long.

use std::future::Future;
use std::io::Write;
use std::time::Duration;

/// How long a request may take before the spinner appears.
const DELAY: Duration = Duration::from_millis(500);
const FRAME: Duration = Duration::from_millis(100);
const FRAMES: [char; 10] = ['⠋', '⠙', '⠹', '⠸', '⠼', '⠴', '⠦', '⠧', '⠇', '⠏'];
const ERASE_LINE: &str = "\r\u{1b}[2K";

/// Waits for `future`, and shows a spinner while it takes longer than half a second.
pub(super) async fn during<T>(is_enabled: bool, future: impl Future<Output = T>) -> T {
    if !is_enabled {
        return future.await;
    }
    let mut future = std::pin::pin!(future);
    if let Ok(result) = tokio::time::timeout(DELAY, &mut future).await {
        return result;
    }
    for frame in FRAMES.iter().cycle() {
        draw(&format!("\r{frame} waiting for the server"));
        if let Ok(result) = tokio::time::timeout(FRAME, &mut future).await {
            draw(ERASE_LINE);
            return result;
        }
    }
    future.await
}

/// Writes to stderr. Errors are ignored, because the spinner is not part of the command's results.
fn draw(text: &str) {
    let mut err = std::io::stderr().lock();
    let _ = err.write_all(text.as_bytes()).and_then(|()| err.flush());
}
