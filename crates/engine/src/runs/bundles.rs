//! Runs as files, and journals held against their hashes.

use std::collections::BTreeSet;
use std::sync::Arc;

use data_encoding::{BASE64, HEXLOWER};
use toolwright_authz::Action;
use toolwright_machine::journal::bundle::{self, Attached, Bundle, InvalidBundle, Written};
use toolwright_machine::journal::parts::{self, Part};
use toolwright_machine::journal::{self, Began, Recorded};
use toolwright_store::Entry;
use toolwright_types::{RealmScope, RunId};

use super::signal::SignalError;
use super::{Inner, Runs};
use crate::Unavailable;
use crate::access::Session;

/// What a look at a journal found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verification {
    /// How many entries there are.
    pub entries: u64,
    /// The hash of the last one, which stands for the whole journal.
    pub head: String,
    /// The first entry that is not what was written, and why.
    pub broken: Option<(u64, String)>,
}

impl Runs {
    /// Holds the journal of a run against its hashes.
    pub async fn verify(&self, session: &Session, run: RunId) -> Result<Verification, SignalError> {
        let row = self.permitted(session, run, Action::Read).await?;
        let entries = self.0.written(&session.realm, run).await?;
        let last = entries.last();
        let mut broken = bundle::broken_at(run, &entries)
            .map(|n| (n, "it was changed, moved or dropped, or one before it was".to_owned()));
        let mark = row.state.mark;
        let marked = entries.iter().find(|entry| entry.n == mark.n).map(|entry| entry.hash);
        if broken.is_none() && mark.n > 0 && marked != Some(mark.hash) {
            broken = Some((mark.n, "the run was written after an entry that is not here".to_owned()));
        }
        if broken.is_none() {
            broken = self.0.broken_part(&session.realm, &entries).await?;
        }
        Ok(Verification {
            entries: last.map_or(0, |last| last.n),
            head: last.map(|last| HEXLOWER.encode(&last.hash)).unwrap_or_default(),
            broken,
        })
    }

    /// Whether a bundle is what this server has written of one of the session's runs.
    pub(crate) async fn wrote(&self, session: &Session, bundle: &Bundle) -> Result<bool, Unavailable> {
        match self.verify(session, bundle.run).await {
            Ok(found) => {
                let head = bundle.entries.last().map(|last| HEXLOWER.encode(&last.hash));
                Ok(found.broken.is_none() && Some(found.head) == head)
            }
            Err(SignalError::Unavailable(error)) => Err(error),
            Err(_) => Ok(false),
        }
    }

    /// A run as a file that can be replayed anywhere.
    pub async fn export(&self, session: &Session, run: RunId) -> Result<String, ExportError> {
        self.permitted(session, run, Action::Read).await?;
        let entries = self.0.written(&session.realm, run).await?;
        let mut parts = Vec::new();
        for entry in &entries {
            parts.extend(self.0.parts_of(&session.realm, entry).await?);
        }
        let blobs = self.0.blobs_of(&session.realm, &entries).await?;
        Ok(Bundle::of(run, entries, parts, blobs)?.text())
    }
}

/// Why a run cannot be given as a file.
#[derive(Debug, thiserror::Error)]
pub enum ExportError {
    /// It cannot be read.
    #[error(transparent)]
    Run(#[from] SignalError),
    /// What is written of it makes no run.
    #[error("the run cannot be exported: {0}")]
    Journal(#[from] InvalidBundle),
}

impl From<Unavailable> for ExportError {
    fn from(error: Unavailable) -> Self {
        ExportError::Run(error.into())
    }
}

impl Inner {
    /// The journal of a run exactly as it is written.
    async fn written(&self, home: &RealmScope, run: RunId) -> Result<Vec<Written>, Unavailable> {
        if self.hub.get(run).is_some() {
            // What is under way may not be written yet.
            self.writer.commit(run, Vec::new()).await?;
        }
        let entries = self.raw(home, run).await?;
        let written = |entry: Entry| Written { n: entry.n, at: entry.at, body: entry.body, hash: entry.hash };
        Ok(entries.into_iter().map(written).collect())
    }

    async fn parts_of(&self, home: &RealmScope, entry: &Written) -> Result<Vec<Part>, Unavailable> {
        let unreadable = |error| Unavailable::new("an entry cannot be read")(Box::new(error));
        // Only a beginning has any.
        let named = if entry.n == 1 { parts::named_in(&entry.body).map_err(unreadable)? } else { Default::default() };
        let named: Vec<String> = named.into_values().collect::<BTreeSet<_>>().into_iter().collect();
        let mut found = self.store.runs(home).parts(&named).await?;
        let part = |hash: String| found.remove(&hash).map(|body| Part { hash, body });
        Ok(named.into_iter().filter_map(part).collect())
    }

    /// The first part that is not what its hash says, as the entry that names it.
    async fn broken_part(&self, home: &RealmScope, entries: &[Written]) -> Result<Option<(u64, String)>, Unavailable> {
        let Some(first) = entries.first() else { return Ok(None) };
        let found = self.parts_of(home, first).await?;
        let find = |hash: &str| found.iter().find(|part| part.hash == hash).map(|part| part.body.clone());
        Ok(parts::put_back(&first.body, find).err().map(|error| (first.n, error.to_string())))
    }

    /// What a run began with.
    async fn beginning(&self, home: &RealmScope, entries: &[Written]) -> Result<Began, Unavailable> {
        let unreadable = |what: String| Unavailable::new("the beginning of the run cannot be read")(what.into());
        let first = entries.first().ok_or_else(|| unreadable("no entries".into()))?;
        let found = self.parts_of(home, first).await?;
        let find = |hash: &str| found.iter().find(|part| part.hash == hash).map(|part| part.body.clone());
        let body = parts::put_back(&first.body, find).map_err(|error| unreadable(error.to_string()))?;
        match journal::Entry::read(first.n, first.at, &body).map(|entry| entry.what) {
            Ok(Recorded::Began(began)) => Ok(*began),
            Ok(_) => Err(unreadable("it is no beginning".into())),
            Err(error) => Err(unreadable(error.to_string())),
        }
    }

    /// Everything that receipts of this journal name by its hash.
    async fn blobs_of(&self, home: &Arc<RealmScope>, entries: &[Written]) -> Result<Vec<Attached>, ExportError> {
        let ids: BTreeSet<String> = entries.iter().flat_map(|entry| bundle::blobs_named_in(&entry.body)).collect();
        // They are kept where the run acted.
        let realm = match ids.is_empty() {
            true => None,
            false => Some(self.acting_realm(&self.beginning(home, entries).await?, home).await?),
        };
        let mut blobs = Vec::new();
        for (id, realm) in ids.into_iter().zip(realm.iter().cycle()) {
            let blob = self.blobs.get(realm, &id).await?.ok_or_else(|| InvalidBundle::Blob(id.clone()))?;
            blobs.push(Attached { id, base64: BASE64.encode(&blob.bytes) });
        }
        Ok(blobs)
    }
}
