//! `runs watch`: follows an existing run.

use crate::cli::Context;
use crate::cli::agents::approval_mode;
use crate::cli::exit::Exit;
use crate::cli::failure::Failure;
use crate::cli::follow::{self, FollowOptions, FollowRole};
use crate::cli::prompt::Prompter;

/// Follows a run to its end.
pub(super) async fn run(cx: &Context, run: &str) -> Result<Exit, Failure> {
    let prompter = Prompter::new(&[], None)?;
    let feed = follow::watch_run(&cx.client, run).await?;
    let options = FollowOptions { approvals: approval_mode(cx, &prompter), role: FollowRole::Watcher };
    follow::follow(cx, feed, &options).await?.show(cx)
}
