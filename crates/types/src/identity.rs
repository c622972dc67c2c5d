//! Who acts, and where: org ⊃ realm ⊃ principal.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::name::InvalidName;
use crate::{OrgId, PrincipalId, RealmId, RefName};

/// A name of an org, realm or principal: the alphabet of [`RefName`] without the slash, and `@`.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct ScopeName(String);

/// The name of an organisation.
pub type OrgName = ScopeName;
/// The name of a realm.
pub type RealmName = ScopeName;
/// The name of a principal.
pub type PrincipalName = ScopeName;

impl ScopeName {
    /// The name as it was written.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for ScopeName {
    type Err = InvalidName;

    fn from_str(name: &str) -> Result<Self, InvalidName> {
        if name.contains('/') {
            return Err(InvalidName::Slash(name.to_owned()));
        }
        // An e-mail address is a common name for a person.
        name.replace('@', "_").parse::<RefName>()?;
        Ok(Self(name.to_owned()))
    }
}

impl TryFrom<String> for ScopeName {
    type Error = InvalidName;

    fn try_from(name: String) -> Result<Self, InvalidName> {
        name.parse()
    }
}

impl From<ScopeName> for String {
    fn from(name: ScopeName) -> String {
        name.0
    }
}

impl fmt::Display for ScopeName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for ScopeName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

/// What a principal is trusted with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// Everything in every realm of the org.
    Admin,
    /// Reads definitions and calls tools in the own realm.
    Member,
}

impl Role {
    /// The role as it is written on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Role::Admin => "admin",
            Role::Member => "member",
        }
    }
}

/// The realm an operation is confined to. Every stored row is reached through one.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct RealmScope {
    /// The org that owns the realm.
    pub org: OrgId,
    /// The realm.
    pub realm: RealmId,
    /// The realm's name, for messages, security URIs and logs.
    pub name: RealmName,
}

/// A user or service account that was authenticated.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Principal {
    /// Its identity.
    pub id: PrincipalId,
    /// Its name, as shown in receipts and audit fields.
    pub name: PrincipalName,
    /// The org it belongs to.
    pub org: OrgId,
    /// The realm it acts in when no other is asked for.
    pub home: RealmId,
    /// What it is trusted with.
    pub roles: Vec<Role>,
}
