//! Handlers for companies, which are read-only.

use std::collections::HashMap;
use std::sync::Arc;

use axum::Json;
use axum::extract::{Path, Query, State};
use serde_json::Value;

use super::Crm;
use super::error::Error;
use super::model::Company;
use super::search::Page;

pub(super) async fn list(
    State(crm): State<Arc<Crm>>,
    Query(query): Query<HashMap<String, Value>>,
) -> Result<Json<Value>, Error> {
    crm.record_store.read("companies.list", |records| {
        let page = Page::parse(query.get("limit"), query.get("after"))?;
        let companies: Vec<&Company> = records.companies.values().collect();
        Ok(Json(page.render(&companies, |company| company.view())))
    })
}

pub(super) async fn fetch(State(crm): State<Arc<Crm>>, Path(id): Path<String>) -> Result<Json<Value>, Error> {
    crm.record_store.read("companies.get", |records| {
        let found = id.parse().ok().and_then(|id| records.companies.get(&id));
        let company = found.ok_or(Error::NotFound { kind: "company", id })?;
        Ok(Json(company.view()))
    })
}
