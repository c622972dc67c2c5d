//! Handlers for the notes and e-mails of a deal. Repeated requests are not recognized: each request adds a note or an
//! e-mail.

use std::collections::HashMap;
use std::sync::Arc;

use axum::Json;
use axum::extract::{Path, Query, State};
use serde::Deserialize;
use serde_json::{Value, json};

use super::Crm;
use super::deals::{lookup, write_outcome};
use super::error::Error;
use super::model::Note;
use crate::keyed_request::{KeyedRequest, Reply};

/// The id of the first note, and also of the first e-mail.
const FIRST_ID: u64 = 1;

pub(super) async fn add_note(
    State(crm): State<Arc<Crm>>,
    Path(deal): Path<String>,
    request: KeyedRequest,
) -> Result<Reply, Error> {
    crm.record_store.write_without_dedup("notes.create", &request, |records, at| {
        let NoteWire { text } = request.json()?;
        let deal = lookup(records, &deal)?.id;
        let id = records.notes.last().map_or(FIRST_ID, |last| last.id + 1);
        let note = Note { id, deal, text, reference: request.key.clone(), written_at: at };
        let reply = Reply::created(note.view());
        records.notes.push(note);
        Ok(write_outcome([id], reply))
    })
}

pub(super) async fn find_notes(
    State(crm): State<Arc<Crm>>,
    Query(query): Query<HashMap<String, String>>,
) -> Result<Json<Value>, Error> {
    crm.record_store.read("notes.find", |records| {
        let reference = query.get("reference").ok_or(Error::NoReference)?;
        let found = records.notes.iter().filter(|note| note.reference.as_ref() == Some(reference));
        Ok(Json(json!({"results": found.map(Note::view).collect::<Vec<_>>()})))
    })
}

pub(super) async fn send_email(
    State(crm): State<Arc<Crm>>,
    Path(deal): Path<String>,
    request: KeyedRequest,
) -> Result<Reply, Error> {
    crm.record_store.write_without_dedup("emails.send", &request, |records, at| {
        let EmailWire { to, subject } = request.json()?;
        let deal = lookup(records, &deal)?.id;
        let id = records.emails + FIRST_ID;
        records.emails += 1;
        let view = json!({
            "id": id.to_string(),
            "dealId": deal.to_string(),
            "to": to,
            "subject": subject,
            "sentAt": at.to_string(),
        });
        Ok(write_outcome([id], Reply::created(view)))
    })
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NoteWire {
    text: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct EmailWire {
    to: String,
    subject: String,
}
