//! Wire views of definitions, with the fields that the author writes and the fields that the server manages.

use axum::http::header::ETAG;
use axum::http::{HeaderMap, HeaderValue};
use serde::{Deserialize, Serialize};
use toolwright_catalog::registry::{DefinitionPage, SavedDefinition};
use toolwright_tools::CompiledTool;
use toolwright_types::{
    AgentDefinition, ConditionBinding, DefinitionSource, Document, DocumentMeta, PromptFragment, RefName,
    StepRegistration, Timestamp, ToolDefinition, ToolProviderConfig, TriggerDefinition, TypeDefinition,
    WebhookDefinition, WorkflowDefinition,
};

/// The fields that the server manages.
#[derive(Debug, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct MetaView {
    /// `kind_ULID`; absent for built-in definitions.
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<String>,
    /// The origin of the definition.
    source: DefinitionSource,
    /// The apply set that created the definition; absent if no set created it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    apply_set: Option<String>,
    /// The number of writes, which is the ETag.
    revision: i64,
    /// SHA-256 of the canonical definition.
    content_hash: String,
    /// The principal that created the definition.
    created_by: String,
    /// When the definition was created.
    #[schema(value_type = String, format = DateTime)]
    created_at: Timestamp,
    /// The principal that wrote the definition last.
    updated_by: String,
    /// When the definition was written last.
    #[schema(value_type = String, format = DateTime)]
    updated_at: Timestamp,
    /// Warnings for the author.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    warnings: Vec<String>,
}

impl MetaView {
    fn new(meta: DocumentMeta, warnings: Vec<String>) -> Self {
        Self {
            id: Some(meta.id),
            source: meta.source,
            apply_set: meta.apply_set,
            revision: meta.revision,
            content_hash: meta.content_hash,
            created_by: meta.created_by,
            created_at: meta.created_at,
            updated_by: meta.updated_by,
            updated_at: meta.updated_at,
            warnings,
        }
    }
}

/// A definition with a wire view.
pub(crate) trait Viewable: Sized {
    /// The wire view.
    type View: Serialize;

    /// Creates the wire view.
    fn view(document: Document<Self>, warnings: Vec<String>) -> Self::View;
}

/// A tool.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub(crate) struct ToolView {
    #[serde(flatten)]
    meta: MetaView,
    #[serde(flatten)]
    definition: ToolDefinition,
}

impl Viewable for ToolDefinition {
    type View = ToolView;

    fn view(document: Document<Self>, warnings: Vec<String>) -> ToolView {
        ToolView { meta: MetaView::new(document.meta, warnings), definition: with_effective_defaults(document.body) }
    }
}

/// Fills in the defaults that apply, so that a reader does not need to know them.
fn with_effective_defaults(mut definition: ToolDefinition) -> ToolDefinition {
    let effects = definition.effects();
    definition.name.get_or_insert_with(|| definition.ref_name.to_string());
    definition.side_effects = Some(effects);
    definition.has_side_effects = Some(effects == toolwright_types::SideEffects::Writes);
    definition
}

impl ToolView {
    /// Creates the view of a built-in tool.
    pub(crate) fn built_in(tool: &CompiledTool) -> Self {
        let epoch = Timestamp::from_micros(0);
        let meta = MetaView {
            id: None,
            source: DefinitionSource::BuiltIn,
            apply_set: None,
            revision: 1,
            content_hash: tool.content_hash.clone(),
            created_by: "toolwright".into(),
            created_at: epoch,
            updated_by: "toolwright".into(),
            updated_at: epoch,
            warnings: Vec::new(),
        };
        Self { meta, definition: with_effective_defaults(tool.definition.clone()) }
    }
}

/// A provider.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub(crate) struct ProviderView {
    #[serde(flatten)]
    meta: MetaView,
    #[serde(flatten)]
    definition: ToolProviderConfig,
}

impl Viewable for ToolProviderConfig {
    type View = ProviderView;

    fn view(document: Document<Self>, warnings: Vec<String>) -> ProviderView {
        ProviderView { meta: MetaView::new(document.meta, warnings), definition: document.body }
    }
}

/// An agent.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub(crate) struct AgentView {
    #[serde(flatten)]
    meta: MetaView,
    #[serde(flatten)]
    definition: AgentDefinition,
}

impl Viewable for AgentDefinition {
    type View = AgentView;

    fn view(document: Document<Self>, warnings: Vec<String>) -> AgentView {
        AgentView { meta: MetaView::new(document.meta, warnings), definition: document.body }
    }
}

/// A prompt fragment.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub(crate) struct PromptFragmentView {
    #[serde(flatten)]
    meta: MetaView,
    #[serde(flatten)]
    definition: PromptFragment,
}

impl Viewable for PromptFragment {
    type View = PromptFragmentView;

    fn view(document: Document<Self>, warnings: Vec<String>) -> PromptFragmentView {
        PromptFragmentView { meta: MetaView::new(document.meta, warnings), definition: document.body }
    }
}

/// An entity type.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub(crate) struct TypeView {
    #[serde(flatten)]
    meta: MetaView,
    #[serde(flatten)]
    definition: TypeDefinition,
}

impl Viewable for TypeDefinition {
    type View = TypeView;

    fn view(document: Document<Self>, warnings: Vec<String>) -> TypeView {
        let mut definition = document.body;
        definition.name.get_or_insert_with(|| definition.ref_name.to_string());
        TypeView { meta: MetaView::new(document.meta, warnings), definition }
    }
}

/// A workflow.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub(crate) struct WorkflowView {
    #[serde(flatten)]
    meta: MetaView,
    #[serde(flatten)]
    definition: WorkflowDefinition,
}

impl Viewable for WorkflowDefinition {
    type View = WorkflowView;

    fn view(document: Document<Self>, warnings: Vec<String>) -> WorkflowView {
        let mut definition = document.body;
        definition.name.get_or_insert_with(|| definition.ref_name.to_string());
        WorkflowView { meta: MetaView::new(document.meta, warnings), definition }
    }
}

/// A step registration.
#[derive(Debug, Serialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct StepRegistrationView {
    #[serde(flatten)]
    meta: MetaView,
    /// The same as `name`.
    #[schema(value_type = String)]
    ref_name: RefName,
    #[serde(flatten)]
    definition: StepRegistration,
}

impl Viewable for StepRegistration {
    type View = StepRegistrationView;

    fn view(document: Document<Self>, warnings: Vec<String>) -> StepRegistrationView {
        let ref_name = document.body.name.clone();
        StepRegistrationView { meta: MetaView::new(document.meta, warnings), ref_name, definition: document.body }
    }
}

/// A condition binding.
#[derive(Debug, Serialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ConditionBindingView {
    #[serde(flatten)]
    meta: MetaView,
    /// The same as `name`.
    #[schema(value_type = String)]
    ref_name: RefName,
    #[serde(flatten)]
    definition: ConditionBinding,
}

impl Viewable for ConditionBinding {
    type View = ConditionBindingView;

    fn view(document: Document<Self>, warnings: Vec<String>) -> ConditionBindingView {
        let ref_name = document.body.name.clone();
        ConditionBindingView { meta: MetaView::new(document.meta, warnings), ref_name, definition: document.body }
    }
}

/// A trigger.
#[derive(Debug, Serialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct TriggerView {
    #[serde(flatten)]
    meta: MetaView,
    #[serde(flatten)]
    definition: TriggerDefinition,
}

impl Viewable for TriggerDefinition {
    type View = TriggerView;

    fn view(document: Document<Self>, warnings: Vec<String>) -> TriggerView {
        TriggerView { meta: MetaView::new(document.meta, warnings), definition: document.body }
    }
}

/// A webhook that reports events.
#[derive(Debug, Serialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct WebhookView {
    #[serde(flatten)]
    meta: MetaView,
    #[serde(flatten)]
    definition: WebhookDefinition,
}

impl Viewable for WebhookDefinition {
    type View = WebhookView;

    fn view(document: Document<Self>, warnings: Vec<String>) -> WebhookView {
        WebhookView { meta: MetaView::new(document.meta, warnings), definition: document.body }
    }
}

/// A page of a list.
#[derive(Debug, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct PageView<V> {
    /// The items of the page.
    pub items: Vec<V>,
    /// The cursor of the next page; null on the last page.
    pub next_cursor: Option<String>,
}

impl<V> PageView<V> {
    /// A list with a single page.
    pub(crate) fn complete(items: Vec<V>) -> Self {
        Self { items, next_cursor: None }
    }
}

pub(crate) fn page<T: Viewable>(listed: DefinitionPage<T>) -> PageView<T::View> {
    PageView {
        items: listed.items.into_iter().map(|document| T::view(document, Vec::new())).collect(),
        next_cursor: listed.next.map(|cursor| cursor.to_string()),
    }
}

/// A definition with its ETag.
pub(crate) fn with_etag<T: Viewable>(document: Document<T>) -> (HeaderMap, axum::Json<T::View>) {
    saved(SavedDefinition { document, warnings: Vec::new() })
}

/// A written definition with its ETag and warnings.
pub(crate) fn saved<T: Viewable>(saved: SavedDefinition<T>) -> (HeaderMap, axum::Json<T::View>) {
    (etag(saved.document.meta.revision), axum::Json(T::view(saved.document, saved.warnings)))
}

/// The header with the ETag of a revision.
pub(crate) fn etag(revision: i64) -> HeaderMap {
    let mut headers = HeaderMap::new();
    if let Ok(tag) = HeaderValue::from_str(&format!("\"{revision}\"")) {
        headers.insert(ETAG, tag);
    }
    headers
}
