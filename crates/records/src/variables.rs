//! Provides the query variables that the server sets, such as the principal, the org and the realm.

use serde_json::{Map, Value, json};

use super::Records;
use super::error::{RecordError, RequestPart};
use toolwright_catalog::Session;
use toolwright_catalog::Unavailable;

/// The names of the variables that the server sets. Callers cannot define variables with these names.
const RESERVED: [&str; 14] = [
    "principalId",
    "ownerId",
    "pTenantId",
    "pAccountId",
    "orgRefName",
    "defaultRealm",
    "area",
    "functionalDomain",
    "action",
    "dcTenantId",
    "dcOrgRefName",
    "dcAccountId",
    "dcDataSegment",
    "systemTenantId",
];

impl Records {
    /// Returns the caller's variables and the variables that the server provides.
    pub(super) async fn variables(
        &self,
        session: &Session,
        given: &Map<String, Value>,
    ) -> Result<Map<String, Value>, RecordError> {
        if let Some(name) = given.keys().find(|name| RESERVED.contains(&name.as_str())) {
            return Err(RecordError::invalid_request(
                RequestPart::Variables,
                format!("`{name}` is reserved; choose another name"),
            ));
        }
        let org = self.org_name(session).await?;
        let (principal, realm) = (session.principal.name.as_str(), session.realm.name.as_str());
        let values = [
            json!(principal),
            json!(principal),
            json!(realm),
            json!(org),
            json!(org),
            json!(self.home_realm_name(session).await?),
            json!("integration"),
            json!("query"),
            json!("find"),
            json!(realm),
            json!(org),
            json!(org),
            json!(0),
            json!("default"),
        ];
        let mut variables = given.clone();
        variables.extend(RESERVED.map(str::to_owned).into_iter().zip(values));
        Ok(variables)
    }

    /// Returns the name of the org that owns the realm. Cached without expiry, because names never change.
    pub(super) async fn org_name(&self, session: &Session) -> Result<String, Unavailable> {
        let org = session.realm.org;
        if let Some(name) = self.inner.org_names.get(&org) {
            return Ok(name);
        }
        let name = self.inner.store.tenancy().org_name(org).await?.map(|name| name.to_string()).unwrap_or_default();
        self.inner.org_names.insert(org, name.clone());
        Ok(name)
    }

    async fn home_realm_name(&self, session: &Session) -> Result<String, Unavailable> {
        let home = session.principal.home;
        if home == session.realm.realm {
            return Ok(session.realm.name.to_string());
        }
        if let Some(name) = self.inner.home_realm_names.get(&home) {
            return Ok(name);
        }
        let found = self.inner.store.tenancy().realm_by_id(home).await?;
        let name = found.map(|realm| realm.name.to_string()).unwrap_or_default();
        self.inner.home_realm_names.insert(home, name.clone());
        Ok(name)
    }
}
