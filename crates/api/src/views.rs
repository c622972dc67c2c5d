//! What definitions look like on the wire: the fields the author wrote, and those the server manages.

use axum::http::header::ETAG;
use axum::http::{HeaderMap, HeaderValue};
use serde::Serialize;
use toolwright_engine::registry::{Listed, Saved};
use toolwright_tools::CompiledTool;
use toolwright_types::{
    AgentDefinition, Document, Meta, PromptFragment, Source, Timestamp, ToolDefinition, ToolProviderConfig,
    TypeDefinition,
};

/// The fields the server manages.
#[derive(Debug, Serialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct MetaView {
    /// `kind_ULID`; absent for what is built in.
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<String>,
    /// How it came to be.
    source: Source,
    /// Counts writes; the ETag.
    revision: i64,
    /// SHA-256 of the canonical definition.
    content_hash: String,
    /// Who created it.
    created_by: String,
    /// When.
    #[schema(value_type = String, format = DateTime)]
    created_at: Timestamp,
    /// Who wrote it last.
    updated_by: String,
    /// When.
    #[schema(value_type = String, format = DateTime)]
    updated_at: Timestamp,
    /// What the author should know.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    warnings: Vec<String>,
}

impl MetaView {
    fn new(meta: Meta, warnings: Vec<String>) -> Self {
        Self {
            id: Some(meta.id),
            source: meta.source,
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

/// A definition that can be shown.
pub trait Viewable: Sized {
    /// Its form on the wire.
    type View: Serialize;

    /// The definition as it is shown.
    fn view(document: Document<Self>, warnings: Vec<String>) -> Self::View;
}

/// A tool on the wire.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub struct ToolView {
    #[serde(flatten)]
    meta: MetaView,
    #[serde(flatten)]
    definition: ToolDefinition,
}

impl Viewable for ToolDefinition {
    type View = ToolView;

    fn view(document: Document<Self>, warnings: Vec<String>) -> ToolView {
        ToolView { meta: MetaView::new(document.meta, warnings), definition: shown(document.body) }
    }
}

/// The definition with its defaults as they take effect, so that a reader need not know them.
fn shown(mut definition: ToolDefinition) -> ToolDefinition {
    let effects = definition.effects();
    definition.name.get_or_insert_with(|| definition.ref_name.to_string());
    definition.side_effects = Some(effects);
    definition.has_side_effects = Some(effects == toolwright_types::SideEffects::Writes);
    definition
}

impl ToolView {
    /// A tool that is part of the binary.
    pub fn built_in(tool: &CompiledTool) -> Self {
        let epoch = Timestamp::from_micros(0);
        let meta = MetaView {
            id: None,
            source: Source::BuiltIn,
            revision: 1,
            content_hash: tool.content_hash.clone(),
            created_by: "toolwright".into(),
            created_at: epoch,
            updated_by: "toolwright".into(),
            updated_at: epoch,
            warnings: Vec::new(),
        };
        Self { meta, definition: shown(tool.definition.clone()) }
    }
}

/// A provider on the wire.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub struct ProviderView {
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

/// An agent on the wire.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub struct AgentView {
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

/// A prompt fragment on the wire.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub struct PromptFragmentView {
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

/// A type of records on the wire.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub struct TypeView {
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

/// A page of a list.
#[derive(Debug, Serialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct PageView<V> {
    /// What is on it.
    pub items: Vec<V>,
    /// Where the next one begins; null on the last.
    pub next_cursor: Option<String>,
}

impl<V> PageView<V> {
    /// All there is.
    pub fn whole(items: Vec<V>) -> Self {
        Self { items, next_cursor: None }
    }
}

/// A page of definitions.
pub fn page<T: Viewable>(listed: Listed<T>) -> PageView<T::View> {
    PageView {
        items: listed.items.into_iter().map(|document| T::view(document, Vec::new())).collect(),
        next_cursor: listed.next.map(|cursor| cursor.to_string()),
    }
}

/// A definition with its ETag.
pub fn tagged<T: Viewable>(document: Document<T>) -> (HeaderMap, axum::Json<T::View>) {
    saved(Saved { document, warnings: Vec::new() })
}

/// A definition that was just written, with its ETag.
pub fn saved<T: Viewable>(saved: Saved<T>) -> (HeaderMap, axum::Json<T::View>) {
    let mut headers = HeaderMap::new();
    if let Ok(tag) = HeaderValue::from_str(&format!("\"{}\"", saved.document.meta.revision)) {
        headers.insert(ETAG, tag);
    }
    (headers, axum::Json(T::view(saved.document, saved.warnings)))
}
