//! Limits the number of MCP sessions of each principal. Without this limit, one principal could open all sessions.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use toolwright_types::PrincipalId;

/// The principal has the maximum number of sessions.
#[derive(Debug, thiserror::Error)]
#[error(
    "you have {0} open MCP sessions, which is the limit of one principal (`mcp.max_sessions_per_principal`); end a \
     session with DELETE and its `Mcp-Session-Id`, or wait until an unused session ends after one hour"
)]
pub(super) struct TooManySessions(usize);

/// Counts the open sessions of each principal.
pub(super) struct SessionCounter {
    per_principal: usize,
    sessions: Arc<LocalSessionManager>,
    open: Mutex<HashMap<PrincipalId, OpenSessions>>,
}

#[derive(Default)]
struct OpenSessions {
    ids: HashSet<String>,
    /// The number of sessions that are being opened.
    opening: usize,
}

/// A place for a session that is being opened.
pub(super) struct Reservation<'a> {
    counter: &'a SessionCounter,
    principal: PrincipalId,
}

impl SessionCounter {
    pub(super) fn new(per_principal: usize, sessions: Arc<LocalSessionManager>) -> Self {
        Self { per_principal, sessions, open: Mutex::default() }
    }

    /// Reserves a place for a new session of a principal.
    pub(super) async fn reserve(&self, principal: PrincipalId) -> Result<Reservation<'_>, TooManySessions> {
        let live = self.sessions.sessions.read().await;
        let mut open = self.open();
        let own = open.entry(principal).or_default();
        // The session manager does not report the end of a session, so ended sessions are removed here.
        own.ids.retain(|id| live.contains_key(id.as_str()));
        if own.ids.len() + own.opening >= self.per_principal {
            return Err(TooManySessions(self.per_principal));
        }
        own.opening += 1;
        Ok(Reservation { counter: self, principal })
    }

    fn open(&self) -> MutexGuard<'_, HashMap<PrincipalId, OpenSessions>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Reservation<'_> {
    /// Counts the session that was opened.
    pub(super) fn opened(&self, id: &str) {
        self.counter.open().entry(self.principal).or_default().ids.insert(id.to_owned());
    }
}

impl Drop for Reservation<'_> {
    fn drop(&mut self) {
        let mut open = self.counter.open();
        if let Some(own) = open.get_mut(&self.principal) {
            own.opening = own.opening.saturating_sub(1);
            if own.opening == 0 && own.ids.is_empty() {
                open.remove(&self.principal);
            }
        }
    }
}
