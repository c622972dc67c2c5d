//! Kills the server repeatedly. A seeded random number generator chooses the point of each kill.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use tokio::sync::{oneshot, watch};

use super::journals::History;
use super::proxy::{CrmProxy, HoldGuard, InterceptPoint, RequestKind};
use super::restate::Restate;
use super::rng::SeededRng;
use super::server::{Server, ServerConfig};
use super::users::Users;

/// Maximum uptime of a server that is killed at a random time.
const MAX_UPTIME: Duration = Duration::from_millis(700);
/// Maximum uptime of a server that is killed during start-up. A debug build takes about this long to start.
const MAX_STARTUP: Duration = Duration::from_millis(250);
/// How long the killer waits for a request to reach the kill point. After this time it kills the server anyway.
const INTERCEPT_TIMEOUT: Duration = Duration::from_millis(1200);
/// The maximum time that the proxy delays responses while it waits for [`BATCH_SIZE`] responses. This is shorter than
/// [`INTERCEPT_TIMEOUT`], because the calls that wait for these responses have deadlines.
const BATCH_TIMEOUT: Duration = Duration::from_millis(400);
/// Number of responses that the proxy releases at the same time, so that the server commits their outcomes together.
const BATCH_SIZE: usize = 6;
/// Maximum pause between a response and the kill. The kill interrupts the commit of the outcome, or later work.
const MAX_PAUSE: Duration = Duration::from_millis(6);

/// The point at which the killer kills a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum KillPoint {
    /// A random time while the server runs.
    AnyTime,
    /// A random time during start-up, possibly during recovery.
    Starting,
    /// A request arrived at the proxy, and the CRM has not performed it.
    Arrived,
    /// The CRM performed a request, and the proxy has not sent the response.
    Performed,
    /// The proxy just sent a response.
    Answered,
    /// The server commits many outcomes.
    Committing,
    /// The server just acknowledged a request of a user.
    Acknowledged,
    /// No request reached the chosen point before the timeout. The server was killed anyway.
    Missed,
    /// A random time. Restate is killed and the server is not.
    Restate,
    /// A random time. Restate and the server are killed.
    Both,
}

impl KillPoint {
    const ALL: [Self; 7] = [
        Self::AnyTime,
        Self::Starting,
        Self::Arrived,
        Self::Performed,
        Self::Answered,
        Self::Committing,
        Self::Acknowledged,
    ];
    /// The kill points of a round whose runs are scheduled by Restate.
    const WITH_RESTATE: [Self; 10] = [
        Self::AnyTime,
        Self::Starting,
        Self::Arrived,
        Self::Performed,
        Self::Answered,
        Self::Committing,
        Self::Acknowledged,
        Self::Restate,
        Self::Restate,
        Self::Both,
    ];
}

impl fmt::Display for KillPoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::AnyTime => "at any time",
            Self::Starting => "while starting",
            Self::Arrived => "request arrived, not performed",
            Self::Performed => "performed, not answered",
            Self::Answered => "just answered",
            Self::Committing => "during commits",
            Self::Acknowledged => "just acknowledged",
            Self::Missed => "interception timed out",
            Self::Restate => "Restate, at any time",
            Self::Both => "both, at any time",
        })
    }
}

#[derive(Debug, Default, Clone)]
pub(crate) struct KillStats {
    pub kills: BTreeMap<KillPoint, u64>,
    /// Start-up times of the servers that started to listen.
    pub starts: Vec<Duration>,
}

/// Kills the server or Restate and starts it again.
pub(crate) struct Killer<'a> {
    pub config: &'a ServerConfig,
    pub proxy: &'a CrmProxy,
    pub users: &'a Users,
    pub address: &'a watch::Sender<Option<String>>,
    /// The Restate server that schedules the runs. `None` if local drivers execute them.
    pub restate: Option<Restate>,
    pub rng: SeededRng,
    pub kill_stats: KillStats,
}

impl Killer<'_> {
    /// Performs `kills` kills, beginning with `server`, and starts a new server after each. Returns the last server,
    /// which keeps running.
    pub(crate) async fn run(&mut self, mut server: Server, kills: u64, history: &mut History) -> Server {
        for _ in 0..kills {
            let kill_point = match self.restate {
                None => self.rng.pick(&KillPoint::ALL),
                Some(_) => self.rng.pick(&KillPoint::WITH_RESTATE),
            };
            if kill_point == KillPoint::Restate {
                self.wait_until_listening(&mut server).await;
                self.pause(MAX_UPTIME).await;
                self.kill_restate().await;
                *self.kill_stats.kills.entry(kill_point).or_default() += 1;
                continue;
            }
            let reached = self.wait_for_kill_point(&mut server, kill_point).await;
            // The guard in `reached` keeps a request waiting at the proxy. It must not be dropped before the server is
            // dead.
            server.kill().await;
            self.proxy.server_killed();
            self.address.send_replace(None);
            self.proxy.stop_intercepting();
            *self.kill_stats.kills.entry(reached.0).or_default() += 1;
            if kill_point == KillPoint::Both {
                self.kill_restate().await;
            }
            drop(reached);
            history.inspect(self.config, self.proxy).await;
            server = Server::launch(self.config);
        }
        self.wait_until_listening(&mut server).await;
        server
    }

    /// Waits for the kill point. Returns the kill point, or [`KillPoint::Missed`] on timeout.
    async fn wait_for_kill_point(
        &mut self,
        server: &mut Server,
        kill_point: KillPoint,
    ) -> (KillPoint, Option<HoldGuard>) {
        if kill_point == KillPoint::Starting {
            let uptime = self.rng.duration_below(MAX_STARTUP);
            if let Ok((url, _)) = tokio::time::timeout(uptime, server.wait_until_ready()).await {
                // The server listens already, so users may reach it before it is killed.
                self.address.send_replace(Some(url));
            }
            return (kill_point, None);
        }
        self.wait_until_listening(server).await;
        match kill_point {
            KillPoint::Arrived => self.intercept(kill_point, InterceptPoint::Arrived).await,
            KillPoint::Performed => self.intercept(kill_point, InterceptPoint::Performed).await,
            KillPoint::Answered => {
                let (kill_point, guard) = self.intercept(kill_point, InterceptPoint::Answered).await;
                self.pause(MAX_PAUSE).await;
                (kill_point, guard)
            }
            KillPoint::Committing => {
                let intercepted = self.proxy.intercept_batch(BATCH_SIZE);
                let (kill_point, _) = wait_for_interception(kill_point, intercepted, BATCH_TIMEOUT).await;
                self.proxy.stop_intercepting();
                self.pause(MAX_PAUSE).await;
                (kill_point, None)
            }
            KillPoint::Acknowledged => {
                let skip = self.rng.below(4);
                let mut acknowledged = self.users.acknowledged();
                let target = *acknowledged.borrow_and_update() + skip + 1;
                // `wait_for` returns a borrow that blocks further acknowledgements. `is_ok` drops it at once.
                let reached = tokio::time::timeout(INTERCEPT_TIMEOUT, acknowledged.wait_for(|count| *count >= target))
                    .await
                    .is_ok();
                self.pause(MAX_PAUSE).await;
                (if reached { kill_point } else { KillPoint::Missed }, None)
            }
            KillPoint::AnyTime | KillPoint::Starting | KillPoint::Missed | KillPoint::Restate | KillPoint::Both => {
                self.pause(MAX_UPTIME).await;
                (kill_point, None)
            }
        }
    }

    async fn kill_restate(&mut self) {
        if let Some(restate) = &mut self.restate {
            restate.kill();
            restate.restart().await;
        }
    }

    async fn intercept(&mut self, kill_point: KillPoint, point: InterceptPoint) -> (KillPoint, Option<HoldGuard>) {
        let kinds = [
            None,
            Some(RequestKind::Idempotent),
            Some(RequestKind::Verifiable),
            Some(RequestKind::Unverifiable),
            Some(RequestKind::Verify),
        ];
        let (only, skip) = (self.rng.pick(&kinds), self.rng.below(5));
        wait_for_interception(kill_point, self.proxy.intercept_request(point, only, skip), INTERCEPT_TIMEOUT).await
    }

    async fn wait_until_listening(&mut self, server: &mut Server) {
        if self.address.borrow().is_some() {
            return;
        }
        let (url, startup) = server.wait_until_ready().await;
        self.kill_stats.starts.push(startup);
        self.address.send_replace(Some(url));
    }

    /// Sleeps for a random duration below `longest`, to vary the time of the kill.
    async fn pause(&mut self, longest: Duration) {
        tokio::time::sleep(self.rng.duration_below(longest)).await;
    }
}

async fn wait_for_interception(
    kill_point: KillPoint,
    intercepted: oneshot::Receiver<HoldGuard>,
    timeout: Duration,
) -> (KillPoint, Option<HoldGuard>) {
    match tokio::time::timeout(timeout, intercepted).await {
        Ok(Ok(guard)) => (kill_point, Some(guard)),
        _ => (KillPoint::Missed, None),
    }
}
