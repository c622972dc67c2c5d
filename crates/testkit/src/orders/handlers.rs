//! Handlers of the orders API.

use std::collections::HashMap;
use std::sync::Arc;

use axum::Json;
use axum::extract::{Path, Query, State};
use serde::Deserialize;
use serde_json::{Value, json};

use super::Orders;
use super::error::Error;
use super::model::{Customer, NewOrderWire, Order, OrderQuery, Status, order_number};
use crate::keyed_request::{KeyedRequest, Reply};
use crate::record_store::WriteOutcome;

pub(super) async fn list(
    State(orders): State<Arc<Orders>>,
    Query(query): Query<HashMap<String, String>>,
) -> Result<Json<Value>, Error> {
    orders.record_store.read("orders.list", |records| {
        let query = OrderQuery::parse(query).map_err(Error::Invalid)?;
        let mut matching = records
            .orders
            .range(query.after.saturating_add(1)..)
            .map(|(_, order)| order)
            .filter(|order| query.matches(order));
        let items: Vec<&Order> = matching.by_ref().take(query.limit).collect();
        let more = matching.next().is_some();
        let next = items.last().filter(|_| more).map(|order| order.id.as_str());
        Ok(Json(json!({"items": items, "nextCursor": next})))
    })
}

pub(super) async fn fetch(State(orders): State<Arc<Orders>>, Path(id): Path<String>) -> Result<Json<Order>, Error> {
    orders.record_store.read("orders.get", |records| {
        let found = order_number(&id).and_then(|number| records.orders.get(&number));
        found.cloned().map(Json).ok_or_else(|| no_order(id))
    })
}

pub(super) async fn customer(
    State(orders): State<Arc<Orders>>,
    Path(id): Path<String>,
) -> Result<Json<Customer>, Error> {
    orders.record_store.read("customers.get", |records| {
        let found = records.customers.get(id.as_str()).cloned();
        found.map(Json).ok_or(Error::NotFound { kind: "customer", id })
    })
}

pub(super) async fn create(State(orders): State<Arc<Orders>>, request: KeyedRequest) -> Result<Reply, Error> {
    orders.record_store.write("orders.create", &request, |records, at| {
        let wire: NewOrderWire = request.json()?;
        let new = wire.check(records).map_err(Error::Invalid)?;
        let newest = records.orders.last_key_value();
        let number = newest.map_or(1, |(number, _)| number + 1);
        let order = Order::new(number, new, at);
        let written = write_outcome(&order, Reply::created(json!(order)));
        records.orders.insert(number, order);
        Ok(written)
    })
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CancelWire {
    reason: Option<String>,
}

/// Cancels an order. Cancelling a cancelled order succeeds and writes nothing.
pub(super) async fn cancel(
    State(orders): State<Arc<Orders>>,
    Path(id): Path<String>,
    request: KeyedRequest,
) -> Result<Reply, Error> {
    orders.record_store.write("orders.cancel", &request, |records, at| {
        let CancelWire { reason } = request.json()?;
        let found = order_number(&id).and_then(|number| records.orders.get_mut(&number));
        let order = found.ok_or_else(|| no_order(id.clone()))?;
        match order.status {
            status @ (Status::Shipped | Status::Delivered) => Err(Error::NotCancellable { id, status }),
            Status::Cancelled => Ok(WriteOutcome { ids: Vec::new(), reply: Reply::ok(json!(order)) }),
            Status::Pending | Status::Paid => {
                order.status = Status::Cancelled;
                order.cancel_reason = reason;
                order.updated_at = at;
                Ok(write_outcome(order, Reply::ok(json!(order))))
            }
        }
    })
}

fn no_order(id: String) -> Error {
    Error::NotFound { kind: "order", id }
}

fn write_outcome(order: &Order, reply: Reply) -> WriteOutcome {
    WriteOutcome { ids: vec![order.id.clone()], reply }
}
