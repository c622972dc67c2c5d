//! What every stored definition has around its body.

use serde::{Deserialize, Serialize};

use crate::{DocumentId, RefName, Source, Timestamp};

/// Fields the server fills in. A definition that was read may be sent back as it is: there they are ignored.
pub const MANAGED_FIELDS: [&str; 13] = [
    "audit",
    "id",
    "revision",
    "source",
    "contentHash",
    "createdBy",
    "createdAt",
    "updatedBy",
    "updatedAt",
    "warnings",
    "dataDomain",
    "creationIdentity",
    "lastUpdateIdentity",
];

/// The kinds of definitions, each with its collection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum DocumentKind {
    /// Tool definitions.
    Tool,
    /// Tool providers.
    Provider,
    /// Agents.
    Agent,
    /// Prompt fragments.
    Fragment,
    /// Types of records.
    Type,
}

impl DocumentKind {
    /// The name under which the kind is stored.
    pub fn as_str(self) -> &'static str {
        match self {
            DocumentKind::Tool => "tool",
            DocumentKind::Provider => "provider",
            DocumentKind::Agent => "agent",
            DocumentKind::Fragment => "fragment",
            DocumentKind::Type => "type",
        }
    }

    /// A new id for a document of this kind.
    pub fn new_id(self) -> String {
        match self {
            DocumentKind::Tool => crate::ToolId::generate().to_string(),
            DocumentKind::Provider => crate::ProviderId::generate().to_string(),
            DocumentKind::Agent => crate::AgentId::generate().to_string(),
            DocumentKind::Fragment => crate::FragmentId::generate().to_string(),
            DocumentKind::Type => crate::TypeId::generate().to_string(),
        }
    }
}

/// The fields the server manages.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Meta {
    /// `kind_ULID`.
    pub id: String,
    /// The name, unique in the realm.
    pub ref_name: RefName,
    /// How it came to be.
    pub source: Source,
    /// Counts writes; the ETag.
    pub revision: i64,
    /// SHA-256 of the canonical body.
    pub content_hash: String,
    /// Who created it.
    pub created_by: String,
    /// When.
    pub created_at: Timestamp,
    /// Who wrote this revision.
    pub updated_by: String,
    /// When.
    pub updated_at: Timestamp,
}

/// A definition as it stands in the store.
#[derive(Debug, Clone, PartialEq)]
pub struct Document<T> {
    /// The fields the server manages.
    pub meta: Meta,
    /// The definition.
    pub body: T,
}

impl<T> Document<T> {
    /// A document around a definition that no store holds, or not yet.
    pub fn unsaved(ref_name: RefName, body: T) -> Self {
        let never = Timestamp::from_micros(0);
        let meta = Meta {
            id: String::new(),
            ref_name,
            source: Source::Manual,
            revision: 0,
            content_hash: String::new(),
            created_by: String::new(),
            created_at: never,
            updated_by: String::new(),
            updated_at: never,
        };
        Self { meta, body }
    }

    /// The same document with another body.
    pub fn map<U>(self, f: impl FnOnce(T) -> U) -> Document<U> {
        Document { meta: self.meta, body: f(self.body) }
    }

    /// The same document with another body, or why there is none.
    pub fn try_map<U, E>(self, f: impl FnOnce(T) -> Result<U, E>) -> Result<Document<U>, E> {
        Ok(Document { meta: self.meta, body: f(self.body)? })
    }
}
