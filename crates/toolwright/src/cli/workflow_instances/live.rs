//! Follows a workflow run: shows its steps while they change, and its output at the end.
//!
//! The event stream of the run tells that something changed. The state of the steps is then read from the instance. A run
//! that starts to wait may send no event, so the state is also read once after the start, and when a timer is due.

use std::collections::HashMap;
use std::time::Duration;

use futures::future::{BoxFuture, Fuse, FusedFuture, FutureExt};
use futures::stream::{self, BoxStream, StreamExt};
use serde_json::{Value, json};
use tokio::time::{Instant, Interval, MissedTickBehavior, interval, sleep_until};
use toolwright_api::wire::{PageView, RunSummaryView, WorkflowInstanceView};
use toolwright_machine::workflow::StepStatus;
use toolwright_types::{Clock, SystemClock};

use super::outline::Outline;
use super::progress::{Progress, Style};
use super::screen::TreeScreen;
use super::summary;
use crate::cli::Context;
use crate::cli::client::{ApiResponse, WORKFLOW_INSTANCES, path};
use crate::cli::exit::Exit;
use crate::cli::failure::Failure;
use crate::cli::follow::{EventFeed, FeedItem, FollowRole, RETRY_DELAYS, watch_run};

/// The interval of the animation.
const FRAME: Duration = Duration::from_millis(100);
/// The delay between an event and the request for the state. Events that follow each other need one request.
const SETTLE_DELAY: Duration = Duration::from_millis(40);
/// The minimum time between two requests for the state, and how much longer this time is than a request takes, so that
/// a workflow with many steps is not read all the time.
const MIN_PAUSE: Duration = Duration::from_millis(100);
const PAUSE_FACTOR: u32 = 4;
/// The longest time for which the caller of a run waits if the run only waits for a time.
const MAX_SLEEP_MS: u64 = 60_000;
/// How often the state of a waiting run is read by a watcher, because a signal or a pause sends no event.
const WATCH_INTERVAL: Duration = Duration::from_secs(5);

/// The run to follow.
pub(in crate::cli) enum Subject {
    /// A run whose id is known.
    Run(String),
    /// A run that was just started with this correlation id.
    Started(String),
}

/// Follows a run until it ends. If the caller started the run, following also stops when a person or a client must act. Prints
/// the run and returns its exit code.
pub(in crate::cli) async fn follow(
    cx: &Context,
    feed: EventFeed,
    subject: Subject,
    role: FollowRole,
) -> Result<Exit, Failure> {
    let mut follower = Follower::new(cx, feed, subject, role);
    let followed = follower.follow().await;
    if followed.is_err() {
        follower.screen.clear()?;
    }
    followed?;
    follower.finish().await
}

/// Follows an existing run.
pub(in crate::cli) async fn watch(cx: &Context, run: &str, role: FollowRole) -> Result<Exit, Failure> {
    let feed = watch_run(&cx.client, run).await?;
    follow(cx, feed, Subject::Run(run.to_owned()), role).await
}

/// Requests the state of a workflow run.
pub(super) async fn fetch(cx: &Context, run: &str) -> Result<ApiResponse, Failure> {
    cx.client.get(&path(WORKFLOW_INSTANCES, run), &[]).await
}

struct Follower<'a> {
    cx: &'a Context,
    feed: EventFeed,
    role: FollowRole,
    subject: Subject,
    interrupts: BoxStream<'static, ()>,
    ticks: Interval,
    cancel_response: Fuse<BoxFuture<'static, Result<ApiResponse, Failure>>>,
    cancel_requested: bool,
    outline: Outline,
    /// Whether the outline has the handlers and the order of the steps, and not only their names.
    outline_is_complete: bool,
    state: Option<WorkflowInstanceView>,
    /// The number of requests for the id of the run.
    lookups: usize,
    refresh_at: Option<Instant>,
    /// No request for the state is sent before this time.
    pause_until: Instant,
    screen: TreeScreen<'a>,
    /// The last printed status of each step, if stdout is no terminal.
    printed: HashMap<String, StepStatus>,
}

enum Wakeup {
    Item(Option<Result<FeedItem, Failure>>),
    Interrupt,
    Tick,
    Refresh,
    Cancelled(Result<ApiResponse, Failure>),
}

impl<'a> Follower<'a> {
    fn new(cx: &'a Context, feed: EventFeed, subject: Subject, role: FollowRole) -> Self {
        let mut ticks = interval(FRAME);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
        let now = Instant::now();
        Self {
            cx,
            feed,
            role,
            subject,
            interrupts: stream::unfold((), |()| async { tokio::signal::ctrl_c().await.ok().map(|()| ((), ())) })
                .boxed(),
            ticks,
            cancel_response: Fuse::terminated(),
            cancel_requested: false,
            outline: Outline::default(),
            outline_is_complete: false,
            state: None,
            lookups: 0,
            refresh_at: Some(now + SETTLE_DELAY),
            pause_until: now,
            screen: TreeScreen::new(&cx.output),
            printed: HashMap::new(),
        }
    }

    async fn follow(&mut self) -> Result<(), Failure> {
        loop {
            match self.next_wakeup().await {
                Wakeup::Item(None) => return Ok(()),
                Wakeup::Item(Some(item)) => {
                    if let FeedItem::Event(event) = item? {
                        self.subject = Subject::Run(event.run_id);
                    }
                    self.refresh_within(SETTLE_DELAY);
                }
                Wakeup::Interrupt => self.handle_interrupt()?,
                Wakeup::Cancelled(response) => check_cancelled(response)?,
                Wakeup::Refresh => {
                    if self.refresh().await? {
                        return Ok(());
                    }
                }
                Wakeup::Tick => self.draw()?,
            }
        }
    }

    async fn next_wakeup(&mut self) -> Wakeup {
        let refresh_at = self.refresh_at.map(|at| at.max(self.pause_until));
        let refresh = async move {
            match refresh_at {
                Some(at) => sleep_until(at).await,
                None => std::future::pending().await,
            }
        };
        let is_animated = self.screen.is_live() && self.state.is_some();
        tokio::select! {
            item = self.feed.next() => Wakeup::Item(item),
            Some(()) = self.interrupts.next() => Wakeup::Interrupt,
            response = &mut self.cancel_response => Wakeup::Cancelled(response),
            () = refresh => Wakeup::Refresh,
            _ = self.ticks.tick(), if is_animated => Wakeup::Tick,
        }
    }

    /// Reads the state within this time, or as soon as the pause between two requests allows.
    fn refresh_within(&mut self, delay: Duration) {
        let at = Instant::now() + delay;
        self.refresh_at = Some(self.refresh_at.map_or(at, |planned| planned.min(at)));
    }

    /// Reads and shows the state of the run. Returns whether following stops.
    async fn refresh(&mut self) -> Result<bool, Failure> {
        self.refresh_at = None;
        let Some(run) = self.run_id().await? else { return Ok(false) };
        let asked = Instant::now();
        let state: WorkflowInstanceView = fetch(self.cx, &run).await?.read()?;
        self.read_outline(&run, &state).await?;
        self.pause_until = Instant::now() + (asked.elapsed() * PAUSE_FACTOR).max(MIN_PAUSE);
        let stops = self.waits_for_action(&state);
        self.state = Some(state);
        self.print_changes()?;
        self.draw()?;
        Ok(stops)
    }

    /// The id of the run. Before the first event it is looked up by the correlation id, because a run that waits at once
    /// sends no event. `None` if the run is not stored yet; then another request is planned.
    async fn run_id(&mut self) -> Result<Option<String>, Failure> {
        let correlation = match &self.subject {
            Subject::Run(run) => return Ok(Some(run.clone())),
            Subject::Started(correlation) => correlation,
        };
        let query = [("query", format!("correlationId:\"{correlation}\"")), ("limit", "100".to_owned())];
        let page: PageView<RunSummaryView> = self.cx.client.get(WORKFLOW_INSTANCES, &query).await?.read()?;
        // Runs that this run started have the same correlation id.
        let run = page.items.into_iter().find(|run| run.origin.parent_run_id.is_none()).map(|run| run.origin.id);
        match &run {
            Some(run) => {
                self.feed = watch_run(&self.cx.client, run).await?;
                self.subject = Subject::Run(run.clone());
            }
            None => {
                let delay = RETRY_DELAYS.get(self.lookups).or(RETRY_DELAYS.last()).copied().unwrap_or(MIN_PAUSE);
                self.lookups += 1;
                self.refresh_within(delay);
            }
        }
        Ok(run)
    }

    /// Whether the caller of the run has to act before it continues. Otherwise plans when the state is read again.
    fn waits_for_action(&mut self, instance: &WorkflowInstanceView) -> bool {
        let run = &instance.state;
        if !summary::is_waiting(run.status) || self.cancel_requested {
            return false;
        }
        let wait_ms = summary::continues_at(run).map(|at| at.millis_since(SystemClock.now()));
        if self.role == FollowRole::Owner && wait_ms.is_none_or(|wait_ms| wait_ms > MAX_SLEEP_MS) {
            return true;
        }
        let delay = wait_ms.map_or(WATCH_INTERVAL, |wait_ms| Duration::from_millis(wait_ms).min(WATCH_INTERVAL));
        self.refresh_within(delay.max(MIN_PAUSE));
        false
    }

    /// Prints one line for each step whose status changed, if stdout is no terminal.
    fn print_changes(&mut self) -> Result<(), Failure> {
        if self.screen.is_live() || self.cx.output.json {
            return Ok(());
        }
        let Some(state) = &self.state else { return Ok(()) };
        let style = self.style(None);
        let progress = Progress::new(&self.outline, &state.state);
        let mut lines = Vec::new();
        for (step, view) in progress.steps() {
            let before = self.printed.insert(step.name.clone(), view.status).unwrap_or_default();
            if before != view.status {
                lines.push(progress.change(step, view, &style));
            }
        }
        Ok(self.cx.output.lines(lines)?)
    }

    fn draw(&mut self) -> Result<(), Failure> {
        let frame = self.screen.next_frame();
        let style = self.style(Some(frame));
        let Some(state) = self.state.as_ref().filter(|_| self.screen.is_live()) else { return Ok(()) };
        let lines = Progress::new(&self.outline, &state.state).excerpt(&style, TreeScreen::height());
        self.screen.draw(&lines)
    }

    /// Reads the outline of the workflow once. The journal of a run in progress may not be stored yet; until then, the
    /// outline has the names of the steps.
    async fn read_outline(&mut self, run: &str, instance: &WorkflowInstanceView) -> Result<(), Failure> {
        if self.outline_is_complete {
            return Ok(());
        }
        let read = Outline::of_run(self.cx, run).await?;
        self.outline_is_complete = read.is_some();
        self.outline = read.unwrap_or_else(|| Outline::of_names(instance.state.steps.keys()));
        Ok(())
    }

    fn style(&self, frame: Option<usize>) -> Style {
        Style { paint: self.cx.output.out, width: self.cx.output.width, now: SystemClock.now(), frame }
    }

    /// Handles Ctrl-C. If the caller started the run, the first Ctrl-C cancels it and the second one stops following. If
    /// the caller only watches, the first Ctrl-C stops following.
    fn handle_interrupt(&mut self) -> Result<(), Failure> {
        let Subject::Run(run) = &self.subject else { return Err(Failure::Interrupted) };
        if self.cancel_requested || self.role == FollowRole::Watcher || !self.cancel_response.is_terminated() {
            return Err(Failure::Interrupted);
        }
        self.cancel_requested = true;
        self.screen.clear()?;
        self.cx.output.note(self.cx.output.err.warn("cancelling the run; press Ctrl-C again to exit without waiting"));
        let (client, address) = (self.cx.client.clone(), format!("{}/cancel", path(WORKFLOW_INSTANCES, run)));
        self.cancel_response = async move { client.post(&address, &json!({})).await }.boxed().fuse();
        Ok(())
    }

    /// Shows the final state.
    async fn finish(mut self) -> Result<Exit, Failure> {
        let Some(run) = self.run_id().await? else {
            self.screen.clear()?;
            let cause = "the run was started, but it cannot be found".to_owned();
            return Err(Failure::ConnectionLost { url: self.cx.client.base_url().to_owned(), cause });
        };
        let response = fetch(self.cx, &run).await?;
        let state: WorkflowInstanceView = response.read()?;
        self.read_outline(&run, &state).await?;
        if self.cx.output.json {
            self.cx.output.document(response.text.trim_end())?;
            return Ok(summary::exit_code(state.state.status));
        }
        self.state = Some(state);
        self.print_changes()?;
        self.screen.clear()?;
        let Some(state) = &self.state else { return Ok(Exit::Ok) };
        if self.screen.is_live() {
            self.cx.output.lines(Progress::new(&self.outline, &state.state).tree(&self.style(None)))?;
        }
        self.cx.output.line("")?;
        self.cx.output.lines(summary::lines(&self.cx.output, state))?;
        Ok(summary::exit_code(state.state.status))
    }
}

/// Returns the error of a cancel request. A conflict is not an error here: the run has already ended.
fn check_cancelled(response: Result<ApiResponse, Failure>) -> Result<(), Failure> {
    match response {
        Err(Failure::Refused(refusal)) if refusal.problem.status == 409 => Ok(()),
        other => other.map(|_| ()),
    }
}

/// Prints the state of a run that a request returned after the run ended or waited.
pub(super) async fn show_settled(cx: &Context, run: &str) -> Result<Exit, Failure> {
    let response = fetch(cx, run).await?;
    let instance: WorkflowInstanceView = response.read()?;
    if cx.output.json {
        cx.output.document(response.text.trim_end())?;
    } else {
        show(cx, run, &instance).await?;
    }
    Ok(summary::exit_code(instance.state.status))
}

/// Prints the tree of a run and its summary.
pub(super) async fn show(cx: &Context, run: &str, instance: &WorkflowInstanceView) -> Result<(), Failure> {
    let outline = Outline::of_run(cx, run).await?;
    let outline = outline.unwrap_or_else(|| Outline::of_names(instance.state.steps.keys()));
    let style = Style { paint: cx.output.out, width: cx.output.width, now: SystemClock.now(), frame: None };
    cx.output.lines(Progress::new(&outline, &instance.state).tree(&style))?;
    cx.output.line("")?;
    Ok(cx.output.lines(summary::lines(&cx.output, instance))?)
}

/// The value of `--json` for a request that did not wait.
pub(in crate::cli) fn show_accepted(cx: &Context, response: &ApiResponse, text: &str) -> Result<Exit, Failure> {
    match cx.output.json {
        true => cx.output.document(response.text.trim_end())?,
        false => cx.output.line(text)?,
    }
    Ok(Exit::Ok)
}

/// The body of a request without fields.
pub(super) fn no_fields() -> Value {
    json!({})
}
