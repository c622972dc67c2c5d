//! The loop that follows a run. It waits for events, Ctrl-C and timers, and asks for decisions on approvals.
//! [`TimelineRenderer`] renders the events.

use std::collections::HashSet;
use std::time::Duration;

use futures::future::{BoxFuture, Fuse, FusedFuture, FutureExt};
use futures::stream::{self, BoxStream, StreamExt};
use serde_json::json;
use tokio::time::{Instant, Interval, MissedTickBehavior, interval, sleep_until};
use toolwright_api::wire::{AgentResponseView, ApprovalView, RunView, StreamEventKind};
use toolwright_types::RunStatus;

use super::approval_prompt::{self, ApprovalDecision, PromptResult};
use super::event_feed::{EventFeed, FeedItem};
use super::screen::Screen;
use super::timeline::TimelineRenderer;
use super::{ApprovalMode, FollowOptions, FollowResult, FollowRole, approval_path, fetch_run, is_waiting};
use crate::cli::Context;
use crate::cli::client::{ApiResponse, RUNS, path};
use crate::cli::exit::Exit;
use crate::cli::failure::Failure;
use crate::cli::output::sanitize_line;

/// The frame interval of the spinner.
const SPINNER_INTERVAL: Duration = Duration::from_millis(80);
/// The delay between a request for an approval or a client action and the fetch of the run's state. Each further event
/// restarts the delay. The server replays the events of a watched run from the beginning, so one of the next events may
/// already be the decision.
const SETTLE_DELAY: Duration = Duration::from_millis(150);

/// Follows a run until it ends. If the caller started the run, following also stops when the run waits for an approval
/// or a client.
pub(crate) async fn follow(
    cx: &Context,
    feed: EventFeed,
    options: &FollowOptions<'_>,
) -> Result<FollowResult, Failure> {
    let mut follower = Follower::new(cx, feed, options);
    loop {
        let wakeup = follower.next_wakeup().await;
        match follower.handle_wakeup(wakeup).await {
            Ok(Flow::Continue) => follower.screen.show_activity(follower.timeline.activity())?,
            Ok(Flow::Stop) => break,
            Err(failure) => {
                follower.reset_terminal()?;
                return Err(failure);
            }
        }
    }
    follower.reset_terminal()?;
    let response = fetch_run(cx, &follower.run).await?;
    Ok(FollowResult { run: response.read()?, text: response.text })
}

struct Follower<'a> {
    cx: &'a Context,
    options: &'a FollowOptions<'a>,
    feed: EventFeed,
    interrupts: BoxStream<'static, ()>,
    ticks: Interval,
    cancel_response: Fuse<BoxFuture<'static, Result<ApiResponse, Failure>>>,
    screen: Screen<'a>,
    timeline: TimelineRenderer,
    run: String,
    /// Whether the user pressed Ctrl-C. The run is cancelled as soon as its id is known.
    cancel_requested: bool,
    /// The ids of the run and the call of each decision that was sent. The server may still list their approvals as
    /// pending for a moment.
    decided_calls: HashSet<(String, String)>,
    /// The ids of the run and the call of each approval that the user left to others.
    skipped_calls: HashSet<(String, String)>,
    /// Whether the run requested an approval or a client action.
    needs_outside_action: bool,
    check_at: Option<Instant>,
}

enum Wakeup {
    Item(Option<Result<FeedItem, Failure>>),
    Interrupt,
    Tick,
    CheckWaiting,
    Cancelled(Result<ApiResponse, Failure>),
}

enum Flow {
    Continue,
    Stop,
}

impl<'a> Follower<'a> {
    fn new(cx: &'a Context, feed: EventFeed, options: &'a FollowOptions<'a>) -> Self {
        let mut ticks = interval(SPINNER_INTERVAL);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
        Self {
            cx,
            options,
            feed,
            interrupts: interrupts(),
            ticks,
            cancel_response: Fuse::terminated(),
            screen: Screen::new(&cx.output),
            timeline: TimelineRenderer::new(cx.output.out, cx.output.width),
            run: String::new(),
            cancel_requested: false,
            decided_calls: HashSet::new(),
            skipped_calls: HashSet::new(),
            needs_outside_action: false,
            check_at: None,
        }
    }

    async fn next_wakeup(&mut self) -> Wakeup {
        let check_at = self.check_at;
        let check_waiting = async move {
            match check_at {
                Some(at) => sleep_until(at).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            item = self.feed.next() => Wakeup::Item(item),
            Some(()) = self.interrupts.next() => Wakeup::Interrupt,
            response = &mut self.cancel_response => Wakeup::Cancelled(response),
            () = check_waiting => Wakeup::CheckWaiting,
            _ = self.ticks.tick() => Wakeup::Tick,
        }
    }

    async fn handle_wakeup(&mut self, wakeup: Wakeup) -> Result<Flow, Failure> {
        match wakeup {
            Wakeup::Item(None) => return Ok(Flow::Stop),
            Wakeup::Item(Some(item)) => self.handle_item(item?)?,
            Wakeup::Interrupt => self.handle_interrupt()?,
            Wakeup::Cancelled(response) => check_cancelled(response)?,
            Wakeup::CheckWaiting => return self.check_waiting().await,
            Wakeup::Tick => {}
        }
        Ok(Flow::Continue)
    }

    fn handle_item(&mut self, item: FeedItem) -> Result<(), Failure> {
        let event = match item {
            FeedItem::Event(event) => event,
            FeedItem::Disconnected => {
                self.timeline.on_disconnect();
                return Ok(());
            }
            FeedItem::Reconnected => {
                self.timeline.on_reconnect();
                return Ok(());
            }
        };
        self.run.clone_from(&event.run_id);
        self.screen.write(&self.timeline.render(&event))?;
        self.needs_outside_action |= matches!(
            event.kind,
            StreamEventKind::ClientAction | StreamEventKind::ApprovalRequired | StreamEventKind::ChildWaiting
        );
        // Each further event restarts the delay.
        self.check_at = self.needs_outside_action.then(|| Instant::now() + SETTLE_DELAY);
        if self.cancel_requested && self.cancel_response.is_terminated() {
            self.cancel_run();
        }
        Ok(())
    }

    /// Handles Ctrl-C. If the caller started the run, the first Ctrl-C cancels the run and the second one stops
    /// following it. If the caller only watches, the first Ctrl-C stops following.
    fn handle_interrupt(&mut self) -> Result<(), Failure> {
        if self.cancel_requested || self.options.role == FollowRole::Watcher {
            return Err(Failure::Interrupted);
        }
        self.cancel_requested = true;
        self.screen.write(self.timeline.break_line())?;
        self.screen.clear()?;
        self.cx.output.note(self.cx.output.err.warn("cancelling the run; press Ctrl-C again to exit without waiting"));
        if !self.run.is_empty() {
            self.cancel_run();
        }
        Ok(())
    }

    fn cancel_run(&mut self) {
        let (client, address) = (self.cx.client.clone(), format!("{}/cancel", path(RUNS, &self.run)));
        self.cancel_response = async move { client.post(&address, &json!({})).await }.boxed().fuse();
    }

    /// Fetches the state of the run and asks for decisions on its pending approvals and those of its child runs.
    async fn check_waiting(&mut self) -> Result<Flow, Failure> {
        self.check_at = None;
        if self.cancel_requested {
            return Ok(Flow::Continue);
        }
        let run: RunView = fetch_run(self.cx, &self.run).await?.read()?;
        let mut any_decided = false;
        for approval in &run.state.approvals {
            let call = (approval.run_id.clone(), approval.call_id.clone());
            if self.skipped_calls.contains(&call) || self.decided_calls.contains(&call) {
                continue;
            }
            if approval.run_id != self.run {
                // The event stream of the parent run does not contain the approval requests of its child runs.
                self.screen.write(&self.timeline.request_approval(approval))?;
            }
            match self.decide(approval).await? {
                PromptResult::Decided(decision) => {
                    any_decided = true;
                    if !self.send(approval, &decision).await? {
                        // The edited input was rejected; ask again.
                        self.check_at = Some(Instant::now());
                        return Ok(Flow::Continue);
                    }
                    self.decided_calls.insert(call);
                }
                PromptResult::Skipped => {
                    self.print_decision_hint(approval);
                    self.skipped_calls.insert(call);
                }
                PromptResult::Interrupted => {
                    self.handle_interrupt()?;
                    return Ok(Flow::Continue);
                }
            }
        }
        let waits_for_others = is_waiting(&run.state) && self.waits_for_others(&run.state);
        Ok(if any_decided || !waits_for_others || self.options.role == FollowRole::Watcher {
            Flow::Continue
        } else {
            Flow::Stop
        })
    }

    /// Whether the run waits for a client, or for a decision that the user left to others. Not if a child run continues
    /// after a decision: the parent run then has a waiting status, but no action is required.
    fn waits_for_others(&self, state: &AgentResponseView) -> bool {
        let skipped =
            |approval: &ApprovalView| self.skipped_calls.contains(&(approval.run_id.clone(), approval.call_id.clone()));
        state.approvals.iter().any(skipped)
            || !state.client_actions.is_empty()
            || state.waiting_child_runs.iter().any(|child| child.status == RunStatus::AwaitingClient)
    }

    async fn decide(&mut self, approval: &ApprovalView) -> Result<PromptResult, Failure> {
        match self.options.approvals {
            ApprovalMode::ApproveAll => Ok(PromptResult::Decided(ApprovalDecision::Approve)),
            ApprovalMode::Skip => Ok(PromptResult::Skipped),
            ApprovalMode::Prompt(prompter) => {
                self.reset_terminal()?;
                tokio::select! {
                    result = approval_prompt::ask_for_decision(&self.cx.output, prompter, approval) => result,
                    Some(()) = self.interrupts.next() => Ok(PromptResult::Interrupted),
                }
            }
        }
    }

    /// Sends a decision. Returns `false` if the server rejected the edited input.
    async fn send(&mut self, approval: &ApprovalView, decision: &ApprovalDecision) -> Result<bool, Failure> {
        let address = format!("{}?wait=false", approval_path(&approval.run_id, &approval.call_id));
        let failure = match self.cx.client.post(&address, &decision.body()).await {
            Ok(_) => {
                self.screen.write(&format!("{}\n", self.cx.output.out.dim(format!("  {}", decision.word()))))?;
                return Ok(true);
            }
            Err(failure) => failure,
        };
        match (failure.exit(), decision) {
            // The call was decided by another person, or the approval expired.
            (Exit::Conflict, _) => {
                failure.print(&self.cx.output);
                Ok(true)
            }
            (Exit::Invalid, ApprovalDecision::Edit { .. }) => {
                failure.print(&self.cx.output);
                Ok(false)
            }
            _ => Err(failure),
        }
    }

    fn print_decision_hint(&self, approval: &ApprovalView) {
        let (run, call) = (sanitize_line(&approval.run_id), sanitize_line(&approval.call_id));
        let hint = format!("  decide with `toolwright runs approve {run} {call}` (or `deny`, `edit`)");
        self.cx.output.note(self.cx.output.err.dim(hint));
    }

    /// Ends the current line and clears the status line.
    fn reset_terminal(&mut self) -> Result<(), Failure> {
        self.screen.write(self.timeline.break_line())?;
        self.screen.clear()
    }
}

/// Returns the error of a cancel request. A conflict is not an error here: the run has already ended.
fn check_cancelled(response: Result<ApiResponse, Failure>) -> Result<(), Failure> {
    match response {
        Err(Failure::Refused(refusal)) if refusal.problem.status == 409 => Ok(()),
        other => other.map(|_| ()),
    }
}

fn interrupts() -> BoxStream<'static, ()> {
    stream::unfold((), |()| async { tokio::signal::ctrl_c().await.ok().map(|()| ((), ())) }).boxed()
}
