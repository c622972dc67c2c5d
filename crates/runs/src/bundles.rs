//! Exports runs as bundles and verifies journals against their hashes.

use std::collections::BTreeSet;
use std::sync::Arc;

use data_encoding::{BASE64, HEXLOWER};
use toolwright_authz::Action;
use toolwright_machine::journal::bundle::{self, AttachedBlob, Bundle, InvalidBundle, StoredEntry};
use toolwright_machine::journal::shared_parts::{self, SharedPart};
use toolwright_machine::journal::{self, EntryBody, RunStart};
use toolwright_store::JournalEntry;
use toolwright_types::{RealmScope, RunId};

use super::command::CommandError;
use super::{Inner, Runs};
use toolwright_catalog::Session;
use toolwright_catalog::Unavailable;

/// The result of a verification.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verification {
    /// The number of entries.
    pub entries: u64,
    /// The hash of the last entry. Each hash includes the previous one, so this hash covers the whole journal.
    pub head_hash: String,
    /// The number of the first entry that does not match its hash, and the reason.
    pub broken: Option<(u64, String)>,
}

impl Runs {
    /// Verifies the journal of a run against its hashes.
    pub async fn verify(&self, session: &Session, run: RunId) -> Result<Verification, CommandError> {
        let row = self.permitted(session, run, Action::Read).await?;
        let entries = self.0.written(&session.realm, run).await?;
        let last = entries.last();
        let mut broken = bundle::first_broken_entry(run, &entries)
            .map(|n| (n, "this entry or an earlier one was changed, moved or deleted".to_owned()));
        let mark = row.state.journal_position;
        let marked = entries.iter().find(|entry| entry.n == mark.n).map(|entry| entry.hash);
        if broken.is_none() && mark.n > 0 && marked != Some(mark.hash) {
            broken = Some((mark.n, "the row of the run refers to an entry that does not exist".to_owned()));
        }
        if broken.is_none() {
            broken = self.0.broken_part(&session.realm, &entries).await?;
        }
        Ok(Verification {
            entries: last.map_or(0, |last| last.n),
            head_hash: last.map(|last| HEXLOWER.encode(&last.hash)).unwrap_or_default(),
            broken,
        })
    }

    /// Whether a bundle was exported from a run of this server. This is the case if the stored run with the same id has
    /// the same last hash. Returns false if the session may not read the stored run, or if the stored journal does not
    /// match its hashes.
    pub async fn wrote(&self, session: &Session, bundle: &Bundle) -> Result<bool, Unavailable> {
        match self.verify(session, bundle.run).await {
            Ok(found) => {
                let head = bundle.entries.last().map(|last| HEXLOWER.encode(&last.hash));
                Ok(found.broken.is_none() && Some(found.head_hash) == head)
            }
            Err(CommandError::Unavailable(error)) => Err(error),
            Err(_) => Ok(false),
        }
    }

    /// Exports a run as a bundle that can be replayed without this server's database.
    pub async fn export(&self, session: &Session, run: RunId) -> Result<String, ExportError> {
        self.permitted(session, run, Action::Read).await?;
        let entries = self.0.written(&session.realm, run).await?;
        let mut parts = Vec::new();
        for entry in &entries {
            parts.extend(self.0.parts_of(&session.realm, entry).await?);
        }
        let blobs = self.0.blobs_of(&session.realm, &entries).await?;
        Ok(Bundle::new(run, entries, parts, blobs)?.to_text())
    }
}

/// Why a run cannot be exported.
#[derive(Debug, thiserror::Error)]
pub enum ExportError {
    /// The run cannot be read.
    #[error(transparent)]
    Run(#[from] CommandError),
    /// The journal cannot be replayed, or one of its blobs is missing.
    #[error("the run cannot be exported: {0}")]
    Journal(#[from] InvalidBundle),
}

impl From<Unavailable> for ExportError {
    fn from(error: Unavailable) -> Self {
        ExportError::Run(error.into())
    }
}

impl Inner {
    /// Reads the journal of a run as it is stored.
    async fn written(&self, home: &RealmScope, run: RunId) -> Result<Vec<StoredEntry>, Unavailable> {
        if self.registry.get(run).is_some() {
            // The last entries of a run in memory may not be committed yet. They are committed before the journal is
            // read.
            self.writer.commit(run, Vec::new()).await?;
        }
        let entries = self.raw_entries(home, run).await?;
        let written =
            |entry: JournalEntry| StoredEntry { n: entry.n, at: entry.at, body: entry.body, hash: entry.hash };
        Ok(entries.into_iter().map(written).collect())
    }

    async fn parts_of(&self, home: &RealmScope, entry: &StoredEntry) -> Result<Vec<SharedPart>, Unavailable> {
        let unreadable = |error| Unavailable::new("an entry cannot be read", error);
        // Only the first entry has shared parts.
        let named = if entry.n == 1 {
            shared_parts::referenced_parts(&entry.body).map_err(unreadable)?
        } else {
            Default::default()
        };
        let named: Vec<String> = named.into_values().collect::<BTreeSet<_>>().into_iter().collect();
        let mut found = self.store.runs(home).shared_parts(&named).await?;
        let part = |hash: String| found.remove(&hash).map(|body| SharedPart { hash, body });
        Ok(named.into_iter().filter_map(part).collect())
    }

    /// Returns the first shared part that does not match its hash: the number of the entry that refers to it, and the
    /// reason.
    async fn broken_part(
        &self,
        home: &RealmScope,
        entries: &[StoredEntry],
    ) -> Result<Option<(u64, String)>, Unavailable> {
        let Some(first) = entries.first() else { return Ok(None) };
        let found = self.parts_of(home, first).await?;
        let find = |hash: &str| found.iter().find(|part| part.hash == hash).map(|part| part.body.clone());
        Ok(shared_parts::restore(&first.body, find).err().map(|error| (first.n, error.to_string())))
    }

    /// The first entry of a run.
    async fn beginning(&self, home: &RealmScope, entries: &[StoredEntry]) -> Result<RunStart, Unavailable> {
        let unreadable = |what: String| Unavailable::new("the beginning of the run cannot be read", what);
        let first = entries.first().ok_or_else(|| unreadable("no entries".into()))?;
        let found = self.parts_of(home, first).await?;
        let find = |hash: &str| found.iter().find(|part| part.hash == hash).map(|part| part.body.clone());
        let body = shared_parts::restore(&first.body, find).map_err(|error| unreadable(error.to_string()))?;
        match journal::Entry::parse(first.n, first.at, &body).map(|entry| entry.body) {
            Ok(EntryBody::Started(start)) => Ok(*start),
            Ok(_) => Err(unreadable("it is no beginning".into())),
            Err(error) => Err(unreadable(error.to_string())),
        }
    }

    /// Returns the blobs that the envelopes in these entries refer to.
    async fn blobs_of(
        &self,
        home: &Arc<RealmScope>,
        entries: &[StoredEntry],
    ) -> Result<Vec<AttachedBlob>, ExportError> {
        let ids: BTreeSet<String> = entries.iter().flat_map(|entry| bundle::referenced_blobs(&entry.body)).collect();
        // Blobs are stored in the realm that the run acted in.
        let realm = match ids.is_empty() {
            true => None,
            false => Some(self.acting_realm(&self.beginning(home, entries).await?, home).await?),
        };
        let mut blobs = Vec::new();
        for (id, realm) in ids.into_iter().zip(realm.iter().cycle()) {
            let blob = self.blobs.get(realm, &id).await?.ok_or_else(|| InvalidBundle::Blob(id.clone()))?;
            blobs.push(AttachedBlob { id, base64: BASE64.encode(&blob.bytes) });
        }
        Ok(blobs)
    }
}
