//! The words every other crate shares: identities, names, definitions, the envelope and its errors.
//!
//! Nothing here performs IO or knows how a tool is run; values are checked when they are made, so code
//! that holds one need not check again.

mod agent;
pub mod clock;
mod document;
mod drift;
mod entity;
mod envelope;
mod identity;
mod ids;
pub mod json;
mod message;
mod name;
mod pin;
mod provider;
mod run;
mod schema;
mod tool;
mod trial;

pub use agent::{
    AgentDefinition, AgentPolicy, AnswerFormat, ExecutionConfig, GuardrailConfig, LlmConfig, MemoryConfig,
    MemoryStrategy, ModelChoice, PromptFragment, Split, SplitMode, UnknownOutcome,
};
pub use clock::{Clock, SystemClock, Timestamp};
pub use document::{Document, DocumentKind, MANAGED_FIELDS, Meta};
pub use drift::{Change, Difference};
pub use entity::{GENERATED_CATEGORY, Operation, RecordsIn, Relation, RestRecords, SqlRecords, TypeDefinition};
pub use envelope::{
    Attachment, AttachmentKind, CallMetadata, ErrorCode, ExecutionSite, PartCall, ResolvedInput, ToolEnvelope,
    ToolError,
};
pub use identity::{OrgName, Principal, PrincipalName, RealmName, RealmScope, Role, ScopeName};
pub use ids::{
    AgentId, CallId, ConversationId, DocumentId, DriftId, FragmentId, InvalidId, KeyId, OrgId, PrincipalId, ProviderId,
    RealmId, RunId, SecretId, ToolId, TrialId, TurnId, TypeId,
};
pub use message::{
    Arguments, Image, Message, ModelReply, ModelRequest, OfferedTool, RequestedCall, ResponseFormat, StopReason, Usage,
};
pub use name::{InvalidName, RefName};
pub use pin::{InvalidSelector, OnMissing, PinnedHandle, Selector, Strategy};
pub use provider::{AuthConfig, AuthType, McpTransport, ProviderType, ReferenceSource, ToolProviderConfig};
pub use run::RunStatus;
pub use schema::{ParameterDefinition, ParameterType, schema_of_parameters};
pub use tool::{
    Backoff, BodyTemplate, CachePolicy, CostHint, ErrorAction, ErrorSemantics, InvocationConfig, JsonSchema, Latency,
    OnOutputMismatch, RateLimit, SelectorCategory, SideEffects, Source, Status, Surface, ToolDefinition, ToolExample,
    ToolType, or_default,
};
pub use trial::{CallSource, Trial, TrialKind};
