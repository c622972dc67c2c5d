//! Ends the server again and again, at points that chance and the seed choose.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use tokio::sync::{oneshot, watch};

use super::crowd::Crowd;
use super::dice::Dice;
use super::journals::History;
use super::restate::Restate;
use super::server::{Home, Server};
use super::tap::{Hold, Kind, Point, Tap};

/// The longest random life.
const LIFE: Duration = Duration::from_millis(700);
/// The longest life of a server that is killed while it starts. A debug build takes about this long.
const START: Duration = Duration::from_millis(250);
/// How long an ambush may take; then the server is killed where it is.
const PATIENCE: Duration = Duration::from_millis(1200);
/// How long answers are held back for a flood: less, because the calls behind them have deadlines.
const FLOOD_PATIENCE: Duration = Duration::from_millis(400);
/// How many outcomes a flood commits at once.
const FLOOD: usize = 6;
/// How long a commit, or what follows from an answer, may take.
const AFTERMATH: Duration = Duration::from_millis(6);

/// When a server dies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Blow {
    /// At any time.
    AnyTime,
    /// While it starts, perhaps while it takes up what the last one left.
    Starting,
    /// A request is at the CRM, which has done nothing yet.
    Arrived,
    /// The CRM has done it and not answered.
    Performed,
    /// The answer is just on its way.
    Answered,
    /// Many outcomes are being committed.
    Committing,
    /// Something was just acknowledged.
    Acknowledged,
    /// The ambush saw nobody; it died all the same.
    Missed,
    /// Restate dies, and the server lives.
    Restate,
    /// Both die.
    Both,
}

impl Blow {
    const ALL: [Self; 7] = [
        Self::AnyTime,
        Self::Starting,
        Self::Arrived,
        Self::Performed,
        Self::Answered,
        Self::Committing,
        Self::Acknowledged,
    ];
    /// Where Restate conducts the runs.
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

impl fmt::Display for Blow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::AnyTime => "at any time",
            Self::Starting => "while starting",
            Self::Arrived => "request at the CRM, not performed",
            Self::Performed => "performed, not answered",
            Self::Answered => "just answered",
            Self::Committing => "during commits",
            Self::Acknowledged => "just acknowledged",
            Self::Missed => "ambush missed",
            Self::Restate => "Restate, at any time",
            Self::Both => "both, at any time",
        })
    }
}

/// What the killer has done.
#[derive(Debug, Default, Clone)]
pub struct Deeds {
    pub kills: BTreeMap<Blow, u64>,
    /// How long the servers took that came to listen.
    pub starts: Vec<Duration>,
}

/// The killer.
pub struct Killer<'a> {
    pub home: &'a Home,
    pub tap: &'a Tap,
    pub crowd: &'a Crowd,
    pub address: &'a watch::Sender<Option<String>>,
    /// The Restate that conducts the runs, if one does.
    pub restate: Option<Restate>,
    pub dice: Dice,
    pub deeds: Deeds,
}

impl Killer<'_> {
    /// Kills `server` and its successors, as often as wanted, and gives the one that lives on.
    pub async fn work(&mut self, mut server: Server, kills: u64, history: &mut History) -> Server {
        for _ in 0..kills {
            let blow = match self.restate {
                None => self.dice.pick(&Blow::ALL),
                Some(_) => self.dice.pick(&Blow::WITH_RESTATE),
            };
            if blow == Blow::Restate {
                self.listening(&mut server).await;
                self.pause(LIFE).await;
                self.kill_restate().await;
                *self.deeds.kills.entry(blow).or_default() += 1;
                continue;
            }
            let struck = self.strike(&mut server, blow).await;
            // What is held at the CRM is let go only when the server is dead.
            server.kill().await;
            self.tap.server_died();
            self.address.send_replace(None);
            self.tap.give_up();
            *self.deeds.kills.entry(struck.0).or_default() += 1;
            if blow == Blow::Both {
                self.kill_restate().await;
            }
            drop(struck);
            history.look(self.home, self.tap).await;
            server = Server::launch(self.home);
        }
        self.listening(&mut server).await;
        server
    }

    /// Waits for the moment of the blow. The blow may have become another one.
    async fn strike(&mut self, server: &mut Server, blow: Blow) -> (Blow, Option<Hold>) {
        if blow == Blow::Starting {
            let life = self.dice.moment(START);
            if let Ok((url, _)) = tokio::time::timeout(life, server.ready()).await {
                // Faster than that: then it is known, and dies at once.
                self.address.send_replace(Some(url));
            }
            return (blow, None);
        }
        self.listening(server).await;
        match blow {
            Blow::Arrived => self.ambush(blow, Point::Arrived).await,
            Blow::Performed => self.ambush(blow, Point::Performed).await,
            Blow::Answered => {
                let (blow, hold) = self.ambush(blow, Point::Answered).await;
                self.pause(AFTERMATH).await;
                (blow, hold)
            }
            Blow::Committing => {
                let sprung = self.tap.await_flood(FLOOD);
                let (blow, _) = caught(blow, sprung, FLOOD_PATIENCE).await;
                self.tap.give_up();
                self.pause(AFTERMATH).await;
                (blow, None)
            }
            Blow::Acknowledged => {
                let skip = self.dice.below(4);
                let mut acknowledged = self.crowd.acknowledged();
                let wanted = *acknowledged.borrow_and_update() + skip + 1;
                // What is seen must be let go at once: it keeps the others from acknowledging.
                let seen =
                    tokio::time::timeout(PATIENCE, acknowledged.wait_for(|count| *count >= wanted)).await.is_ok();
                self.pause(AFTERMATH).await;
                (if seen { blow } else { Blow::Missed }, None)
            }
            Blow::AnyTime | Blow::Starting | Blow::Missed | Blow::Restate | Blow::Both => {
                self.pause(LIFE).await;
                (blow, None)
            }
        }
    }

    async fn kill_restate(&mut self) {
        if let Some(restate) = &mut self.restate {
            restate.kill();
            restate.restart().await;
        }
    }

    async fn ambush(&mut self, blow: Blow, point: Point) -> (Blow, Option<Hold>) {
        let kinds = [None, Some(Kind::Idempotent), Some(Kind::Verifiable), Some(Kind::Blind), Some(Kind::Verify)];
        let (only, skip) = (self.dice.pick(&kinds), self.dice.below(5));
        caught(blow, self.tap.await_request(point, only, skip), PATIENCE).await
    }

    async fn listening(&mut self, server: &mut Server) {
        if self.address.borrow().is_some() {
            return;
        }
        let (url, took) = server.ready().await;
        self.deeds.starts.push(took);
        self.address.send_replace(Some(url));
    }

    /// Part of the experiment: nothing is waited for.
    async fn pause(&mut self, longest: Duration) {
        tokio::time::sleep(self.dice.moment(longest)).await;
    }
}

async fn caught(blow: Blow, sprung: oneshot::Receiver<Hold>, patience: Duration) -> (Blow, Option<Hold>) {
    match tokio::time::timeout(patience, sprung).await {
        Ok(Ok(hold)) => (blow, Some(hold)),
        _ => (Blow::Missed, None),
    }
}
