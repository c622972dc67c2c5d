//! The stored form of a definition: the body that its author wrote, and the fields that the server manages.

use serde::{Deserialize, Serialize};

use crate::{DefinitionSource, DocumentId, RefName, Timestamp};

/// Fields that the server manages. Requests may contain them, but the server ignores them. A client can therefore read
/// a definition, change it and send it back.
pub const MANAGED_FIELDS: [&str; 14] = [
    "applySet",
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

/// The kinds of definitions. Each kind is stored in a separate collection.
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
    /// Entity types.
    Type,
    /// Workflows.
    Workflow,
    /// Step registrations: tools in the vocabulary of workflows.
    StepRegistration,
    /// Condition bindings: named conditions of workflows.
    ConditionBinding,
    /// Triggers: schedules and incoming webhooks.
    Trigger,
    /// Outgoing webhooks.
    Webhook,
}

impl DocumentKind {
    /// The stored name of the kind.
    pub fn as_str(self) -> &'static str {
        match self {
            DocumentKind::Tool => "tool",
            DocumentKind::Provider => "provider",
            DocumentKind::Agent => "agent",
            DocumentKind::Fragment => "fragment",
            DocumentKind::Type => "type",
            DocumentKind::Workflow => "workflow",
            DocumentKind::StepRegistration => "step_registration",
            DocumentKind::ConditionBinding => "condition_binding",
            DocumentKind::Trigger => "trigger",
            DocumentKind::Webhook => "webhook",
        }
    }

    /// Whether definitions of this kind have semantic versions. Other definitions have only numbered revisions.
    pub fn is_versioned(self) -> bool {
        matches!(self, DocumentKind::Tool | DocumentKind::Agent | DocumentKind::Workflow)
    }

    /// Generates an id for a document of this kind.
    pub fn new_id(self) -> String {
        match self {
            DocumentKind::Tool => crate::ToolId::generate().to_string(),
            DocumentKind::Provider => crate::ProviderId::generate().to_string(),
            DocumentKind::Agent => crate::AgentId::generate().to_string(),
            DocumentKind::Fragment => crate::FragmentId::generate().to_string(),
            DocumentKind::Type => crate::TypeId::generate().to_string(),
            DocumentKind::Workflow => crate::WorkflowId::generate().to_string(),
            DocumentKind::StepRegistration => crate::StepRegistrationId::generate().to_string(),
            DocumentKind::ConditionBinding => crate::ConditionBindingId::generate().to_string(),
            DocumentKind::Trigger => crate::TriggerId::generate().to_string(),
            DocumentKind::Webhook => crate::WebhookId::generate().to_string(),
        }
    }
}

/// The fields that the server manages.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DocumentMeta {
    /// The id, in the form `kind_ULID`.
    pub id: String,
    /// The reference name, unique in the realm.
    pub ref_name: RefName,
    /// The origin of the definition.
    pub source: DefinitionSource,
    /// The apply set that created the definition. `None` if no set created it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub apply_set: Option<String>,
    /// The number of writes so far. It is also the ETag.
    pub revision: i64,
    /// SHA-256 of the canonical body.
    pub content_hash: String,
    /// The principal who created the definition.
    pub created_by: String,
    /// The time of creation.
    pub created_at: Timestamp,
    /// The principal who wrote this revision.
    pub updated_by: String,
    /// The time of this revision.
    pub updated_at: Timestamp,
}

/// A stored definition.
#[derive(Debug, Clone, PartialEq)]
pub struct Document<T> {
    /// The fields that the server manages.
    pub meta: DocumentMeta,
    /// The definition.
    pub body: T,
}

impl<T> Document<T> {
    /// Creates a document for a definition that is not stored.
    pub fn unsaved(ref_name: RefName, body: T) -> Self {
        let never = Timestamp::from_micros(0);
        let meta = DocumentMeta {
            id: String::new(),
            ref_name,
            source: DefinitionSource::Manual,
            apply_set: None,
            revision: 0,
            content_hash: String::new(),
            created_by: String::new(),
            created_at: never,
            updated_by: String::new(),
            updated_at: never,
        };
        Self { meta, body }
    }

    /// Replaces the body with the result of `f`.
    pub fn map<U>(self, f: impl FnOnce(T) -> U) -> Document<U> {
        Document { meta: self.meta, body: f(self.body) }
    }

    /// Replaces the body with the result of `f`, or returns its error.
    pub fn try_map<U, E>(self, f: impl FnOnce(T) -> Result<U, E>) -> Result<Document<U>, E> {
        Ok(Document { meta: self.meta, body: f(self.body)? })
    }
}
