//! Watching a run: its story from any entry on, and the text of the step under way.
//!
//! The story is a function of the journal, told entry by entry by [`Timeline`]; whoever comes late or comes back
//! reads the same one. A slow watcher gets longer pieces of text, never a gap.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use toolwright_machine::AgentRun;
use toolwright_machine::agent::Event;
use toolwright_machine::journal::{self, Recorded};
use toolwright_machine::timeline::{Moment, Timeline, Told};
use toolwright_store::Entry;

use super::Inner;
use super::live::{LiveRun, Said};

/// How long a watcher may be behind when another server drives the run.
const ELSEWHERE: Duration = Duration::from_secs(1);

/// What a watcher sees.
#[derive(Debug)]
pub enum Seen {
    /// What an entry of the journal led to; may be nothing.
    Entry {
        /// The entry.
        n: u64,
        /// What it led to.
        moments: Vec<Moment>,
    },
    /// A piece of the answer.
    Text {
        /// The step it is said in.
        iteration: u32,
        /// The piece.
        delta: String,
    },
    /// A piece of what the model thinks before it answers.
    Thinking {
        /// The step it is thought in.
        iteration: u32,
        /// The piece.
        delta: String,
    },
    /// The step begins anew: forget its pieces.
    Restart {
        /// The step.
        iteration: u32,
    },
}

/// A watcher's place in the story.
pub struct Watch {
    shared: Arc<Inner>,
    live: Arc<LiveRun>,
    /// Entries up to here are known to the watcher.
    after: u64,
    /// How many entries have been read.
    read: usize,
    timeline: Option<Timeline>,
    heard: Said,
    queue: VecDeque<Seen>,
    over: bool,
}

impl Watch {
    pub(super) fn new(shared: Arc<Inner>, live: Arc<LiveRun>, after: u64) -> Self {
        Self {
            shared,
            live,
            after,
            read: 0,
            timeline: None,
            heard: Said::default(),
            queue: VecDeque::new(),
            over: false,
        }
    }

    /// The agent that is run.
    pub fn agent(&self) -> &str {
        self.live.birth().map_or("", |birth| birth.began.agent.as_str())
    }

    /// What comes next; none after the end of the run.
    pub async fn next(&mut self) -> Option<Seen> {
        let live = Arc::clone(&self.live);
        loop {
            if let Some(seen) = self.queue.pop_front() {
                return Some(seen);
            }
            if self.over {
                return None;
            }
            let mut changed = std::pin::pin!(live.changed().notified());
            // Before looking: what changes from here on wakes us.
            changed.as_mut().enable();
            if !self.look() && tokio::time::timeout(ELSEWHERE, changed).await.is_err() {
                self.look_elsewhere().await;
            }
        }
    }

    /// Another server may drive the run: what it wrote is in the store.
    async fn look_elsewhere(&self) {
        let Some(birth) = self.live.birth().filter(|_| !self.live.is_driven()) else { return };
        let known = self.live.last_entry();
        match self.shared.news(&birth.home, self.live.id, known).await {
            Ok(news) => self.live.learn(news),
            Err(error) => tracing::warn!(run = %self.live.id, %error, "a watched run cannot be read"),
        }
    }

    /// Reads what is new; false if nothing is.
    fn look(&mut self) -> bool {
        let (fresh, said): (Vec<Arc<Entry>>, Said) = {
            let feed = self.live.feed();
            let fresh: Vec<Arc<Entry>> = feed.entries.iter().skip(self.read).cloned().collect();
            let said = if fresh.is_empty() && feed.said != self.heard { feed.said.clone() } else { Said::default() };
            (fresh, said)
        };
        self.read += fresh.len();
        if fresh.is_empty() {
            return self.hear(said);
        }
        for entry in fresh {
            match self.tell(&entry) {
                Ok(moments) => self.see(entry.n, moments),
                Err(error) => {
                    tracing::error!(run = %self.live.id, entry = entry.n, error, "the journal cannot be told");
                    self.over = true;
                }
            }
        }
        true
    }

    fn tell(&mut self, entry: &Entry) -> Result<Vec<Moment>, String> {
        let entry = journal::Entry::read(entry.n, entry.at, &entry.body).map_err(|error| error.to_string())?;
        let step = match (entry.what, &mut self.timeline) {
            (Recorded::Began(began), timeline) => {
                timeline.insert(Timeline::of(AgentRun::new(began.spec, entry.at))).advance()
            }
            (Recorded::Happened(what), Some(timeline)) => {
                timeline.apply(Event { at: entry.at, what }).map_err(|error| error.to_string())?
            }
            _ => return Ok(Vec::new()),
        };
        Ok(step.moments)
    }

    fn see(&mut self, n: u64, moments: Vec<Moment>) {
        self.over |= moments.iter().any(|moment| matches!(moment.what, Told::Ended { .. }));
        if n > self.after {
            let moments = moments.into_iter().filter_map(|moment| self.unheard(moment)).collect();
            self.queue.push_back(Seen::Entry { n, moments });
        }
    }

    /// A moment without the text that was heard already, piece by piece.
    fn unheard(&mut self, moment: Moment) -> Option<Moment> {
        let Told::Text(whole) = &moment.what else { return Some(moment) };
        if self.heard.step != moment.iteration {
            return Some(moment);
        }
        let heard = std::mem::take(&mut self.heard.text);
        match whole.strip_prefix(heard.as_str()) {
            Some("") => None,
            Some(rest) => Some(Moment { what: Told::Text(rest.to_owned()), ..moment }),
            None => {
                self.queue.push_back(Seen::Restart { iteration: moment.iteration });
                Some(moment)
            }
        }
    }

    /// Hears what the model said since; false if nothing.
    fn hear(&mut self, said: Said) -> bool {
        let iteration = said.step;
        if (said.step, said.restarts) != (self.heard.step, self.heard.restarts) {
            if said.step == 0 {
                return false;
            }
            if said.step == self.heard.step && !(self.heard.text.is_empty() && self.heard.thinking.is_empty()) {
                self.queue.push_back(Seen::Restart { iteration });
            }
            self.heard = Said { step: said.step, restarts: said.restarts, ..Said::default() };
        }
        let thinking = piece(&mut self.heard.thinking, &said.thinking);
        let text = piece(&mut self.heard.text, &said.text);
        self.queue.extend(thinking.map(|delta| Seen::Thinking { iteration, delta }));
        self.queue.extend(text.map(|delta| Seen::Text { iteration, delta }));
        !self.queue.is_empty()
    }
}

/// What was added to `heard`, which then has it too.
fn piece(heard: &mut String, said: &str) -> Option<String> {
    let new = said.get(heard.len()..).filter(|new| !new.is_empty())?.to_owned();
    heard.push_str(&new);
    Some(new)
}
