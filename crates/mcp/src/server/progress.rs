//! Progress of a request, for a client that asked to hear of it.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use rmcp::model::{ProgressNotificationParam, ProgressToken};
use rmcp::service::RequestContext;
use rmcp::{Peer, RoleServer};
use toolwright_tools::{Hearing, Step};

/// How often a request that has nothing to say says that it is under way.
pub(super) const HEARTBEAT: Duration = Duration::from_secs(5);

/// That a request is under way moves its number by as little as this: how much is done only the tool knows.
const BEAT: f64 = 0.001;

/// What is told of one request. The numbers only grow, as clients expect.
pub(super) struct Course {
    token: ProgressToken,
    told: f64,
    /// How much there is to do, as the tool said last.
    total: Option<f64>,
}

impl Course {
    pub fn new(token: ProgressToken) -> Self {
        Self { token, told: 0.0, total: None }
    }

    /// That it began, or a part of it.
    fn beginning(&mut self, what: &str) -> ProgressNotificationParam {
        let done = if self.told > 0.0 { self.told + BEAT } else { 0.0 };
        self.move_to(done).with_message(format!("{what} began"))
    }

    /// That it goes on.
    pub fn beat(&mut self, what: &str) -> ProgressNotificationParam {
        self.move_to(self.told + BEAT).with_message(format!("{what} is under way"))
    }

    /// What has just happened, where only that is counted.
    fn event(&mut self, message: String) -> ProgressNotificationParam {
        self.move_to(self.told.floor() + 1.0).with_message(message)
    }

    /// What the tool says; none when that is no progress, as when it began anew.
    pub fn passed_on(&mut self, step: Step) -> Option<ProgressNotificationParam> {
        if step.done <= self.told {
            return None;
        }
        self.total = step.total;
        let mut news = self.move_to(step.done);
        news.message = step.message;
        Some(news)
    }

    fn move_to(&mut self, done: f64) -> ProgressNotificationParam {
        self.told = done;
        let mut news = ProgressNotificationParam::new(self.token.clone(), done);
        news.total = self.total;
        news
    }
}

/// Tells a client how far a request is.
pub(super) struct Progress {
    peer: Peer<RoleServer>,
    course: Option<Mutex<Course>>,
}

impl Progress {
    pub fn of(cx: &RequestContext<RoleServer>) -> Self {
        let course = cx.meta.get_progress_token().map(|token| Mutex::new(Course::new(token)));
        Self { peer: cx.peer.clone(), course }
    }

    /// Says what has just happened.
    pub async fn say(&self, message: String) {
        self.tell(|course| Some(course.event(message))).await;
    }

    /// Says how far `work` is, by what is heard of it, and if that is nothing, again and again that `what` is under way.
    pub async fn during<T>(&self, what: &str, mut heard: Hearing<Step>, work: impl Future<Output = T>) -> T {
        if self.course.is_none() {
            return work.await;
        }
        self.tell(|course| Some(course.beginning(what))).await;
        let mut beat = tokio::time::interval_at(tokio::time::Instant::now() + HEARTBEAT, HEARTBEAT);
        let mut work = std::pin::pin!(work);
        loop {
            tokio::select! {
                biased;
                step = heard.next() => {
                    self.tell(|course| course.passed_on(step)).await;
                    beat.reset();
                }
                result = &mut work => return result,
                _ = beat.tick() => self.tell(|course| Some(course.beat(what))).await,
            }
        }
    }

    async fn tell(&self, news: impl FnOnce(&mut Course) -> Option<ProgressNotificationParam>) {
        let Some(course) = &self.course else { return };
        let news = news(&mut course.lock().unwrap_or_else(PoisonError::into_inner));
        if let Some(news) = news {
            // A client that has gone is noticed where its answer is sent.
            let _ = self.peer.notify_progress(news).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use rmcp::model::NumberOrString;

    use super::*;

    #[test]
    fn numbers_only_grow_whoever_counts() {
        let mut course = Course::new(ProgressToken(NumberOrString::Number(7)));
        let step = |done| Step { done, total: Some(2.0), message: None };
        assert_eq!(course.beginning("t").progress, 0.0);
        assert_eq!(course.beat("t").progress, BEAT);
        assert_eq!(course.passed_on(step(0.5)).map(|news| (news.progress, news.total)), Some((0.5, Some(2.0))));
        assert!(course.passed_on(step(0.5)).is_none(), "nothing was done meanwhile");
        assert!(course.passed_on(step(0.1)).is_none(), "it began anew");
        let beat = course.beat("t");
        assert_eq!((beat.progress, beat.total), (0.5 + BEAT, Some(2.0)), "it is known how much there is to do");
        assert_eq!(course.passed_on(step(1.0)).map(|news| news.progress), Some(1.0));
        assert_eq!(course.event("next".into()).progress, 2.0);
        assert_eq!(course.beginning("the rest").progress, 2.0 + BEAT);
    }
}
