//! The variables that every query can use: who asks, and where.

use serde_json::{Map, Value, json};

use super::Records;
use super::error::{Part, RecordError};
use crate::Unavailable;
use crate::access::Session;

/// The names that are taken.
const KNOWN: [&str; 14] = [
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
    /// The caller's variables and those that are always there.
    pub(super) async fn variables(
        &self,
        session: &Session,
        given: &Map<String, Value>,
    ) -> Result<Map<String, Value>, RecordError> {
        if let Some(name) = given.keys().find(|name| KNOWN.contains(&name.as_str())) {
            return Err(RecordError::asked(Part::Variables, format!("`{name}` is the server's; choose another name")));
        }
        let org = self.org_name(session).await?;
        let (who, realm) = (session.principal.name.as_str(), session.realm.name.as_str());
        let values = [
            json!(who),
            json!(who),
            json!(realm),
            json!(org),
            json!(org),
            json!(self.home_name(session).await?),
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
        variables.extend(KNOWN.map(str::to_owned).into_iter().zip(values));
        Ok(variables)
    }

    /// The name of the org that owns the realm. Names do not change.
    pub(super) async fn org_name(&self, session: &Session) -> Result<String, Unavailable> {
        let org = session.realm.org;
        if let Some(name) = self.0.orgs.get(&org) {
            return Ok(name);
        }
        let name = self.0.store.tenancy().org_name(org).await?.map(|name| name.to_string()).unwrap_or_default();
        self.0.orgs.insert(org, name.clone());
        Ok(name)
    }

    async fn home_name(&self, session: &Session) -> Result<String, Unavailable> {
        let home = session.principal.home;
        if home == session.realm.realm {
            return Ok(session.realm.name.to_string());
        }
        if let Some(name) = self.0.homes.get(&home) {
            return Ok(name);
        }
        let found = self.0.store.tenancy().realm_by_id(home).await?;
        let name = found.map(|realm| realm.name.to_string()).unwrap_or_default();
        self.0.homes.insert(home, name.clone());
        Ok(name)
    }
}
