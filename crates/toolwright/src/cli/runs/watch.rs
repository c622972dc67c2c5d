//! `runs watch`: follows a run that someone started.

use crate::cli::Context;
use crate::cli::agents::by_whom;
use crate::cli::exit::Exit;
use crate::cli::failure::Failure;
use crate::cli::keyboard::Keyboard;
use crate::cli::live::{self, Manner, Role};

/// Watches a run to its end.
pub async fn run(cx: &Context, run: &str) -> Result<Exit, Failure> {
    let keyboard = Keyboard::new(&[], None)?;
    let feed = live::watch(&cx.client, run).await?;
    let manner = Manner { approvals: by_whom(cx, &keyboard), role: Role::Watcher };
    live::follow(cx, feed, &manner).await?.show(cx)
}
