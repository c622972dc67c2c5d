//! Handlers for deals and their pipeline. Each handler validates the whole request before it changes a record.

use std::collections::BTreeSet;
use std::sync::Arc;

use axum::Json;
use axum::extract::{Path, State};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::Crm;
use super::error::Error;
use super::model::{Changes, Deal, Records, Stage};
use super::search::Query;
use crate::keyed_request::{KeyedRequest, Reply};
use crate::record_store::WriteOutcome;

const MAX_BATCH: usize = 100;

pub(super) async fn pipeline(State(crm): State<Arc<Crm>>) -> Json<Value> {
    crm.record_store.read("pipelines.get", |_| {
        let stage = |(order, stage): (usize, Stage)| json!({"id": stage.id(), "label": stage.label(), "order": order});
        let stages: Vec<Value> = Stage::ALL.into_iter().enumerate().map(stage).collect();
        Json(json!({"id": "default", "label": "Sales Pipeline", "stages": stages}))
    })
}

pub(super) async fn find(State(crm): State<Arc<Crm>>, request: KeyedRequest) -> Result<Json<Value>, Error> {
    crm.record_store.read("deals.search", |records| Ok(Json(Query::parse(&request)?.run(&records.deals))))
}

pub(super) async fn fetch(State(crm): State<Arc<Crm>>, Path(id): Path<String>) -> Result<Json<Value>, Error> {
    crm.record_store.read("deals.get", |records| Ok(Json(lookup(records, &id)?.view())))
}

pub(super) async fn create(State(crm): State<Arc<Crm>>, request: KeyedRequest) -> Result<Reply, Error> {
    crm.record_store.write("deals.create", &request, |records, at| {
        let body: PropertiesWire = request.json()?;
        let changes = Changes::parse_new(body.properties)?;
        let id = records.next_deal;
        records.next_deal += 1;
        let mut deal = Deal { id, properties: Default::default(), updated_at: at };
        deal.apply(changes, at);
        let reply = Reply::created(deal.view());
        records.deals.insert(id, deal);
        Ok(write_outcome([id], reply))
    })
}

pub(super) async fn update(
    State(crm): State<Arc<Crm>>,
    Path(id): Path<String>,
    request: KeyedRequest,
) -> Result<Reply, Error> {
    crm.record_store.write("deals.update", &request, |records, at| {
        let body: PropertiesWire = request.json()?;
        let changes = Changes::parse(body.properties)?;
        let id = lookup_unlocked(records, &id)?.id;
        let deal = records.deals.get_mut(&id).ok_or_else(|| not_found(id.to_string()))?;
        deal.apply(changes, at);
        Ok(write_outcome([deal.id], Reply::ok(deal.view())))
    })
}

pub(super) async fn batch_update(State(crm): State<Arc<Crm>>, request: KeyedRequest) -> Result<Reply, Error> {
    crm.record_store.write("deals.batchUpdate", &request, |records, at| {
        let changes_by_id = validate_batch(records, request.json()?)?;
        let ids: Vec<u64> = changes_by_id.iter().map(|(id, _)| *id).collect();
        let mut results = Vec::with_capacity(changes_by_id.len());
        for (id, changes) in changes_by_id {
            if let Some(deal) = records.deals.get_mut(&id) {
                deal.apply(changes, at);
                results.push(deal.view());
            }
        }
        let reply = Reply::ok(json!({"status": "COMPLETE", "results": results}));
        Ok(write_outcome(ids, reply))
    })
}

pub(super) async fn delete(
    State(crm): State<Arc<Crm>>,
    Path(id): Path<String>,
    request: KeyedRequest,
) -> Result<Reply, Error> {
    crm.record_store.write("deals.delete", &request, |records, _| {
        let id = lookup_unlocked(records, &id)?.id;
        records.deals.remove(&id);
        Ok(write_outcome([id], Reply::no_content()))
    })
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PropertiesWire {
    properties: Map<String, Value>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct BatchWire {
    inputs: Vec<InputWire>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct InputWire {
    id: IdWire,
    properties: Map<String, Value>,
}

/// The id of a deal in a request. Ids are strings, but numbers are accepted too, because models often send numbers.
#[derive(Deserialize)]
#[serde(untagged)]
enum IdWire {
    Text(String),
    Number(u64),
}

/// Validates all inputs of a batch. One invalid input rejects the whole batch.
fn validate_batch(records: &Records, batch: BatchWire) -> Result<Vec<(u64, Changes)>, Error> {
    if batch.inputs.is_empty() || batch.inputs.len() > MAX_BATCH {
        return Err(Error::BatchSize(batch.inputs.len()));
    }
    let mut seen = BTreeSet::new();
    let changes = batch.inputs.into_iter().map(|input| {
        let id = match input.id {
            IdWire::Text(id) => lookup_unlocked(records, &id)?.id,
            IdWire::Number(id) => lookup_unlocked(records, &id.to_string())?.id,
        };
        if !seen.insert(id) {
            return Err(Error::DuplicateInput(id));
        }
        Ok((id, Changes::parse(input.properties)?))
    });
    changes.collect()
}

pub(super) fn lookup<'a>(records: &'a Records, id: &str) -> Result<&'a Deal, Error> {
    let found = id.parse().ok().and_then(|id| records.deals.get(&id));
    found.ok_or_else(|| not_found(id.to_owned()))
}

/// Returns a deal for a change. Fails if the deal does not exist or is locked.
fn lookup_unlocked<'a>(records: &'a Records, id: &str) -> Result<&'a Deal, Error> {
    let deal = lookup(records, id)?;
    if records.locked.contains(&deal.id) { Err(Error::Locked(deal.id)) } else { Ok(deal) }
}

fn not_found(id: String) -> Error {
    Error::NotFound { kind: "deal", id }
}

pub(super) fn write_outcome(ids: impl IntoIterator<Item = u64>, reply: Reply) -> WriteOutcome {
    WriteOutcome { ids: ids.into_iter().map(|id| id.to_string()).collect(), reply }
}
