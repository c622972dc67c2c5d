//! Waits for whatever comes first: an event, a key, a moment of quiet. What is written for an event is decided by
//! [`Timeline`].

use std::collections::HashSet;
use std::time::Duration;

use futures::future::{BoxFuture, Fuse, FusedFuture, FutureExt};
use futures::stream::{self, BoxStream, StreamExt};
use serde_json::json;
use tokio::time::{Instant, Interval, MissedTickBehavior, interval, sleep_until};

use super::ask::{self, Decision, Replied};
use super::feed::{Fed, Feed};
use super::screen::Screen;
use super::timeline::Timeline;
use super::wire::{Approval, Happening, Report};
use super::{Approvals, Followed, Manner, Role, approval_path, report_of};
use crate::cli::Context;
use crate::cli::client::{Answer, RUNS, path};
use crate::cli::exit::Exit;
use crate::cli::failure::Failure;

/// How often the spinner turns.
const FRAME: Duration = Duration::from_millis(80);
/// A run that is quiet for this long after a call needs someone is looked at: it may rest, or be told from its beginning
/// with the decision still to come.
const QUIET: Duration = Duration::from_millis(150);

/// Follows a run until it ends, or until it waits for someone else.
pub async fn follow(cx: &Context, feed: Feed, manner: &Manner<'_>) -> Result<Followed, Failure> {
    let mut follower = Follower::new(cx, feed, manner);
    loop {
        let step = follower.step().await;
        match follower.take(step).await {
            Ok(Go::On) => follower.screen.spin(follower.timeline.under_way())?,
            Ok(Go::Away) => break,
            Err(failure) => {
                follower.rest()?;
                return Err(failure);
            }
        }
    }
    follower.rest()?;
    let answer = report_of(cx, &follower.run).await?;
    Ok(Followed { report: answer.read()?, text: answer.text })
}

struct Follower<'a> {
    cx: &'a Context,
    manner: &'a Manner<'a>,
    feed: Feed,
    interrupts: BoxStream<'static, ()>,
    ticks: Interval,
    cancel: Fuse<BoxFuture<'static, Result<Answer, Failure>>>,
    screen: Screen<'a>,
    timeline: Timeline,
    run: String,
    /// Whether the run is to be cancelled, as soon as it is known which it is.
    unwanted: bool,
    /// Calls whose decision was left to others.
    left: HashSet<String>,
    /// Whether someone else has to act before the run can end.
    hindered: bool,
    look_at: Option<Instant>,
}

enum Step {
    Fed(Option<Result<Fed, Failure>>),
    Interrupt,
    Tick,
    Look,
    Cancelled(Result<Answer, Failure>),
}

enum Go {
    On,
    Away,
}

impl<'a> Follower<'a> {
    fn new(cx: &'a Context, feed: Feed, manner: &'a Manner<'a>) -> Self {
        let mut ticks = interval(FRAME);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
        Self {
            cx,
            manner,
            feed,
            interrupts: interrupts(),
            ticks,
            cancel: Fuse::terminated(),
            screen: Screen::new(&cx.output),
            timeline: Timeline::new(cx.output.out, cx.output.width),
            run: String::new(),
            unwanted: false,
            left: HashSet::new(),
            hindered: false,
            look_at: None,
        }
    }

    async fn step(&mut self) -> Step {
        let look_at = self.look_at;
        let look = async move {
            match look_at {
                Some(at) => sleep_until(at).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            fed = self.feed.next() => Step::Fed(fed),
            Some(()) = self.interrupts.next() => Step::Interrupt,
            answer = &mut self.cancel => Step::Cancelled(answer),
            () = look => Step::Look,
            _ = self.ticks.tick() => Step::Tick,
        }
    }

    async fn take(&mut self, step: Step) -> Result<Go, Failure> {
        match step {
            Step::Fed(None) => return Ok(Go::Away),
            Step::Fed(Some(fed)) => self.hear(fed?)?,
            Step::Interrupt => self.interrupted()?,
            Step::Cancelled(answer) => cancelled(answer)?,
            Step::Look => return self.look().await,
            Step::Tick => {}
        }
        Ok(Go::On)
    }

    fn hear(&mut self, fed: Fed) -> Result<(), Failure> {
        let told = match fed {
            Fed::Told(told) => told,
            Fed::Lost => {
                self.timeline.lost();
                return Ok(());
            }
            Fed::Found => {
                self.timeline.found();
                return Ok(());
            }
        };
        self.run.clone_from(&told.run_id);
        self.screen.write(&self.timeline.tell(&told.run_id, &told.what))?;
        self.hindered |= matches!(told.what, Happening::ClientAction { .. } | Happening::ApprovalRequired { .. });
        // Every event of a run that may come to rest begins the quiet anew.
        self.look_at = self.hindered.then(|| Instant::now() + QUIET);
        if self.unwanted && self.cancel.is_terminated() {
            self.cancel_run();
        }
        Ok(())
    }

    /// The first Ctrl-C cancels one's own run, the second leaves it.
    fn interrupted(&mut self) -> Result<(), Failure> {
        if self.unwanted || self.manner.role == Role::Watcher {
            return Err(Failure::Interrupted);
        }
        self.unwanted = true;
        self.screen.write(self.timeline.break_line())?;
        self.screen.clear()?;
        self.cx.output.note(self.cx.output.err.warn("cancelling the run; Ctrl-C again leaves it to itself"));
        if !self.run.is_empty() {
            self.cancel_run();
        }
        Ok(())
    }

    fn cancel_run(&mut self) {
        let (client, address) = (self.cx.client.clone(), format!("{}/cancel", path(RUNS, &self.run)));
        self.cancel = async move { client.post(&address, &json!({})).await }.boxed().fuse();
    }

    /// Sees whether the run waits for someone, and lets its approvals be decided.
    async fn look(&mut self) -> Result<Go, Failure> {
        self.look_at = None;
        if self.unwanted {
            return Ok(Go::On);
        }
        let report: Report = report_of(self.cx, &self.run).await?.read()?;
        let mut decided = false;
        for approval in &report.approvals {
            if self.left.contains(&approval.call_id) {
                continue;
            }
            match self.decide(approval).await? {
                Replied::Decided(decision) => {
                    decided = true;
                    if !self.send(approval, &decision).await? {
                        // What was typed was refused; the question is still there.
                        self.look_at = Some(Instant::now());
                        return Ok(Go::On);
                    }
                }
                Replied::Left => self.hint(approval),
                Replied::Interrupted => {
                    self.interrupted()?;
                    return Ok(Go::On);
                }
            }
            self.left.insert(approval.call_id.clone());
        }
        Ok(if decided || !report.waits() || self.manner.role == Role::Watcher { Go::On } else { Go::Away })
    }

    async fn decide(&mut self, approval: &Approval) -> Result<Replied, Failure> {
        match self.manner.approvals {
            Approvals::Grant => Ok(Replied::Decided(Decision::Approve)),
            Approvals::Leave => Ok(Replied::Left),
            Approvals::Ask(keyboard) => {
                self.rest()?;
                tokio::select! {
                    replied = ask::decide(&self.cx.output, keyboard, approval) => replied,
                    Some(()) = self.interrupts.next() => Ok(Replied::Interrupted),
                }
            }
        }
    }

    /// Sends a decision; false if its input was refused.
    async fn send(&mut self, approval: &Approval, decision: &Decision) -> Result<bool, Failure> {
        let address = format!("{}?wait=false", approval_path(&self.run, &approval.call_id));
        let failure = match self.cx.client.post(&address, &decision.body()).await {
            Ok(_) => {
                self.screen.write(&format!("{}\n", self.cx.output.out.dim(format!("  {}", decision.word()))))?;
                return Ok(true);
            }
            Err(failure) => failure,
        };
        match (failure.exit(), decision) {
            // Somebody was faster, or the time was up.
            (Exit::Conflict, _) => {
                failure.tell(&self.cx.output);
                Ok(true)
            }
            (Exit::Invalid, Decision::Edit { .. }) => {
                failure.tell(&self.cx.output);
                Ok(false)
            }
            _ => Err(failure),
        }
    }

    fn hint(&self, approval: &Approval) {
        let hint =
            format!("  decide with `toolwright runs approve {} {}`, or deny, or edit", self.run, approval.call_id);
        self.cx.output.note(self.cx.output.err.dim(hint));
    }

    /// Leaves the terminal in order.
    fn rest(&mut self) -> Result<(), Failure> {
        self.screen.write(self.timeline.break_line())?;
        self.screen.clear()
    }
}

/// A run that ended meanwhile needs no cancelling.
fn cancelled(answer: Result<Answer, Failure>) -> Result<(), Failure> {
    match answer {
        Err(Failure::Refused(problem)) if problem.status == 409 => Ok(()),
        other => other.map(|_| ()),
    }
}

fn interrupts() -> BoxStream<'static, ()> {
    stream::unfold((), |()| async { tokio::signal::ctrl_c().await.ok().map(|()| ((), ())) }).boxed()
}
