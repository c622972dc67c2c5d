//! The types that all other crates share: identities, names, definitions, the envelope and its errors.
//!
//! This crate performs no IO and executes no tools. Values are validated when they are created, so code that receives a
//! value need not check it again.

mod agent;
pub mod clock;
mod correlation;
mod document;
mod drift;
mod entity;
mod envelope;
mod field_names;
mod identity;
mod ids;
pub mod json;
mod message;
mod money;
mod name;
mod network;
mod nullable;
mod pin;
mod provider;
mod retry;
mod run;
mod schema;
mod tool;
mod trial;
mod trigger;
mod unique_keys;
mod workflow;

pub use agent::{
    AgentDefinition, AgentPolicy, AnswerFormat, ExecutionConfig, GuardrailConfig, LlmConfig, MemoryConfig,
    MemoryStrategy, ModelChoice, PromptFragment, SplitMode, ToolUsagePlacement, TrafficSplit, UnknownOutcome,
};
pub use clock::{Clock, SystemClock, Timestamp};
pub use correlation::{CorrelationId, InvalidCorrelationId};
pub use document::{Document, DocumentKind, DocumentMeta, MANAGED_FIELDS};
pub use drift::{DifferenceKind, SchemaDifference};
pub use entity::{GENERATED_CATEGORY, Operation, RecordLocation, Relation, RestRecords, SqlRecords, TypeDefinition};
pub use envelope::{
    Attachment, AttachmentKind, CallMetadata, ChildRun, ErrorCode, ExecutionSite, NestedCall, ResolvedInput,
    ToolEnvelope, ToolError,
};
pub use field_names::{closest_name, field_names};
pub use identity::{OrgName, Owner, Principal, PrincipalName, RealmName, RealmScope, Role, ScopeName};
pub use ids::{
    AgentId, CallId, ConditionBindingId, ConversationId, DeliveryId, DocumentId, DriftId, FiringId, FragmentId,
    InvalidId, KeyId, OrgId, PrincipalId, ProviderId, RealmId, RunId, SecretId, StepRegistrationId, ToolId, TrialId,
    TriggerId, TurnId, TypeId, WebhookId, WorkflowId,
};
pub use message::{
    Arguments, Image, Message, ModelReply, ModelRequest, OfferedTool, RequestedCall, ResponseFormat, StopReason, Usage,
};
pub use money::round_usd;
pub use name::{InvalidRefName, RefName};
pub use network::{null_or_networks, parse_network};
pub use nullable::null_as_default;
pub use pin::{InvalidSelector, OnMissing, PinnedHandle, SelectionStrategy, Selector};
pub use provider::{
    AuthConfig, AuthType, CommandArgument, McpTransport, ProviderType, ReferenceSource, SecretArgument,
    ToolProviderConfig,
};
pub use retry::RetryDelays;
pub use run::RunStatus;
pub use schema::{ParameterDefinition, ParameterType, referenced_types, schema_of_parameters, set_type_schema};
pub use tool::{
    AgenticConfig, AvailableTool, Backoff, BodyTemplate, CachePolicy, CompositeConfig, CompositeOperation,
    ConditionType, ContextConfig, CostHint, DefinitionSource, EmbeddedLlmConfig, ErrorAction, ErrorSemantics,
    ExecutionMode, InvocationConfig, JsonSchema, Latency, OPERATION_PARAMETER, OnOutputMismatch, OperationMapping,
    RateLimit, ReferenceDataSelection, RoutingCondition, RoutingMode, RoutingRule, SafetyLimits, SelectorCategory,
    SequenceEntry, SideEffects, Surface, ToolAllocation, ToolDefinition, ToolExample, ToolKind, ToolOrigin, ToolPrice,
    ToolStatus, ToolType, UnifiedParameter,
};
pub use trial::{CallSource, Trial, TrialKind};
pub use trigger::{
    MissedRuns, Overlap, TriggerDefinition, TriggerKind, TriggerTarget, WebhookDefinition, WebhookEvent,
};
pub use unique_keys::UniqueKeys;
pub use workflow::{
    ConditionBinding, DurationMs, ErrorRoutes, ForEach, InvalidDuration, MAX_WORKFLOW_STEPS, OnError,
    RESERVED_STEP_NAMES, RetryPolicy, StepName, StepRegistration, WorkflowDefinition, WorkflowLimits, WorkflowStep,
    is_valid_step_name, step_handlers,
};
