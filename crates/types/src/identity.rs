//! Identities: an org contains realms, and principals act in a realm.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::name::InvalidRefName;
use crate::{OrgId, PrincipalId, RealmId, RefName};

/// The name of an org, realm or principal. It may contain `@` and the characters of [`RefName`] except the slash.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct ScopeName(String);

/// The name of an org.
pub type OrgName = ScopeName;
/// The name of a realm.
pub type RealmName = ScopeName;
/// The name of a principal.
pub type PrincipalName = ScopeName;

impl ScopeName {
    /// The name as written.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for ScopeName {
    type Err = InvalidRefName;

    fn from_str(name: &str) -> Result<Self, InvalidRefName> {
        if name.contains('/') {
            return Err(InvalidRefName::Slash(name.to_owned()));
        }
        // `@` is allowed because people are often named by their e-mail address.
        name.replace('@', "_").parse::<RefName>()?;
        Ok(Self(name.to_owned()))
    }
}

impl TryFrom<String> for ScopeName {
    type Error = InvalidRefName;

    fn try_from(name: String) -> Result<Self, InvalidRefName> {
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

/// The role of a principal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// May do everything in every realm of the org.
    Admin,
    /// May read definitions, call tools and run agents in the home realm of the principal.
    Member,
}

impl Role {
    /// The name on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Role::Admin => "admin",
            Role::Member => "member",
        }
    }
}

/// The realm in which an operation reads and writes. Every access to stored data requires a `RealmScope`.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct RealmScope {
    /// The org that owns the realm.
    pub org: OrgId,
    /// The realm.
    pub realm: RealmId,
    /// The realm's name, for messages, security URIs and logs.
    pub name: RealmName,
}

/// An authenticated user or service account.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Principal {
    /// The id.
    pub id: PrincipalId,
    /// The name, as shown in envelopes and audit fields.
    pub name: PrincipalName,
    /// The org that the principal belongs to.
    pub org: OrgId,
    /// The default realm of the principal.
    pub home: RealmId,
    /// The roles of the principal.
    pub roles: Vec<Role>,
}

/// The owner of a run and its data: the principal that started the run. Child runs have the owner of their parent.
///
/// If an agent has a `principalRef`, its runs act as that principal and not as their owner. The acting principal
/// determines what a run may do, and the owner determines who sees the results. The two have different types, so that
/// one cannot be used in place of the other.
///
/// ```compile_fail,E0308
/// # use toolwright_types::{Owner, Principal};
/// fn owner(principal: &Principal) -> Owner {
///     principal.id
/// }
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Owner(PrincipalId);

impl Owner {
    /// The owner with this id.
    pub fn new(id: PrincipalId) -> Self {
        Self(id)
    }

    /// The owner of everything that `principal` starts.
    pub fn of(principal: &Principal) -> Self {
        Self(principal.id)
    }

    /// The id of the principal.
    pub fn id(self) -> PrincipalId {
        self.0
    }
}

impl fmt::Display for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
